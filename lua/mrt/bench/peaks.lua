--- peaks.lua -- this machine's roofs, and how much of them a step reaches
---
--- The roofs are measured through compiled functions: flop/s of the best of some large
--- products in f32; bytes a second of the best of passes over arrays that no cache holds (a
--- triad z = x + 2 y, a sum), and of a triad within the cache that plans reckon with.  Times
--- are the least of several runs: on a machine with other work a roof that is measured low
--- makes steps look good.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local bound = require "mrt.plan.report.bound"
local core = require "mrt.core"

local peaks = {}

local SECONDS <const> = 1 -- of each measurement: others may be at work for a part of it
local LARGE <const> = 1 << 24 -- elements: 64 MiB

-- The best rate of flops or bytes, of the node that has most of them.
local function rate(o, what, fn, ...)
  mrt.eval(...)
  local step, best, began = mrt.compile(fn), 0, core.clock()
  repeat
    local most = { [what] = 0 }
    for _, node in ipairs(step:measure({ rounds = 1, cpu = o.cpu }, ...).steps) do
      if node[what] > most[what] then most = node end
    end
    best = math.max(best, most[what] / most.measured)
  until core.clock() - began > SECONDS
  return best
end

local function product(o, size, transposed)
  return rate(o, "flops", function(x, y) return x:matmul(transposed and y:t() or y) end,
    mrt.randn(size, size), mrt.randn(size, size))
end

local function triad(o, n)
  return rate(o, "bytes", function(x, y) return x + y * 2 end, mrt.randn(n), mrt.randn(n))
end

local function sum(o, n) return rate(o, "bytes", function(x) return x:sum() end, mrt.randn(n)) end

--- Measure this machine's roofs.
---@param o {cpu: boolean?}  processor time
---@return mrt.Roofs
function peaks.measure(o)
  local flops = 0
  for _, size in ipairs { 768, 1024, 2048 } do
    flops = math.max(flops, product(o, size), product(o, size, true))
  end
  local bytes, cache = math.max(triad(o, LARGE), sum(o, LARGE)), mrt.device.current().cache
  local near = cache > 0 and triad(o, math.ceil(cache / 24)) or bytes -- half of it
  return { flops = flops, bytes = bytes, cache = cache, cache_bytes = math.max(near, bytes) }
end

--- Roofs as a word of a command line.
---@param r mrt.Roofs
---@return string
function peaks.word(r)
  return ("%.6g,%.6g,%.6g,%.6g"):format(r.flops, r.bytes, r.cache, r.cache_bytes)
end

--- And back.
---@param word string
---@return mrt.Roofs?
---@return string? problem
function peaks.read(word)
  local list = {}
  for text in word:gmatch "[^,]+" do list[#list + 1] = tonumber(text) end
  if #list ~= 4 then return nil, ("'%s', four numbers wanted"):format(word) end
  return { flops = list[1], bytes = list[2], cache = list[3], cache_bytes = list[4] }
end

--- What a plan takes at least, in milliseconds: all its flops at the roof, all its bytes at
--- memory's rate, the sum of its nodes' bounds, and what of it is due to flops.
---@param plan mrt.Plan
---@param roofs mrt.Roofs
---@return table<string, number>  gbytes, flops_ms, bytes_ms, bound_ms, by_flops_ms
function peaks.of(plan, roofs)
  local out = { gbytes = 0, flops_ms = 0, bytes_ms = 0, bound_ms = 0, by_flops_ms = 0 }
  for _, s in ipairs(plan:steps()) do
    local least, by = bound.of(s, roofs)
    if by then
      out.gbytes, out.bytes_ms = out.gbytes + s.bytes / 1e9,
        out.bytes_ms + 1e3 * s.bytes / roofs.bytes
      out.flops_ms = out.flops_ms + 1e3 * s.flops / (roofs.flops * s.speed)
      out.bound_ms = out.bound_ms + 1e3 * least
      out.by_flops_ms = out.by_flops_ms + (by == "flops" and 1e3 * least or 0)
    end
  end
  return out
end

local function share(part, whole) return ("%.0f%%"):format(100 * part / whole) end

--- Print how much of the roofs each case reaches.
---@param o table  options of `mrt bench step`
---@param measure fun(case: string, roofs: string): table  in a process of its own
function peaks.compare(o, measure)
  local roofs = peaks.measure(o)
  local word, logs = peaks.word(roofs), 0
  core.trim()
  print("roofs: " .. bound.text(bound.read("peaks", roofs)))
  print(("%-10s %7s %8s %6s %6s %8s %6s %8s %8s %8s %6s"):format("case", "Gflop", "ms", "share",
    "GB", "ms", "share", "bound", "by flops", "ms/step", "reach"))
  for _, case in ipairs(o.cases) do
    local r
    for _ = 1, o.rounds do
      local one = measure(case, word)
      if not r or one.ms_min < r.ms_min then r = one end
    end
    print(("%-10s %7.1f %8.1f %6s %6.2f %8.1f %6s %8.1f %8s %8.1f %6.2f"):format(case, r.gflop,
      r.flops_ms, share(r.flops_ms, r.ms_min), r.gbytes, r.bytes_ms, share(r.bytes_ms, r.ms_min),
      r.bound_ms, share(r.by_flops_ms, r.bound_ms), r.ms_min, r.bound_ms / r.ms_min))
    logs = logs + math.log(r.bound_ms / r.ms_min)
  end
  print(("geometric mean of the bound over the time: %.2f"):format(math.exp(logs / #o.cases)))
end

return peaks
