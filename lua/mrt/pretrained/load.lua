--- load.lua -- a model from a folder that another program wrote
---
--- The config says what the model is; then the names, dtypes and shapes of all tensors
--- are compared with it, and everything that does not fit is said at once; then the
--- tensors are read one by one, each into its place: beside the model there is one
--- tensor at a time.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local configs = require "mrt.pretrained.config"
local Decoder = require "mrt.nn.decoder"
local families = require "mrt.pretrained.families"
local folder = require "mrt.pretrained.folder"
local options = require "mrt.util.options"
local quantizer = require "mrt.nn.quantizer"
local weights = require "mrt.pretrained.weights"

local MOST <const> = 40 -- problems that one message lists

---@class mrt.nn.LoadOptions
---@field dtype? "f32"|"bf16"|"f16"  of all weights; default: as the file has each
---@field context? integer           shorter than the config's
---@field ignore? string[]           keys of config.json to pass over
---@field quantize? string|mrt.nn.QuantizeOptions  keep linear layers in so few bits, and
---  unless `embeddings` is false the table of tokens: "nf4", "int8", "q4_0" ...; each
---  is quantised as it is read, but codes of a GGUF file of this kind stay as they are;
---  { kind = "q4_0", activations = "int8" } rounds what they are multiplied with too
---@field adapter? string            a folder with adapters as peft writes them
---@field weights? boolean           false: they are not read, and the model's are those of a new
---  one, which nobody has computed; for plans

local function described(problems)
  local n = #problems
  if n > MOST then
    problems = table.move(problems, 1, MOST, 1, {})
    problems[MOST + 1] = ("and %d more"):format(n - MOST)
  end
  return table.concat(problems, "\n  ")
end

-- ---- names and shapes --------------------------------------------------------

-- The name, or what it was in files of old, if the file has it.
local function present(file, name)
  if file:info(name) then return name end
  local old = name:gsub("LayerNorm%.weight$", "LayerNorm.gamma"):gsub("LayerNorm%.bias$",
    "LayerNorm.beta")
  return file:info(old) and old
end

