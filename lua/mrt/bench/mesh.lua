--- mrt bench mesh -- dimensions of a mesh on local ranks, beside one rank and formulas
--
--     mrt bench mesh [--steps N] [--transport shared|sockets] [--json FILE]
--
-- Each dimension is a section, a file mesh_NAME.lua, which says what its columns are.  All
-- train a small model by the same script on one rank and on several: losses, bytes planned
-- and allocated on every rank, bytes on the wire.
--
-- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local json = require "mrt.util.json"
local save = require "mrt.plan.report.save"

local SECTIONS <const> = { "pipeline", "grid", "context" }

local here = debug.getinfo(1, "S").source:match "^@(.*)mesh%.lua$"

-- What a script of this folder prints, run as `n` ranks.
local function ranks(o, n, script, ...)
  local errors = os.tmpname()
  local words = { ("MRT_TRANSPORT=%s '%s' launch --no-prefix -n %d '%s%s'"):format(o.transport,
    core.program(), n, here, script) }
  for _, word in ipairs { ... } do words[#words + 1] = ("'%s'"):format(word) end
  local pipe = assert(io.popen(table.concat(words, " ") .. (" 2>'%s'"):format(errors)))
  local text = pipe:read "a"
  local good = pipe:close()
  local file <close> = assert(io.open(errors))
  local message = file:read "a"
  os.remove(errors)
  if not good then error("mrt bench mesh: " .. message, 0) end
  return assert(json.decode(text))
end

local function read(args)
  local o = { steps = 50, transport = "shared" }
  local known = { json = function(word) return word end }
  function known.transport(word) return (word == "shared" or word == "sockets") and word end
  function known.steps(word)
    local n = math.tointeger(tonumber(word))
    return n and n >= 1 and n or nil
  end
  for i = 1, #args, 2 do
    local name, value = args[i]:match "^%-%-(%a+)$", args[i + 1]
    o[name or ""] = known[name] and value and known[name](value)
      or error(("mrt bench mesh: no option %s, or no value"):format(args[i]), 0)
  end
  return o
end

return function(...)
  local o, info = read { ... }, core.info()
  print(("%s, %d threads; %d steps; ranks by %s"):format(info.isa, info.threads, o.steps,
    o.transport))
  local result = { isa = info.isa, threads = info.threads, version = info.version,
    steps = o.steps, transport = o.transport }
  for _, name in ipairs(SECTIONS) do
    result[name] = require("mrt.bench.mesh_" .. name)(o, function(...) return ranks(o, ...) end)
  end
  if o.json then assert(save.write(o.json, json.encode(result) .. "\n")) end
end
