--- pool.lua -- pools of one, two and three sides
---
--- SPDX-License-Identifier: MIT

local F = "torch.nn.functional."

local function option(r, n, low, high)
  if r.bool() then return r(low, high) end
  local out = {}
  for i = 1, n do out[i] = r(low, high) end
  return out
end

local function dims_of(r, n, low, high)
  local dims = { r(1, 3), r(1, 4) }
  for i = 1, n do dims[2 + i] = r(low, high) end
  return dims
end

local function signal(n, count)
  local dims = { count >= 1e6 and 4 or 1, 32 }
  local side = math.max(4, math.floor((count / dims[1] / 32) ^ (1 / n)))
  for i = 1, n do dims[2 + i] = side end
  return { dims = dims }
end

local function window(r, n, dilated)
  local v = { input = { dims = dims_of(r, n, 5, 9) }, kernel_size = option(r, n, 2, 3),
    padding = r.bool() and option(r, n, 0, 1) or nil, ceil_mode = r.bool() or nil }
  if r.bool() then v.stride = option(r, n, 1, 3) end
  if dilated and r.bool() then v.dilation = option(r, n, 1, 2) end
  return v
end

local kernel = { { "input", "tensor" }, { "kernel_size", "shape" }, { "stride", "shape" },
  { "padding", "shape", 0 } }
local function args(...)
  local out = { table.unpack(kernel) }
  for _, a in ipairs { ... } do out[#out + 1] = a end
  return out
end

local rows = {}
local function add(name, n, row)
  row.torch, row.ours = F .. name:format(n), "Tensor." .. name:format(n)
  row.grad = row.grad == nil and true or row.grad
  rows[#rows + 1] = row
end

for n = 1, 3 do
  add("max_pool%dd", n, {
    args = args({ "dilation", "shape", 1 }, { "ceil_mode", "bool", false },
      { "return_indices", "bool", false }),
    results = 2,
    draw = function(r)
      local v = window(r, n, true)
      v.return_indices = true
      return v
    end,
    size = function(count)
      return { input = signal(n, count), kernel_size = 3, stride = 2, padding = 1 }
    end,
  })
  add("avg_pool%dd", n, {
    differs = n > 1 and "divisor_override is not there" or nil,
    args = args({ "ceil_mode", "bool", false }, { "count_include_pad", "bool", true }),
    draw = function(r)
      local v = window(r, n)
      v.count_include_pad = r.pick { true, false }
      return v
    end,
    size = function(count)
      return { input = signal(n, count), kernel_size = 3, stride = 2, padding = 1 }
    end,
  })
  add("lp_pool%dd", n, {
    args = { { "input", "tensor" }, { "norm_type", "number" }, { "kernel_size", "shape" },
      { "stride", "shape" }, { "ceil_mode", "bool", false } },
    draw = function(r)
      return { input = { dims = dims_of(r, n, 5, 9), low = 0.1, high = 1 },
        norm_type = r.pick { 1, 2, 3 }, ceil_mode = r.bool() or nil,
        kernel_size = n == 1 and r(1, 3) or option(r, n, 1, 3),
        stride = r.bool() and option(r, n, 1, 3) or nil }
    end,
  })
  for _, kind in ipairs { "avg", "max" } do
    add("adaptive_" .. kind .. "_pool%dd", n, {
      args = { { "input", "tensor" }, { "output_size", "shape" },
        kind == "max" and { "return_indices", "bool", false } or nil },
      differs = n > 1 and "a side that stays is false, not None" or nil,
      draw = function(r)
        return { input = { dims = dims_of(r, n, 1, 9) },
          output_size = option(r, n, 1, 5) }
      end,
      size = function(count) return { input = signal(n, count), output_size = 3 } end,
    })
  end
end
local function layer(name, list)
  local words = {}
  for i, word in ipairs(list) do
    words[i] = { word, word == "norm_type" and "number" or "shape" }
  end
  rows[#rows + 1] = { torch = "torch.nn." .. name, ours = "nn." .. name, args = words }
end
for n = 1, 3 do
  layer(("MaxPool%dd"):format(n), { "kernel_size", "stride", "padding", "dilation" })
  layer(("AvgPool%dd"):format(n), { "kernel_size", "stride", "padding" })
  layer(("LPPool%dd"):format(n), { "norm_type", "kernel_size", "stride" })
  layer(("AdaptiveAvgPool%dd"):format(n), { "output_size" })
  layer(("AdaptiveMaxPool%dd"):format(n), { "output_size" })
end
for _, name in ipairs { "max_unpool1d", "max_unpool2d", "max_unpool3d" } do
  rows[#rows + 1] = { torch = F .. name, absent = "scatter at the places that a pool returned" }
end
for _, name in ipairs { "fractional_max_pool2d", "fractional_max_pool3d" } do
  rows[#rows + 1] = { torch = F .. name, absent = "random windows" }
end
return rows
