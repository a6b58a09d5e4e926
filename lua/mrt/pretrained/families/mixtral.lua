--- mixtral.lua -- Mixtral: Llama with experts
---
--- SPDX-License-Identifier: MIT

local llama = require "mrt.pretrained.families.llama"
local windows = require "mrt.pretrained.windows"

local function read(c)
  local o = llama.read(c, { base = 1e6, eps = 1e-5 })
  o.windows = windows.read_one(c)
  o.experts = { count = c:take("num_local_experts", "size", 8),
    top = c:take("num_experts_per_tok", "size", 2) }
  return o
end

local function write(o)
  local out = llama.write(o)
  windows.write_one(o, out)
  out.num_local_experts, out.num_experts_per_tok = o.experts.count, o.experts.top
  return out
end

-- Of each expert a tensor in files; ours have them together.
local experts = "block_sparse_moe.experts.*."

return { family = {
  model_type = "mixtral",
  architectures = { "MixtralForCausalLM" },
  prefix = "model.",
  options = read,
  config = write,
  names = llama.names(llama.layer, {
    { "mlp.router", "block_sparse_moe.gate" },
    { "mlp.gate", experts .. "w1.weight", each = true },
    { "mlp.up", experts .. "w3.weight", each = true },
    { "mlp.down", experts .. "w2.weight", each = true } }),
} }
