--- generation.lua -- what `mrt generate` and `mrt chat` share: options, the model, its cost
---
--- SPDX-License-Identifier: MIT

local argparse = require "argparse"
local beside = require "mrt.generate.beside"
local format = require "mrt.util.format"
local nn = require "mrt.nn"

local generation = {}

local function number(word)
  local n = tonumber(word)
  if n then return n end
  return nil, ("'%s' is no number"):format(word)
end
local function whole(word)
  local n = math.tointeger(tonumber(word))
  if n then return n end
  return nil, ("'%s' is no whole number"):format(word)
end

--- A parser with the options that both commands have.
---@param name string
---@param about string
---@return table
function generation.parser(name, about)
  local parser = argparse(name, about):usage_margin(2):help_max_width(96)
  parser:argument("folder", "a model: a folder as transformers writes it, or a .gguf file")
  parser:option("--count", "tokens of an answer at most"):convert(whole)
  parser:option("--temperature", "0: always the likeliest"):convert(number)
  parser:option("--top-k", "draw among so many"):convert(whole)
  parser:option("--top-p", "draw among those that together are so likely"):convert(number)
  parser:option("--min-p", "leave out what is less likely than this part of the likeliest")
    :convert(number)
  parser:option("--repetition-penalty", "above 1: what is there becomes less likely")
    :convert(number)
  parser:option("--seed", "of what is drawn; default 0"):convert(whole)
  parser:option("--stop", "end before this text; may be repeated"):count "*"
  parser:option("--context", "tokens at most, prompt and all"):convert(whole)
  parser:option("--dtype", "of the weights: f32, bf16 or f16; default as they are stored")
  parser:option("--quantize", "keep the weights in nf4, int8, q4_0, ...")
  parser:option("--adapter", "a folder with an adapter of peft's form")
  parser:option("--memory", "budget of a step: 2GiB")
  parser:flag("--verbose", "bytes to the byte, and the time that it took")
  return parser
end

--- Write a message as the program does; the exit status.
---@return integer
function generation.complain(name, text, ...)
  io.stderr:write(("mrt %s: %s\n"):format(name, select("#", ...) > 0 and text:format(...) or text))
  return 1
end

--- What an error says, without where it was raised.
---@param problem any
---@return string
function generation.message(problem)
  if type(problem) ~= "table" or not problem.message then return tostring(problem) end
  return problem.message
end

--- Open the model and its tokenizer.
---@param args table  as the parser gives them
---@return mrt.nn.Module? model
---@return string? message
function generation.open(args)
  local ok, model, message = pcall(nn.load, args.folder, { dtype = args.dtype,
    quantize = args.quantize, adapter = args.adapter })
  if not ok then return nil, generation.message(model) end
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
    "repetition_penalty", "seed", "context", "memory" } do
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
