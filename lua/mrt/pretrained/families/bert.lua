--- bert.lua -- BERT, RoBERTa and DistilBERT: encoders with masked words, or classes, on top
---
--- SPDX-License-Identifier: MIT

local Encoder = require "mrt.nn.encoder"

-- The word for what stands on top, by the architecture that a config names.
local function head_of(c, heads)
  local list = c:take("architectures", "list", {})
  local name = list[1] or heads.default
  local head = heads[name]
  if head == nil then c.refuse("architecture %s is not known for this family", tostring(name)) end
  return head or nil, name
end

-- How many classes: those that have labels, else two.
local function classes_of(c)
  local count = 0
  for _ in pairs(c:take("id2label", "map", {})) do count = count + 1 end
  return c:take("num_labels", "size", count > 0 and count or 2)
end

local function labels(o, out)
  if o.head ~= "classes" and o.head ~= "tokens" or o.classes == 2 then return out end
  out.id2label, out.label2id = {}, {}
  for i = 0, o.classes - 1 do
    out.id2label[tostring(i)], out.label2id["LABEL_" .. i] = "LABEL_" .. i, i
  end
  return out
end

local function architecture(o, heads)
  for name, head in pairs(heads) do
    if name ~= "default" and (head or nil) == o.head and not name:find "PreTraining" then
      return { name }
    end
  end
end

local function theirs(o) return o.activation == "gelu_tanh" and "gelu_new" or o.activation end

-- ---- BERT, RoBERTa ---------------------------------------------------------

local bert_heads = { default = "BertModel", BertModel = false, BertForMaskedLM = "words",
  BertForPreTraining = "words", BertForSequenceClassification = "classes",
  BertForTokenClassification = "tokens" }

local function read_bert(c, heads)
  local head, name = head_of(c, heads)
  c:only("is_decoder", false)
  c:only("add_cross_attention", false)
  c:only("position_embedding_type", "absolute")
  c:only("tie_word_embeddings", true)
  c:ignore("attention_probs_dropout_prob", "hidden_dropout_prob", "gradient_checkpointing",
    "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
    "pooler_size_per_head", "pooler_type", "directionality")
  return { vocab = c:take("vocab_size", "size"), dim = c:take("hidden_size", "size"),
    layers = c:take("num_hidden_layers", "size"), heads = c:take("num_attention_heads", "size"),
    hidden = c:take("intermediate_size", "size"), types = c:take("type_vocab_size", "size", 2),
    context = c:take("max_position_embeddings", "size", 512),
    eps = c:take("layer_norm_eps", "number", 1e-12),
    activation = c:activation("hidden_act", "gelu"),
    pooler = (name == heads.default or head == "classes") and "tanh" or nil,
    head = head, classes = classes_of(c) }
end

local function write_bert(o, heads)
  return labels(o, { architectures = architecture(o, heads), vocab_size = o.vocab,
    hidden_size = o.dim, num_hidden_layers = o.layers, num_attention_heads = o.heads,
    intermediate_size = o.hidden, type_vocab_size = o.types,
    max_position_embeddings = o.context, layer_norm_eps = o.eps, hidden_act = theirs(o),
    position_embedding_type = "absolute", tie_word_embeddings = true })
end

