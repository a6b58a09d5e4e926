--- pairs.lua -- two texts as one list of ids, shortened to a length
---
--- What stands around them, and which ids are of which kind, the tokenizer's file says; where
--- it does not, each text stands as it would alone, and kinds are 0 and 1.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

local texts = {}

local FIRST <const>, SECOND <const> = -1, -2
local strategies <const> = { LongestFirst = "longest_first", OnlyFirst = "only_first",
  OnlySecond = "only_second" }

-- What one text becomes.
local function form_alone(first, last)
  local form = {}
  if first then form[1] = { id = first, type = 0 } end
  form[#form + 1] = { id = FIRST, type = 0 }
  if last then form[#form + 1] = { id = last, type = 0 } end
  return form
end

--- The form of a pair where files say only what begins and ends a text.
---@param first integer?  id
---@param last integer?   id
---@param kind "roberta"|"t5"|nil  known otherwise
---@return {id: integer, type: integer}[]
function texts.form(first, last, kind)
  local form = form_alone(first, last)
  local type = kind and 0 or 1
  local between = kind == "roberta" and last or kind == nil and first or nil
  if between then form[#form + 1] = { id = between, type = type } end
  form[#form + 1] = { id = SECOND, type = type }
  if last then form[#form + 1] = { id = last, type = type } end
  return form
end

-- Lengths of two texts of which `most` ids may stay, the longer one shortened first.
local function longest_first(a, b, most)
  local short = math.min(a, b)
  local long = short > most and short or math.max(short, most - short)
  if short + long > most then
    short = most // 2
    long = short + most % 2
  end
  if a <= b then return math.min(a, short), math.min(b, long) end
  return math.min(a, long), math.min(b, short)
end

-- How many ids of each stay.
local function lengths(a, b, most, strategy)
  local over = a + b - most
  if over <= 0 then return a, b end
  if strategy == "longest_first" then return longest_first(a, b, most) end
  if strategy == "only_first" and a > over then return a - over, b end
  if strategy == "only_second" and b > over then return a, b - over end
  core.fail("value", "encode", ("%d ids are too many for %d, and by %s no fewer than %d can stay")
    :format(a + b, most, strategy, (strategy == "only_first" and b or a) + 1))
end

-- Append the ids that stay of a text.
local function append(out, ids, n, left)
  local from = left and #ids - n or 0
  table.move(ids, from + 1, from + n, #out + 1, out)
end

local function put(form, parts, stay, left)
  local out, types = {}, {}
  for _, part in ipairs(form) do
    if part.id >= 0 then
      out[#out + 1] = part.id
    else
      append(out, parts[part.id], stay[part.id], left)
    end
    for i = #types + 1, #out do types[i] = part.type end
  end
  return out, types
end

--- Encode two texts as one.
---
--- Raises: a text that cannot be encoded; one that may not be shortened enough.
---@param tokenizer mrt.text.Tokenizer
---@param a string
---@param o mrt.text.EncodeOptions
---@return integer[] ids
---@return integer[] types
function texts.encode(tokenizer, a, o)
  local handle = tokenizer.core
  local most, left, strategy = handle:truncation()
  most, strategy = o.most or most, o.truncation or strategies[strategy]
  local form = o.special and (tokenizer.pair or handle:pair()) or texts.form(nil, nil, nil)
  local parts = { [FIRST] = handle:encode(a, false, not o.parse_special),
    [SECOND] = handle:encode(o.pair, false, not o.parse_special) }
  local stay = { [FIRST] = #parts[FIRST], [SECOND] = #parts[SECOND] }
  if most then
    local added = 0
    for _, part in ipairs(form) do added = added + (part.id >= 0 and 1 or 0) end
    stay[FIRST], stay[SECOND] = lengths(stay[FIRST], stay[SECOND], math.max(most - added, 0),
      strategy)
  end
  return put(form, parts, stay, left)
end

return texts
