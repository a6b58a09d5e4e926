--- index.lua -- reading and writing by index, mask and position
---
--- SPDX-License-Identifier: MIT

local all = { "f32", "f64", "bf16", "f16", "i64", "i32", "u8", "bool" }
local numbers = { "f32", "f64", "i64", "i32", "u8" }

-- Sizes of 1 to 6, so that there is something to choose from.
local function shape(r, low, high)
  local dims = {}
  for d = 1, r(low, high) do dims[d] = r(1, 6) end
  return dims
end

local function at(dims, d) return dims[d < 0 and d + #dims + 1 or d] end

-- A copy with n at dimension d.
local function with(dims, d, n)
  local copy = { table.unpack(dims) }
  copy[d < 0 and d + #dims + 1 or d] = n
  return copy
end

-- An index no larger than dims, but along d.
local function index_of(r, dims, d)
  local copy = {}
  for i, n in ipairs(dims) do copy[i] = r(1, n) end
  copy = with(copy, d, r(0, 7))
  return { dims = copy, integer = at(dims, d) }
end

-- Ids no two of which are equal in a lane: PyTorch's gradient of others is another.
local function distinct(r, dims, d)
  local n = at(dims, d)
  local count, values = r(1, n), {}
  local lanes, inner = 1, 1
  local k = d < 0 and d + #dims + 1 or d
  for i, size in ipairs(dims) do
    if i < k then lanes = lanes * size elseif i > k then inner = inner * size end
  end
  local shift = r(0, n - 1)
  for a = 1, lanes do
    for c = 1, count do
      for b = 1, inner do values[#values + 1] = (a + b + c + shift) % n end
    end
  end
  return { dims = with(dims, k, count), dtype = "i64", values = values }
end

local index_args = { { "input", "tensor" }, { "dim", "dim" }, { "index", "tensor" } }
local source_args = { { "input", "tensor" }, { "dim", "dim" }, { "index", "tensor" },
  { "src", "tensor" } }

-- Rows of 64 elements: x [n/64, 64] and as many ids.
local function lookups(n) return { dims = { n // 64 }, integer = n // 64 } end
local function rows_of(n) return { dims = { n // 64, 64 } } end

local function scattered(r, make)
  local dims = shape(r, 1, 3)
  local d = r.dim(dims)
  local index = make(r, dims, d)
  return { input = { dims = dims }, dim = d, index = index, src = { dims = index.dims } }
end

local function index_write(name, extra)
  local row = { torch = "torch." .. name, ours = "Tensor." .. name, grad = true, dtypes = numbers,
    args = { { "input", "tensor" }, { "dim", "dim" }, { "index", "tensor" },
      { "source", "tensor" } },
    draw = function(r)
      local dims = shape(r, 1, 3)
      local d = r.dim(dims)
      local n = at(dims, d)
      local count, values = r(1, n), {}
      for i = 1, count do values[i] = (i * 7 + r(0, 0)) % n end
      local seen = {}
      for i, v in ipairs(values) do
        while seen[v] do v = (v + 1) % n end
        values[i], seen[v] = v, true
      end
      return { input = { dims = dims }, dim = d, source = { dims = with(dims, d, count) },
        index = { dims = { count }, dtype = "i64", values = values } }
    end,
    size = function(n)
      return { input = rows_of(n), dim = 1, index = lookups(n), source = rows_of(n) }
    end }
  for k, v in pairs(extra or {}) do row[k] = v end
  return row
end

return {
  { torch = "torch.gather", ours = "Tensor.gather", args = index_args, grad = true, dtypes = all,
    draw = function(r)
      local dims = shape(r, 1, 4)
      local d = r.dim(dims)
      return { input = { dims = dims }, dim = d, index = index_of(r, dims, d) }
    end,
    size = function(n)
      return { input = { dims = { n // 100, 100 } }, dim = 2,
        index = { dims = { n // 100, 100 }, integer = 100 } }
    end },
  { torch = "torch.take_along_dim", ours = "Tensor.take_along_dim", grad = true, dtypes = all,
    args = { { "input", "tensor" }, { "indices", "tensor" }, { "dim", "dim" } },
    draw = function(r)
      local dims = shape(r, 1, 3)
      if r(1, 4) == 1 then
        local n = 1
        for _, size in ipairs(dims) do n = n * size end
        return { input = { dims = dims }, indices = { dims = r.dims(1, 2), integer = n } }
      end
      local d = r.dim(dims)
      local own = with(dims, d, r(1, 5))
      local k = d < 0 and d + #dims + 1 or d
      for i = 1, #own do if i ~= k and r.bool() then own[i] = 1 end end
      return { input = { dims = dims }, indices = { dims = own, integer = at(dims, d) }, dim = d }
    end },
  { torch = "torch.take", ours = "Tensor.take", grad = true, dtypes = all,
    args = { { "input", "tensor" }, { "index", "tensor" } },
    differs = "ids from the end (below 0) are refused",
    draw = function(r)
      local dims = shape(r, 0, 3)
      local n = 1
      for _, size in ipairs(dims) do n = n * size end
      return { input = { dims = dims }, index = { dims = r.dims(0, 3), integer = n } }
    end,
    size = function(n)
      return { input = { dims = { n } }, index = { dims = { n }, integer = n } }
    end },
  { torch = "torch.index_select", ours = "Tensor.index_select", args = index_args, grad = true,
    dtypes = all,
    draw = function(r)
      local dims = shape(r, 1, 4)
      local d = r.dim(dims)
      return { input = { dims = dims }, dim = d,
        index = { dims = { r(0, 8) }, integer = at(dims, d), dtype = r.pick { "i64", "i32" } } }
    end,
    size = function(n) return { input = rows_of(n), dim = 1, index = lookups(n) } end },
  { torch = "torch.scatter", ours = "Tensor.scatter", args = source_args, grad = true, dtypes = all,
    differs = "of several for one place the last is written, and has the gradient alone",
    draw = function(r) return scattered(r, distinct) end,
    size = function(n)
      return { input = { dims = { n // 100, 100 } }, dim = 2, src = { dims = { n // 100, 100 } },
        index = { dims = { n // 100, 100 }, integer = 100 } }
    end },
  { torch = "torch.scatter_add", ours = "Tensor.scatter_add", args = source_args, grad = true,
    dtypes = numbers, tolerance = 1e-5,
    differs = "the same bits whatever the number of threads",
    draw = function(r) return scattered(r, index_of) end,
    size = function(n)
      return { input = { dims = { n // 100, 100 } }, dim = 2, src = { dims = { n // 100, 100 } },
        index = { dims = { n // 100, 100 }, integer = 100 } }
    end },
  { torch = "torch.scatter_reduce", ours = "Tensor.scatter_reduce", grad = true,
    dtypes = { "f32", "f64" }, tolerance = 1e-4,
    args = { { "input", "tensor" }, { "dim", "dim" }, { "index", "tensor" }, { "src", "tensor" },
      { "reduce", "string" }, { "include_self", "bool", true, keyword = true } },
    draw = function(r)
      local drawn = scattered(r, index_of)
      drawn.reduce = r.pick { "sum", "prod", "mean", "amax", "amin" }
      if r.bool() then drawn.include_self = r.bool() end
      return drawn
    end,
    size = function(n)
      return { input = { dims = { n // 100, 100 } }, dim = 2, src = { dims = { n // 100, 100 } },
        index = { dims = { n // 100, 100 }, integer = 100 }, reduce = "amax" }
    end },
  index_write("index_add", { tolerance = 1e-5,
    args = { { "input", "tensor" }, { "dim", "dim" }, { "index", "tensor" },
      { "source", "tensor" }, { "alpha", "number", 1, keyword = true } } }),
  index_write "index_copy",
  { torch = "torch.index_fill", ours = "Tensor.index_fill", grad = true, dtypes = numbers,
    args = { { "input", "tensor" }, { "dim", "dim" }, { "index", "tensor" },
      { "value", "number" } },
    draw = function(r)
      local dims = shape(r, 1, 3)
      local d = r.dim(dims)
      return { input = { dims = dims }, dim = d, value = r(0, 9),
        index = { dims = { r(0, 5) }, integer = at(dims, d) } }
    end,
    size = function(n) return { input = rows_of(n), dim = 1, index = lookups(n), value = 2 } end },
  { torch = "torch.Tensor.index_reduce", ours = "Tensor.index_reduce", grad = true,
    dtypes = { "f32", "f64" }, tolerance = 1e-4,
    args = { { "input", "tensor" }, { "dim", "dim" }, { "index", "tensor" },
      { "source", "tensor" }, { "reduce", "string" },
      { "include_self", "bool", true, keyword = true } },
    draw = function(r)
      local dims = shape(r, 1, 3)
      local d = r.dim(dims)
      local count = r(1, 6)
      return { input = { dims = dims, low = 0.5, high = 2 }, dim = d,
        index = { dims = { count }, integer = at(dims, d) },
        source = { dims = with(dims, d, count), low = 0.5, high = 2 },
        reduce = r.pick { "prod", "mean", "amax", "amin" }, include_self = r.bool() }
    end },
  { torch = "torch.index_put", ours = "Tensor.index_put", grad = true, dtypes = numbers,
    tolerance = 1e-5,
    args = { { "input", "tensor" }, { "indices", "tensors" }, { "values", "tensor" },
      { "accumulate", "bool", false } },
    differs = "indices may be all that x[{...}] takes",
    draw = function(r)
      local dims = { r(2, 5), r(2, 5), r(1, 4) }
      local n = dims[1] * dims[2]
      local count, first, second = r(1, n), {}, {}
      for i = 1, count do
        first[i], second[i] = (i * 1 - 1) // dims[2], (i - 1) % dims[2]
      end
      return { input = { dims = dims }, accumulate = r.bool(),
        indices = { { dims = { count }, dtype = "i64", values = first },
          { dims = { count }, dtype = "i64", values = second } },
        values = { dims = { count, dims[3] } } }
    end,
    expression = function(v)
      return ("torch.index_put(a, (b, c), d, %s)"):format(v.accumulate and "True" or "False")
    end,
    size = function(n)
      return { input = { dims = { n // 640, 10, 64 } }, values = { dims = { n // 64, 64 } },
        indices = { { dims = { n // 64 }, integer = n // 640 },
          { dims = { n // 64 }, integer = 10 } }, accumulate = false }
    end },
  { torch = "torch.Tensor.put", ours = "Tensor.put", dtypes = numbers,
    args = { { "input", "tensor" }, { "index", "tensor" }, { "source", "tensor" },
      { "accumulate", "bool", false } },
    draw = function(r)
      local dims = shape(r, 1, 3)
      local n = 1
      for _, size in ipairs(dims) do n = n * size end
      local count, values = r(1, n), {}
      for i = 1, count do values[i] = i - 1 end
      return { input = { dims = dims },
        index = { dims = { count }, dtype = "i64", values = values },
        source = { dims = { count } }, accumulate = r.bool() }
    end },
  { torch = "torch.masked_scatter", ours = "Tensor.masked_scatter", grad = true, dtypes = all,
    args = { { "input", "tensor" }, { "mask", "tensor" }, { "source", "tensor" } },
    draw = function(r)
      local dims = shape(r, 1, 3)
      local n = 1
      for _, size in ipairs(dims) do n = n * size end
      local own = { table.unpack(dims) }
      if r.bool() then own[1] = 1 end
      return { input = { dims = dims }, mask = { dims = own, dtype = "bool" },
        source = { dims = { n + r(0, 2) } } }
    end,
    size = function(n)
      return { input = { dims = { n } }, mask = { dims = { n }, dtype = "bool" },
        source = { dims = { n } } }
    end },
  { torch = "torch.repeat_interleave", ours = "Tensor.repeat_interleave", grad = true, dtypes = all,
    args = { { "input", "tensor" }, { "repeats", "int" }, { "dim", "dim" } },
    differs = "repeats may be a tensor, too; in a compiled function with output_size",
    draw = function(r)
      local dims = r.dims(1, 3)
      return { input = { dims = dims }, repeats = r(0, 4), dim = r.bool() and r.dim(dims) or nil }
    end,
    size = function(n) return { input = { dims = { n // 4 } }, repeats = 4 } end },
  { torch = "torch.Tensor.select", ours = "Tensor.select", grad = true, dtypes = all,
    args = { { "input", "tensor" }, { "dim", "dim" }, { "index", "dim" } },
    differs = "positions count from 1",
    draw = function(r)
      local dims = shape(r, 1, 4)
      local d = r.dim(dims)
      return { input = { dims = dims }, dim = d, index = r.pick { -1, 1, at(dims, d) } }
    end },
  { torch = "torch.Tensor.__getitem__", ours = "Tensor.slice", grad = true, dtypes = all,
    args = { { "input", "tensor" } },
    differs = "`x[2]`, `x[{2, {1, 3}}]`, `x[ids]`, `x[mask]`: lua/mrt/tensor/README.md",
    draw = function(r)
      local dims = { r(2, 6), r(2, 6), r(2, 6) }
      return { input = { dims = dims }, _first = r(1, 2), _last = r(2, dims[2]), _step = r(1, 3) }
    end,
    call = function(v) return v.input[{ -1, { v._first, v._last, v._step } }] end,
    expression = function(v)
      return ("a[-1, %d:%d:%d]"):format(v._first - 1, v._last, v._step)
    end },
  { torch = "torch.Tensor.__setitem__", ours = "Tensor.index_put", grad = true,
    args = { { "input", "tensor" }, { "value", "tensor" } },
    differs = "`x[2] = v`, `x[{...}] = v`, `x[mask] = v`: the handle gets a new value, and "
      .. "others of the old one keep it",
    draw = function(r)
      local dims = { r(2, 6), r(2, 6) }
      return { input = { dims = dims }, value = { dims = { dims[2] } }, _row = r(1, dims[1]) }
    end,
    call = function(v)
      local y = v.input * 1
      y[v._row] = v.value
      return y
    end,
    expression = function(v)
      return ("torch.select_scatter(a, b, 0, %d)"):format(v._row - 1)
    end },
}
