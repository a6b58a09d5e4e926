--- tokenizer.lua -- texts as ids and back
---
---     local tok = assert(mrt.text.tokenizer "llama/")        -- or a file in it
---     local ids = tok:encode "Hello, world!"
---     print(tok:decode(ids))
---     local stream = tok:stream()
---     for _, id in ipairs(ids) do io.write(stream:push(id)) end
---     print(stream:finish())
---
--- SPDX-License-Identifier: MIT

local chat = require "mrt.text.template.chat"
local core = require "mrt.core"
local describe = require "mrt.util.describe"
local folder = require "mrt.text.folder"
local options = require "mrt.util.options"
local stream = require "mrt.text.stream"
local texts = require "mrt.text.pairs"

---@class mrt.text.EncodeOptions
---@field special boolean?        add what the tokenizer adds (bos, eos ...): default true
---@field parse_special boolean?  special tokens in the text are tokens: default true
---@field pair string?            a second text behind the first, as BERT has it
---@field most integer?           of a pair: so many ids at most; default what the file says
---@field truncation "longest_first"|"only_first"|"only_second"|nil  which of a pair is shortened;
---  default what the file says, or the longer one

---@class mrt.text.TokenizerOptions
---@field pattern string?  how texts are cut into words, where the file does not say it: of
---  vocab.json and merges.txt (default GPT-2's, Oniguruma's syntax), of tiktoken's ranks (Rust's
---  syntax, or a name: r50k_base, p50k_base, cl100k_base, o200k_base, llama3, qwen; default by
---  the file's name)

---@class mrt.text.Tokenizer
---@field vocab integer          one more than the largest id
---@field bos integer?           id that begins a text
---@field eos integer?           id that ends one
---@field pad integer?           id that fills
---@field unk integer?           id of what is not known
---@field files string[]         paths, of all that belongs to it
---@field chat_template string?  source of its chat template
---@field chat_templates table<string, string>?  of all that it has, by name ("default", "tool_use")
---@field config table           what tokenizer_config.json says
---@field padding {side: "left"|"right", id: integer, length: integer?, multiple: integer?}?
---  what tokenizer.json says of texts side by side
local Tokenizer = {}
Tokenizer.__index = Tokenizer

local encoding = { special = true, parse_special = true }
local paired = { special = true, parse_special = true, pair = options.of "string",
  most = options.none, truncation = options.none }

local function read(who, o) return options.read(who, o, encoding) end

-- The options of `encode`: those of a pair are refused without one.
local function read_paired(o)
  o = options.read("encode", o, paired)
  local most, strategy = o.most, o.truncation
  if not o.pair and (most ~= nil or strategy ~= nil) then
    core.fail("value", "encode", "'most' and 'truncation' are for a pair: { pair = text }")
  elseif most ~= nil and (math.type(most) ~= "integer" or most < 1) then
    core.fail("value", "encode", "'most': a number of ids wanted, got " .. options.show(most))
  elseif strategy ~= nil and not ({ longest_first = true, only_first = true,
    only_second = true })[strategy] then
    core.fail("value", "encode", "'truncation': longest_first, only_first or only_second wanted, "
      .. "got " .. options.show(strategy))
  end
  return o
end

--- Return the ids of a text.
---
--- Bytes that are no UTF-8 have ids of their own in a byte-level vocabulary; in any other
--- U+FFFD stands for them.
---
--- Raises: a text that cannot be encoded: a character that is not in the vocabulary, which has
--- nothing for what it does not know.
---
--- Of a pair that is too long so many ids go that `most` are left; raises where the text
--- that is to be shortened has too few.
---
---     tokenizer:encode "Hello"
---     local ids, types = tokenizer:encode("A question?", { pair = "A text.", most = 512 })
---@param text string
---@param o? mrt.text.EncodeOptions
---@return integer[] ids
---@return integer[]? types  of a pair: which text each id is of, as the model was taught it
function Tokenizer:encode(text, o)
  o = read_paired(o)
  if o.pair then return texts.encode(self, text, o) end
  return self.core:encode(text, o.special, not o.parse_special)
end

--- Return the ids of a text as a string, 32 bits each.
---
---     tokenizer:pack "Hello"
---
--- Raises: what is no text.
---@param text string
---@param o? mrt.text.EncodeOptions
---@return string
function Tokenizer:pack(text, o)
  o = read("pack", o)
  return self.core:pack(text, o.special, not o.parse_special)
end

--- Return the text of ids.
---
--- Raises: there is no such id.
---
---     tokenizer:decode(tokenizer:encode "Hello")  --> Hello
---@param ids integer[]
---@param o? {skip_special: boolean?}  leave out special tokens: default false
---@return string
function Tokenizer:decode(ids, o)
  return self.core:decode(ids, options.read("decode", o, { skip_special = false }).skip_special)
end

--- Begin to decode ids one by one: `stream:push(id)` returns the text that is certain by then
--- (whole UTF-8 characters), `stream:finish()` the rest.
---
---     local stream = tokenizer:stream()
---
--- Raises: an option that there is not.
---@param o? {skip_special: boolean?}  leave out special tokens: default true
---@return mrt.text.Stream
function Tokenizer:stream(o)
  return stream(self.core, options.read("stream", o, { skip_special = true }).skip_special)
end

