--- tokens.lua -- words for a vocabulary in GGUF: kinds of tokens, and a list being made
---
--- SPDX-License-Identifier: MIT

local tokens = {}

--- As llama.cpp numbers them.
tokens.NORMAL, tokens.UNKNOWN, tokens.CONTROL, tokens.USER, tokens.UNUSED, tokens.BYTE =
  1, 2, 3, 4, 5, 6

---@class mrt.pretrained.gguf.Vocab
---@field texts string[]     of ids from 0 on
---@field kinds integer[]
---@field scores number[]

--- A list of `count` tokens, none of which is used.
---@param count integer
---@return mrt.pretrained.gguf.Vocab
function tokens.new(count)
  local vocab = { texts = {}, kinds = {}, scores = {} }
  for i = 1, count do
    vocab.texts[i], vocab.kinds[i] = ("[PAD%d]"):format(i - 1), tokens.UNUSED
    vocab.scores[i] = -10000.0
  end
  return vocab
end

--- Put a token; ids beyond the table of the model have no row, and are left out.
---@param vocab mrt.pretrained.gguf.Vocab
---@param id integer  from 0
---@param text string
---@param kind integer
---@param score number
function tokens.put(vocab, id, text, kind, score)
  if math.type(id) ~= "integer" or id < 0 or id >= #vocab.texts then return end
  vocab.texts[id + 1], vocab.kinds[id + 1], vocab.scores[id + 1] = text, kind, score
end

--- Put tokens that are found in the text itself: `{content, special}` by id.
---@param vocab mrt.pretrained.gguf.Vocab
---@param id integer
---@param added table
---@param score number
function tokens.add(vocab, id, added, score)
  local text = added.content
  if added.special then return tokens.put(vocab, id, text, tokens.CONTROL, score) end
  tokens.put(vocab, id, text:gsub("\u{2581}", " "), tokens.USER, score)
end

--- Their keys.
---@param vocab mrt.pretrained.gguf.Vocab
---@param model string   "gpt2", "llama", "t5"
---@param into table<string, any>
function tokens.keys(vocab, model, into)
  into["tokenizer.ggml.model"] = model
  into["tokenizer.ggml.tokens"] = { type = "string", values = vocab.texts }
  into["tokenizer.ggml.token_type"] = { type = "i32", values = vocab.kinds }
  if model ~= "gpt2" then
    into["tokenizer.ggml.scores"] = { type = "f32", values = vocab.scores }
  end
end

return tokens
