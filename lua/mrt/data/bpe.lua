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
---@param text string
---@return string
function BPE:pack(text) return self.core:pack(text) end

--- Return the tokens of a text, from 0.
---
--- Raises: the vocabulary lacks a byte of it (GPT-2's lacks none).
---@param text string
---@return integer[] ids
function BPE:encode(text) return self.core:encode(text) end

--- Return the text of tokens; it undoes `encode`, bit by bit.
---
--- Raises: there is no such token.
---@param ids integer[]
---@return string
function BPE:decode(ids) return self.core:decode(ids) end

function BPE:__tostring()
  return "tokenizer (BPE) of " .. describe.count(self.vocab, "token")
end

--- Open a vocabulary in GPT-2's two files, as Hugging Face keeps them.
---
--- Returns nil: files that cannot be read; a token that comes twice; a merge of
--- what is no token; merges of a tokenizer that cuts texts into other words.
---@param vocab string   path of vocab.json: token -> id
---@param merges string  path of merges.txt: a pair of tokens a line, first first
---@return mrt.data.BPE? bpe
---@return string? message
---@return string? code
local function open(vocab, merges)
  local handle, message, code = core.open_merges(vocab, merges)
  if not handle then return nil, message, code end
  return setmetatable({ core = handle, vocab = handle:count() }, BPE)
end

return setmetatable({ is = function(value) return getmetatable(value) == BPE end },
  { __call = function(_, ...) return open(...) end })