--- Return the id of a token as its file names it; nil: there is no such.
---
---     tokenizer:id "<|endoftext|>"
---
--- Raises: what is no text.
---@param token string
---@return integer?
function Tokenizer:id(token) return self.core:id(token) end

--- Return the name of a token; nil: there is no such.
---
---     tokenizer:token(0)
---
--- Raises: what is no integer.
---@param id integer
---@return string?
function Tokenizer:token(id) return self.core:token(id) end

--- Is this a special token?
---
---     tokenizer:is_special(0)
---
--- Raises: what is no integer.
---@param id integer
---@return boolean
function Tokenizer:is_special(id) return self.core:special(id) end

local templates = setmetatable({}, { __mode = "k" })

-- The source of the template that is named; or of "tool_use" where there are tools.
local function source_of(self, name, tools)
  local all = self.chat_templates or {}
  if name == nil and tools and all.tool_use then name = "tool_use" end
  if name == nil or name == "default" then
    if self.chat_template then return self.chat_template end
    return nil, "the tokenizer has no chat template", "data"
  end
  if all[name] then return all[name] end
  local known = {}
  for one in pairs(all) do known[#known + 1] = one end
  table.sort(known)
  return nil, ("the tokenizer has no chat template '%s': %s"):format(name,
    #known > 0 and "it has " .. table.concat(known, ", ") or "it has none"), "data"
end

-- A chat template of the tokenizer, read once.
local function template_of(self, o)
  local source, message, code = source_of(self, o and o.template, o and o.tools)
  if not source then return nil, message, code end
  local own = templates[self] or {}
  templates[self] = own
  if not own[source] then
    own[source], message, code = require "mrt.text.template"(source)
  end
  return own[source], message, code
end

-- What the template reads beside the messages.
local function values_of(self, who, o)
  o = options.read(who, o, { generation_prompt = false, tools = options.of "table",
    values = options.of "table", template = options.of "string" })
  local function name(id) return id and self:token(id) or nil end
  local values = { tools = o.tools, add_generation_prompt = o.generation_prompt,
    bos_token = name(self.bos), eos_token = name(self.eos), pad_token = name(self.pad),
    unk_token = name(self.unk), cls_token = name(self.cls), sep_token = name(self.sep),
    mask_token = name(self.mask) }
  for key, v in pairs(o.values or {}) do values[key] = v end
  return values
end

---@class mrt.text.ChatOptions
---@field generation_prompt? boolean  end with the beginning of an answer
---@field tools? table[]              functions as JSON schemas
---@field values? table<string, any>  what else the template reads (enable_thinking ...)
---@field template? string            the name of another template than the default one; where
---  there are tools and a template "tool_use", that one is taken

--- Return the text of messages, as the tokenizer's chat template writes it; encode it with
--- `special = false`, for templates write bos themselves.
---
--- Returns nil: there is no template, or it does not take these messages.
---
---     tokenizer:chat { { role = "user", content = "Hello" } }
---
--- Raises: what is no list; what the template refuses is a message.
---@param messages mrt.ChatMessage[]
---@param o? mrt.text.ChatOptions
---@return string? text
---@return string? message
---@return string? code
function Tokenizer:chat(messages, o)
  local values = values_of(self, "chat", o)
  local template, message, code = template_of(self, o)
  if not template then return nil, message, code end
  return chat.render(template, messages, values)
end

--- As `chat`, and which bytes of the text the assistant speaks (`mrt.text.chat_spans`).
---
---     local ids, spans = tokenizer:chat_spans(messages)
---
--- Raises: what is no list; what the template refuses is a message.
---@param messages mrt.ChatMessage[]
---@param o? mrt.text.ChatOptions
---@return string? text
---@return integer[][]|string spans  {first byte, last byte} each; or the message
---@return string? code
function Tokenizer:chat_spans(messages, o)
  local values = values_of(self, "chat_spans", o)
  local template, message, code = template_of(self, o)
  if not template then return nil, message, code end
  return chat.spans(template, messages, values)
end

function Tokenizer:__tostring()
  return "tokenizer of " .. describe.count(self.vocab, "token")
end

local module = {}

--- Is this a tokenizer?
---@param value any
---@return boolean
function module.is(value) return getmetatable(value) == Tokenizer end

--- Open a tokenizer: a folder, of which tokenizer.json is read, or else tokenizer.model (of
--- sentencepiece, or Llama 3's ranks) or spiece.model, vocab.json and merges.txt, a file
--- NAME.tiktoken, or BERT's vocab.txt, with tokenizer_config.json, special_tokens_map.json and
--- added_tokens.json for its special tokens; or a file of any of these kinds, or a .gguf.
---
--- Returns nil: a file that cannot be read, or is no tokenizer, or asks for what is not there
--- (which the message names).
---@param path string
---@param o? mrt.text.TokenizerOptions
---@return mrt.text.Tokenizer? tokenizer
---@return string? message
---@return string? code
function module.open(path, o)
  o = options.read("tokenizer", o, { pattern = options.of "string" })
  if type(path) ~= "string" then
    core.fail("value", "tokenizer", "a path wanted, got " .. options.show(path))
  end
  local found, message, code = folder.open(path, o)
  if not found then return nil, message, code end
  found.vocab, found.padding = found.core:count(), found.core:padding()
  if not found.core:pair() then found.pair = found.pair or texts.form(nil, nil, nil) end
  return setmetatable(found, Tokenizer)
end

return module
