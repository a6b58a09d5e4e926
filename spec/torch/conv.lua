--- conv.lua -- convolutions of one, two and three sides, and transposed ones
---
--- SPDX-License-Identifier: MIT

local F = "torch.nn.functional."

local names = { "stride", "padding", "dilation", "groups" }
local transposed_names = { "stride", "padding", "output_padding", "groups", "dilation" }
local defaults = { stride = 1, padding = 0, dilation = 1, groups = 1, output_padding = 0 }

local function args(list)
  local out = { { "input", "tensor" }, { "weight", "tensor" }, { "bias", "tensor" } }
  for i, name in ipairs(list) do
    out[3 + i] = { name, name == "groups" and "int" or "shape", defaults[name] }
  end
  return out
end

-- One integer for all sides, or one for each.
local function option(r, n, low, high)
  if r.bool() then return r(low, high) end
  local out = {}
  for i = 1, n do out[i] = r(low, high) end
  return out
end

local function draw(n)
  return function(r)
    local groups, each = r(1, 3), r(1, 3)
    local x, w = { r(1, 3), groups * each }, { groups * r(1, 3), each }
    for _ = 1, n do
      x[#x + 1] = r(4, n == 3 and 6 or 9)
      w[#w + 1] = r(1, 3)
    end
    local v = { input = { dims = x }, weight = { dims = w }, groups = groups,
      dilation = r.bool() and option(r, n, 1, 2) or nil }
    if r.bool() then v.bias = { dims = { w[1] } } end
    if r(1, 4) == 1 then
      v.padding = r.pick { "same", "valid" }
    else
      v.padding, v.stride = option(r, n, 0, 2), option(r, n, 1, 3)
    end
    if type(v.padding) == "table" or type(v.padding) == "number" then
      local p = type(v.padding) == "table" and v.padding or { v.padding }
      for i = 1, n do x[2 + i] = math.max(x[2 + i], 5 - 2 * (p[i] or p[1])) end
    else
      for i = 1, n do x[2 + i] = math.max(x[2 + i], 5) end
    end
    return v
  end
end

local function draw_transposed(n)
  return function(r)
    local groups, each = r(1, 3), r(1, 3)
    local x, w = { r(1, 3), groups * each }, { groups * each, r(1, 3) }
    for _ = 1, n do
      x[#x + 1] = r(3, 5)
      w[#w + 1] = r(1, 3)
    end
    local v = { input = { dims = x }, weight = { dims = w }, groups = groups,
      stride = option(r, n, 2, 3), padding = r.bool() and r(0, 1) or nil,
      output_padding = r.bool() and option(r, n, 0, 1) or nil,
      dilation = r.bool() and r(1, 2) or nil }
    if r.bool() then v.bias = { dims = { groups * w[2] } } end
    return v
  end
end

-- About n elements of the input: 32 channels, 3 in each direction.
local function sized(n, more)
  return function(count)
    local batch = count >= 1e6 and 4 or 1
    local side = math.max(4, math.floor((count / 32 / batch) ^ (1 / n)))
    local x, w = { batch, 32 }, { 32, 32 }
    for _ = 1, n do
      x[#x + 1] = side
      w[#w + 1] = 3
    end
    local v = { input = { dims = x }, weight = { dims = w } }
    for name, value in pairs(more) do v[name] = value end
    return v
  end
end

local rows = {}
for n = 1, 3 do
  rows[#rows + 1] = { torch = F .. ("conv%dd"):format(n), ours = ("Tensor.conv%dd"):format(n),
    args = args(names), grad = true, draw = draw(n), size = sized(n, { padding = 1 }),
    tolerance = 1e-4 }
end
for n = 1, 3 do
  rows[#rows + 1] = { torch = F .. ("conv_transpose%dd"):format(n),
    ours = ("Tensor.conv_transpose%dd"):format(n), args = args(transposed_names), grad = true,
    draw = draw_transposed(n), size = sized(n, { stride = 2 }), tolerance = 1e-4 }
end
for n = 1, 3 do
  for _, name in ipairs { "Conv%dd", "ConvTranspose%dd" } do
    name = name:format(n)
    rows[#rows + 1] = { torch = "torch.nn." .. name, ours = "nn." .. name,
      differs = "options are a table; padding_mode is not there",
      args = { { "in_channels", "int" }, { "out_channels", "int" }, { "kernel_size", "shape" } } }
  end
end
return rows
