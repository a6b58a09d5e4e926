--- estimate.lua -- `mrt estimate NAME [options]`: memory from formulas, no graph.
--
-- SPDX-License-Identifier: MIT

local argparse = require "argparse"
local estimate = require "mrt.estimate"
local format = require "mrt.format"

local scale = { K = 1e3, M = 1e6, B = 1e9, T = 1e12 }

-- 2048, 175e9, 3.2M, 175B.
local function count(word)
  local digits, suffix = word:match "^(.-)([KMBT]?)$"
  local n = tonumber(digits)
  local whole = n and math.tointeger(n * (scale[suffix] or 1))
  if whole and whole >= 0 then return whole end
  return nil, ("'%s' is no count (2048, 175e9, 3.2M, 175B)"):format(word)
end

local function yes(word)
  if word == "yes" or word == "no" then return word == "yes" end
  return nil, ("'%s' is neither yes nor no"):format(word)
end

-- Options of one estimate: counts, words and yes-or-no, in its own spelling.
local function add(command, counts, words, choices)
  for name in counts:gmatch "%S+" do
    command:option("--" .. name:gsub("_", "-")):target(name):argname "N":convert(count)
  end
  for name in words:gmatch "%S+" do
    command:option("--" .. name):target(name):argname "NAME"
  end
  for name in (choices or ""):gmatch "%S+" do
    command:option("--" .. name:gsub("_", "-")):target(name):argname "yes|no":convert(yes)
  end
  return command
end

local parser = argparse("mrt estimate", "Weights, activations and optimizer state, by formula.")
parser:command_target "name"
add(parser:command("gpt3", "the eight models of GPT-3"), "tokens", "model")
add(parser:command("transformer", "a GPT: parameters, states, what its layers keep"),
  "layers dim heads sequence vocab context batch ff tensor pipeline interleave",
  "dtype attention recompute", "dropout sequence_parallel bias tie")
add(parser:command("boundary", "activations at the boundaries of layers"),
  "tokens dim layers", "dtype")
add(parser:command("states", "weights, gradients, optimizer state"),
  "parameters", "dtype optimizer")
add(parser:command("zero", "mixed-precision Adam's states on each rank"),
  "parameters ranks stage", "")
add(parser:command("linear", "y = x W^T + b"), "inputs outputs rows", "dtype", "bias")
add(parser:command("matmul", "[m,k] x [k,n]"), "m k n batch", "dtype")
add(parser:command("conv2d", "a convolution over images"),
  "channels filters height width kernel batch stride padding dilation groups", "dtype", "bias")

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

local run = {}

function run.gpt3(o) print(estimate.gpt3.text(o)) end

function run.boundary(o) show("boundary", estimate.boundary(o)) end

function run.zero(o) show("states", estimate.zero(o)) end

function run.states(o)
  show_all(estimate.states(o), "weights gradients optimizer literature persistent")
end

-- Its activations always; parameters and states once there is a vocabulary.
function run.transformer(o)
  local kept = estimate.activations(pick(o, "layers dim heads sequence vocab batch ff tensor "
    .. "pipeline interleave dtype attention recompute dropout sequence_parallel"))
  if o.vocab then
    local described = pick(o, "layers dim vocab context ff bias tie")
    described.layers, described.context = o.layers or 1, o.context or o.sequence
    local n = estimate.parameters(described)
    show("parameters", n)
    print "f32, of the whole model"
    run.states { parameters = n }
  end
  print "activations, on one rank"
  show_all(kept, "layer layers embedding norm head logits total")
end

for _, name in ipairs { "linear", "matmul", "conv2d" } do
  run[name] = function(o)
    show_all(estimate[name](o), "parameters weights kept output flops")
  end
end

local function complain(text)
  io.stderr:write("mrt: ", text, "\n")
  return 1
end

return function(...)
  local first = ...
  if not first then
    print(parser:get_help())
    return
  elseif first:sub(1, 1) ~= "-" and not run[first] then
    return complain(("estimate: no '%s', there is gpt3, transformer, boundary, states, "
      .. "zero, linear, matmul, conv2d"):format(first))
  end
  local o = parser:parse { ... }
  local name = o.name
  o.name, o[name] = nil, nil -- argparse marks the command given
  local fine, problem = pcall(run[name], o)
  if fine then return end
  if type(problem) ~= "table" then error(problem, 0) end
  return complain(problem.message)
end
