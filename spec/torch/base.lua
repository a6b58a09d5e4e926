--- base.lua -- reductions, softmax, norms, embeddings: what networks are made of
---
--- SPDX-License-Identifier: MIT

local reals = { "f32", "f64", "bf16", "f16" }
local numbers = { "f32", "f64", "bf16", "f16", "i64", "i32", "u8" }
local truth = { "f32", "f64", "bf16", "f16", "i64", "i32", "bool" }

local function with(row, extra)
  for k, v in pairs(extra or {}) do row[k] = v end
  return row
end

-- Some dimensions, each once.
local function some_dims(r, dims)
  local list = {}
  for d = 1, #dims do
    if r.bool() then list[#list + 1] = r.bool() and d or d - #dims - 1 end
  end
  return #list > 0 and list or { r.dim(dims) }
end

-- About n elements as rows of 100.
local function by_rows(n) return { input = { dims = { n // 100, 100 } }, dim = 2 } end

-- Over several dimensions, or all where none are given.
local function over_dims(name, extra)
  return with({ torch = "torch." .. name, ours = "Tensor." .. name, grad = true, dtypes = numbers,
    args = { { "input", "tensor" }, { "dim", "dims" }, { "keepdim", "bool", false } },
    draw = function(r)
      local dims = r.dims(1, 4)
      local keep = r.bool()
      return { input = { dims = dims }, dim = some_dims(r, dims), keepdim = keep or nil }
    end,
    size = by_rows }, extra)
end

-- Over one dimension, or all.
local function over_dim(name, extra)
  return with({ torch = "torch." .. name, ours = "Tensor." .. name, dtypes = numbers,
    args = { { "input", "tensor" }, { "dim", "dim" }, { "keepdim", "bool", false } },
    draw = function(r)
      local dims = r.dims(1, 4)
      local dim = r(1, 4) > 1 and r.dim(dims) or nil
      return { input = { dims = dims }, dim = dim, keepdim = dim and r.bool() or nil }
    end,
    takes_more = true, size = by_rows }, extra)
end

local function spread(name)
  return over_dims(name, { dtypes = { "f32", "f64" },
    args = { { "input", "tensor" }, { "dim", "dims" },
      { "correction", "number", 1, keyword = true }, { "keepdim", "bool", false } },
    draw = function(r)
      local dims = { r(2, 5), r(2, 6), r(2, 5) }
      return { input = { dims = dims }, dim = some_dims(r, dims), correction = r.pick { 0, 1 },
        keepdim = r.bool() }
    end })
end

local function softmax(name)
  return { torch = "torch.nn.functional." .. name, ours = "Tensor." .. name, grad = true,
    dtypes = reals, tolerance = 1e-4,
    args = { { "input", "tensor" }, { "dim", "dim" } },
    draw = function(r)
      local dims = r.dims(1, 4)
      return { input = { dims = dims, low = -5, high = 5 }, dim = r.dim(dims) }
    end,
    size = by_rows }
end

-- x [..., C] with weight and bias [C], at random left out.
local function normed(r, low)
  local dims = r.dims(low, 4)
  local C = { dims = { dims[#dims] } }
  return { input = { dims = dims, low = -2, high = 2 }, normalized_shape = { dims[#dims] },
    weight = r.bool() and C or nil, eps = 1e-5 }, C
end

return {
  over_dims "sum",
  over_dims("mean", { dtypes = reals }),
  over_dims("amax", { takes_more = true }),
  over_dims("amin", { takes_more = true }),
  over_dim("prod", { grad = true, dtypes = { "f32", "f64", "i64", "i32", "u8" } }),
  over_dim("argmax", { dtypes = numbers }),
  over_dim("argmin", { dtypes = numbers }),
  over_dims("any", { grad = false, dtypes = truth, differs = "of u8 it is bool, there u8" }),
  over_dims("all", { grad = false, dtypes = truth, differs = "of u8 it is bool, there u8" }),
  spread "std", spread "var",
  over_dims("logsumexp", { dtypes = { "f32", "f64" }, takes_more = true }),
  { torch = "torch.norm", ours = "Tensor.norm", grad = true,
    takes_more = true, -- the largest of nothing
    args = { { "input", "tensor" }, { "p", "number", 2 }, { "dim", "dims" },
      { "keepdim", "bool", false } },
    draw = function(r)
      local dims = r.dims(1, 3)
      return { input = { dims = dims, low = 0.2, high = 2 },
        p = r.pick { 0, 1, 2, 3, 2.5, math.huge, -math.huge },
        dim = some_dims(r, dims), keepdim = r.bool() }
    end,
    size = function(n) return { input = { dims = { n // 100, 100 } }, p = 2, dim = { 2 } } end },

  softmax "softmax", softmax "log_softmax",
  { torch = "torch.nn.functional.layer_norm", ours = "Tensor.layer_norm", grad = true,
    dtypes = { "f32", "f64" },
    args = { { "input", "tensor" }, { "normalized_shape", "shape" }, { "weight", "tensor" },
      { "bias", "tensor" }, { "eps", "number", 1e-5 } },
    tolerance = 1e-3, -- of a row of two, a gradient is what two large terms leave
    draw = function(r)
      local drawn, C = normed(r, 1)
      drawn.bias = drawn.weight and r.bool() and C or nil
      return drawn
    end,
    size = function(n)
      return { input = { dims = { n // 100, 100 } }, normalized_shape = { 100 },
        weight = { dims = { 100 } }, bias = { dims = { 100 } } }
    end },
  { torch = "torch.nn.functional.rms_norm", ours = "Tensor.rms_norm", grad = true,
    dtypes = { "f32", "f64" },
    args = { { "input", "tensor" }, { "normalized_shape", "shape" }, { "weight", "tensor" },
      { "eps", "number" } },
    differs = "`eps` is 1e-5 where none is given, there that of the dtype",
    draw = function(r) return (normed(r, 1)) end,
    size = function(n)
      return { input = { dims = { n // 100, 100 } }, normalized_shape = { 100 },
        weight = { dims = { 100 } }, eps = 1e-5 }
    end },
  { torch = "torch.nn.functional.group_norm", ours = "Tensor.group_norm", grad = true,
    dtypes = { "f32", "f64" }, tolerance = 1e-4,
    args = { { "input", "tensor" }, { "num_groups", "int" }, { "weight", "tensor" },
      { "bias", "tensor" }, { "eps", "number", 1e-5 } },
    draw = function(r)
      local groups, each = r(1, 3), r(1, 3)
      local C = { dims = { groups * each } }
      return { input = { dims = { r(1, 4), groups * each, r(2, 5), r(1, 4) } },
        num_groups = groups, weight = C, bias = r.bool() and C or nil, eps = 1e-4 }
    end,
    size = function(n)
      return { input = { dims = { math.max(1, n // 10000), 10, n < 10000 and 10 or 100,
        n < 10000 and n // 100 or 10 } }, num_groups = 2, weight = { dims = { 10 } },
        bias = { dims = { 10 } } }
    end },
  { torch = "torch.nn.functional.batch_norm", ours = "Tensor.batch_norm", grad = true,
    dtypes = { "f32", "f64" }, tolerance = 1e-4,
    args = { { "input", "tensor" }, { "weight", "tensor" }, { "bias", "tensor" },
      { "eps", "number", 1e-5 } },
    differs = "of this batch alone, and mean and 1 / deviation are results too; running "
      .. "statistics are nn.BatchNorm's",
    expression = function(v)
      return ("F.batch_norm(a, None, None, b, %s, True, 0.0, %.17g)"):format(v.bias and "c"
        or "None", v.eps)
    end,
    draw = function(r)
      local C = r(1, 5)
      return { input = { dims = { r(2, 5), C, r(2, 4) } }, weight = { dims = { C } },
        bias = r.bool() and { dims = { C } } or nil, eps = 1e-3 }
    end,
    size = function(n)
      return { input = { dims = { n // 100, 10, 10 } }, weight = { dims = { 10 } },
        bias = { dims = { 10 } }, eps = 1e-5 }
    end },
  { torch = "torch.nn.functional.linear", ours = "Tensor.linear", grad = true,
    dtypes = { "f32", "f64" },
    args = { { "input", "tensor" }, { "weight", "tensor" }, { "bias", "tensor" } },
    draw = function(r)
      local dims, N = r.dims(1, 3), r(1, 7)
      return { input = { dims = dims }, weight = { dims = { N, dims[#dims] } },
        bias = r.bool() and { dims = { N } } or nil }
    end,
    size = function(n)
      local k = math.floor((n / 2) ^ 0.5)
      return n < 1e6 and { input = { dims = { k, k } }, weight = { dims = { k, k } } } or nil
    end },
  { torch = "torch.matmul", ours = "Tensor.matmul", grad = true, dtypes = { "f32", "f64" },
    args = { { "input", "tensor" }, { "other", "tensor" } },
    draw = function(r)
      local M, K, N = r(0, 6), r(0, 6), r(0, 6)
      local kind = r(1, 5)
      if kind == 1 then return { input = { dims = { K } }, other = { dims = { K } } } end
      if kind == 2 then return { input = { dims = { K } }, other = { dims = { K, N } } } end
      if kind == 3 then return { input = { dims = { 2, M, K } }, other = { dims = { K } } } end
      if kind == 4 then
        return { input = { dims = { 3, 1, M, K } }, other = { dims = { 2, K, N } } }
      end
      return { input = { dims = { M, K } }, other = { dims = { K, N } } }
    end,
    size = function(n)
      local k = math.floor((n / 2) ^ 0.5)
      return n < 1e6 and { input = { dims = { k, k } }, other = { dims = { k, k } } } or nil
    end },
  { torch = "torch.dot", ours = "Tensor.dot", grad = true,
    args = { { "input", "tensor" }, { "tensor", "tensor" } },
    draw = function(r)
      local n = r(0, 20)
      return { input = { dims = { n } }, tensor = { dims = { n } } }
    end,
    size = function(n) return { input = { dims = { n } }, tensor = { dims = { n } } } end },
  { torch = "torch.nn.functional.embedding", ours = "mrt.embedding", grad = true, dtypes = reals,
    args = { { "input", "tensor" }, { "weight", "tensor" } },
    differs = "the table may be the receiver: `weight:embedding(ids)`",
    draw = function(r)
      local V = r(1, 9)
      return { input = { dims = r.dims(0, 3), integer = V }, weight = { dims = { V, r(0, 5) } } }
    end,
    size = function(n)
      return { input = { dims = { n // 64 }, integer = 1000 }, weight = { dims = { 1000, 64 } } }
    end },
  { torch = "torch.nn.functional.instance_norm", ours = "Tensor.instance_norm", grad = true,
    args = { { "input", "tensor" }, { "weight", "tensor" }, { "bias", "tensor" },
      { "eps", "number", 1e-5 } }, tolerance = 1e-4,
    differs = "of this batch alone: no running statistics among the arguments",
    expression = function(v)
      return ("F.instance_norm(a, None, None, %s, %s, True, 0.1, %.17g)"):format(
        v.weight and "b" or "None", v.bias and "c" or "None", v.eps or 1e-5)
    end,
    draw = function(r)
      local C = r(1, 4)
      local weight = r.bool() and { dims = { C } } or nil
      return { input = { dims = { r(1, 4), C, r(2, 6) } }, weight = weight,
        bias = weight and { dims = { C } } or nil, eps = 1e-3 }
    end,
    size = function(n)
      return { input = { dims = { n // 1000 > 0 and n // 1000 or 1, 10, 100 } } }
    end },
  { torch = "torch.nn.functional.embedding_bag", ours = "Tensor.embedding_bag", grad = true,
    args = { { "weight", "tensor" }, { "input", "tensor" }, { "offsets", "tensor" },
      { "mode", "string", "mean" } },
    differs = "the table comes first; ids may be `[..., L]`, a bag for each row",
    expression = function(v)
      return ("F.embedding_bag(b, a, %s, mode='%s')"):format(v.offsets and "c" or "None", v.mode)
    end,
    draw = function(r)
      local V = r(1, 9)
      return { weight = { dims = { V, r(1, 5) } }, input = { dims = { r(1, 5), r(1, 4) },
        integer = V }, mode = r.pick { "sum", "mean" } }
    end,
    size = function(n)
      return { weight = { dims = { 1000, 64 } }, input = { dims = { n // 640 + 1, 10 },
        integer = 1000 }, mode = "sum" }
    end },
  { torch = "torch.nn.functional.dropout", ours = "Tensor.dropout",
    args = { { "input", "tensor" }, { "p", "number", 0.5 } },
    differs = "always drops: nn.Dropout knows whether it is trained" },
  { torch = "torch.Tensor.contiguous", ours = "Tensor.contiguous", grad = true,
    args = { { "input", "tensor" } }, differs = "x itself: no layout shows",
    draw = function(r) return { input = { dims = r.dims(0, 3) } } end },
  { torch = "torch.cov", ours = "Tensor.cov", grad = true,
    args = { { "input", "tensor" }, { "correction", "int", 1, keyword = true } },
    draw = function(r)
      return { input = { dims = r.bool() and { r(1, 4), r(3, 7) } or { r(3, 9) } },
        correction = r(0, 2) }
    end,
    size = function(n) return { input = { dims = { 10, n // 10 } } } end },
  { torch = "torch.corrcoef", ours = "Tensor.corrcoef", grad = true, tolerance = 1e-4,
    args = { { "input", "tensor" } },
    draw = function(r) return { input = { dims = { r(1, 4), r(4, 8) } } } end,
    size = function(n) return { input = { dims = { 10, n // 10 } } } end },
  { torch = "torch.nn.Flatten", ours = "nn.Flatten",
    args = { { "start_dim", "dim", 2 }, { "end_dim", "dim", -1 } } },
  { torch = "torch.nn.EmbeddingBag", ours = "nn.EmbeddingBag",
    args = { { "num_embeddings", "int" }, { "embedding_dim", "int" } },
    differs = "`mode` and `init` are options; rows are updated by rows where that is exact" },
  { torch = "torch.nn.functional.one_hot", ours = "Tensor.one_hot", dtypes = { "i64" },
    args = { { "tensor", "tensor" }, { "num_classes", "int" } },
    draw = function(r)
      return { tensor = { dims = r.dims(0, 3), integer = 5 }, num_classes = r(5, 8) }
    end,
    size = function(n)
      return { tensor = { dims = { n // 10 }, integer = 10 }, num_classes = 10 }
    end },
}
