--- tiny.lua -- a model, a tokenizer of bytes and files of samples, for specs
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"

local tiny = {}

tiny.tokenizer = { eos = 0, vocab = 128 }

function tiny.tokenizer:pack(text)
  return (text:gsub(".", function(c) return string.pack("<i4", c:byte()) end))
end

-- <u>question</u><a>answer</a>
function tiny.tokenizer:chat(messages, o)
  local out = {}
  for i, message in ipairs(messages) do
    local tag = message.role == "assistant" and "a" or "u"
    out[i] = ("<%s>%s</%s>"):format(tag, message.content, tag)
  end
  return table.concat(out) .. (o.generation_prompt and "<a>" or "")
end

function tiny.model(changes)
  local o = { vocab = 128, dim = 16, layers = 2, heads = 2, kv_heads = 1, hidden = 32,
    context = 64 }
  for name, value in pairs(changes or {}) do o[name] = value end
  mrt.seed(3)
  return mrt.nn.Decoder(o)
end

--- Write a file; it goes when the spec is done.
function tiny.file(text, ending)
  local path = os.tmpname()
  os.remove(path)
  path = path .. (ending or ".jsonl")
  local file <close> = assert(io.open(path, "wb"))
  file:write(text)
  return path
end

--- Lines of sums.
function tiny.sums(count)
  local out = {}
  for i = 1, count do
    out[i] = ('{"prompt": "%d+%d=", "completion": "%d"}'):format(i, 3 * i, 4 * i)
  end
  return table.concat(out, "\n") .. "\n"
end

return tiny
