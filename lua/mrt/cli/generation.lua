--- generation.lua -- what `mrt generate` and `mrt chat` share: options, the model, its cost
---
--- SPDX-License-Identifier: MIT

local arguments = require "mrt.cli.arguments"
local beside = require "mrt.generate.beside"
local failures = require "mrt.cli.failures"
local format = require "mrt.util.format"
local nn = require "mrt.nn"

local generation = {}

--- A parser with the options that both commands have, and those of `given`.
---@param given mrt.Arguments
---@return mrt.Arguments
function generation.parser(given)
  for _, row in ipairs {
    { "--count N", "tokens of an answer at most" },
    { "--temperature X", "0: always the likeliest" },
    { "--top-k N", "draw among so many" },
    { "--top-p X", "draw among those that together are so likely" },
    { "--min-p X", "leave out what is less likely than this part of the likeliest" },
    { "--repetition-penalty X", "above 1: what is there becomes less likely" },
    { "--presence-penalty X", "above 0: what was generated becomes less likely" },
    { "--frequency-penalty X", "the same, for each time" },
    { "--seed N", "of what is drawn; else 0" },
    { "--stop TEXT", "end before this text", many = true },
    { "--context N", "tokens at most, prompt and all" },
    { "--dtype NAME", "of the weights; else as they are stored",
      choices = { "f32", "bf16", "f16" } },
    { "--quantize NAME", "keep the weights in nf4, int8, q4_0, ..." },
    { "--activations NAME", "int8, beside --quantize: faster, and rounded more",
      choices = { "exact", "int8" } },
    { "--adapter FOLDER", "an adapter of peft's form" },
    { "--memory BYTES", "budget of a step: 2GiB" },
    { "-v, --verbose", "bytes to the byte, and the time that it took" },
  } do given[#given + 1] = row end
  return arguments.new(given)
end

--- Write a message as the program does; the exit status.
---@return integer
function generation.complain(name, text, ...)
  io.stderr:write(("mrt %s: %s\n"):format(name, select("#", ...) > 0 and text:format(...) or text))
  return 1
end

--- What a command does with its arguments: `run`, whose failures are said in one line, and
--- Ctrl-C goes on to who knows its status.
---@param name string
---@param run fun(args: table): true?, string?
---@return fun(args: table): integer status
function generation.command(name, run)
  return function(args)
    local fine, ok, message = pcall(run, args)
    if not fine then
      if failures.is_interrupted(ok) then error(ok, 0) end
      ok, message = nil, failures.message(ok)
    end
    return ok and 0 or generation.complain(name, message)
  end
end

--- Open the model and its tokenizer.
---@param args table  as the parser gives them
---@return mrt.nn.Module? model
---@return string? message
function generation.open(args)
  if args.activations and not args.quantize then
    return nil, "--activations is of quantised weights: give --quantize too"
  end
  local quantize = args.activations and { kind = args.quantize, activations = args.activations }
    or args.quantize
  local ok, model, message = pcall(nn.load, args.folder, { dtype = args.dtype,
    quantize = quantize, adapter = args.adapter })
  if not ok then return nil, failures.message(model) end
  if not model then return nil, message end
  if not model.generate then
    return nil, ("%s: a %s writes no text"):format(args.folder, model.family or model.type)
  end
  local tokenizer, why = beside.tokenizer(model)
  if not tokenizer then return nil, why or args.folder .. ": no tokenizer" end
  model:eval()
  return model
end

-- The model's own way to draw, where it says that it has one; else the likeliest.
local function defaults(model, args)
  local own = beside.config(model)
  local drawn = own.do_sample == true
  for _, name in ipairs { "top_k", "top_p", "min_p", "seed" } do
    drawn = drawn or args[name] ~= nil
  end
  if not drawn and not args.temperature then return { temperature = 0 } end
  local o = { temperature = 1 }
  for _, name in ipairs { "temperature", "top_k", "top_p", "min_p", "repetition_penalty" } do
    local value = own.do_sample and own[name]
    if type(value) == "number" and value > 0 then o[name] = value end
  end
  o.top_k = math.tointeger(o.top_k)
  return o
end

--- The options of `model:generate` that the arguments say.
---@param model mrt.nn.Module
---@param args table
---@return mrt.generate.Options
function generation.options(model, args)
  local o = defaults(model, args)
  for _, name in ipairs { "count", "temperature", "top_k", "top_p", "min_p",
    "repetition_penalty", "presence_penalty", "frequency_penalty", "seed", "context",
    "memory" } do
    if args[name] ~= nil then o[name] = args[name] end
  end
  if args.stop and #args.stop > 0 then o.stop = args.stop end
  return o
end

--- Say in one line what is taken.
---@param args table
---@param model mrt.nn.Module
---@param stream mrt.generate.Stream
function generation.tell(args, model, stream)
  io.stderr:write(("%s, %s parameters; %s\n"):format(model.family or model.type,
    format.count(generation.parameters(model)), stream:plan():line(args.verbose)))
end

--- How many numbers the weights are, in however many bits they are kept.
---@param model mrt.nn.Module
---@return integer
function generation.parameters(model)
  local n = 0
  for _, p in model:named_parameters() do n = n + p:numel() end
  for _, module in model:modules() do
    if module.type == "QuantizedLinear" then n = n + module.inputs * module.outputs end
  end
  return n
end

return generation
