--- order.lua -- sorting, selection by rank, searching, counting, running functions
---
--- SPDX-License-Identifier: MIT

local numbers = { "f32", "f64", "bf16", "f16", "i64", "i32", "u8" }
local all = { "f32", "f64", "bf16", "f16", "i64", "i32", "u8", "bool" }
local reals = { "f32", "f64", "bf16", "f16" }

local function with(row, extra)
  for k, v in pairs(extra or {}) do row[k] = v end
  return row
end

-- Numbers that are all different, in no order.
local function distinct(dims, dtype)
  local n, list = 1, {}
  for _, d in ipairs(dims) do n = n * d end
  for i = 1, math.max(1, n) do
    local whole = i * 7919 % 10007 - 5000
    list[i] = dtype == "i64" and whole or whole / 2500
  end
  return { dims = dims, values = list }
end

-- Sizes of at least 1, for what is undefined over nothing.
local function some(r, least, most)
  local dims = {}
  for d = 1, r(least, most) do dims[d] = r(1, 9) end
  return dims
end

-- A row along one dimension, distinct elements: positions are compared too.
local function by_rank(name, extra)
  return with({ torch = "torch." .. name, ours = "Tensor." .. name, results = 2, grad = true,
    dtypes = { "f32", "f64" }, args = { { "input", "tensor" }, { "dim", "dim", -1 },
      { "keepdim", "bool", false } },
    draw = function(r)
      local dims = some(r, 1, 4)
      return { input = distinct(dims), dim = r.dim(dims), keepdim = r.bool() or nil }
    end,
    size = function(n) return { input = { dims = { n // 100, 100 } }, dim = 2 } end }, extra)
end

local function row_of(n) return { input = { dims = { n } } } end
local function rows_of(n) return { input = { dims = { n // 100, 100 } }, dim = 2 } end
local function flat(n) return { input = { dims = { n } }, dim = 1 } end

-- With `stable` PyTorch takes the others by name only.
local function ordered(name)
  return function(v)
    local dim = v.dim or -1
    return ("torch.%s(a, dim=%d, descending=%s, stable=True)"):format(name,
      dim > 0 and dim - 1 or dim, v.descending and "True" or "False")
  end
end

local function draw_k(r)
  local dims = some(r, 1, 3)
  local dim = r.dim(dims)
  local n = dims[dim > 0 and dim or dim + #dims + 1]
  return { input = distinct(dims), dim = dim, k = r(1, n) }
end

local function running(name, extra)
  return with({ torch = "torch." .. name, ours = "Tensor." .. name, grad = true, dtypes = numbers,
    args = { { "input", "tensor" }, { "dim", "dim" } },
    draw = function(r)
      local dims = r.dims(1, 4)
      return { input = { dims = dims }, dim = r.dim(dims) }
    end, size = flat }, extra)
end

-- Over dimensions or all, by names.
local function over(name, args, extra)
  return with({ torch = "torch." .. name, ours = "Tensor." .. name, args = args,
    draw = function(r)
      local dims = some(r, 1, 4)
      return { input = { dims = dims }, dim = r.bool() and r.dim(dims) or nil }
    end, size = row_of }, extra)
end

local function pair(name)
  return over(name, { { "input", "tensor" }, { "dim", "dims" },
    { "correction", "number", 1, keyword = true }, { "keepdim", "bool", false, keyword = true } },
    { results = 2, grad = true, draw = function(r)
      local dims = { r(2, 5), r(2, 6), r(2, 5) }
      return { input = { dims = dims }, dim = { r.dim(dims) }, correction = r.pick { 0, 1 },
        keepdim = r.bool() or nil }
    end })
end

local function quantile(name)
  return { torch = "torch." .. name, ours = "Tensor." .. name, grad = true,
    args = { { "input", "tensor" }, { "q", "number" }, { "dim", "dim" },
      { "keepdim", "bool", false },
      { "interpolation", "string", "linear", keyword = true } },
    draw = function(r)
      local dims = some(r, 1, 3)
      local dim = r.bool() and r.dim(dims) or nil
      return { input = distinct(dims), q = r.pick { 0, 1, 0.5, 0.25, r.real(0, 1) }, dim = dim,
        keepdim = dim and r.bool() or nil,
        interpolation = r.pick { "linear", "lower", "higher", "midpoint", "nearest" } }
    end,
    size = function(n)
      return { input = { dims = { n // 100, 100 } }, q = 0.3, dim = 2 }
    end }
end

local unique_draw = function(r)
  local dims = r.dims(1, 3)
  return { input = { dims = dims, low = 0, high = 3, values = { 1, 2, 0, 2, 1, 1, 3 } },
    return_inverse = true, return_counts = true }
end

return {
  { torch = "torch.sort", ours = "Tensor.sort", results = 2, grad = true, dtypes = all,
    differs = "always stable",
    args = { { "input", "tensor" }, { "dim", "dim", -1 }, { "descending", "bool", false },
      { "stable", "bool", false, keyword = true } },
    draw = function(r)
      local dims = r.dims(1, 4)
      return { input = { dims = dims }, dim = r.dim(dims), descending = r.bool(), stable = true }
    end, expression = ordered "sort", size = row_of },
  { torch = "torch.argsort", ours = "Tensor.argsort", dtypes = all, differs = "always stable",
    args = { { "input", "tensor" }, { "dim", "dim", -1 }, { "descending", "bool", false },
      { "stable", "bool", false, keyword = true } },
    draw = function(r)
      local dims = r.dims(1, 4)
      return { input = { dims = dims }, dim = r.dim(dims), descending = r.bool(), stable = true }
    end, expression = ordered "argsort", size = rows_of },
  { torch = "torch.msort", ours = "Tensor.msort", grad = true, args = { { "input", "tensor" } },
    draw = function(r) return { input = { dims = r.dims(1, 4) } } end,
    size = function(n) return { input = { dims = { 100, n // 100 } } } end },
  { torch = "torch.topk", ours = "Tensor.topk", results = 2, grad = true,
    differs = "of equal elements the first ones",
    args = { { "input", "tensor" }, { "k", "int" }, { "dim", "dim", -1 },
      { "largest", "bool", true }, { "sorted", "bool", true } },
    draw = function(r) return with(draw_k(r), { largest = r.bool() }) end,
    size = function(n) return { input = { dims = { n } }, k = 10 } end },
  { torch = "torch.kthvalue", ours = "Tensor.kthvalue", results = 2, grad = true,
    differs = "of equal elements the first",
    args = { { "input", "tensor" }, { "k", "int" }, { "dim", "dim", -1 },
      { "keepdim", "bool", false } },
    draw = function(r) return with(draw_k(r), { keepdim = r.bool() }) end,
    size = function(n) return { input = { dims = { n } }, k = n // 3 } end },
  by_rank("median", { args = { { "input", "tensor" }, { "dim", "dim" },
    { "keepdim", "bool", false } }, size = row_of, differs = "of equal elements the first" }),
  by_rank("nanmedian", { args = { { "input", "tensor" }, { "dim", "dim" },
    { "keepdim", "bool", false } }, differs = "of equal elements the first" }),
  by_rank("mode", { results = 1, dtypes = numbers, grad = false,
    differs = "of equal elements the last",
    draw = function(r)
      local dims = some(r, 1, 4)
      return { input = { dims = dims, low = 0, high = 3, values = { 1, 2, 0, 2, 1, 1, 3 } },
        dim = r.dim(dims), keepdim = r.bool() or nil }
    end }),
  quantile "quantile",
  quantile "nanquantile",
  running("cumprod"),
  running("cummax", { results = 2, dtypes = all }),
  running("cummin", { results = 2, dtypes = all }),
  running("cumsum"),
  running("logcumsumexp", { dtypes = reals,
    draw = function(r)
      local dims = r.dims(1, 4)
      return { input = { dims = dims, low = -90, high = 90 }, dim = r.dim(dims) }
    end }),
  { torch = "torch.searchsorted", ours = "Tensor.searchsorted",
    dtypes = { "f32", "f64", "i64", "i32", "u8" },
    args = { { "sorted_sequence", "tensor" }, { "input", "tensor" },
      { "out_int32", "bool", false, keyword = true }, { "right", "bool", false, keyword = true } },
    draw = function(r)
      return { sorted_sequence = { dims = { 6 }, values = { 0, 1, 1, 2, 4, 9 } },
        input = { dims = r.dims(1, 3), low = 0, high = 9 }, right = r.bool(),
        out_int32 = r.bool() or nil }
    end,
    size = function(n)
      return { sorted_sequence = { dims = { n } }, input = { dims = { n } } }
    end },
  { torch = "torch.bucketize", ours = "Tensor.bucketize",
    dtypes = { "f32", "f64", "i64", "i32", "u8" },
    args = { { "input", "tensor" }, { "boundaries", "tensor" },
      { "out_int32", "bool", false, keyword = true }, { "right", "bool", false, keyword = true } },
    draw = function(r)
      return { boundaries = { dims = { 6 }, values = { 0, 1, 1, 2, 4, 9 } },
        input = { dims = r.dims(1, 3), low = 0, high = 9 }, right = r.bool() }
    end,
    size = function(n)
      return { input = { dims = { n } }, boundaries = { dims = { 100 } } }
    end },
  { torch = "torch.bincount", ours = "Tensor.bincount", eager = true,
    differs = "`size` fixes the size, in compiled functions too",
    args = { { "input", "tensor" }, { "weights", "tensor" }, { "minlength", "int", 0 } },
    draw = function(r)
      local n = r(1, 40)
      return { input = { dims = { n }, integer = 9 },
        weights = r.bool() and { dims = { n }, constant = true } or nil,
        minlength = r.pick { 0, 3, 20 } }
    end,
    size = function(n) return { input = { dims = { n }, integer = 1000 } } end },
  { torch = "torch.histc", ours = "Tensor.histc",
    args = { { "input", "tensor" }, { "bins", "int", 100 }, { "min", "number", 0 },
      { "max", "number", 0 } },
    draw = function(r)
      local dims = r.dims(1, 3)
      local low = r.pick { false, -0.5 }
      return { input = { dims = dims }, bins = r(1, 9), min = low or nil,
        max = low and 0.75 or nil }
    end,
    as_given = true, size = row_of },
  { torch = "torch.unique", ours = "Tensor.unique", eager = true, results = 3, dtypes = numbers,
    differs = "always sorted",
    args = { { "input", "tensor" }, { "sorted", "bool", true }, { "return_inverse", "bool", false },
      { "return_counts", "bool", false }, { "dim", "dim" } },
    draw = function(r)
      local case = unique_draw(r)
      local dims = case.input.dims
      for d = 1, #dims do dims[d] = math.max(1, dims[d]) end
      case.dim = r.bool() and r.dim(dims) or nil
      return case
    end,
    size = row_of },
  { torch = "torch.unique_consecutive", ours = "Tensor.unique_consecutive", eager = true,
    results = 3,
    dtypes = numbers,
    args = { { "input", "tensor" }, { "return_inverse", "bool", false },
      { "return_counts", "bool", false }, { "dim", "dim" } },
    draw = unique_draw, size = function(n) return { input = { dims = { n }, integer = 50 } } end },
  { torch = "torch.nonzero", ours = "Tensor.nonzero", eager = true, dtypes = all,
    args = { { "input", "tensor" }, { "as_tuple", "bool", false, keyword = true } },
    draw = function(r)
      return { input = { dims = r.dims(1, 3), values = { 0, 1, 0, 0, 1, 1, 0 } } }
    end,
    size = function(n) return { input = { dims = { n }, dtype = "bool" } } end },
  { torch = "torch.nonzero_static", ours = "Tensor.nonzero_static", dtypes = all,
    args = { { "input", "tensor" }, { "size", "int", keyword = true },
      { "fill_value", "int", -1, keyword = true } },
    draw = function(r)
      return { input = { dims = r.dims(1, 3), values = { 0, 1, 0, 0, 1, 1, 0 } },
        size = r(0, 9), fill_value = r.pick { -1, 7 } }
    end },
  { torch = "torch.argwhere", ours = "Tensor.argwhere", eager = true, dtypes = all,
    args = { { "input", "tensor" } },
    draw = function(r)
      return { input = { dims = r.dims(1, 3), values = { 0, 1, 0, 0, 1, 1, 0 } } }
    end },
  { torch = "torch.masked_select", ours = "Tensor.masked_select", eager = true,
    dtypes = all, grad = true,
    args = { { "input", "tensor" }, { "mask", "tensor" } },
    draw = function(r)
      local dims = r.dims(1, 3)
      local mask = { table.unpack(dims) }
      if r.bool() then mask[1] = 1 end
      return { input = { dims = dims }, mask = { dims = mask, dtype = "bool" } }
    end,
    size = function(n)
      return { input = { dims = { n } }, mask = { dims = { n }, dtype = "bool" } }
    end },
  over("count_nonzero", { { "input", "tensor" }, { "dim", "dims" } }, { dtypes = all }),
  over("nansum", { { "input", "tensor" }, { "dim", "dims" }, { "keepdim", "bool", false } },
    { dtypes = numbers, grad = true, draw = function(r)
      local dims = some(r, 1, 4)
      return { input = { dims = dims }, dim = r.bool() and r.dim(dims) or nil }
    end }),
  over("nanmean", { { "input", "tensor" }, { "dim", "dims" }, { "keepdim", "bool", false } },
    { dtypes = reals, grad = true }),
  over("aminmax", { { "input", "tensor" }, { "dim", "dim" }, { "keepdim", "bool", false } },
    { results = 2, args = { { "input", "tensor" },
      { "dim", "dim", keyword = true }, { "keepdim", "bool", false, keyword = true } } }),
  pair "std_mean",
  pair "var_mean",
  { torch = "torch.diff", ours = "Tensor.diff", dtypes = all, grad = true,
    args = { { "input", "tensor" }, { "n", "int", 1 }, { "dim", "dim", -1 } },
    draw = function(r)
      local dims = some(r, 1, 3)
      return { input = { dims = dims }, n = r(0, 3), dim = r.dim(dims) }
    end, size = row_of },
  { torch = "torch.trapezoid", ours = "Tensor.trapezoid", grad = true,
    args = { { "y", "tensor" }, { "x", "tensor" }, { "dim", "dim", -1, keyword = true } },
    draw = function(r)
      local dims = some(r, 1, 3)
      local dim = r.dim(dims)
      return { y = { dims = dims }, dim = dim,
        x = { dims = { dims[dim > 0 and dim or dim + #dims + 1] } } }
    end,
    size = function(n) return { y = { dims = { n } } } end },
  { torch = "torch.cumulative_trapezoid", ours = "Tensor.cumulative_trapezoid", grad = true,
    args = { { "y", "tensor" }, { "x", "tensor" }, { "dx", "number", keyword = true },
      { "dim", "dim", -1, keyword = true } },
    draw = function(r)
      local dims = some(r, 1, 3)
      return { y = { dims = dims }, dim = r.dim(dims), dx = r.pick { 0.5, 2 } }
    end,
    size = function(n) return { y = { dims = { n } } } end },
  { torch = "torch.max", ours = "Tensor.max", results = 2, dtypes = { "f32", "f64", "i64" },
    differs = "gradients are shared among equal elements, as of `amax`",
    args = { { "input", "tensor" }, { "dim", "dim" }, { "keepdim", "bool", false } }, grad = true,
    draw = function(r, dtype)
      local dims = some(r, 1, 4)
      return { input = distinct(dims, dtype), dim = r.dim(dims), keepdim = r.bool() or nil }
    end, size = rows_of },
  { torch = "torch.min", ours = "Tensor.min", results = 2, dtypes = { "f32", "f64", "i64" },
    differs = "gradients are shared among equal elements, as of `amin`",
    args = { { "input", "tensor" }, { "dim", "dim" }, { "keepdim", "bool", false } }, grad = true,
    draw = function(r, dtype)
      local dims = some(r, 1, 4)
      return { input = distinct(dims, dtype), dim = r.dim(dims), keepdim = r.bool() or nil }
    end, size = rows_of },
}
