--- gpt3.lua -- the eight models of Brown et al. 2020 (arXiv:2005.14165), table 2.1
---
--- Figures as printed there, two of them inconsistent: 1.3B has 24 heads of 128 in
--- a width of 2048, 13B 40 of 128 in 5140.  Parameters are counted with heads that
--- make up the width, which comes to the 1.3B; 24 heads of 128 have 1.52B.  All have
--- 2048 tokens of context, an MLP of four widths, and GPT-2's vocabulary of 50257.
---
--- SPDX-License-Identifier: MIT

local format = require "mrt.util.format"
local options = require "mrt.util.options"
local read = require "mrt.estimate.read"
local states = require "mrt.estimate.states"
local transformer = require "mrt.estimate.transformer"

---@class mrt.estimate.GPT3Model
---@field name string         "125M" to "175B"
---@field title string        the paper's
---@field nominal integer     parameters, as published
---@field layers integer
---@field dim integer
---@field heads integer
---@field head integer        width of a head
---@field batch integer       tokens in a batch, as published
---@field lr number
---@field context integer
---@field vocab integer
local gpt3 = {}

local fields = { "name", "title", "nominal", "layers", "dim", "heads", "head", "batch", "lr" }

local published = {
  { "125M", "Small", 125e6, 12, 768, 12, 64, 500000, 6.0e-4 },
  { "350M", "Medium", 350e6, 24, 1024, 16, 64, 500000, 3.0e-4 },
  { "760M", "Large", 760e6, 24, 1536, 16, 96, 500000, 2.5e-4 },
  { "1.3B", "XL", 1.3e9, 24, 2048, 24, 128, 1000000, 2.0e-4 },
  { "2.7B", "2.7B", 2.7e9, 32, 2560, 32, 80, 1000000, 1.6e-4 },
  { "6.7B", "6.7B", 6.7e9, 32, 4096, 32, 128, 2000000, 1.2e-4 },
  { "13B", "13B", 13e9, 40, 5140, 40, 128, 2000000, 1.0e-4 },
  { "175B", "175B", 175e9, 96, 12288, 96, 128, 3200000, 0.6e-4 },
}

--- The models, smallest first.
---@type mrt.estimate.GPT3Model[]
gpt3.models = {}
for i, row in ipairs(published) do
  local model = { context = 2048, vocab = 50257 }
  for j, field in ipairs(fields) do model[field] = row[j] end
  model.nominal = math.tointeger(model.nominal)
  gpt3.models[i] = model
end

