--- vit.lua -- ViT: images as sequences of patches
---
--- SPDX-License-Identifier: MIT

local ViT = require "mrt.nn.encoder.vit"

local heads = { ViTForImageClassification = "classes", ViTModel = "pooler" }

local function read(c)
  local name = c:take("architectures", "list", {})[1] or "ViTModel"
  if not heads[name] then
    c.refuse("architecture %s is not known for this family", tostring(name))
  end
  local classes, dim = 0, c:take("hidden_size", "size")
  for _ in pairs(c:take("id2label", "map", {})) do classes = classes + 1 end
  classes = c:take("num_labels", "size", classes > 0 and classes or 2)
  c:only("pooler_output_size", dim)
  local pooler = c:only("pooler_act", "tanh", "relu")
  c:ignore("attention_probs_dropout_prob", "hidden_dropout_prob", "encoder_stride")
  return { image = c:take("image_size", "size", 224), patch = c:take("patch_size", "size", 16),
    channels = c:take("num_channels", "size", 3), dim = dim,
    layers = c:take("num_hidden_layers", "size"), heads = c:take("num_attention_heads", "size"),
    hidden = c:take("intermediate_size", "size"), eps = c:take("layer_norm_eps", "number", 1e-12),
    activation = c:activation("hidden_act", "gelu"),
    qkv_bias = c:take("qkv_bias", "flag", true),
    classes = name == "ViTForImageClassification" and classes or nil,
    pooler = name == "ViTModel" and pooler or nil }
end

local function write(o)
  local out = { architectures = { o.classes and "ViTForImageClassification" or "ViTModel" },
    image_size = o.image, patch_size = o.patch, num_channels = o.channels, hidden_size = o.dim,
    num_hidden_layers = o.layers, num_attention_heads = o.heads, intermediate_size = o.hidden,
    layer_norm_eps = o.eps, qkv_bias = o.qkv_bias,
    hidden_act = o.activation == "gelu_tanh" and "gelu_new" or o.activation,
    pooler_act = o.pooler or "tanh", pooler_output_size = o.dim }
  if o.classes and o.classes ~= 2 then
    out.id2label, out.label2id = {}, {}
    for i = 0, o.classes - 1 do
      out.id2label[tostring(i)], out.label2id["LABEL_" .. i] = "LABEL_" .. i, i
    end
  end
  return out
end

return { family = {
  model_type = "vit",
  architectures = { "ViTForImageClassification", "ViTModel" },
  prefix = "vit.",
  make = ViT,
  complete = ViT.complete,
  options = read,
  config = write,
  idle = { "^vit%.pooler%." },
  names = {
    { "class", "vit.embeddings.cls_token", whole = true },
    { "positions", "vit.embeddings.position_embeddings", whole = true },
    { "patches", "vit.embeddings.patch_embeddings.projection" },
    { "blocks.#.attention.q", "vit.encoder.layer.#.attention.attention.query" },
    { "blocks.#.attention.k", "vit.encoder.layer.#.attention.attention.key" },
    { "blocks.#.attention.v", "vit.encoder.layer.#.attention.attention.value" },
    { "blocks.#.attention.proj", "vit.encoder.layer.#.attention.output.dense" },
    { "blocks.#.norm1", "vit.encoder.layer.#.layernorm_before" },
    { "blocks.#.mlp.up", "vit.encoder.layer.#.intermediate.dense" },
    { "blocks.#.mlp.down", "vit.encoder.layer.#.output.dense" },
    { "blocks.#.norm2", "vit.encoder.layer.#.layernorm_after" },
    { "norm", "vit.layernorm" },
    { "pooler.dense", "vit.pooler.dense" },
    { "classifier", "classifier" },
  },
} }
