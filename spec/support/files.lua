--- files.lua -- whole files, and folders of the specs
---
--- SPDX-License-Identifier: MIT

local files = {}

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

--- A name that nothing has.
function files.name()
  local name = os.tmpname()
  os.remove(name)
  return name
end

return files
