--- layer.lua -- PyTorch's layers with weights, beside those of mrt.nn
---
--- A case has all weights of a layer in one vector, which both sides cut up in the order of
--- their parameters: so names and order are compared too, and gradients of all weights.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local nn = mrt.nn

-- Put slices of a vector in the place of a module's parameters.
local function fill(module, vector)
  local at, paths = 0, {}
  for path, p in module:named_parameters() do
    paths[#paths + 1] = { path, p:size(), p:numel() }
  end
  for _, entry in ipairs(paths) do
    local owner, n = module, entry[3]
    local head, key = entry[1]:match "^(.*)%.([^.]+)$"
    for word in (head or ""):gmatch "[^.]+" do owner = owner[math.tointeger(word) or word] end
    rawset(owner, key or entry[1], vector:slice(1, at + 1, at + n):reshape(entry[2]))
    at = at + n
  end
  assert(at == vector:numel(), ("%d weights, %d given"):format(at, vector:numel()))
  return module
end

-- The call in Python of a module with the weights `vector`.
local function python(module, vector, inputs)
  return ("(lambda m: torch.func.functional_call(m, {k: x.view(p.shape) for (k, p), x in "
    .. "zip(m.named_parameters(), torch.split(%s, [p.numel() for p in m.parameters()]))}, %s))"
    .. "(torch.nn.%s.double().eval())"):format(vector, inputs, module)
end

-- `name`(arguments of `made`): draw(r) gives our constructor's arguments, PyTorch's, the
-- inputs, options of the call here and there, and where results are.
local function row(name, args, draw, more)
  local out = { torch = "torch.nn." .. name, ours = "nn." .. name, args = args, grad = true,
    dtypes = { "f64" } }
  for key, value in pairs(more or {}) do out[key] = value end
  if not draw then return out end
  out.args = { { "_made", "table" } }
  local shown = args
  out.args = { { "_w", "tensor" }, { "_x", "tensor" }, { "_y", "tensor" }, { "_z", "tensor" },
    { "_m", "tensor" }, { "_n", "tensor" }, table.unpack(shown) }
  out.draw = function(r)
    local d = draw(r)
    local module = nn[name](table.unpack(d.ours))
    return { _w = { dims = { module:count() }, low = -0.6, high = 0.6 }, _x = d.x, _y = d.y,
      _z = d.z, _m = d.m, _n = d.n, _d = d }
  end
  out.call = function(v, t)
    local d = v._d
    local module = fill(nn[name](table.unpack(d.ours)):eval(), t[1])
    local list = { table.unpack(t, 2) }
    local masks, options = d.masks or {}, {}
    for key, value in pairs(d.call or {}) do options[key] = value end
    for i = #masks, 1, -1 do options[masks[i]] = table.remove(list) end
    if next(options) then list[#list + 1] = options end
    return module(table.unpack(list))
  end
  out.expression = function(v)
    local d, letters, count = v._d, "bcdefg", 0
    for _, key in ipairs { "_x", "_y", "_z", "_m", "_n" } do count = count + (v[key] and 1 or 0) end
    local masks, list, keywords = d.masks or {}, {}, {}
    for i = 1, count - #masks do list[i] = letters:sub(i, i) end
    for i, key in ipairs(masks) do
      local k = count - #masks + i
      keywords[i] = ("'%s': %s"):format(key, letters:sub(k, k))
    end
    for key, value in pairs(d.call or {}) do
      keywords[#keywords + 1] = ("'%s': %s"):format(key,
        value == true and "True" or value == false and "False" or tostring(value))
    end
    for key, value in pairs(d.call_torch or {}) do
      keywords[#keywords + 1] = ("'%s': %s"):format(key, value)
    end
    local inputs = ("(%s,), {%s}"):format(table.concat(list, ", "), table.concat(keywords, ", "))
    local text = python(("%s(%s)"):format(name, d.torch), "a", inputs)
    return d.pick and ("(%s)%s"):format(text, d.pick) or text
  end
  return out
end

local function bool(x) return x and "True" or "False" end

-- A mask [L, S] that lets each query see a key at least.
local function mask(r, dims)
  local values, n = {}, 1
  for _, d in ipairs(dims) do n = n * d end
  local S = dims[#dims]
  for i = 1, n do values[i] = (i - 1) % S > 0 and r.bool() end
  return { dims = dims, values = values, dtype = "bool" }
end


local function attention(r)
  local heads = r(1, 3)
  local E, N, L, S = heads * r(1, 3), r(1, 3), r(1, 4), r(1, 5)
  local first, bias = r.bool(), r.bool()
  local kdim, vdim = r.bool() and r(1, 5) or nil, r.bool() and r(1, 5) or nil
  local function dims(T, width) return first and { N, T, width } or { T, N, width } end
  local d = { ours = { E, heads, { batch_first = first, bias = bias, kdim = kdim, vdim = vdim } },
    torch = ("%d, %d, batch_first=%s, bias=%s, kdim=%s, vdim=%s"):format(E, heads, bool(first),
      bool(bias), kdim or "None", vdim or "None"),
    x = { dims = dims(L, E) }, y = { dims = dims(S, kdim or E) },
    z = { dims = dims(S, vdim or E) }, call = { need_weights = r.bool() }, masks = {} }
  if r.bool() then
    d.masks[1] = "attn_mask"
    d.m = r.bool() and mask(r, r.bool() and { L, S } or { N * heads, L, S })
      or { dims = { L, S }, constant = true }
  end
  if r.bool() and not (d.m and not d.m.values) then
    d.masks[#d.masks + 1] = "key_padding_mask"
    d[d.m and "n" or "m"] = mask(r, { N, S })
  end
  if d.call.need_weights then d.call.average_attn_weights = r.bool() end
  d.pick = d.call.need_weights and "" or "[0]"
  return d
end

local function layer_options(r)
  local o = { dim_feedforward = r(1, 6), dropout = 0.1, activation = r.pick { "relu", "gelu" },
    batch_first = r.bool(), norm_first = r.bool(), bias = r.bool() }
  return o, ("dim_feedforward=%d, activation='%s', batch_first=%s, norm_first=%s, bias=%s")
    :format(o.dim_feedforward, o.activation, bool(o.batch_first), bool(o.norm_first),
      bool(o.bias))
end

local function encoder(r)
  local heads = r(1, 2)
  local E, N, T = heads * r(1, 3), r(1, 3), r(1, 5)
  local o, text = layer_options(r)
  local d = { ours = { E, heads, o }, torch = ("%d, %d, %s"):format(E, heads, text),
    x = { dims = o.batch_first and { N, T, E } or { T, N, E } }, masks = {} }
  if r.bool() then
    d.masks, d.m = { "src_key_padding_mask" }, mask(r, { N, T })
  elseif r.bool() then
    d.masks, d.m = { "src_mask" }, mask(r, { T, T })
  end
  return d
end

local function decoder(r)
  local heads = r(1, 2)
  local E, N, T, S = heads * r(1, 3), r(1, 3), r(1, 5), r(1, 5)
  local o, text = layer_options(r)
  local function dims(time) return o.batch_first and { N, time, E } or { time, N, E } end
  local d = { ours = { E, heads, o }, torch = ("%d, %d, %s"):format(E, heads, text),
    x = { dims = dims(T) }, y = { dims = dims(S) }, masks = {} }
  if r.bool() then d.masks, d.m = { "tgt_mask" }, mask(r, { T, T }) end
  if r.bool() then
    d.masks[#d.masks + 1] = "memory_key_padding_mask"
    d[d.m and "n" or "m"] = mask(r, { N, S })
  end
  return d
end

local function transformer(r)
  local d = decoder(r)
  local o = d.ours[3]
  o.d_model, o.nhead = d.ours[1], d.ours[2]
  o.num_encoder_layers, o.num_decoder_layers = r(1, 2), r(1, 2)
  d.torch = ("%s, num_encoder_layers=%d, num_decoder_layers=%d"):format(d.torch,
    o.num_encoder_layers, o.num_decoder_layers)
  d.ours = { o }
  d.x, d.y = d.y, d.x
  return d
end

local function cell(gates)
  return function(r)
    local inputs, hidden, N, bias = r(1, 4), r(1, 4), r(1, 3), r.bool()
    local d = { ours = { inputs, hidden, bias },
      torch = ("%d, %d, %s"):format(inputs, hidden, bool(bias)),
      x = { dims = { N, inputs } }, y = { dims = { N, hidden } } }
    if gates == 4 then
      d.z, d.states = { dims = { N, hidden } }, true
    end
    return d
  end
end

-- A recurrent layer; PyTorch gives states as a tuple, so the first result is compared.
local function recurrent(r)
  local inputs, hidden, T, N = r(1, 3), r(1, 3), r(1, 4), r(1, 3)
  local layers, first, both, bias = r(1, 2), r.bool(), r.bool(), r.bool()
  return { ours = { inputs, hidden, { layers = layers, batch_first = first, bidirectional = both,
      bias = bias } },
    torch = ("%d, %d, %d, bias=%s, batch_first=%s, bidirectional=%s"):format(inputs, hidden,
      layers, bool(bias), bool(first), bool(both)),
    x = { dims = first and { N, T, inputs } or { T, N, inputs } }, pick = "[0]" }
end

local function sizes(...)
  local out = {}
  for i, name in ipairs { ... } do out[i] = { name, "int" } end
  return out
end

local lstm_cell = row("LSTMCell", sizes("inputs", "hidden"), cell(4), { results = 2 })
do -- PyTorch takes the states as a pair
  local before = lstm_cell.expression
  lstm_cell.expression = function(v)
    return (before(v):gsub("%(b, c, d,%)", "(b, (c, d))"))
  end
end

local options = { "options", "table" }
local recurrent_differs = "options in a table: `layers` is num_layers; first states are arguments "
  .. "of their own; no `proj_size`"

local rows = {
  row("MultiheadAttention", { { "embed_dim", "int" }, { "num_heads", "int" },
    { "dropout", "number", 0 }, { "bias", "bool", true }, { "kdim", "int" }, { "vdim", "int" },
    { "batch_first", "bool", false } }, attention,
    { differs = "no `add_bias_kv`, `add_zero_attn`; `is_causal` needs no mask" }),
  row("TransformerEncoderLayer", { { "d_model", "int" }, { "nhead", "int" }, options }, encoder),
  row("TransformerDecoderLayer", { { "d_model", "int" }, { "nhead", "int" }, options }, decoder),
  row("Transformer", { options }, transformer, { differs = "no `custom_encoder`: compose one" }),
  row("TransformerEncoder", { { "layer", "module" }, { "num_layers", "int" },
    { "norm", "module" } }),
  row("TransformerDecoder", { { "layer", "module" }, { "num_layers", "int" },
    { "norm", "module" } }),
  row("RNNCell", sizes("inputs", "hidden"), cell(1)),
  lstm_cell,
  row("GRUCell", sizes("inputs", "hidden"), cell(3)),
  row("RNN", sizes("inputs", "hidden"), recurrent, { differs = recurrent_differs }),
  row("LSTM", sizes("inputs", "hidden"), recurrent, { differs = recurrent_differs }),
  row("GRU", sizes("inputs", "hidden"), recurrent, { differs = recurrent_differs }),
  row("Bilinear", sizes("inputs1", "inputs2", "outputs"), function(r)
    local i, j, o, N, bias = r(1, 4), r(1, 4), r(1, 4), r(0, 3), r.bool()
    return { ours = { i, j, o, bias }, torch = ("%d, %d, %d, %s"):format(i, j, o, bool(bias)),
      x = { dims = { N, i } }, y = { dims = { N, j } } }
  end),
}

-- What has no weights to compare, or none of its own: the names.
local function named(list, options_of, differs)
  for _, name in ipairs(list) do
    rows[#rows + 1] = { torch = "torch.nn." .. name, ours = "nn." .. name, args = options_of,
      differs = differs }
  end
end

for n = 1, 3 do
  rows[#rows + 1] = row(("InstanceNorm%dd"):format(n), { { "channels", "int" },
    { "eps", "number", 1e-5 }, { "affine", "bool", false } }, function(r)
    local C, shape = r(1, 4), { r(1, 3) }
    shape[2] = C
    for d = 1, n do shape[d + 2] = r(2, 4) end
    return { ours = { C, 1e-5, true }, torch = ("%d, affine=True"):format(C),
      x = { dims = shape, low = -3, high = 3 } }
  end, { differs = "no running statistics" })
end
named({ "BatchNorm1d", "BatchNorm2d", "BatchNorm3d" }, { { "channels", "int" },
  { "eps", "number", 1e-5 }, { "momentum", "number", 0.1 }, { "affine", "bool", true },
  { "tracking", "bool", true } }, "`tracking` is track_running_stats")
named({ "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout" },
  { { "p", "number", 0.5 } })
named({ "CosineSimilarity" }, { { "dim", "dim", 2 }, { "eps", "number", 1e-8 } })
named({ "PairwiseDistance" }, { { "p", "number", 2 }, { "eps", "number", 1e-6 },
  { "keepdim", "bool", false } })
named({ "Unflatten" }, { { "dim", "dim" }, { "sizes", "shape" } })
named({ "ModuleList", "ParameterList" }, { { "list", "table" } }, "a list of Lua, counted from 1")
named({ "ModuleDict", "ParameterDict" }, { { "by_name", "table" } }, "in the order of the names")
rows[#rows + 1] = { torch = "torch.nn.Sequential", ours = "nn.Sequential",
  args = { { "...", "module" } } }
rows[#rows + 1] = { torch = "torch.nn.Embedding", ours = "nn.Embedding",
  args = { { "num_embeddings", "int" }, { "embedding_dim", "int" } } }
rows[#rows + 1] = { torch = "torch.nn.Linear", ours = "nn.Linear",
  args = { { "inputs", "int" }, { "outputs", "int" }, options } }
rows[#rows + 1] = { torch = "torch.nn.LayerNorm", ours = "nn.LayerNorm",
  args = { { "dim", "int" }, options }, differs = "over the last dimension" }
rows[#rows + 1] = { torch = "torch.nn.GroupNorm", ours = "nn.GroupNorm",
  args = { { "groups", "int" }, { "channels", "int" }, options } }
rows[#rows + 1] = { torch = "torch.nn.RMSNorm", ours = "nn.RMSNorm",
  args = { { "dim", "int" }, options }, differs = "over the last dimension; `eps` is 1e-6" }
rows[#rows + 1] = { torch = "torch.nn.utils.weight_norm", ours = "nn.weight_norm",
  args = { { "module", "module" }, { "name", "string", "weight" }, { "dim", "dim", 1 } } }
rows[#rows + 1] = { torch = "torch.nn.utils.spectral_norm", ours = "nn.spectral_norm",
  args = { { "module", "module" }, { "name", "string", "weight" },
    { "n_power_iterations", "int", 1 }, { "eps", "number", 1e-12 }, { "dim", "dim", 1 } } }
rows[#rows + 1] = { torch = "torch.nn.functional.bilinear", ours = "nn.bilinear", grad = true,
  args = { { "input1", "tensor" }, { "input2", "tensor" }, { "weight", "tensor" },
    { "bias", "tensor" } },
  draw = function(r)
    local i, j, o, N = r(1, 4), r(1, 4), r(1, 4), r(1, 3)
    return { input1 = { dims = { 2, N, i } }, input2 = { dims = { 2, N, j } },
      weight = { dims = { o, i, j } }, bias = r.bool() and { dims = { o } } or nil }
  end }
rows[#rows + 1] = { torch = "torch.nn.AdaptiveLogSoftmaxWithLoss",
  absent = "its clusters need shapes that depend on data" }

-- nn.init: what is no random number is compared, and the names of the rest.
local function filled(name, args, draw)
  local out = { torch = ("torch.nn.init.%s_"):format(name), ours = ("nn.init.%s_"):format(name),
    args = { { "tensor", "tensor" }, table.unpack(args) }, dtypes = { "f64" } }
  if draw then
    out.draw = draw
    out.call = function(v, t)
      local given = {}
      for i, a in ipairs(args) do given[i] = v[a[1]] end
      return nn.init[name .. "_"](mrt.parameter(t[1]), table.unpack(given))
    end
  end
  rows[#rows + 1] = out
end
filled("eye", {}, function(r) return { tensor = { dims = { r(1, 5), r(1, 5) } } } end)
filled("dirac", { { "groups", "int", 1 } }, function(r)
  local groups, dims = r(1, 2), { 0, r(1, 3), r(1, 4) }
  dims[1] = groups * r(1, 3)
  for d = 4, r(3, 5) do dims[d] = r(1, 4) end
  return { tensor = { dims = dims }, groups = groups }
end)
filled("constant", { { "val", "number" } }, function(r)
  return { tensor = { dims = r.dims(0, 3) }, val = r.real(-1, 1) }
end)
filled("zeros", {}, function(r) return { tensor = { dims = r.dims(0, 3) } } end)
filled("ones", {}, function(r) return { tensor = { dims = r.dims(0, 3) } } end)
local gain = { "gain", "number", 1 }
local fan = { { "a", "number", 0 }, { "mode", "string", "fan_in" },
  { "nonlinearity", "string", "leaky_relu" } }
filled("uniform", { { "a", "number", 0 }, { "b", "number", 1 } })
filled("normal", { { "mean", "number", 0 }, { "std", "number", 1 } })
filled("trunc_normal", { { "mean", "number", 0 }, { "std", "number", 1 }, { "a", "number", -2 },
  { "b", "number", 2 } })
filled("xavier_uniform", { gain })
filled("xavier_normal", { gain })
filled("kaiming_uniform", fan)
filled("kaiming_normal", fan)
filled("orthogonal", { gain })
filled("sparse", { { "sparsity", "number" }, { "std", "number", 0.01 } })

return rows