-- The name under which a file has a tensor: names of a base model lack the prefix.
local function name_in(file, theirs, prefix)
  local found = present(file, theirs)
  if found then return found end
  local short = theirs
  if prefix and theirs:sub(1, #prefix) == prefix then
    for part in prefix:gmatch "[^%.]+%." do
      short = short:sub(#part + 1)
      found = present(file, short)
      if found then return found end
    end
  end
end

-- Tensors that are no weights.
local idle = { "rotary_emb%.inv_freq$", "attn%.bias$", "attn%.masked_bias$", "attention%.bias$",
  "attention%.masked_bias$" }
local heads = { "^lm_head%.weight$", "^embed_out%.weight$" }

-- Is it no weight, or a repetition of one?
local function is_idle(name, model, family)
  for _, list in ipairs { idle, family.idle or {}, model.options.tie and heads or {} } do
    for _, pattern in ipairs(list) do
      if name:find(pattern) then return true end
    end
  end
  return false
end

local function shape_text(dims) return "[" .. table.concat(dims, ",") .. "]" end

local floats = { f32 = true, f16 = true, bf16 = true, f64 = true }

-- Where each place's tensor is in the file; all that does not fit.
local function compare(file, model, places, family)
  local names, used, problems = {}, {}, {}
  for _, place in ipairs(places) do
    local name = name_in(file, place.theirs, family.prefix)
    if not name then
      problems[#problems + 1] = place.theirs .. " is missing"
    else
      local info = file:info(name)
      local wanted, got = shape_text(weights.shape(place)), shape_text(info.shape)
      names[place], used[name] = name, true
      if wanted ~= got then
        problems[#problems + 1] = ("%s is %s, %s wanted"):format(name, got, wanted)
      elseif not floats[info.dtype or ""] then
        problems[#problems + 1] = ("%s is of %s, a float wanted"):format(name,
          info.dtype or info.stored)
      end
    end
  end
  for _, name in ipairs(file.names) do
    if not used[name] and not is_idle(name, model, family) then
      problems[#problems + 1] = name .. " has no place in the model"
    end
  end
  return names, problems
end

-- ---- numbers -----------------------------------------------------------------

-- Put a tensor in a variable's place, as a variable of its own.
local function put(part, x)
  local variable = mrt.parameter(x)
  mrt.eval(variable)
  rawset(part.owner, part.key, variable)
end

-- Write one expert's part of a variable, which the first one makes.
local function put_expert(place, x)
  local part = place.parts[1]
  local dims = part.variable:size()
  if place.expert == 1 then put(part, mrt.zeros(dims, { dtype = x:get_dtype() })) end
  local starts = {} -- a start behind the end writes nothing
  for i = 1, dims[1] do starts[i] = i == place.expert and 0 or dims[2] end
  local variable = part.owner[part.key]
  core.update("write_rows", { variable, x:unsqueeze(1):expand(dims), mrt.tensor(starts, "i32") })
  mrt.eval(variable)
end

-- Put a tensor of theirs where it belongs; `each` is called with every variable made.
local function put_all(place, x, model, dtype, each)
  local stored = x:get_dtype() ~= "f64" and x:get_dtype() or "f32"
  for i, part in ipairs(weights.take(place, x, model)) do
    local to, made = place.parts[i], part:to(dtype or stored)
    if place.expert then
      put_expert(place, made)
    else
      put(to, made)
    end
    if made ~= x then made:free() end
    if not place.expert then each(to) end
  end
end

-- Codes that the file has as the model is to have them: put, and true.
local function put_codes(file, name, place, model, shrink, paths)
  local kind = shrink and file.kind_of and file:kind_of(name)
  if not kind or place.entry.turn then return false end
  for _, to in ipairs(place.parts) do
    if not shrink:wants(paths, to.owner, to.key, kind) then return false end
  end
  local codes, scales, code = file:codes(name)
  if not codes then return nil, scales, code end
  local parts, by = weights.take(place, codes, model), weights.take(place, scales, model)
  for i, to in ipairs(place.parts) do shrink:take(paths, to.owner, parts[i], by[i]) end
  codes:free()
  scales:free()
  return true
end

local function read_all(file, model, places, names, o)
  local paths = {}
  local shrink = o.quantize and quantizer.new("load: quantize", o.quantize, true)
  for path, module in model:modules() do paths[module] = path end
  local function each(to)
    if shrink then shrink:read(paths, to.owner, to.key) end
  end
  for _, place in ipairs(places) do
    local done, message, code = put_codes(file, names[place], place, model, shrink, paths)
    if done == nil then return nil, message, code end
    if not done then
      local x
      x, message, code = file:read(names[place])
      if not x then return nil, message, code end
      put_all(place, x, model, o.dtype, each)
      x:free()
    end
  end
  if shrink then shrink:finish(model) end
  return model
end

-- ---- the whole ---------------------------------------------------------------

-- `where`: the file that says the config, for messages.
local function family_of(where, config)
  local kind = config.model_type
  local family = type(kind) == "string" and families.find(kind)
  if family then return family end
  return nil, ("%s: model_type %s; known are %s"):format(where, options.show(kind),
    table.concat(families.known(), ", ")), "data"
end

local function options_of(where, config, family, o)
  local given, message = configs.read(family, config, o.ignore)
  if not given then return nil, ("%s: %s"):format(where, message), "data" end
  if o.context then
    if o.context > given.context then
      core.fail("value", "load", ("context %d, at most the config's %d wanted"):format(o.context,
        given.context))
    end
    given.short = o.context
  end
  return given
end

-- The model, its weights not yet read.
local function build(where, family, given)
  local short = given.short
  given.short = nil
  local ok, model = pcall(family.make or Decoder, given)
  if not ok then
    local why = type(model) == "table" and model.message or tostring(model)
    return nil, ("%s: %s"):format(where, why), "data"
  end
  return model, short
end

local weight_dtypes = { f32 = true, bf16 = true, f16 = true }

local load = {}

--- The name under which a file has a tensor of a family; nil: it has none.
---@param file mrt.File
---@param theirs string
---@param prefix string?  of the family
---@return string?
load.name = name_in

--- Read the options of nn.load.
---@param given? mrt.nn.LoadOptions
---@return mrt.nn.LoadOptions
function load.options(given)
  local o = options.read("load", given, { dtype = options.of "string",
    context = options.of "size", ignore = options.of "table", adapter = options.of "string",
    quantize = options.none, weights = true })
  if o.dtype and not weight_dtypes[o.dtype] then
    core.fail("value", "load", ("dtype %s, f32, bf16 or f16 wanted"):format(options.show(o.dtype)))
  end
  return o
end

--- What a config says the model is.
---@param where string   the file that says it, for messages
---@param config table
---@param o mrt.nn.LoadOptions
---@return mrt.pretrained.Family? family
---@return mrt.nn.DecoderOptions|string settings_or_message
---@return string? code
function load.settings(where, config, o)
  local family, message, code = family_of(where, config)
  if not family then return nil, message, code end
  local settings
  settings, message, code = options_of(where, config, family, o)
  if not settings then return nil, message, code end
  return family, settings
end

--- A model of a config, with the weights of a file that has their names.
---@param path string    of the model
---@param where string   the file that says the config
---@param config table
---@param opened mrt.File
---@param o mrt.nn.LoadOptions
---@return mrt.nn.Decoder? model
---@return string? message
---@return string? code
function load.model(path, where, config, opened, o)
  local family, settings, kind = load.settings(where, config, o)
  if not family then return nil, settings, kind end
  local model, short, code = build(where, family, settings)
  if not model then return nil, short, code end
  local places, strange = weights.places(model, family)
  if #strange > 0 then
    return nil, ("%s: %s has no place for %s"):format(path, family.model_type,
      table.concat(strange, ", ")), "data"
  end
  local names, problems = compare(opened, model, places, family)
  if #problems > 0 then return nil, ("%s:\n  %s"):format(path, described(problems)), "data" end
  if o.weights then
    local done, message, why = read_all(opened, model, places, names, o)
    if not done then return nil, message, why end
  end
  if short then rawset(model, "context", short) end
  rawset(model, "config", config)
  rawset(model, "family", family.model_type)
  rawset(model, "folder", path)
  if o.adapter then return require "mrt.pretrained.peft".load(model, o.adapter) end
  return model
end

--- Load a folder: see nn.load.
---@param path string
---@param given? mrt.nn.LoadOptions
---@return mrt.nn.Decoder? model
---@return string? message
---@return string? code
function load.folder(path, given)
  local o = load.options(given)
  local config, message, code = folder.json(path .. "/config.json")
  if not config then return nil, message, code end
  local family, why_not, how = load.settings(path .. "/config.json", config, o)
  if not family then return nil, why_not, how end
  local opened <close>, why, kind = folder.open(path)
  if not opened then return nil, why, kind end
  return load.model(path, path .. "/config.json", config, opened, o)
end

return load
