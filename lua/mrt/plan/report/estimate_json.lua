--- estimate_json.lua -- an estimate as JSON, for `mrt estimate NAME --json`
---
--- Numbers are bytes unless said otherwise; `parameters`, `nominal` and `tokens`
--- are counts.
---
---     schema        "mrt.estimate/1"
---     estimate      which: gpt3, transformer, boundary, ...
---
--- and, as the estimate has it,
---
---     models        of gpt3: [{name, title, nominal, layers, dim, heads, head,
---                   batch (tokens), lr, context, vocab: as published;
---                   parameters: counted; tokens; weights, weights_f32; adam (3 N
---                   in f32, gradients counted), optimizer (2 N); boundary,
---                   boundary_f32: activations at the boundaries of layers}]
---     parameters    of transformer, when it has a vocabulary
---     states        of transformer then, in f32: as `mrt estimate states`
---     activations   of transformer, on one rank: {layer, layers, embedding, norm,
---                   head, logits, total}, those that there are
---     boundary      of boundary
---     states        of zero: on each rank
---     weights gradients optimizer literature persistent
---                   of states: literature is gradients + optimizer, persistent
---                   weights + optimizer
---     parameters weights kept output flops
---                   of linear, matmul, conv2d, those that there are; flops is no
---                   bytes
---
--- SPDX-License-Identifier: MIT

local json = require "mrt.util.json"

local order = { "schema", "estimate", "models", "name", "title", "nominal", "layers",
  "dim", "heads", "head", "batch", "lr", "context", "vocab", "parameters", "tokens",
  "weights", "weights_f32", "gradients", "adam", "optimizer", "literature",
  "persistent", "boundary", "boundary_f32", "states", "activations", "kept", "output",
  "flops", "layer", "embedding", "norm", "logits", "total" }

---@param name string
---@param values table
---@return string
return function(name, values)
  local out = { schema = "mrt.estimate/1", estimate = name }
  for key, value in pairs(values) do out[key] = value end
  return json.encode(out, { order = order })
end
