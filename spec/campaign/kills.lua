--- kills.lua -- kill -9 at random times; the run resumes to the same bits
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local program = require "support.program"

local STEPS <const>, MOST_KILLS <const> = 40, 400

-- The bits that the run prints at its end; nil and its status where there are none.
local function run(folder, mode, seconds)
  core.make_folders(folder)
  local limit = seconds and ("timeout -s KILL %.4f "):format(seconds) or ""
  local code, out = program.shell(("MRT_THREADS=1 %s%s spec/train/killed.lua %s %d %s"):format(
    limit, program.path, folder, STEPS, mode or ""))
  return out:match "\nbits ([^\n]*) loss", code, out
end

return {
  about = "training killed at random times ends with the bits of one undisturbed",
  unit = "kills", timeout = 600,
  round = function(seed, folder)
    math.randomseed(seed)
    local began = core.clock()
    local wanted, _, text = run(folder .. "/whole")
    if not wanted then return 0, { text } end
    local longest, kills = core.clock() - began, 0
    while kills < MOST_KILLS do
      local got, code, out = run(folder .. "/killed", "save", math.random() * longest)
      if got then
        return kills, got ~= wanted and { "other bits after " .. kills .. " kills" } or {}
      elseif code ~= 137 then
        return kills, { ("after %d kills: status %d\n%s"):format(kills, code, out) }
      end
      kills, longest = kills + 1, longest * 1.02 -- in the end there is time for all
    end
    return kills, { "no end" }
  end,
}
