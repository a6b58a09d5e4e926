--- disk.lua -- a disk that fails at any call; the run resumes to the same bits
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local program = require "support.program"

local STEPS <const>, FAULTS <const> = 6, 20
local library = program.path:gsub("[^/]*$", "spec/libfaulty_disk.so")

-- The bits that the run prints at its end, if it comes so far.
local function run(folder, mode, env)
  core.make_folders(folder)
  local code, out = program.shell(("env MRT_THREADS=1 %s timeout -s KILL 60 %s "
    .. "spec/train/killed.lua %s %d %s"):format(env or "", program.path, folder, STEPS, mode or ""))
  return out:match "\nbits ([^\n]*) loss", code, out
end

-- The environment in which the n-th call (0: none) on that folder fails.
local function faulty(folder, n, more)
  return ("LD_PRELOAD=%s MRT_FAULTY=%s MRT_FAULTY_AT=%d %s"):format(library, folder, n, more)
end

-- What is wrong with a run whose n-th call fails, or with the one that resumes it.
local function try(folder, wanted, n, all)
  local got, code, out = run(folder, "save", faulty(folder, n, all and "MRT_FAULTY_ALL=1" or ""))
  local what = ("call %d%s fails: "):format(n, all and " and all after it" or "")
  if code > 128 then return ("%sstatus %d\n%s"):format(what, code, out) end
  if got and got ~= wanted then return what .. "other bits\n" end
  if code == 0 and not got then return what .. "ends well without an end\n" .. out end
  got, code, out = run(folder, "save")
  if got ~= wanted then return ("%sthen status %d\n%s"):format(what, code, out) end
end

return {
  about = "training on a disk that fails at any call goes on to the same bits",
  unit = "faults", timeout = 600,
  round = function(seed, folder)
    math.randomseed(seed)
    local wanted, _, out = run(folder .. "/whole")
    local counted = folder .. "/calls"
    local same, _, beside = run(folder .. "/count", "save",
      faulty(folder .. "/count", 0, "MRT_FAULTY_COUNT=" .. counted))
    if not wanted or same ~= wanted then return 0, { out .. beside } end
    local file <close> = assert(io.open(counted))
    local calls, findings = #file:read "a", {}
    for i = 1, FAULTS do
      local n = math.random(calls)
      findings[#findings + 1] = try(("%s/%d"):format(folder, i), wanted, n, math.random(2) == 1)
    end
    return FAULTS, findings
  end,
}
