--- ring.lua -- what a rank of allreduce.lua does; returns a function of its communicator
---
--- SPDX-License-Identifier: MIT

-- The three operations on small arrays; every rank returns what it has to say.
local function operations(comm)
  local r, p = comm.rank, comm.size
  local mine = {}
  for i = 1, 2 * p do mine[i] = 10 * r + i end
  local function show(list) return "{" .. table.concat(list, " ") .. "}" end
  local piece = comm:reduce_scatter(mine)
  return table.concat({ ("rank %d has       %s"):format(r, show(mine)),
    "  allreduce      " .. show(comm:allreduce(mine)),
    "  reduce_scatter " .. show(piece),
    "  allgather      " .. show(comm:allgather(piece)) .. "  of these: allreduce again" }, "\n")
end

-- A ring of our own: 2 (p - 1) steps, in each of which every rank sends one segment
-- to the next rank and receives one from the rank before.
local function ring(comm, segments)
  local r, p = comm.rank, comm.size
  local after, before = (r + 1) % p, (r - 1) % p
  local function pass(give, take, add)
    local function send() comm:send(segments[give + 1], { to = after }) end
    if r % 2 == 0 then send() end -- the others listen first
    local got = comm:recv(segments[take + 1], { from = before })
    if r % 2 == 1 then send() end
    for i, x in ipairs(got) do
      segments[take + 1][i] = add and segments[take + 1][i] + x or x
    end
  end
  for s = 0, p - 2 do pass((r - 1 - s) % p, (r - 2 - s) % p, true) end
  for s = 0, p - 2 do pass((r - s) % p, (r - 1 - s) % p, false) end
  return segments
end

-- Does the ring give what allreduce gives?
local function ring_agrees(comm)
  local segments, all = {}, {}
  for s = 1, comm.size do
    segments[s] = { comm.rank + s, comm.rank * s }
    all[2 * s - 1], all[2 * s] = segments[s][1], segments[s][2]
  end
  ring(comm, segments)
  for i, x in ipairs(comm:allreduce(all)) do
    if segments[(i + 1) // 2][(i + 1) % 2 + 1] ~= x then return false end
  end
  return true
end

return function(comm)
  local ring_text = ring_agrees(comm) and "the same" or "something else!"
  return operations(comm) .. "\n  the ring below, by send and recv: " .. ring_text
end