--- Return a model by its name or title.
---
--- Raises: no such model; the message lists them.
---
---     mrt.estimate.gpt3.find "175B"
---@param name string  "2.7B", "small"
---@return mrt.estimate.GPT3Model
function gpt3.find(name)
  local known = {}
  for _, model in ipairs(gpt3.models) do
    local wanted = tostring(name):lower()
    if wanted == model.name:lower() or wanted == model.title:lower() then return model end
    known[#known + 1] = model.name
  end
  read.refuse("estimate.gpt3", "no model '%s', there is %s", tostring(name),
    table.concat(known, ", "))
end

---@class mrt.estimate.GPT3
---@field model mrt.estimate.GPT3Model
---@field parameters integer  counted
---@field tokens integer
---@field weights integer     bytes, of the nominal parameters as all states
---@field adam integer        bytes in f32 as the literature counts: 3 N, with gradients
---@field optimizer integer   bytes in f32 that persist in mrt: 2 N
---@field boundary integer    bytes of activations at the boundaries of layers

--- Estimate one model.
---
---     mrt.estimate.gpt3.estimate "175B"
---
--- Raises: a model that there is not.
---@param model mrt.estimate.GPT3Model|string
---@param given? {tokens: integer?, dtype: string?}  its published batch, f16
---@return mrt.estimate.GPT3
function gpt3.estimate(model, given)
  if type(model) ~= "table" then model = gpt3.find(model) end
  local o = read.options("estimate.gpt3", given, { tokens = model.batch, dtype = "f16" })
  local adam = states.states { parameters = model.nominal }
  return {
    model = model, tokens = math.tointeger(o.tokens),
    parameters = transformer.parameters { vocab = model.vocab, context = model.context,
      dim = model.dim, layers = model.layers },
    weights = states.states { parameters = model.nominal, dtype = o.dtype }.weights,
    adam = adam.literature, optimizer = adam.optimizer,
    boundary = transformer.boundary { tokens = o.tokens, dim = model.dim,
      layers = model.layers, dtype = o.dtype },
  }
end

-- ---- text --------------------------------------------------------------------

-- Decimal gigabytes, as the literature has them.
local function gb(bytes)
  local tenths = math.floor(bytes / 1e8 + 0.5)
  return ("%s.%d"):format(format.count(tenths // 10), tenths % 10)
end

local function gib(bytes) return ("%.2f GiB"):format(bytes / 1024 ^ 3) end

local function add(lines, text, ...) lines[#lines + 1] = text:format(...) end

local function shapes(lines, models)
  add(lines, "GPT-3 as published (arXiv:2005.14165, table 2.1); context 2048")
  add(lines, "%-7s %6s %6s %6s %6s %10s %8s  %15s", "model", "layers", "width", "heads",
    "head", "batch", "lr", "parameters")
  for _, m in ipairs(models) do
    add(lines, "%-7s %6d %6d %6d %6d %10s %8.1e  %15s", m.title, m.layers, m.dim, m.heads,
      m.head, format.count(m.batch), m.lr, format.count(gpt3.estimate(m).parameters))
  end
end

local function memory(lines, models, tokens)
  add(lines, "\ndecimal GB; boundary: activations at the boundaries of layers only, which "
    .. "checkpointing leaves")
  add(lines, "%-7s %9s %9s %9s %9s %10s %10s %10s", "", "weights", "weights", "Adam 3N",
    "mrt's 2N", "", "boundary", "boundary")
  add(lines, "%-7s %9s %9s %9s %9s %10s %10s %10s", "model", "16 bit", "f32", "f32", "f32",
    "tokens", "16 bit", "f32")
  for _, m in ipairs(models) do
    local n = tokens or m.batch
    local half = gpt3.estimate(m, { tokens = n })
    local full = gpt3.estimate(m, { tokens = n, dtype = "f32" })
    add(lines, "%-7s %9s %9s %9s %9s %10s %10s %10s", m.title, gb(half.weights),
      gb(full.weights), gb(half.adam), gb(half.optimizer), format.count(half.tokens),
      gb(half.boundary), gb(full.boundary))
  end
  add(lines, "3N counts the gradients, as the literature does; mrt's 2N persists, and "
    .. "gradients live in\nthe arena.  States are of the published number of parameters.")
end

-- The two figures that are quoted most.
local function famous(lines)
  local one = gpt3.estimate("2.7B", { tokens = 1000000 })
  local two = gpt3.estimate("2.7B", { tokens = 1000000, dtype = "f32" })
  add(lines, "\n2.7B, one million tokens, checkpointed at layers: %s (f32: %s)",
    gib(one.boundary), gib(two.boundary))
  local big = gpt3.find "175B"
  local exact = gpt3.estimate(big).boundary
  local rounded = math.floor(exact / big.layers / 1e9) -- whole GB a layer, cut off
  add(lines, "175B, 3.2M tokens: %s / %s GB; published, rounded a layer to %d / %d GB: "
    .. "%s / %s", gb(exact), gb(2 * exact), rounded, 2 * rounded,
    format.count(rounded * big.layers), format.count(2 * rounded * big.layers))
end

--- Return the table as text: shapes, weights, states and boundary activations.
---
---     print(mrt.estimate.gpt3.text())
---
--- Raises: an option that there is not.
---@param given? {model: string?, tokens: integer?}  one model only; tokens
---  instead of each model's own batch
---@return string
function gpt3.text(given)
  local o = options.read("estimate.gpt3", given,
    { model = options.none, tokens = options.none })
  local models, lines = o.model and { gpt3.find(o.model) } or gpt3.models, {}
  shapes(lines, models)
  memory(lines, models, o.tokens)
  if o.model then
    local e = gpt3.estimate(models[1], { tokens = o.tokens })
    add(lines, "\nboundary activations of %s tokens: %s (f32: %s)", format.count(e.tokens),
      gib(e.boundary), gib(2.0 * e.boundary))
  else
    famous(lines)
  end
  return table.concat(lines, "\n")
end

return gpt3
