--- files.lua -- whole files, and places for those that a spec makes
---
--- Whatever is made in them goes when the spec's process ends.
---
--- SPDX-License-Identifier: MIT

local files = {}

--- A folder of this Lua state, made when it is first asked for.
local own, count = nil, 0

local function own_folder()
  if not own then
    local pipe <close> = assert(io.popen 'mktemp -d "${TMPDIR:-/tmp}/mrt_spec.XXXXXX"')
    local path = assert(pipe:read "l", "mktemp made no folder")
    own = setmetatable({ path = path }, {
      __gc = function() os.execute("rm -rf '" .. path .. "'") end,
    })
  end
  return own.path
end

function files.read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

--- Write a file; returns its path.
function files.write(path, bytes)
  local file <close> = assert(io.open(path, "wb"))
  assert(file:write(bytes))
  return path
end

--- A path that nothing has, with this ending if one is given: names end in a number, so who
--- puts a digit behind one may have that of another.
function files.name(ending)
  count = count + 1
  return ("%s/%d%s"):format(own_folder(), count, ending or "")
end

--- The path of a new file that holds these bytes.
function files.temporary(bytes) return files.write(files.name(), bytes) end

--- The path of a new folder.
function files.folder()
  local path = files.name()
  assert(os.execute("mkdir '" .. path .. "'"))
  return path
end

return files
