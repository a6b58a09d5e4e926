--- generate -- let a model go on with texts
---
---   request.lua   what is asked, read and checked
---   engine.lua    the steps, as plans: prefill, first, decode
---   sampler.lua   the next token, by operators; draws.lua, the numbers drawn for it
---   stream.lua    tokens become pieces of text; stops.lua, what ends one
---   plan.lua      the bytes that it takes, before anything runs
---   beside.lua    the tokenizer and generation_config.json of a model's folder
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local Engine = require "mrt.generate.engine"
local Stream = require "mrt.generate.stream"
local options = require "mrt.util.options"
local request = require "mrt.generate.request"

local generate = {}

-- The engine that each model had last.
local engines = setmetatable({}, { __mode = "k" })

-- The dtype of a model's weights, which is the cache's where none is asked for.
local function dtype_of(model)
  local _, first = model:named_parameters()()
  return first and first:get_dtype()
end

-- Can it serve a request?  A longer cache does: what is not filled costs no time.
local function serves(engine, o, batch)
  return engine.batch == batch and engine.length >= o.length and engine.given == o.dtype
    and engine.weights == dtype_of(engine.model) and engine.memory == o.memory
    and (not o.context or engine.length == o.length)
end

--- The engine of a model for so many rows and tokens: the one it had, or a new one.
---@param model mrt.nn.Module
---@param o {length: integer, dtype: mrt.DType?, memory: any, context: integer?}
---@param batch integer
---@return mrt.generate.Engine
function generate.engine(model, o, batch)
  local engine = engines[model]
  if engine and serves(engine, o, batch) then return engine end
  engines[model] = nil
  engine = Engine.new(model, { batch = batch, length = o.length, dtype = o.dtype,
    memory = o.memory })
  engine.given, engine.memory, engine.weights = o.dtype, o.memory, dtype_of(model)
  engines[model] = engine
  return engine
end

--- Does a model have what it takes?
---@param model any
---@return boolean
function generate.can(model)
  return type(model) == "table" and model.context ~= nil
    and options.is_callable(model.features) and options.is_callable(model.logits)
    and options.is_callable(model.cache)
end

--- Let a model go on with one text or several; see mrt.generate.Options.
---
---     for piece in generate.stream(model, { prompt = "Once", count = 100 }) do
---       io.write(piece)
---     end
---
--- Raises (value): options that are not there or out of range, a prompt without tokens
--- or with more than the context.
---@param model mrt.nn.Module  with `features`, `logits` and `cache`
---@param given mrt.generate.Options
---@return mrt.generate.Stream
function generate.stream(model, given)
  if not generate.can(model) then
    core.fail("value", "generate", "a model with features, logits and a cache wanted, got "
      .. options.show(model))
  end
  local o = request.read(model, given)
  return Stream.new(generate.engine(model, o, #o.rows), o)
end

return generate
