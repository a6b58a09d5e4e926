--- bpe.lua -- GPT-2's byte-pair encoding
---
---     local bpe = assert(data.bpe("vocab.json", "merges.txt"))
---     bpe:encode "Hello, world!"                     -- {15496, 11, 995, 0}
---     local text = assert(data.text("input.txt", {unit = bpe}))
---     local train, val = text:split(0.9)
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local describe = require "mrt.util.describe"

---@class mrt.data.BPE
---@field vocab integer  how many tokens there are
local BPE = {}
BPE.__index = BPE

--- Return the tokens of a text as a string, 32 bits each.
---
---     bpe:pack "Hello"
---
--- Raises: text that is no UTF-8 where that is needed.
---@param text string
---@return string
function BPE:pack(text) return self.core:pack(text) end

--- Return the tokens of a text, from 0.
---
--- Raises: the vocabulary lacks a byte of it (GPT-2's lacks none).
---
---     bpe:encode "Hello"
---@param text string
---@return integer[] ids
function BPE:encode(text) return self.core:encode(text) end

--- Return the text of tokens; it undoes `encode`, bit by bit.
---
--- Raises: there is no such token.
---
---     bpe:decode(bpe:encode "Hello")  --> Hello
---@param ids integer[]
---@return string
function BPE:decode(ids) return self.core:decode(ids) end

function BPE:__tostring()
  return "tokenizer (BPE) of " .. describe.count(self.vocab, "token")
end

local function open(vocab, merges)
  local handle, message, code = core.open_merges(vocab, merges)
  if not handle then return nil, message, code end
  return setmetatable({ core = handle, vocab = handle:count() }, BPE)
end

--- Open a vocabulary in GPT-2's two files, as Hugging Face keeps them: of vocab.json,
--- tokens and their ids, and of merges.txt, a pair of tokens a line, first first.
---
---     local bpe, message = mrt.data.bpe("vocab.json", "merges.txt")
---
--- Returns nil: files that cannot be read; a token that comes twice; a merge of
--- what is no token; merges of a tokenizer that cuts texts into other words.
---@overload fun(vocab: string, merges: string): mrt.data.BPE?, string?, string?
local bpe = setmetatable({}, { __call = function(_, ...) return open(...) end })

--- Is it such a tokenizer?
---
---     mrt.data.bpe.is(3)  --> false
---
--- Anything may be asked; it is no error.
---@param value any
---@return boolean
function bpe.is(value) return getmetatable(value) == BPE end

return bpe
