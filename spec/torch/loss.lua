--- loss.lua -- PyTorch's losses, beside those of mrt.nn
---
--- SPDX-License-Identifier: MIT

local F = "torch.nn.functional."
local reduction = { "reduction", "string", "mean" }
local margin = function(default) return { "margin", "number", default } end

-- The call with all but tensors by name: PyTorch's order has options of old between them.
local function keywords(name, args)
  return function(v)
    local parts, n = {}, 0
    for _, a in ipairs(args) do
      local key, value = a[1], v[a[1]]
      if value ~= nil and a[2] == "tensor" then
        n = n + 1
        local letter = ("abcd"):sub(n, n)
        parts[#parts + 1] = n > 2 and a.named and key .. "=" .. letter or letter
      elseif value ~= nil then
        local text = type(value) == "boolean" and (value and "True" or "False")
          or type(value) == "string" and "'" .. value .. "'" or tostring(value)
        parts[#parts + 1] = key .. "=" .. text
      end
    end
    return ("%s(%s)"):format(name, table.concat(parts, ", "))
  end
end

local weight = { "weight", "tensor", named = true }

local function how(r, ...) return r.pick { "mean", "sum", "none", ... } end

-- `name` of two tensors of one shape; draw(r, o, dims) changes what is drawn.
local function pair(name, ours, extra, draw, row)
  local args = { { "input", "tensor" }, { "target", "tensor" }, table.unpack(extra) }
  local out = { torch = F .. name, ours = "nn." .. ours, grad = true, args = args,
    draw = function(r)
      local dims = r.dims(0, 3)
      local o = { input = { dims = dims, low = -3, high = 3 },
        target = { dims = dims, low = -3, high = 3 }, reduction = how(r) }
      if draw then draw(r, o, dims) end
      return o
    end,
    size = function(n)
      local o = { input = { dims = { n } }, target = { dims = { n } } }
      if draw then
        local all = {}
        draw(setmetatable({ pick = function(list) return list[1] end,
          bool = function() return false end, real = function(low) return low end,
          dims = function() return { n } end }, { __call = function(_, low) return low end }),
          all, { n })
        o.input, o.target = all.input or o.input, all.target or o.target
      end
      return o
    end }
  for key, value in pairs(row or {}) do out[key] = value end
  return out
end

local function probabilities(_, o, dims)
  o.input = { dims = dims, low = 0.02, high = 0.98 }
  o.target = { dims = dims, low = 0, high = 1 }
end

-- Targets of -1 and 1.
local function signs(dims, constant)
  return { dims = dims, values = { 1, -1, -1, 1, 1 }, constant = constant ~= false }
end

-- Scores of some rows and an id for each.
local function rows(r)
  local n, c = r(1, 6), r(1, 7)
  return { dims = { n, c }, low = -3, high = 3 }, { dims = { n }, integer = c }, c
end

local function classes(r, weighted)
  local input, target, c = rows(r)
  return { input = input, target = target, reduction = how(r),
    weight = weighted and r.bool() and { dims = { c }, low = 0.2, high = 2, constant = true }
      or nil }, c
end

local last = "classes are the last dimension; `dim = 2` for PyTorch's `[N, C, ...]`"

local rows_of_losses = {
  pair("mse_loss", "mse_loss", { reduction }),
  pair("l1_loss", "l1_loss", { reduction }),
  pair("smooth_l1_loss", "smooth_l1_loss", { reduction, { "beta", "number", 1 } },
    function(r, o) o.beta = r.pick { 1, 0.5, 0 } end),
  pair("huber_loss", "huber_loss", { reduction, { "delta", "number", 1 } },
    function(r, o) o.delta = r.pick { 1, 0.5, 2.5 } end),
  pair("soft_margin_loss", "soft_margin_loss", { reduction },
    function(_, o, dims) o.target = signs(dims) end),
  pair("hinge_embedding_loss", "hinge_embedding_loss", { margin(1), reduction },
    function(r, o, dims) o.target, o.margin = signs(dims), r.pick { 1, 0.3 } end),
  pair("poisson_nll_loss", "poisson_nll_loss", { { "log_input", "bool", true },
    { "full", "bool", false }, { "eps", "number", 1e-8 }, reduction },
    function(r, o, dims)
      o.log_input, o.full, o.eps = r.bool(), r.bool(), r.pick { 1e-8, 0.1 }
      o.input = { dims = dims, low = o.log_input and -2 or 0.1, high = 3 }
      o.target = { dims = dims, low = 0, high = 5, constant = true }
    end),
  pair("binary_cross_entropy", "binary_cross_entropy", { weight, reduction },
    function(r, o, dims)
      probabilities(r, o, dims)
      o.weight = r.bool() and { dims = dims, low = 0.5, high = 2, constant = true } or nil
    end, { differs = "logarithms are of at least 2^-126 (PyTorch: are at least -100)" }),
  pair("binary_cross_entropy_with_logits", "binary_cross_entropy_with_logits",
    { weight, reduction, { "pos_weight", "tensor", named = true } },
    function(r, o, dims)
      o.target = { dims = dims, low = 0, high = 1 }
      o.weight = r.bool() and { dims = dims, low = 0.5, high = 2, constant = true } or nil
      o.pos_weight = r.bool() and { dims = dims, low = 0.5, high = 2, constant = true } or nil
    end),
  { torch = F .. "kl_div", ours = "nn.kl_div", grad = true,
    args = { { "input", "tensor" }, { "target", "tensor" }, reduction,
      { "log_target", "bool", false } },
    draw = function(r)
      local dims, log = r.dims(1, 3), r.bool()
      return { input = { dims = dims, low = -4, high = 0 }, log_target = log,
        target = { dims = dims, low = log and -4 or 0.01, high = log and 0 or 1 },
        reduction = how(r, "batchmean") }
    end,
    size = function(n)
      return { input = { dims = { n } }, target = { dims = { n }, low = 0 } }
    end },
  { torch = F .. "gaussian_nll_loss", ours = "nn.gaussian_nll_loss", grad = true,
    differs = "a variance below 0 gives NaN (PyTorch: raises)",
    args = { { "input", "tensor" }, { "target", "tensor" }, { "var", "tensor" },
      { "full", "bool", false }, { "eps", "number", 1e-6 }, reduction },
    draw = function(r)
      local dims = r.dims(1, 3)
      local var = { table.unpack(dims) }
      if r.bool() then var[#var] = r.bool() and #var > 1 and 1 or var[#var] end
      return { input = { dims = dims }, target = { dims = dims },
        var = { dims = var, low = 0.01, high = 2 }, full = r.bool(),
        eps = r.pick { 1e-6, 0.1 }, reduction = how(r) }
    end },
  { torch = F .. "nll_loss", ours = "nn.nll_loss", grad = true, differs = last,
    args = { { "input", "tensor" }, { "target", "tensor" }, weight,
      { "ignore_index", "int", -100 }, reduction },
    draw = function(r)
      local o, c = classes(r, true)
      o.ignore_index = r.bool() and r(0, c - 1) or nil
      return o
    end,
    size = function(n)
      return { input = { dims = { n // 100, 100 } }, target = { dims = { n // 100 },
        integer = 100 } }
    end },
  { torch = F .. "cross_entropy", ours = "nn.cross_entropy", grad = true,
    differs = last .. "; no id is ignored unless `ignore_index` is given",
    args = { { "input", "tensor" }, { "target", "tensor" }, weight,
      { "ignore_index", "int" }, reduction, { "label_smoothing", "number", 0 } },
    draw = function(r)
      local o, c = classes(r, true)
      o.label_smoothing = r.pick { 0, 0.1, 1 }
      if r.bool() then
        o.ignore_index = r(0, c - 1)
      elseif r.bool() then
        o.target = { dims = o.input.dims, low = 0, high = 1 }
      end
      return o
    end,
    size = function(n)
      return { input = { dims = { n // 100, 100 } }, target = { dims = { n // 100 },
        integer = 100 } }
    end },
  { torch = F .. "margin_ranking_loss", ours = "nn.margin_ranking_loss", grad = true,
    args = { { "input1", "tensor" }, { "input2", "tensor" }, { "target", "tensor" }, margin(0),
      reduction },
    draw = function(r)
      local dims = r.dims(1, 2)
      return { input1 = { dims = dims }, input2 = { dims = dims }, target = signs(dims),
        margin = r.pick { 0, 0.7 }, reduction = how(r) }
    end },
  { torch = F .. "cosine_embedding_loss", ours = "nn.cosine_embedding_loss", grad = true,
    args = { { "input1", "tensor" }, { "input2", "tensor" }, { "target", "tensor" }, margin(0),
      reduction },
    draw = function(r)
      local n, d = r(1, 5), r(1, 8)
      local dims = r.bool() and { n, d } or { d }
      return { input1 = { dims = dims }, input2 = { dims = dims },
        target = signs(#dims == 2 and { n } or {}), margin = r.pick { 0, 0.3 },
        reduction = how(r) }
    end },
  { torch = F .. "multi_margin_loss", ours = "nn.multi_margin_loss", grad = true,
    args = { { "input", "tensor" }, { "target", "tensor" }, { "p", "int", 1 }, margin(1),
      weight, reduction },
    draw = function(r)
      local o = classes(r, true)
      o.p, o.margin = r(1, 2), r.pick { 1, 0.4 }
      return o
    end },
  { torch = F .. "multilabel_margin_loss", ours = "nn.multilabel_margin_loss", grad = true,
    args = { { "input", "tensor" }, { "target", "tensor" }, reduction },
    draw = function(r)
      local n, c, ids = r(1, 4), r(1, 6), {}
      for _ = 1, n do
        local all, count = {}, r(0, c)
        for k = 1, c do table.insert(all, r(1, k), k - 1) end
        for k = 1, c do ids[#ids + 1] = k <= count and all[k] or -1 end
      end
      return { input = { dims = { n, c } }, target = { dims = { n, c }, values = ids,
        dtype = "i64" }, reduction = how(r) }
    end },
  { torch = F .. "multilabel_soft_margin_loss", ours = "nn.multilabel_soft_margin_loss",
    grad = true,
    args = { { "input", "tensor" }, { "target", "tensor" }, weight, reduction },
    draw = function(r)
      local n, c = r(1, 4), r(1, 6)
      return { input = { dims = { n, c } }, target = { dims = { n, c }, low = 0, high = 1,
        constant = true }, weight = r.bool() and { dims = { c }, low = 0.1, constant = true }
        or nil, reduction = how(r) }
    end },
  { torch = F .. "triplet_margin_loss", ours = "nn.triplet_margin_loss", grad = true,
    args = { { "anchor", "tensor" }, { "positive", "tensor" }, { "negative", "tensor" },
      margin(1), { "p", "number", 2 }, { "eps", "number", 1e-6 }, { "swap", "bool", false },
      reduction },
    draw = function(r)
      local dims = { r(1, 5), r(1, 6) }
      return { anchor = { dims = dims }, positive = { dims = dims }, negative = { dims = dims },
        margin = r.pick { 1, 0.2 }, p = r.pick { 2, 1, 3 }, swap = r.bool(), reduction = how(r) }
    end },
  { torch = F .. "triplet_margin_with_distance_loss",
    ours = "nn.triplet_margin_with_distance_loss", grad = true,
    args = { { "anchor", "tensor" }, { "positive", "tensor" }, { "negative", "tensor" },
      { "distance_function", "function" }, margin(1), { "swap", "bool", false }, reduction } },
  { torch = F .. "ctc_loss", ours = "nn.ctc_loss", grad = true,
    differs = "the gradient is that of log_probs as they are given; PyTorch's takes for granted "
      .. "that they come from log_softmax",
    args = { { "log_probs", "tensor" }, { "targets", "tensor" }, { "input_lengths", "shape" },
      { "target_lengths", "shape" }, { "blank", "int", 0 }, reduction,
      { "zero_infinity", "bool", false } },
    draw = function(r)
      local T, N, C, S = r(1, 12), r(1, 4), r(2, 6), r(1, 5)
      local steps, labels, ids, blank = {}, {}, {}, r(0, C - 1)
      for n = 1, N do
        steps[n], labels[n] = r(1, T), r(0, S)
        for s = 1, S do
          local id = r(0, C - 2)
          ids[(n - 1) * S + s] = id >= blank and id + 1 or id
        end
      end
      return { log_probs = { dims = { T, N, C }, low = -3, high = 3 },
        targets = { dims = { N, S }, values = ids, dtype = r.pick { "i64", "i32" } },
        input_lengths = steps, target_lengths = labels, blank = blank, reduction = how(r),
        zero_infinity = true }
    end,
    call = function(v, tensors)
      return require "mrt".nn.ctc_loss(tensors[1]:log_softmax(-1), tensors[2], v.input_lengths,
        v.target_lengths, v.blank, v.reduction, v.zero_infinity)
    end,
    expression = function(v)
      return ("torch.nn.functional.ctc_loss(a.log_softmax(-1), b, (%s,), (%s,), %d, '%s', %s)")
        :format(table.concat(v.input_lengths, ", "), table.concat(v.target_lengths, ", "),
          v.blank, v.reduction, v.zero_infinity and "True" or "False")
    end },
  { torch = F .. "cosine_similarity", ours = "nn.cosine_similarity", grad = true,
    args = { { "x1", "tensor" }, { "x2", "tensor" }, { "dim", "dim", 2 },
      { "eps", "number", 1e-8 } },
    draw = function(r)
      local dims = { r(1, 4), r(1, 5), r(1, 4) }
      return { x1 = { dims = dims, low = 0.01 }, x2 = { dims = dims, low = 0.01 },
        dim = r.dim(dims), eps = r.pick { 1e-8, 1e-3 } }
    end,
    differs = "where a norm is below `eps`, its gradient is 0, there that of x / eps" },
  { torch = F .. "pairwise_distance", ours = "nn.pairwise_distance", grad = true,
    args = { { "x1", "tensor" }, { "x2", "tensor" }, { "p", "number", 2 },
      { "eps", "number", 1e-6 }, { "keepdim", "bool", false } },
    draw = function(r)
      local dims = { r(1, 4), r(1, 5) }
      return { x1 = { dims = dims }, x2 = { dims = r.bool() and dims or { 1, dims[2] } },
        p = r.pick { 2, 1, 3 }, keepdim = r.bool() }
    end },
}

for _, row in ipairs(rows_of_losses) do
  local dims = row.torch:find "cosine_similarity"
  if not row.expression and not dims then row.expression = keywords(row.torch, row.args) end
end

-- The same as layers.
for name, of in pairs { L1Loss = "l1_loss", MSELoss = "mse_loss", SmoothL1Loss = "smooth_l1_loss",
  HuberLoss = "huber_loss", SoftMarginLoss = "soft_margin_loss", CTCLoss = "ctc_loss",
  HingeEmbeddingLoss = "hinge_embedding_loss", PoissonNLLLoss = "poisson_nll_loss",
  BCELoss = "binary_cross_entropy", BCEWithLogitsLoss = "binary_cross_entropy_with_logits",
  KLDivLoss = "kl_div", GaussianNLLLoss = "gaussian_nll_loss", NLLLoss = "nll_loss",
  CrossEntropyLoss = "cross_entropy", MarginRankingLoss = "margin_ranking_loss",
  CosineEmbeddingLoss = "cosine_embedding_loss", MultiMarginLoss = "multi_margin_loss",
  MultiLabelMarginLoss = "multilabel_margin_loss", TripletMarginLoss = "triplet_margin_loss",
  MultiLabelSoftMarginLoss = "multilabel_soft_margin_loss",
  TripletMarginWithDistanceLoss = "triplet_margin_with_distance_loss" } do
  for _, row in ipairs(rows_of_losses) do
    if row.torch == F .. of then
      local options = {}
      for i, a in ipairs(row.args) do
        local lengths = a[2] == "shape"
        if i > 1 and not lengths and (a[2] ~= "tensor" or a.named) then
          options[#options + 1] = a
        end
      end
      rows_of_losses[name] = { torch = "torch.nn." .. name, ours = "nn." .. name, args = options }
    end
  end
end
local names = {}
for name in pairs(rows_of_losses) do
  if type(name) == "string" then names[#names + 1] = name end
end
table.sort(names)
for _, name in ipairs(names) do rows_of_losses[#rows_of_losses + 1] = rows_of_losses[name] end

return rows_of_losses
