--- pool_planes_spec.lua -- pools of images of one channel are those of many channels
---
--- A plane is an image of one channel, or one of the channels of an image: two paths
--- of the kernels, the same bits.
---
--- SPDX-License-Identifier: MIT
local mrt = require "mrt"
local core = require "mrt.core"
local op = core.op
local R = math.random

-- Planes [N,H,W] of numbers of which many are equal, -inf or NaN.
local function planes(N, H, W, dtype)
  local x = mrt.randn(N, H, W)
  if R(3) == 1 then x = mrt.where(x:gt(1.2), 0 / 0, x) end
  if R(3) == 1 then x = mrt.where(x:lt(0.3), -1 / 0, x) end
  if R(3) == 1 then x = x:round() end
  return mrt.eval(x:to(dtype))
end

-- [N,H,W] as images of one channel and as one image of N channels; and back.
local function alone(x)
  local N, H, W = table.unpack(x:size())
  return mrt.eval(op.reshape(x, { N, H, W, 1 }))
end
local function beside(x)
  local N, H, W = table.unpack(x:size())
  return mrt.eval(op.reshape(op.permute(x, { 2, 3, 1 }):copy(), { 1, H, W, N }))
end
local function from_alone(y)
  local N, H, W = table.unpack(y:size())
  return op.reshape(y, { N, H, W })
end
local function from_beside(y)
  local _, H, W, N = table.unpack(y:size())
  return op.permute(op.reshape(y, { H, W, N }), { 3, 1, 2 })
end

local function check(what, a, b)
  assert(mrt.eval(from_alone(a):copy()):bytes() == mrt.eval(from_beside(b):copy()):bytes(), what)
end

local function sides(H, W, dilated)
  local d = { dilated and R(2) or 1, dilated and R(3) or 1 }
  local wide = R(3) == 1 and 90 or 5
  local k = { R(math.min(4, (H - 1) // d[1] + 1)), R(math.min(wide, (W - 1) // d[2] + 1)) }
  local o = { kernel = k, stride = { R(3), R(4) }, ceil_mode = R(2) == 1, padding = {} }
  for i = 1, 2 do o.padding[i] = R(0, ((k[i] - 1) * d[i] + 1) // 2) end
  if dilated then o.dilation = d else o.count_include_pad = R(2) == 1 end
  return o
end

local function sized(o, H, W)
  local copy = { size = { H, W } }
  for name, value in pairs(o) do copy[name] = value end
  return copy
end

-- dy of y [N,H',W',1], finite, both ways.
local function slopes(y)
  local N, H, W = table.unpack(y:size())
  local dy = mrt.eval(op.cast(mrt.randn(N, H, W), y:get_dtype()))
  return alone(dy), beside(dy)
end

local cases = {}

function cases.max(x, x2, H, W)
  local o = sides(H, W, true)
  local y, at = op.max_pool2d(x, o)
  local y2, at2 = op.max_pool2d(x2, o)
  mrt.eval(y, at, y2, at2)
  check("max", y, y2)
  check("index", at, at2)
  check("pick", op.max_pool2d_pick(x, at, o), op.max_pool2d_pick(x2, at2, o))
  local dy, dy2 = slopes(y)
  o = sized(o, H, W)
  check("max grad", op.max_pool2d_grad(dy, at, o), op.max_pool2d_grad(dy2, at2, o))
end

function cases.mean(x, x2, H, W)
  local o = sides(H, W)
  local y = op.avg_pool2d(x, o)
  check("mean", y, op.avg_pool2d(x2, o))
  local dy, dy2 = slopes(y)
  o = sized(o, H, W)
  check("mean grad", op.avg_pool2d_grad(dy, o), op.avg_pool2d_grad(dy2, o))
end

function cases.adaptive(x, x2, H, W)
  local o = { size = { R(14), R(R(2) == 1 and 8 or 70) } }
  local y, at = op.adaptive_max_pool2d(x, o)
  local y2, at2 = op.adaptive_max_pool2d(x2, o)
  check("adaptive max", y, y2)
  check("adaptive index", at, at2)
  y = op.adaptive_avg_pool2d(x, o)
  check("adaptive mean", y, op.adaptive_avg_pool2d(x2, o))
  local dy, dy2 = slopes(y)
  o = { size = { H, W } }
  check("adaptive grad", op.adaptive_avg_pool2d_grad(dy, o), op.adaptive_avg_pool2d_grad(dy2, o))
end

describe("a pool of planes", function()
  it("has the bits of a pool of channels, and so have its gradients", function()
    math.randomseed(7)
    mrt.seed(7)
    for i = 1, os.getenv "MRT_SPEC_LEAN" and 40 or 150 do
      local N, H, W = R(20), R(12), R(60)
      if R(4) == 1 then W = R(100, 700) end
      local x = planes(N, H, W, R(2) == 1 and "f32" or "f64")
      for name, case in pairs(cases) do
        local ok, said = pcall(case, alone(x), beside(x), H, W)
        assert(ok, ("case %d, %s of %s: %s"):format(i, name, x:type(), tostring(said)))
      end
      collectgarbage()
    end
  end)

  it("is what methods give, whether x is computed already or pending", function()
    local x = mrt.eval(mrt.randn(2, 3, 9, 11))
    local v = mrt.eval(mrt.randn(2, 3, 5, 6, 7))
    for _, name in ipairs { "max_pool", "avg_pool", "adaptive_max_pool", "adaptive_avg_pool" } do
      local size = name:find "adaptive" and { 3 } or { 3, 2, 1 }
      for n, t in pairs { [1] = mrt.eval(x[1]:copy()), [2] = x, [3] = v } do
        local method = ("%s%dd"):format(name, n)
        local here = mrt.eval((t[method](t, table.unpack(size))))
        local pending = t * 1
        assert(here:bytes() == mrt.eval((pending[method](pending, table.unpack(size)))):bytes(),
          method)
      end
    end
  end)
end)
