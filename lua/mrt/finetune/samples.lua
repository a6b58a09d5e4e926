--- samples.lua -- what a line of data says, as tokens and which of them are learned
---
---   {"text": "..."}                            all of it is learned
---   {"prompt": "...", "completion": "..."}     the completion is
---   {"messages": [{"role": "user", "content": "..."}, ...]}   what the assistant says is
---
--- A prompt and its completion are encoded each for itself, since a prompt is all that
--- the model sees when it is asked; messages are cut where the assistant begins.  A text
--- and a completion end with the end-of-text token.
---
--- A sample of n tokens fills n - 1 positions: the last one is predicted only.
---
--- SPDX-License-Identifier: MIT

local chat = require "mrt.finetune.chat"
local json = require "mrt.util.json"

local samples = {}

local WIDE <const> = 4 -- bytes of an id

---@class mrt.finetune.Sample
---@field ids string        32 bits each
---@field learn integer[]?  first and last token of each span that is learned, in order,
---  counted from 1; nil: all of them

---@class mrt.finetune.Reader
---@field tokenizer table   pack, and eos, chat where there are
---@field context integer   positions of a sample at most
local Reader = {}
Reader.__index = Reader

---@param tokenizer table
---@param context integer
---@return mrt.finetune.Reader
function samples.reader(tokenizer, context)
  return setmetatable({ tokenizer = tokenizer, context = context,
    cut = 0, pieces = 0, lost = 0, empty = 0 }, Reader)
end

--- How many tokens packed ids are.
---@param ids string
---@return integer
function samples.count(ids) return #ids // WIDE end

local function id_at(ids, i) return (string.unpack("<i4", ids, WIDE * i - WIDE + 1)) end

-- A text that something is to follow: without the end that some tokenizers add.
local function begun(self, text)
  local ids = self.tokenizer:pack(text, { special = true })
  local eos, n = self.tokenizer.eos, #ids // WIDE
  if eos and n > 0 and id_at(ids, n) == eos then ids = ids:sub(1, -WIDE - 1) end
  return ids
end

local function ended(self, ids)
  local eos = self.tokenizer.eos
  return eos and ids .. string.pack("<i4", eos) or ids
end

-- ---- kinds of lines ----------------------------------------------------------

local kinds = {}

-- A long text is several samples, of which each begins with the last token of the one
-- before: every token is predicted once.
function kinds.text(self, value, out)
  local ids = ended(self, begun(self, value.text))
  local most = WIDE * self.context
  if #ids > most + WIDE then self.cut = self.cut + 1 end
  for from = 1, math.max(#ids - WIDE, 1), most do
    out[#out + 1] = { ids = ids:sub(from, from + most + WIDE - 1) }
    if #ids > most + WIDE then self.pieces = self.pieces + 1 end
  end
end

-- One sample, as much of it as the context takes.
local function add(self, out, ids, learn)
  local most, n = self.context + 1, #ids // WIDE
  if n > most then
    self.cut, self.pieces, self.lost = self.cut + 1, self.pieces + 1, self.lost + n - most
    ids = ids:sub(1, WIDE * most)
    local kept = {}
    for i = 1, #learn, 2 do
      if learn[i] > most then break end
      kept[i], kept[i + 1] = learn[i], math.min(learn[i + 1], most)
    end
    learn = kept
  end
  if #learn == 0 then
    self.empty = self.empty + 1
    return
  end
  out[#out + 1] = { ids = ids, learn = learn }
end

function kinds.prompt(self, value, out)
  local prompt = begun(self, value.prompt)
  local ids = ended(self, prompt .. self.tokenizer:pack(value.completion,
    { special = false }))
  add(self, out, ids, { #prompt // WIDE + 1, #ids // WIDE })
end

function kinds.messages(self, value, out)
  local text, spans = chat.spans(self.tokenizer, value.messages, value.tools)
  local parts, learn, at, n = {}, {}, 1, 0
  local function encode(to)
    if to < at then return end
    parts[#parts + 1] = self.tokenizer:pack(text:sub(at, to), { special = false })
    n, at = n + #parts[#parts] // WIDE, to + 1
  end
  for _, span in ipairs(spans) do
    encode(span[1] - 1)
    local first = n + 1
    encode(span[2])
    if n >= first then learn[#learn + 1], learn[#learn + 2] = first, n end
  end
  encode(#text)
  if #learn == 0 then return "no message is the assistant's" end
  add(self, out, table.concat(parts), learn)
end

-- ---- one line ----------------------------------------------------------------

local function want_string(value, name)
  if type(value[name]) == "string" then return nil end
  return value[name] == nil and ("no '%s'"):format(name)
    or ("'%s' is a %s, a string wanted"):format(name, type(value[name]))
end

local function want_messages(self, list)
  if type(list) ~= "table" or #list == 0 then return "'messages': a list of them wanted" end
  for i, message in ipairs(list) do
    if type(message) ~= "table" or type(message.role) ~= "string" then
      return ("message %d: 'role' and 'content' wanted"):format(i)
    end
  end
  return not self.tokenizer.chat and "the tokenizer has no chat template" or nil
end

-- Which kind a line is; nil and why it is none.
local function kind_of(self, value)
  if type(value) ~= "table" then return nil, "an object wanted" end
  if value.messages ~= nil then
    local problem = want_messages(self, value.messages)
    return not problem and "messages", problem
  elseif value.prompt ~= nil or value.completion ~= nil then
    local problem = want_string(value, "prompt") or want_string(value, "completion")
    return not problem and "prompt", problem
  elseif value.text ~= nil then
    local problem = want_string(value, "text")
    return not problem and "text", problem
  end
  return nil, "none of 'text', 'prompt' with 'completion', and 'messages'"
end

local function decode(text)
  local value, problem = json.decode(text)
  if not problem then return value end
  return nil, problem:find "^JSON of" and problem or "no " .. problem
end

local function message_of(raised)
  return type(raised) == "table" and raised.message or tostring(raised)
end

--- Read one line of JSON.
---@param text string
---@param out mrt.finetune.Sample[]  its samples are added here
---@return string? problem  why it is none
function Reader:json(text, out)
  local value, problem = decode(text)
  if problem then return problem end
  local kind, why = kind_of(self, value)
  if not kind then return why end
  return self:add(kind, value, out)
end

--- Add the samples of one value of a kind that is known.
---@param kind "text"|"prompt"|"messages"
---@param value table
---@param out mrt.finetune.Sample[]
---@return string? problem
function Reader:add(kind, value, out)
  local before = #out
  local ok, said = pcall(kinds[kind], self, value, out)
  if ok and not said then
    for i = #out, before + 1, -1 do -- one token alone predicts nothing
      if #out[i].ids < 2 * WIDE then
        table.remove(out, i)
        self.empty = self.empty + 1
      end
    end
    return nil
  end
  for i = #out, before + 1, -1 do out[i] = nil end
  return message_of(said)
end

return samples
