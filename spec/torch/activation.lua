--- activation.lua -- PyTorch's activations, as functions and as layers
---
--- SPDX-License-Identifier: MIT

local F <const> = "torch.nn.functional."
local floats = { "f32", "f64", "bf16", "f16" }
local inf = math.huge
local rows = {}

local function add(name, options, draw, more)
  local args = { { "input", "tensor" }, table.unpack(options) }
  local row = { torch = F .. name, ours = "Tensor." .. name, grad = true, dtypes = floats,
    args = args,
    draw = function(r, dtype)
      local o = draw and draw(r, dtype) or {}
      o.input = o.input or { dims = r.dims(0, 4), low = -4, high = 4 }
      return o
    end,
    size = function(n) return { input = { dims = { n }, low = -4, high = 4 } } end }
  for key, value in pairs(more or {}) do row[key] = value end
  rows[#rows + 1] = row
end

for _, name in ipairs { "relu", "relu6", "selu", "silu", "mish", "softsign", "logsigmoid" } do
  add(name, {})
end
-- near 0 all digits of a narrow tanh(x) cancel against those of x
add("tanhshrink", {}, nil, { dtypes = { "f32", "f64" } })
-- at 3 the gradient there is 1 or 1.5, by the length of the tensor
add("hardswish", {}, nil, { dtypes = { "f32", "f64" } })
add("hardsigmoid", {}, nil, { tolerance = 1e-6 }) -- its gradient in f64 has 1/6 of f32 there

add("leaky_relu", { { "negative_slope", "number", 0.01 } }, function(r)
  return { negative_slope = r.pick { nil, 0.2, -0.5 } }
end)
add("elu", { { "alpha", "number", 1 } }, function(r) return { alpha = r.pick { nil, 0.5, 2 } } end)
add("celu", { { "alpha", "number", 1 } }, function(r) return { alpha = r.pick { nil, 0.5, 2 } } end)
add("gelu", { { "approximate", "string", "none", keyword = true } }, function(r)
  return { approximate = r.pick { nil, "none", "tanh" } }
end)
add("softplus", { { "beta", "number", 1 }, { "threshold", "number", 20 } }, function(r)
  return { beta = r.pick { nil, 0.5, 2 }, threshold = r.pick { nil, 1, 20 } }
end)
add("hardtanh", { { "min_val", "number", -1 }, { "max_val", "number", 1 } }, function(r)
  return { min_val = r.pick { nil, -2, 0 }, max_val = r.pick { nil, 0.5, 2 } }
end)
add("softshrink", { { "lambd", "number", 0.5 } }, function(r)
  return { lambd = r.pick { nil, 0, 1.5 } }
end)
add("hardshrink", { { "lambd", "number", 0.5 } }, function(r)
  return { lambd = r.pick { nil, 0, 1.5 } }
end)
add("threshold", { { "threshold", "number" }, { "value", "number" } }, function(r)
  return { threshold = r.pick { 0, 0.5, -1 }, value = r.pick { 0, 7 } }
end, { size = function(n)
  return { input = { dims = { n }, low = -4, high = 4 }, threshold = 0.5, value = 0 }
end })
add("glu", { { "dim", "dim", -1 } }, function(r)
  local dims = r.dims(1, 4)
  local d = r.dim(dims)
  local at = d > 0 and d or #dims + 1 + d
  dims[at] = 2 * math.max(1, dims[at])
  return { input = { dims = dims, low = -4, high = 4 }, dim = d }
end)
add("prelu", { { "weight", "tensor" } }, function(r)
  local dims = r.dims(1, 4)
  local channels = #dims > 1 and r.bool() and dims[2] or 1
  return { input = { dims = dims, low = -4, high = 4 }, weight = { dims = { channels } } }
end, { dtypes = { "f32", "f64" }, size = function(n)
  return { input = { dims = { n // 100, 100 }, low = -4, high = 4 },
    weight = { dims = { 100 } } }
end, only_if = function(v) return v.weight:numel() > 0 end })
add("rrelu", { { "lower", "number", 1 / 8 }, { "upper", "number", 1 / 3 },
  { "training", "bool", false } }, function(r)
  return { lower = r.pick { nil, 0.1 }, upper = r.pick { nil, 0.5 } }
end)
add("softmin", { { "dim", "dim" } }, function(r)
  local dims = r.dims(1, 4)
  return { input = { dims = dims, low = -4, high = 4 }, dim = r.dim(dims) }
end, { tolerance = 1e-4, size = function(n)
  return { input = { dims = { n // 100, 100 }, low = -4, high = 4 }, dim = 2 }
end })
add("normalize", { { "p", "number", 2 }, { "dim", "dim", 2 }, { "eps", "number", 1e-12 } },
  function(r)
    local dims = { r(1, 4), r(1, 5), r(1, 4) }
    return { input = { dims = dims, low = -4, high = 4 }, p = r.pick { nil, 1, 2, 3, inf },
      dim = r.dim(dims), eps = r.pick { nil, 1e-3, 2 } }
  end, { dtypes = { "f32", "f64" }, tolerance = 1e-4, size = function(n)
    return { input = { dims = { n // 100, 100 }, low = -4, high = 4 } }
  end })
rows[#rows + 1] = { torch = F .. "gumbel_softmax", ours = "Tensor.gumbel_softmax", random = true,
  args = { { "input", "tensor" }, { "tau", "number", 1 }, { "hard", "bool", false },
    { "eps", "number", 1e-10 }, { "dim", "dim", -1 } },
  size = function(n) return { input = { dims = { n // 100, 100 } } } end,
  differs = "random: other numbers are drawn" }

-- ---- layers ------------------------------------------------------------------

local slope, lambd = { { "negative_slope", "number", 0.01 } }, { { "lambd", "number", 0.5 } }
local alpha, dim = { { "alpha", "number", 1 } }, { { "dim", "dim" } }
local layers = { ReLU = {}, ReLU6 = {}, LeakyReLU = slope, ELU = alpha, SELU = {}, CELU = alpha,
  GELU = { { "approximate", "string", "none" } }, SiLU = {}, Mish = {},
  GLU = { { "dim", "dim", -1 } }, Tanh = {}, Tanhshrink = {}, Sigmoid = {}, LogSigmoid = {},
  Softplus = { { "beta", "number", 1 }, { "threshold", "number", 20 } }, Softsign = {},
  Softshrink = lambd, Hardshrink = lambd, Hardswish = {}, Hardsigmoid = {},
  Hardtanh = { { "min_val", "number", -1 }, { "max_val", "number", 1 } },
  Threshold = { { "threshold", "number" }, { "value", "number" } },
  PReLU = { { "num_parameters", "int", 1 }, { "init", "number", 0.25 } },
  RReLU = { { "lower", "number", 1 / 8 }, { "upper", "number", 1 / 3 } },
  Softmax = dim, LogSoftmax = dim, Softmin = dim, Identity = {} }
local names = {}
for name in pairs(layers) do names[#names + 1] = name end
table.sort(names)
for _, name in ipairs(names) do
  rows[#rows + 1] = { torch = "torch.nn." .. name, ours = "nn." .. name, args = layers[name] }
end

return rows
