--- estimate.lua -- `mrt estimate NAME [options]`: memory from formulas, no graph.
--
-- With --json the same numbers are as mrt/plan/report/estimate_json.lua describes.
--
-- SPDX-License-Identifier: MIT

local arguments = require "mrt.cli.arguments"
local estimate = require "mrt.estimate"
local format = require "mrt.util.format"

local scale = { K = 1e3, M = 1e6, B = 1e9, T = 1e12 }

-- 2048, 175e9, 3.2M, 175B.
local function count(word)
  local digits, suffix = word:match "^(.-)([KMBT]?)$"
  local n = tonumber(digits)
  local whole = n and math.tointeger(n * (scale[suffix] or 1))
  if whole and whole >= 0 then return whole end
  return nil, ("'%s' is no count (2048, 175e9, 3.2M, 175B)"):format(word)
end

local not_bytes = { parameters = format.count, flops = function(n) return ("%.4g"):format(n) end }

local titles = { literature = "optimizer + gradients", persistent = "weights + optimizer" }

local function show(name, value)
  if not_bytes[name] then
    print(("%-22s %25s"):format(name, not_bytes[name](value)))
  else
    print(("%-22s %25s bytes %12s"):format(titles[name] or name, math.type(value) == "integer"
      and format.count(value) or ("%.6g"):format(value), format.bytes(value)))
  end
end

local function show_all(values, names)
  for name in names:gmatch "%S+" do
    if values[name] then show(name, values[name]) end
  end
end

local function pick(options, names)
  local out = {}
  for name in names:gmatch "%S+" do out[name] = options[name] end
  return out
end

-- ---- numbers: what --json prints ---------------------------------------------

local collect = {}

function collect.gpt3(o)
  local models = {}
  for i, model in ipairs(o.model and { estimate.gpt3.find(o.model) }
    or estimate.gpt3.models) do
    local half = estimate.gpt3.estimate(model, { tokens = o.tokens })
    local full = estimate.gpt3.estimate(model, { tokens = o.tokens, dtype = "f32" })
    local row = { parameters = half.parameters, tokens = half.tokens,
      weights = half.weights, weights_f32 = full.weights, adam = half.adam,
      optimizer = half.optimizer, boundary = half.boundary,
      boundary_f32 = full.boundary }
    for key, value in pairs(model) do row[key] = value end
    models[i] = row
  end
  return { models = models }
end

function collect.boundary(o) return { boundary = estimate.boundary(o) } end

function collect.zero(o) return { states = estimate.zero(o) } end

collect.states = estimate.states

-- Its activations always; parameters and states once there is a vocabulary.
function collect.transformer(o)
  local out = { activations = estimate.activations(pick(o, "layers dim heads head_dim sequence "
    .. "vocab batch ff tensor pipeline interleave dtype attention recompute dropout "
    .. "sequence_parallel")) }
  if o.vocab then
    local described = pick(o, "layers dim heads head_dim vocab context ff bias tie")
    described.layers, described.context = o.layers or 1, o.context or o.sequence
    out.parameters = estimate.parameters(described)
    out.states = estimate.states { parameters = out.parameters }
  end
  return out
end

for _, name in ipairs { "linear", "matmul", "conv2d" } do
  collect[name] = estimate[name]
end

-- ---- text --------------------------------------------------------------------

local names = { states = "weights gradients optimizer literature persistent",
  activations = "layer layers embedding norm head logits total" }

local function print_values(_, values)
  show_all(values, "parameters boundary states " .. names.states .. " kept output flops")
end

local print_text = setmetatable({}, { __index = function() return print_values end })

function print_text.gpt3(o) print(estimate.gpt3.text(o)) end

function print_text.states(_, values) show_all(values, names.states) end

function print_text.transformer(_, values)
  if values.parameters then
    show("parameters", values.parameters)
    print "f32, of the whole model"
    show_all(values.states, names.states)
  end
  print "activations, on one rank"
  show_all(values.activations, names.activations)
end

local function print_all(name, o)
  local json = o.json
  o.json = nil
  local values = collect[name](o)
  if not json then return print_text[name](o, values) end
  print(require "mrt.plan.report.estimate_json" (name, values))
end

local function run(name, o)
  local fine, problem = pcall(print_all, name, o)
  if fine then return 0 end
  if type(problem) ~= "table" then error(problem, 0) end
  io.stderr:write("mrt estimate: ", problem.message, "\n")
  return 1
end

-- ---- what each takes -----------------------------------------------------------

-- The parser of one estimate: its counts, words and yes-or-no, in its own spelling.
local function parser_of(name, about, counts, words, choices)
  local given = { name = "mrt estimate " .. name, word = name, about = about,
    run = function(o) return run(name, o) end }
  local function add(row)
    row[1] = "--" .. row[1]:gsub("_", "-")
    given[#given + 1] = row
  end
  for option in counts:gmatch "%S+" do add { option .. " N", "", read = count } end
  for option in (words or ""):gmatch "%S+" do add { option .. " NAME", "" } end
  for option in (choices or ""):gmatch "%S+" do add { option .. " yes|no", "" } end
  given[#given + 1] = { "--json", "print JSON" }
  return arguments.new(given)
end

local commands = {}

local function estimates(rows)
  for i, row in ipairs(rows) do commands[i] = parser_of(table.unpack(row)) end
end

estimates {
  { "gpt3", "the eight models of GPT-3", "tokens", "model" },
  { "transformer", "a GPT: parameters, states, what its layers keep",
    "layers dim heads head_dim sequence vocab context batch ff tensor pipeline interleave",
    "dtype attention recompute", "dropout sequence_parallel bias tie" },
  { "boundary", "activations at the boundaries of layers", "tokens dim layers", "dtype" },
  { "states", "weights, gradients, optimizer state", "parameters", "dtype optimizer" },
  { "zero", "mixed-precision Adam's states on each rank", "parameters ranks stage" },
  { "linear", "y = x W^T + b", "inputs outputs rows", "dtype", "bias" },
  { "matmul", "[m,k] x [k,n]", "m k n batch", "dtype" },
  { "conv2d", "a convolution over images",
    "channels filters height width kernel batch stride padding dilation groups", "dtype", "bias" },
}

return arguments.new {
  name = "mrt estimate",
  about = "Weights, activations and optimizer state by formula, without a graph.",
  commands = commands,
  bare = true,
  { "--json", "print JSON" },
  more = "mrt estimate NAME --help lists what each takes: counts as 2048, 175e9, 3.2M, 175B.",
}
