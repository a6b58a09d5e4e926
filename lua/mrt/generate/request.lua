--- request.lua -- what is asked of a model: prompts, counts, filters
---
--- SPDX-License-Identifier: MIT

local beside = require "mrt.generate.beside"
local core = require "mrt.core"
local options = require "mrt.util.options"

local WHO <const> = "generate"

---@class mrt.generate.Options
---@field prompt string|integer[]|(string|integer[])[]  a text, its ids, or a list of either
---@field count? integer         tokens at most; default 256
---@field temperature? number    default 1; 0 always takes the likeliest
---@field top_k? integer         draw among the k likeliest
---@field top_p? number          draw among the likeliest that together have this probability
---@field min_p? number          leave out what is less than this part as likely as the likeliest
---@field repetition_penalty? number  by which logits of tokens that are there become smaller
---@field presence_penalty? number   taken from logits of tokens that have been generated
---@field frequency_penalty? number  taken from them for each time
---@field seed? integer          default 0; row b of a batch draws by seed + b - 1
---@field stop? string|string[]  end before one of these
---@field eos? integer|integer[]|false  ids that end a row; default the model's
---@field context? integer       tokens of a row at most, prompt and all
---@field dtype? mrt.DType       of the cache; default that of the weights
---@field memory? integer|string  budget of each step, as for mrt.compile
---@field keep? boolean          go on from what the cache has of the prompt, of the same weights

local defaults = { prompt = options.none, count = options.of("integer", 256), temperature = 1,
  top_k = options.of "size", top_p = options.of "number", min_p = options.of "number",
  repetition_penalty = options.of "number", presence_penalty = options.of "number",
  frequency_penalty = options.of "number", seed = options.of("integer", 0),
  stop = options.none, eos = options.none, context = options.of "size",
  dtype = options.of "string", memory = options.none, keep = false }

local request = {}

local function refuse(message, ...) core.fail("value", WHO, message:format(...)) end

-- ---- numbers -----------------------------------------------------------------

local ranges = {
  temperature = { 0, math.huge, "from 0" },
  top_p = { 0, 1, "from 0 to 1" },
  min_p = { 0, 1, "from 0 to 1" },
  repetition_penalty = { 1e-3, math.huge, "above 0" },
  presence_penalty = { -1e6, 1e6, "within a million" },
  frequency_penalty = { -1e6, 1e6, "within a million" },
}

local function check_numbers(o)
  for name, range in pairs(ranges) do
    local x = o[name]
    if x and not (x >= range[1] and x <= range[2] and x < math.huge) then
      refuse("option '%s': a number %s wanted, got %s", name, range[3], options.show(x))
    end
  end
  if o.count < 0 then refuse("option 'count': an integer from 0 wanted, got %d", o.count) end
end

-- ---- what ends a row ---------------------------------------------------------

local function add_ids(set, ids)
  for _, id in ipairs(type(ids) == "table" and ids or { ids }) do
    if math.type(id) == "float" then id = math.tointeger(id) end
    if math.type(id) == "integer" then set[id] = true end
  end
end

-- Ids that end a text: those given, or those of generation_config.json and config.json.
local function eos_of(model, given)
  local set = {}
  if given == false then return set end
  if given ~= nil then
    add_ids(set, given)
    if next(set) == nil then refuse("option 'eos': ids wanted, got %s", options.show(given)) end
    return set
  end
  for _, config in ipairs { beside.config(model), model.config or {} } do
    if next(set) == nil then add_ids(set, config.eos_token_id) end
  end
  local tokenizer = beside.tokenizer(model)
  if next(set) == nil and tokenizer then add_ids(set, tokenizer.eos) end
  return set
end

local function stops_of(model, given)
  if given == nil then return {} end
  local list = type(given) == "table" and given or { given }
  if not beside.tokenizer(model) then refuse("option 'stop': the model has no tokenizer") end
  for _, text in ipairs(list) do
    if type(text) ~= "string" or text == "" then
      refuse("option 'stop': texts wanted, got %s", options.show(text))
    end
  end
  return list
end

-- ---- prompts -----------------------------------------------------------------

local function check_ids(ids, vocab)
  for i, id in ipairs(ids) do
    if math.type(id) ~= "integer" or id < 0 or id >= vocab then
      refuse("prompt: ids from 0 to %d wanted, got %s at %d", vocab - 1, options.show(id), i)
    end
  end
end

local function ids_of(model, prompt)
  local ids = prompt
  if type(prompt) == "string" then
    local tokenizer, why = beside.tokenizer(model)
    if not tokenizer then
      refuse("prompt: ids wanted, the model has no tokenizer%s", why and ": " .. why or "")
    end
    ids = tokenizer:encode(prompt, { special = true, parse_special = true })
  elseif type(prompt) ~= "table" then
    refuse("prompt: a text or a list of ids wanted, got %s", options.show(prompt))
  end
  if #ids == 0 then refuse "prompt: at least one token wanted" end
  check_ids(ids, model.vocab)
  return table.move(ids, 1, #ids, 1, {})
end

-- The rows, and whether there is one because one was given.
local function rows_of(model, prompt)
  local single = type(prompt) ~= "table" or math.type(prompt[1]) == "integer"
  local rows = {}
  for b, one in ipairs(single and { prompt } or prompt) do rows[b] = ids_of(model, one) end
  if #rows == 0 then refuse "prompt: at least one token wanted" end
  return rows, single
end

-- How long a row may be, and how many tokens the cache should have: a power of two, so
-- that requests of many lengths share one.
local function lengths_of(model, o, rows)
  local most, longest = model.context, 0
  if o.context and o.context > most then
    refuse("option 'context': at most the model's %d wanted, got %d", most, o.context)
  end
  most = o.context or most
  for b, ids in ipairs(rows) do
    if #ids > most then
      refuse("prompt%s: %d tokens, at most %d wanted", #rows > 1 and " " .. b or "", #ids, most)
    end
    longest = math.max(longest, #ids)
  end
  local length = 256
  while length < longest + o.count do length = 2 * length end
  return most, o.context or math.min(length, most)
end

---@class mrt.generate.Request: mrt.generate.Options
---@field rows integer[][]    ids of each prompt
---@field single boolean      one prompt was given, not a list
---@field ends table<integer, boolean>
---@field stops string[]
---@field most integer        tokens of a row
---@field length integer      of the cache

--- Read what is asked of a model.
---@param model mrt.nn.Module
---@param given mrt.generate.Options
---@return mrt.generate.Request
function request.read(model, given)
  local o = options.read(WHO, given, defaults)
  check_numbers(o)
  if o.prompt == nil then refuse "prompt is missing" end
  o.rows, o.single = rows_of(model, o.prompt)
  o.ends, o.stops = eos_of(model, o.eos), stops_of(model, o.stop)
  o.most, o.length = lengths_of(model, o, o.rows)
  return o
end

return request
