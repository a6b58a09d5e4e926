--- allreduce.lua -- how ranks add up: three operations, the ring inside them, its cost
---
---     mrt examples/allreduce.lua [ranks]       ranks are threads of this process
---     mrt launch -n 4 examples/allreduce.lua   ranks are processes
---
--- The ring is that of Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms
--- for clusters of workstations", 2009.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local file = arg[0]:gsub("[^/]*$", "ring.lua")

-- ---- who holds what ---------------------------------------------------------

-- Print what every rank holds of every segment: the ranks whose numbers are in it, a bit
-- for each.
local function show_ring(p)
  local held = {}
  for r = 0, p - 1 do
    held[r] = {}
    for s = 0, p - 1 do held[r][s] = 1 << r end
  end
  local function cell(set, moved)
    local list = {}
    for r = 0, p - 1 do if set >> r & 1 == 1 then list[#list + 1] = r end end
    local text = #list == p and "all" or table.concat(list, "+")
    return (" %s%-" .. 2 * p .. "s"):format(moved and ">" or " ", text)
  end
  local function show(title, moved)
    print(title)
    for r = 0, p - 1 do
      local line = {}
      for s = 0, p - 1 do line[s + 1] = cell(held[r][s], moved[r] == s) end
      print(("  rank %d  %s"):format(r, table.concat(line)))
    end
  end
  local function step(title, sent, add)
    local arrived, moved = {}, {}
    for r = 0, p - 1 do
      local from = (r - 1) % p
      moved[r] = sent(from)
      arrived[r] = held[from][moved[r]]
    end
    for r = 0, p - 1 do
      held[r][moved[r]] = arrived[r] | (add and held[r][moved[r]] or 0)
    end
    show(title, moved)
  end
  show(("before: each rank's own numbers, in %d segments"):format(p), {})
  for s = 0, p - 2 do
    step(("step %d: > arrived and was added"):format(s + 1),
      function(r) return (r - 1 - s) % p end, true)
  end
  print(("after %d steps rank r holds segment r of the sum: reduce_scatter"):format(p - 1))
  for s = 0, p - 2 do
    step(("step %d: > arrived and was copied"):format(p + s),
      function(r) return (r - s) % p end, false)
  end
  print(("after %d steps every rank holds all: allgather\n"):format(2 * (p - 1)))
end

-- ---- what it costs ----------------------------------------------------------

-- alpha seconds a message, beta seconds a byte: a ring, and all to rank 0 and back.
local function show_cost(p)
  local alpha, beta = 10e-6, 1 / 10e9
  print(("%d ranks, 10 us a message, 10 GB/s:"):format(p))
  print "     bytes   ring: 2(p-1)(a + n/p b)   through rank 0: 2(p-1)(a + n b)"
  for _, n in ipairs { 1 << 10, 1 << 16, 1 << 20, 1 << 24, 1 << 28 } do
    local steps = 2 * (p - 1)
    local round, star = steps * (alpha + n / p * beta), steps * (alpha + n * beta)
    print(("%10d %20.3f ms %26.3f ms  %.1fx"):format(n, 1e3 * round, 1e3 * star, star / round))
  end
end

-- ---- all of it --------------------------------------------------------------

local comm = mrt.communicator.create()
local p = comm.size > 1 and comm.size or math.tointeger(tonumber(arg[1] or 4)) or 4

if comm.size > 1 then
  io.write(dofile(file)(comm), "\n")
  comm:barrier()
else
  local said, failed = mrt.communicator.ranks(p,
    ("return dofile %q(select(2, ...))"):format(file))
  for rank = 1, p do print(said[rank] or failed and failed[rank]) end
end
if comm.rank == 0 then
  print()
  show_ring(p)
  show_cost(p)
end
