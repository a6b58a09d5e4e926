--- collectives_rank.lua -- what one rank of `mrt bench collectives` does
--
-- Its arguments: "cpu" or "cuda", an algorithm, and sizes in bytes.  Prints, on rank 0,
-- "allreduce SIZE SECONDS", "copy SIZE SECONDS" and "sent SIZE BYTES" (what a rank gives
-- away for one, of all ranks on average) for each size, "pair SIZE SECONDS", half of a round
-- trip between ranks 0 and 1 of two on CPUs, and "barrier 0 SECONDS".  By itself, between
-- hosts or over another engine:
--
--     mrt launch -n 2 lua/mrt/bench/collectives_rank.lua cpu ring 4 65536 16777216
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"

local device, algorithm = table.remove(arg, 1), table.remove(arg, 1)
local comm = mrt.communicator.create { algorithm = algorithm }
if device == "cuda" and not pcall(mrt.device, "cuda:" .. comm.local_rank) then
  mrt.device "cuda:0"
end

-- Seconds of a call, the best of three runs of `count`.
local function time(count, f)
  local best = math.huge
  for _ = 1, 3 do
    comm:barrier()
    local began = core.clock()
    for _ = 1, count do f() end
    if device == "cuda" then comm:barrier() end -- waits for what is queued
    best = math.min(best, (core.clock() - began) / count)
  end
  return best
end

local function say(name, size, seconds)
  if comm.rank == 0 then print(("%s %d %.9f"):format(name, size, seconds)) end
end

-- A compiled turn of ranks 0 and 1, which give each other n elements.
local function pair(n)
  local x, y = mrt.eval(mrt.zeros(n)), mrt.variable(mrt.zeros(n))
  local other = 1 - comm.rank
  if comm.rank == 0 then
    return mrt.compile(function()
      comm:send(x, other)
      y:assign(comm:recv(x, other))
    end)
  end
  return mrt.compile(function()
    y:assign(comm:recv(x, other))
    comm:send(y, other)
  end)
end

for i = 1, #arg do
  local size = math.tointeger(tonumber(arg[i]))
  local n, count = size // 4, math.max(4, math.min(2000, (1 << 27) // size))
  local w, x, y = mrt.variable(mrt.zeros(n)), mrt.eval(mrt.zeros(n)), mrt.variable(mrt.zeros(n))
  local sum = mrt.compile(function() w:assign(comm:allreduce(w)) end)
  local copy = mrt.compile(function() y:assign(x + 0.0) end)
  for _ = 1, 2 do sum() copy() end
  local before = comm:sent()
  sum()
  say("sent", size, comm:allreduce({ comm:sent() - before }, { op = "mean" })[1])
  say("allreduce", size, time(count, sum))
  say("copy", size, time(count, copy))
  if comm.size == 2 and device == "cpu" then
    local turn = pair(n)
    turn()
    say("pair", size, time(count, turn) / 2)
  end
end
say("barrier", 0, time(10000, function() comm:barrier() end))
