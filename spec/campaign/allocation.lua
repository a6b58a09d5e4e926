--- allocation.lua -- every n-th allocation fails, in parts of work drawn at random
---
--- SPDX-License-Identifier: MIT

local program = require "support.program"

-- The parts of the spec's script: the first, which others need, and two others.
local script <const> = [[
  local all = table.pack(dofile "spec/base/allocation.lua")
  math.randomseed(%d)
  return all[1], all[2], all[math.random(3, all.n)], all[math.random(3, all.n)]
]]

return {
  about = "no n-th allocation that fails crashes, leaks or half-updates",
  unit = "scripts", timeout = 1200,
  round = function(seed, folder)
    local path = folder .. "/script.lua"
    local file = assert(io.open(path, "w"))
    assert(file:write(script:format(seed)))
    assert(file:close())
    local binary = program.path:gsub("[^/]*$", "spec/allocation")
    local code, out = program.shell(binary .. " " .. path)
    return 1, code ~= 0 and { out } or {}
  end,
}