-- The names of a model whose encoder is called so, and of what stands on it.
local function bert_names(root, ...)
  local names = {
    { "tokens", root .. ".embeddings.word_embeddings" },
    { "positions", root .. ".embeddings.position_embeddings" },
    { "types", root .. ".embeddings.token_type_embeddings" },
    { "norm", root .. ".embeddings.LayerNorm" },
    { "blocks.#.attention.q", root .. ".encoder.layer.#.attention.self.query" },
    { "blocks.#.attention.k", root .. ".encoder.layer.#.attention.self.key" },
    { "blocks.#.attention.v", root .. ".encoder.layer.#.attention.self.value" },
    { "blocks.#.attention.proj", root .. ".encoder.layer.#.attention.output.dense" },
    { "blocks.#.norm1", root .. ".encoder.layer.#.attention.output.LayerNorm" },
    { "blocks.#.mlp.up", root .. ".encoder.layer.#.intermediate.dense" },
    { "blocks.#.mlp.down", root .. ".encoder.layer.#.output.dense" },
    { "blocks.#.norm2", root .. ".encoder.layer.#.output.LayerNorm" },
  }
  for _, entry in ipairs { ... } do names[#names + 1] = entry end
  return names
end

local bert = {
  model_type = "bert",
  architectures = { "BertForMaskedLM" },
  prefix = "bert.",
  make = Encoder,
  complete = Encoder.complete,
  options = function(c) return read_bert(c, bert_heads) end,
  config = function(o) return write_bert(o, bert_heads) end,
  idle = { "position_ids$", "^cls%.predictions%.decoder%.", "^cls%.seq_relationship%.",
    "^bert%.pooler%." },
  names = bert_names("bert", { "pooler.dense", "bert.pooler.dense" },
    { "classifier.pooler.dense", "bert.pooler.dense" }, { "classifier.out", "classifier" },
    { "words.dense", "cls.predictions.transform.dense" },
    { "words.norm", "cls.predictions.transform.LayerNorm" },
    { "words.bias", "cls.predictions.bias", whole = true },
    { "classifier", "classifier" }),
}

-- RoBERTa counts positions from behind its padding; the pooler is named by its use.
local function roberta(model_type, class)
  local heads = { default = class .. "Model", [class .. "Model"] = false,
    [class .. "ForMaskedLM"] = "words", [class .. "ForSequenceClassification"] = "classes",
    [class .. "ForTokenClassification"] = "tokens" }
  return {
    model_type = model_type,
    architectures = { class .. "ForMaskedLM" },
    prefix = "roberta.",
    make = Encoder,
    complete = Encoder.complete,
    options = function(c)
      local o = read_bert(c, heads)
      o.padding = c:take("pad_token_id", "integer", 1)
      o.context = o.context - o.padding - 1
      if o.activation ~= "gelu" then o.words_activation = "gelu" end -- whatever hidden_act says
      return o
    end,
    config = function(o)
      local out = write_bert(o, heads)
      out.pad_token_id, out.max_position_embeddings = o.padding, o.context + o.padding + 1
      return out
    end,
    idle = { "position_ids$", "^lm_head%.decoder%.", "^roberta%.pooler%." },
    names = bert_names("roberta", { "pooler.dense", "roberta.pooler.dense" },
      { "classifier.pooler.dense", "classifier.dense" },
      { "classifier.out", "classifier.out_proj" }, { "words.dense", "lm_head.dense" },
      { "words.norm", "lm_head.layer_norm" }, { "words.bias", "lm_head.bias", whole = true },
      { "classifier", "classifier" }),
  }
end

-- ---- DistilBERT ------------------------------------------------------------

local distil_heads = { default = "DistilBertModel", DistilBertModel = false,
  DistilBertForMaskedLM = "words", DistilBertForSequenceClassification = "classes",
  DistilBertForTokenClassification = "tokens" }

local function read_distil(c)
  local head = head_of(c, distil_heads)
  c:only("sinusoidal_pos_embds", false, true) -- how positions began
  c:only("tie_word_embeddings", true)
  c:ignore("attention_dropout", "qa_dropout", "seq_classif_dropout", "tie_weights_")
  return { vocab = c:take("vocab_size", "size"), dim = c:take("dim", "size"),
    layers = c:take("n_layers", "size"), heads = c:take("n_heads", "size"),
    hidden = c:take("hidden_dim", "size"), eps = 1e-12,
    context = c:take("max_position_embeddings", "size", 512),
    activation = c:activation("activation", "gelu"),
    pooler = head == "classes" and "relu" or nil, head = head, classes = classes_of(c) }
end

local function write_distil(o)
  return labels(o, { architectures = architecture(o, distil_heads), vocab_size = o.vocab,
    dim = o.dim, n_layers = o.layers, n_heads = o.heads, hidden_dim = o.hidden,
    max_position_embeddings = o.context, activation = theirs(o), tie_word_embeddings = true })
end

local distilbert = {
  model_type = "distilbert",
  architectures = { "DistilBertForMaskedLM", "DistilBertForSequenceClassification" },
  prefix = "distilbert.",
  make = Encoder,
  complete = Encoder.complete,
  options = read_distil,
  config = write_distil,
  idle = { "position_ids$", "^vocab_projector%.weight$" },
  names = {
    { "tokens", "distilbert.embeddings.word_embeddings" },
    { "positions", "distilbert.embeddings.position_embeddings" },
    { "norm", "distilbert.embeddings.LayerNorm" },
    { "blocks.#.attention.q", "distilbert.transformer.layer.#.attention.q_lin" },
    { "blocks.#.attention.k", "distilbert.transformer.layer.#.attention.k_lin" },
    { "blocks.#.attention.v", "distilbert.transformer.layer.#.attention.v_lin" },
    { "blocks.#.attention.proj", "distilbert.transformer.layer.#.attention.out_lin" },
    { "blocks.#.norm1", "distilbert.transformer.layer.#.sa_layer_norm" },
    { "blocks.#.mlp.up", "distilbert.transformer.layer.#.ffn.lin1" },
    { "blocks.#.mlp.down", "distilbert.transformer.layer.#.ffn.lin2" },
    { "blocks.#.norm2", "distilbert.transformer.layer.#.output_layer_norm" },
    { "classifier.pooler.dense", "pre_classifier" }, { "classifier.out", "classifier" },
    { "words.dense", "vocab_transform" },
    { "words.norm", "vocab_layer_norm" },
    { "words.bias", "vocab_projector.bias", whole = true },
    { "classifier", "classifier" },
  },
}

return { bert = bert, distilbert = distilbert, roberta = roberta("roberta", "Roberta"),
  xlm_roberta = roberta("xlm-roberta", "XLMRoberta") }
