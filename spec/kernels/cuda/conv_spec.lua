-- conv_spec.lua -- convolutions whose factors are rounded when they are read, or
-- are of two dtypes, agree with the processor's
--
-- MRT_CUDA names the plug-in.
local mrt = require "mrt"

local op = require "mrt.core".op

-- Batch, sides, channels in and out, kernel: tiles of 64 and of 128, channels that
-- are packs of 16 bytes and that are not, several parts of a sum.
local shapes = { { 2, 5, 4, 3, 5, 3 }, { 1, 6, 5, 13, 70, 2 }, { 1, 5, 5, 16, 24, 3 },
  { 1, 4, 5, 32, 72, 2 }, { 2, 20, 17, 7, 9, 1 } }

-- Of each operator what it makes of x, w and dy, rounded to `compute`.
local function results(device, s, dtypes, compute)
  mrt.device "cpu"
  mrt.seed(5)
  local n, h, l, c, filters, k = table.unpack(s)
  local inputs = { mrt.randn(n, h, l, c), mrt.randn(filters, c, k, k),
    mrt.randn(n, h - k + 1, l - k + 1, filters) }
  for i, t in ipairs(inputs) do inputs[i] = t:to(dtypes[i]):to(device) end
  mrt.device(device)
  local x, w, dy = table.unpack(inputs)
  local list = {
    op.conv2d(x, w, { compute = compute }),
    op.conv2d_dx(dy, w, { size = { h, l }, compute = compute }),
    op.conv2d_dw(x, dy, { size = { k, k }, compute = compute }),
  }
  for i, t in ipairs(list) do list[i] = t:to "cpu" end
  mrt.device "cpu"
  return list
end

-- How far a is off, as a part of the largest of b; and what rounding may do to it,
-- once more where it is stored in 16 or 8 bits.
local function off(a, b)
  local most = ({ f32 = 1e-5, f16 = 1e-3, bf16 = 1e-2 })[a.dtype] or 0.1
  a, b = a:to "f32", b:to "f32"
  return ((a - b):abs():amax() / b:abs():amax()):item(), most
end

describe("convolutions of factors that are not as they are multiplied", function()
  for _, case in ipairs { { "bf16", "f32", "f32", "f32" }, { "f16", "f32", "f32", "f32" },
    { nil, "f32", "bf16", "f16" }, { "bf16", "f16", "f32", "f16" },
    { "f16", "f8_e4m3", "f32", "f8_e5m2" } } do
    local compute, dtypes = case[1], { case[2], case[3], case[4] }
    it(table.concat(dtypes, ", ") .. (compute and " in " .. compute or ""), function()
      for k, s in ipairs(shapes) do
        local here = results("cpu", s, dtypes, compute)
        for i, t in ipairs(results("cuda:0", s, dtypes, compute)) do
          local by, most = off(t, here[i])
          assert(by <= most, ("shape %d, operator %d: off by %g"):format(k, i, by))
        end
      end
    end)
  end
end)
