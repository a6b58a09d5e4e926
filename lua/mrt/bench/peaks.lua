--- peaks.lua -- this machine's roofs, and how much of them a step reaches
---
--- The roofs are measured through compiled functions: flop/s of the best of some large
--- products in f32; bytes a second of the best of passes over arrays that no cache holds (a
--- triad z = x + 2 y, a sum), and of a triad within the cache that plans reckon with.  A
--- roof that is measured low, beside other work, makes steps look good: they are measured
--- in turn with the steps, and the best of all counts.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local bound = require "mrt.plan.report.bound"
local core = require "mrt.core"

local peaks = {}

local SECONDS <const> = 0.5 -- of each measurement: others may be at work for a part of it
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
---@param before? mrt.Roofs  what was measured before: the better counts
---@return mrt.Roofs
function peaks.measure(o, before)
  local best = before or { flops = 0, bytes = 0, cache = mrt.device.current().cache,
    cache_bytes = 0 }
  for _, size in ipairs { 1024, 2048 } do
    best.flops = math.max(best.flops, product(o, size), product(o, size, true))
  end
  best.bytes = math.max(best.bytes, triad(o, LARGE), sum(o, LARGE))
  local near = best.cache > 0 and triad(o, math.ceil(best.cache / 24)) or 0 -- half of it
  best.cache_bytes = math.max(best.cache_bytes, near, best.bytes)
  core.trim()
  return best
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

-- The roofs and, by case, the result with the least time: all in turn.
local function measure_all(o, measure)
  local roofs, results = nil, {}
  for _ = 1, o.rounds do
    for _, case in ipairs(o.cases) do
      roofs = peaks.measure(o, roofs)
      local one, best = measure(case), results[case]
      if not best or one.ms_min < best.ms_min then results[case] = one end
    end
  end
  return roofs, results
end

--- Print how much of the roofs each case reaches, when all are measured.
---@param o table  options of `mrt bench step`
---@param measure fun(case: string, roofs: string?): table  in a process of its own; with
---  roofs, what `peaks.of` says
function peaks.compare(o, measure)
  local roofs, results = measure_all(o, measure)
  local word, logs = peaks.word(roofs), 0
  print("roofs: " .. bound.text(bound.read("peaks", roofs)))
  print(("%-10s %7s %8s %6s %6s %8s %6s %8s %8s %8s %6s"):format("case", "Gflop", "ms", "share",
    "GB", "ms", "share", "bound", "by flops", "ms/step", "reach"))
  for _, case in ipairs(o.cases) do
    local r, ms, gflop = measure(case, word), results[case].ms_min, results[case].gflop
    print(("%-10s %7.1f %8.1f %6s %6.2f %8.1f %6s %8.1f %8s %8.1f %6.2f"):format(case, gflop,
      r.flops_ms, share(r.flops_ms, ms), r.gbytes, r.bytes_ms, share(r.bytes_ms, ms),
      r.bound_ms, share(r.by_flops_ms, r.bound_ms), ms, r.bound_ms / ms))
    logs = logs + math.log(r.bound_ms / ms)
  end
  print(("geometric mean of the bound over the time: %.2f"):format(math.exp(logs / #o.cases)))
end

return peaks
