--- create.lua -- tensors from numbers, like others, and drawn at random
---
--- SPDX-License-Identifier: MIT

local dtypes = { "f32", "f64", "i64", "i32" }
local drawn = "other numbers from a seed than PyTorch's"

local function row(name, args, draw, extra)
  local out = { torch = "torch." .. name, ours = "mrt." .. name, args = args, draw = draw,
    dtypes = { "f32" } }
  for k, v in pairs(extra or {}) do out[k] = v end
  return out
end

local shaped = { { "size", "shape" } }
local function shape(r) return { size = r.dims(0, 4) } end
local like = { { "input", "tensor" } }
local function same(r) return { input = { dims = r.dims(0, 4) } } end

local function random(name, args, extra)
  extra = extra or {}
  extra.differs = extra.differs or drawn
  return row(name, args, nil, extra)
end

local function triangle(name)
  return row(name, { { "row", "int" }, { "col", "int" }, { "offset", "int", 0 } }, function(r)
    return { row = r(0, 6), col = r(0, 6), offset = r(-4, 4) }
  end)
end

local function window(name)
  return row(name, { { "window_length", "int" }, { "periodic", "bool", true } }, function(r)
    return { window_length = r(0, 9), periodic = r.bool() }
  end)
end

return {
  row("zeros", shaped, shape), row("ones", shaped, shape),
  row("full", { { "size", "shape" }, { "fill_value", "number" } }, function(r)
    return { size = r.dims(0, 3), fill_value = r(1, 9) + 0.5 }
  end, { call = function(v) return require "mrt".full(v.size, v.fill_value) end }),
  row("eye", { { "n", "int" }, { "m", "int" } }, function(r)
    return { n = r(0, 6), m = r(0, 6) }
  end),
  row("arange", { { "start", "number" }, { "end", "number" }, { "step", "number" } }, function(r)
    return { start = r(-5, 5), ["end"] = r(6, 20), step = r(1, 3) }
  end, { call = function(v) return require "mrt".arange(v.start, v["end"], v.step) end }),
  row("linspace", { { "start", "number" }, { "end", "number" }, { "steps", "int" } }, function(r)
    return { start = r.real(-5, 5), ["end"] = r.real(-5, 5), steps = r(1, 30) }
  end, { call = function(v) return require "mrt".linspace(v.start, v["end"], v.steps) end }),
  row("logspace", { { "start", "number" }, { "end", "number" }, { "steps", "int" },
    { "base", "number", 10 } }, function(r)
    return { start = r.real(-2, 2), ["end"] = r.real(-2, 2), steps = r(1, 30),
      base = r.pick { 2.0, 10.0 } }
  end, { call = function(v)
    return require "mrt".logspace(v.start, v["end"], v.steps, v.base)
  end }),
  row("zeros_like", like, same, { dtypes = dtypes }),
  row("ones_like", like, same, { dtypes = dtypes }),
  row("full_like", { { "input", "tensor" }, { "fill_value", "number" } }, function(r)
    return { input = { dims = r.dims(0, 4) }, fill_value = r(-3, 9) }
  end, { dtypes = dtypes }),
  row("empty", shaped, nil, { differs = "zeros: nothing is left unwritten" }),
  row("empty_like", like, nil, { differs = "zeros: nothing is left unwritten" }),
  triangle "tril_indices", triangle "triu_indices",
  row("vander", { { "x", "tensor" }, { "N", "int" }, { "increasing", "bool", false } }, function(r)
    return { x = { dims = { r(0, 6) } }, N = r(0, 4), increasing = r.bool() }
  end, { dtypes = { "f32", "f64" } }),
  window "hann_window", window "hamming_window",
  random("rand", shaped), random("randn", shaped),
  random("randint", { { "low", "int" }, { "high", "int" }, { "size", "shape" } }),
  random("rand_like", like), random("randn_like", like),
  random("randint_like", { { "input", "tensor" }, { "low", "int" }, { "high", "int" } }),
  random("randperm", { { "n", "int" } }),
  random("multinomial", { { "input", "tensor" }, { "num_samples", "int" },
    { "replacement", "bool", false } }),
  random("bernoulli", { { "input", "tensor" }, { "p", "number" } }),
  random("normal", { { "mean", "tensor" }, { "std", "tensor" } }),
  { torch = "torch.tensor", ours = "mrt.tensor", args = {} },
  { torch = "torch.manual_seed", ours = "mrt.seed", args = {},
    differs = "`mrt.seed(n)`; " .. drawn },
  { torch = "torch.from_numpy", absent = "no Python here; mrt.load reads .npy and .npz" },
  { torch = "torch.complex", absent = "no complex numbers" },
}
