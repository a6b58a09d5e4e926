--- generate.lua -- let a language model continue a text
---
--- The model always sees a whole context: the ids so far, padded at the end.
--- Causal attention never looks at the padding, every call has one shape, and
--- so one plan serves the whole text.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local mode = require "mrt.nn.mode"
local options = require "mrt.util.options"
local random = require "mrt.data.random"

-- The ids' last `context` as u8-or-wider text, padded, and how many there are.
local function window(ids, context)
  local first = math.max(1, #ids - context + 1)
  local row = table.move(ids, first, #ids, 1, {})
  local used = #row
  for i = used + 1, context do row[i] = 0 end
  return mrt.tensor({ row }, "i32"), used
end

-- Keep the k largest; the rest cannot be drawn.
local function threshold(logits, k)
  if not k or k >= #logits then return -math.huge end
  local sorted = table.move(logits, 1, #logits, 1, {})
  table.sort(sorted, function(a, b) return a > b end)
  return sorted[k]
end

-- Draw from softmax(logits / temperature); 0 takes the largest.
local function draw(logits, o, rng)
  local best = 1
  for i = 2, #logits do if logits[i] > logits[best] then best = i end end
  if o.temperature == 0 then return best - 1 end
  local least, total, weights = threshold(logits, o.top_k), 0, {}
  for i, logit in ipairs(logits) do
    local weight = logit < least and 0
      or math.exp((logit - logits[best]) / o.temperature)
    weights[i], total = weight, total + weight
  end
  local left = rng:number() * total
  for i, weight in ipairs(weights) do
    left = left - weight
    if left < 0 then return i - 1 end
  end
  return best - 1
end

---@class mrt.nn.GenerateOptions
---@field temperature? number  default 1; 0 always takes the likeliest
---@field top_k? integer       draw among the k likeliest only
---@field seed? integer        default 0

--- Continue `ids` by `count` more, in evaluation mode.
---
---     local ids = nn.generate(model, text:encode "ROMEO:", 200)
---     print(text:decode(ids))
---@param model mrt.nn.GPT  anything with `.context` and `[B,T]` -> `[B,T,V]`
---@param ids integer[]     at least one
---@param count integer
---@param given? mrt.nn.GenerateOptions
---@return integer[] ids    the given ones and the new ones
local function generate(model, ids, count, given)
  local o = options.read("generate", given, { temperature = 1,
    seed = options.of("integer", 0), top_k = options.of "size" })
  if type(model) ~= "table" or not options.is_callable(model) or not model.context then
    core.fail("value", "generate", "a model with a context wanted, got "
      .. options.show(model))
  elseif type(ids) ~= "table" or #ids == 0 then
    core.fail("value", "generate", "a list of ids to begin with wanted, got "
      .. (type(ids) == "table" and "none" or options.show(ids)))
  elseif math.type(count) ~= "integer" or count < 0 then
    core.fail("value", "generate", "count: an integer from 0 wanted, got "
      .. options.show(count))
  end
  local rng <const>, _ <close> = random.new(o.seed), mode.evaluating(model)
  local next_logits = mrt.compile(function(tokens, position)
    local logits = model(tokens)
    return logits:reshape(-1, logits:size(-1)):embedding(position)
  end)
  local out = table.move(ids, 1, #ids, 1, {})
  for _ = 1, count do
    local tokens, used = window(out, model.context)
    local position = mrt.tensor({ used - 1 }, "i32")
    local row = next_logits(tokens, position):totable()[1]
    out[#out + 1] = draw(row, o, rng)
  end
  return out
end

return generate
