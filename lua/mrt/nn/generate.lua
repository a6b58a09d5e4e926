--- generate.lua -- let a language model continue a text
---
--- A model with a cache of keys and values reads each token once (mrt.generate), until
--- the text is as long as its context.  From there on, and without a cache always, the
--- model sees the last `context` ids for each new one, or those there are, padded at the
--- end: causal attention never looks at the padding, every call has one shape, and so
--- one plan serves the whole text.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local cached = require "mrt.generate"
local draws = require "mrt.generate.draws"
local mode = require "mrt.nn.mode"
local options = require "mrt.util.options"
local sampler = require "mrt.generate.sampler"

-- The compiled function of each model without a cache.
local compiled = setmetatable({}, { __mode = "k" })

-- The ids' last `context`, and how many there are; padded as a tensor.
local function window(ids, context)
  local first = math.max(1, #ids - context + 1)
  return table.move(ids, first, #ids, 1, {}), #ids - first + 1
end
local function padded(row, used, context)
  for i = used + 1, context do row[i] = 0 end
  return mrt.tensor({ row }, "i32")
end

local function step_of(model)
  local step = compiled[model]
  if not step then
    step = mrt.compile(function(tokens, position, kind, numbers, drawn)
      local logits = model(tokens)
      logits = logits:reshape(-1, logits:size(-1)):embedding(position)
      return sampler.next(logits, kind, numbers, drawn)
    end, { name = "generate" })
    compiled[model] = step
  end
  return step
end

-- The next id, without a cache.
local function next_of(model, out, o, n)
  local row, used = window(out, model.context)
  local kind = sampler.kind(o, math.huge)
  local drawn = not kind.greedy and mrt.tensor({ draws.at(o.seed, n) }, "f32") or nil
  return step_of(model)(padded(row, used, model.context), mrt.tensor({ used - 1 }, "i32"), kind,
    sampler.numbers(o), drawn):totable()[1]
end

---@class mrt.nn.GenerateOptions
---@field temperature? number  default 1; 0 always takes the likeliest
---@field top_k? integer       draw among the k likeliest only
---@field seed? integer        default 0

local function check(model, ids, count)
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
end

-- As many ids as fit into the context, with a cache.
local function fill(model, out, count, o)
  local room = math.min(count, model.context - #out)
  if room <= 0 or not cached.can(model) then return end
  local ids = cached.stream(model, { prompt = out, count = room, temperature = o.temperature,
    top_k = o.top_k, seed = o.seed, eos = false }):ids()
  table.move(ids, 1, #ids, #out + 1, out)
end

--- Continue `ids` by `count` more, in evaluation mode.
---
---     local ids = nn.generate(model, text:encode "ROMEO:", 200)
---     print(text:decode(ids))
---
--- Raises: ids that are no integers, more of them than the context where it cannot slide.
---@param model mrt.nn.GPT  anything with `.context` and `[B,T]` -> `[B,T,V]`
---@param ids integer[]     at least one
---@param count integer
---@param given? mrt.nn.GenerateOptions
---@return integer[] ids    the given ones and the new ones
local function generate(model, ids, count, given)
  local o = options.read("generate", given, { temperature = 1,
    seed = options.of("integer", 0), top_k = options.of "size" })
  check(model, ids, count)
  local _ <close> = mode.evaluating(model)
  local out = table.move(ids, 1, #ids, 1, {})
  fill(model, out, count, o)
  for n = #out - #ids, count - 1 do out[#out + 1] = next_of(model, out, o, n) end
  return out
end

return generate
