--- mrt bench conv -- convolutions beside matrix products
--
--     mrt bench conv [--only TEXT] [--seconds S] [--cpu] [--dtype bf16]
--
-- Layers of ResNet-18 for CIFAR at batch 64 and of ResNet-50 at batch 8, each
-- way: y, dx and dw.  Gflop/s are nominal (2 flop for each place of y and
-- weight, padding included) of the fastest run in S seconds; the ratio is to
-- the same for a matrix product of the equal m, n and k.  --cpu counts processor
-- time, for one thread on a machine with much else to do.  Inputs and results
-- have the dtype given, f32 unless it is.
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"

-- batch, side, channels in and out, kernel, stride, groups
local shapes = {
  { "cifar stem", 64, 32, 3, 64, 3, 1 },
  { "cifar 1", 64, 32, 64, 64, 3, 1 },
  { "cifar 2 down", 64, 32, 64, 128, 3, 2 },
  { "cifar 2", 64, 16, 128, 128, 3, 1 },
  { "cifar 3", 64, 8, 256, 256, 3, 1 },
  { "cifar 4 down", 64, 8, 256, 512, 3, 2 },
  { "cifar 4", 64, 4, 512, 512, 3, 1 },
  { "cifar 4 skip", 64, 8, 256, 512, 1, 2 },
  { "resnet50 stem", 8, 224, 3, 64, 7, 2 },
  { "resnet50 1 in", 8, 56, 64, 64, 1, 1 },
  { "resnet50 1", 8, 56, 64, 64, 3, 1 },
  { "resnet50 1 out", 8, 56, 64, 256, 1, 1 },
  { "resnet50 2 down", 8, 56, 128, 128, 3, 2 },
  { "resnet50 2", 8, 28, 128, 128, 3, 1 },
  { "resnet50 3", 8, 14, 256, 256, 3, 1 },
  { "resnet50 3 out", 8, 14, 256, 1024, 1, 1 },
  { "resnet50 4", 8, 7, 512, 512, 3, 1 },
  { "depthwise 14", 8, 14, 384, 384, 3, 1, 384 },
  { "depthwise 56", 8, 56, 96, 96, 3, 1, 96 },
  { "depthwise 112", 8, 112, 96, 96, 3, 2, 96 },
  { "depthwise 28", 8, 28, 192, 192, 3, 1, 192 },
  { "depthwise 28 5x5", 8, 28, 120, 120, 5, 1, 120 },
  { "depthwise 7", 8, 7, 960, 960, 3, 1, 960 },
}

-- Seconds of the one node of `class`: the least median of three runs.
local function fastest(o, class, fn, ...)
  local step, best, began = mrt.compile(fn), math.huge, core.clock()
  repeat
    for _, node in ipairs(step:measure({ rounds = 3, cpu = o.cpu }, ...).steps) do
      if node.class == class then best = math.min(best, node.measured) end
    end
  until core.clock() - began > o.seconds
  return best
end

local function row(s, o)
  local name, n, side, c, filters, k, stride, groups = table.unpack(s)
  groups = groups or 1
  local out = (side - 1) // stride + 1
  local options = { stride = stride, padding = k // 2, groups = groups }
  local function sized(size)
    return { stride = stride, padding = k // 2, groups = groups, size = size }
  end
  local function random(...) return mrt.randn(...):to(o.dtype) end
  local x, w = random(n, side, side, c), random(filters, c // groups, k, k)
  local dy = random(n, out, out, filters)
  mrt.eval(x, w, dy)
  local flop = 2 * n * out * out * filters * (c // groups) * k * k
  local function product(m, inner, columns)
    local a, b = random(groups, m, inner), random(groups, inner, columns)
    mrt.eval(a, b)
    return flop / fastest(o, "matmul", function(p, q) return p:matmul(q) end, a, b)
  end
  local m, inner, per = n * out * out, c // groups * k * k, filters // groups
  local rates = {
    flop / fastest(o, "convolution", function(p, q) return core.op.conv2d(p, q, options) end, x, w),
    flop / fastest(o, "convolution_dx", function(p, q)
      return core.op.conv2d_dx(p, q, sized { side, side })
    end, dy, w),
    flop / fastest(o, "convolution_dw", function(p, q)
      return core.op.conv2d_dw(p, q, sized { k, k })
    end, x, dy),
  }
  local beside = { product(m, inner, per), product(m, per, inner), product(per, m, inner) }
  local text = ("%-16s b%d %3d->%-3d %3dx%-3d k%d s%d"):format(name, n, c, filters, side, side, k,
    stride)
  for i = 1, 3 do
    text = text .. (" %8.1f %5.2f"):format(rates[i] / 1e9, rates[i] / beside[i])
  end
  print(text)
end

local function read(args)
  local o, i = { seconds = 0.5, only = "", dtype = "f32" }, 1
  while i <= #args do
    local name, value = args[i]:match "^%-%-(%w+)$", args[i + 1]
    if name == "cpu" then
      o.cpu, i = true, i + 1
    elseif (name == "only" or name == "seconds" or name == "dtype") and value then
      o[name], i = value, i + 2
    else
      error("mrt bench conv: no option " .. args[i] .. ", or no value", 0)
    end
  end
  o.seconds = tonumber(o.seconds)
  return o
end

return function(...)
  local o, info = read { ... }, core.info()
  print(("%s, %d threads; nominal Gflop/s, and ratio to a matrix product")
    :format(info.isa, info.threads))
  print(("%-44s %8s %5s %8s %5s %8s %5s"):format("", "y", "", "dx", "", "dw", ""))
  for _, s in ipairs(shapes) do
    if s[1]:find(o.only, 1, true) then row(s, o) end
  end
end
