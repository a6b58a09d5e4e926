--- recurrent.lua -- RNN, LSTM and GRU, unrolled over time when traced
---
--- Parameters, their names and the order of gates are PyTorch's:
--- `weight_ih_l0 [G H, inputs]`, `weight_hh_l0 [G H, H]`, `bias_ih_l0` and
--- `bias_hh_l0 [G H]`, `..._l1` and so on, with G = 1 (RNN), 4 (LSTM: i f g o)
--- or 3 (GRU: r z n); all begin uniform in +-1/sqrt(H).
---
--- Time is worked through in chunks.  In a chunk a layer multiplies all its
--- inputs by weight_ih at once, then goes step by step; the gradient of
--- weight_hh is one product over the chunk too (core/op/each_use.c), so memory
--- for gradients of weights does not grow with time.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local argument = require "mrt.util.argument"
local Module = require "mrt.nn.module"
local initial = require "mrt.nn.initial"
local options = require "mrt.util.options"

local op = core.op
local LONGEST = 64 -- steps of a chunk: uses of one shared weight

---@class mrt.nn.RecurrentOptions
---@field layers? integer        default 1
---@field bias? boolean          default true
---@field batch_first? boolean   `[N,T,...]` in place of `[T,N,...]`; default false
---@field dropout? number        between layers, while training; default 0
---@field chunk? integer         steps of a chunk, 1 to 64; default 64
---@field nonlinearity? "tanh"|"relu"  of RNN; default "tanh"
---@field bidirectional? boolean  each layer goes from the end to the beginning too, with
---  parameters of its own (`weight_ih_l0_reverse` ...); results `[..., 2 H]`, states in the
---  order of layers, forward and back in turn; default false

-- What sets one kind of cell apart: how many gates it has, how many states,
-- whether both biases can be added at once, and one step: the states from the
-- products a, b and the states before.
local kinds = {
  RNN = {
    gates = 1, states = 1, joint_bias = true,
    step = function(self, a, b)
      local sum = a + b
      return { sum[self.nonlinearity](sum) }
    end,
  },
  LSTM = {
    gates = 4, states = 2, joint_bias = true,
    step = function(_, a, b, states)
      local _, c, h = op.lstm_cell(a, b, states[2])
      return { h, c }
    end,
  },
  GRU = {
    gates = 3, states = 1, joint_bias = false,
    step = function(_, a, b, states)
      local _, h = op.gru_cell(a, b, states[1])
      return { h }
    end,
  },
}

local function read_options(name, inputs, hidden, given)
  options.size(name, "inputs", inputs)
  options.size(name, "hidden", hidden)
  local o = options.read(name, given, { layers = 1, bias = true, batch_first = false,
    dropout = 0, chunk = LONGEST, nonlinearity = name == "RNN" and "tanh" or nil,
    bidirectional = false })
  options.size(name, "layers", o.layers)
  if math.type(o.chunk) ~= "integer" or o.chunk < 1 or o.chunk > LONGEST then
    core.fail("value", name, ("chunk = %s, 1 to %d wanted"):format(o.chunk, LONGEST))
  elseif not (o.dropout >= 0 and o.dropout < 1) then
    core.fail("value", name, ("dropout = %g, wanted 0 <= dropout < 1"):format(o.dropout))
  elseif name == "RNN" and o.nonlinearity ~= "tanh" and o.nonlinearity ~= "relu" then
    core.fail("value", name, ("nonlinearity '%s', tanh or relu wanted"):format(o.nonlinearity))
  end
  return o
end

-- The parameter `name` of run `r` through a layer, nil without biases.  There is one run
-- for each layer, or forward and back in turn.
local function parameter(self, name, r)
  if not self.bidirectional then return self[("%s_l%d"):format(name, r - 1)] end
  return self[("%s_l%d%s"):format(name, (r - 1) // 2, r % 2 == 0 and "_reverse" or "")]
end

local function init(self, inputs, hidden, given)
  local kind = kinds[self.type]
  local o = read_options(self.type, inputs, hidden, given)
  for key, value in pairs(o) do self[key] = value end
  self.inputs, self.hidden = inputs, hidden
  local recipe, rows = initial.uniform(1 / math.sqrt(hidden)), kind.gates * hidden
  local ways = o.bidirectional and { "", "_reverse" } or { "" }
  self.runs = o.layers * #ways
  for l = 0, o.layers - 1 do
    for _, way in ipairs(ways) do
      local name = l .. way
      self["weight_ih_l" .. name] = mrt.parameter(recipe(rows, l == 0 and inputs or hidden * #ways))
      self["weight_hh_l" .. name] = mrt.parameter(recipe(rows, hidden))
      if o.bias then
        self["bias_ih_l" .. name] = mrt.parameter(recipe(rows))
        self["bias_hh_l" .. name] = mrt.parameter(recipe(rows))
      end
    end
  end
end

-- One layer's parameters as its steps read them.
local function layer_of(self, l)
  local layer = { input = parameter(self, "weight_ih", l),
    state = parameter(self, "weight_hh", l), bias = parameter(self, "bias_ih", l) }
  local own = parameter(self, "bias_hh", l)
  if own and kinds[self.type].joint_bias then
    layer.bias = layer.bias + own
  else
    layer.own_bias = own
  end
  return layer
end

-- Results and the last states of a layer over one chunk, x `[t, N, ...]`, from its end to
-- its beginning if so asked.
local function run_chunk(self, layer, x, states, back)
  local step, t = kinds[self.type].step, x:size(1)
  local a = layer.bias and x:linear(layer.input, layer.bias) or x:linear(layer.input)
  local products = { a:split(1, 1) }
  local weights = { op.each_use(layer.state, { count = t }) }
  local biases = layer.own_bias and { op.each_use(layer.own_bias, { count = t }) } or {}
  local results = {}
  for k = 1, t do
    local i = back and t + 1 - k or k
    local h = states[1]
    local b = biases[i] and h:linear(weights[i], biases[i]) or h:linear(weights[i])
    states = step(self, products[i]:squeeze(1), b, states)
    results[i] = states[1]
  end
  return mrt.stack(results), states
end

-- Initial states of all layers: given as `[runs, N, H]`, or zeros.
local function initial_states(self, x, n, given)
  local shape, list = { self.runs, n, self.hidden }, {}
  for l = 1, self.runs do list[l] = {} end
  for s = 1, kinds[self.type].states do
    local all = given[s]
    if all ~= nil then argument.tensor(self.type, "initial state " .. s, all) end
    if all and table.concat(all:size(), ",") ~= table.concat(shape, ",") then
      core.fail("shape", self.type, ("initial state %d is %s, [%s] wanted")
        :format(s, all:type(), table.concat(shape, ",")))
    end
    for l = 1, self.runs do
      list[l][s] = all and all:select(1, l)
        or mrt.zeros({ n, self.hidden }, { dtype = x:get_dtype() })
    end
  end
  return list
end

local function check(self, x)
  if x:dim() == 3 and x:size(3) == self.inputs and x:numel() > 0 then return end
  core.fail("shape", self.type, ("%s, [%s, %d] with at least one step wanted"):format(x:type(),
    self.batch_first and "N, T" or "T, N", self.inputs))
end

-- The last states, `[runs, N, H]` each.
local function last_states(self, states)
  local list = {}
  for s = 1, kinds[self.type].states do
    local of_layers = {}
    for l = 1, self.runs do of_layers[l] = states[l][s] end
    list[s] = mrt.stack(of_layers)
  end
  return table.unpack(list)
end

-- x in pieces of `size` steps; a split has a limited number of results.
local function pieces(x, size)
  local most, list = size * LONGEST, {}
  if x:size(1) <= size then return { x } end
  if x:size(1) <= most then return { x:split(size, 1) } end
  for _, part in ipairs { x:split(most * ((x:size(1) - 1) // (most * LONGEST) + 1), 1) } do
    for _, piece in ipairs(pieces(part, size)) do list[#list + 1] = piece end
  end
  return list
end

-- What lies between layers.
local function between(self, l, y)
  if l == 1 or not self.training or self.dropout == 0 then return y end
  return y:dropout { p = self.dropout }
end

-- All layers, each over all time before the next, there and back.
local function both_ways(self, layers, x, states)
  for l = 1, self.layers do
    local list, ways = pieces(between(self, l, x), self.chunk), {}
    for way = 1, 2 do
      local r, results = 2 * l - 2 + way, {}
      for k = 1, #list do
        local i = way == 2 and #list + 1 - k or k
        results[i], states[r] = run_chunk(self, layers[r], list[i], states[r], way == 2)
      end
      ways[way] = #results > 1 and mrt.cat(results, 1) or results[1]
    end
    x = mrt.cat(ways, 3)
  end
  return x
end

-- All layers side by side, a chunk of time after the other.
local function one_way(self, layers, x, states)
  local results = {}
  for i, y in ipairs(pieces(x, self.chunk)) do
    for l = 1, self.layers do
      y, states[l] = run_chunk(self, layers[l], between(self, l, y), states[l])
    end
    results[i] = y
  end
  return #results > 1 and mrt.cat(results, 1) or results[1]
end

local function forward(self, x, ...)
  check(self, x)
  if self.batch_first then x = x:transpose(1, 2) end
  local layers = {}
  local states = initial_states(self, x, x:size(2), { ... })
  for r = 1, self.runs do layers[r] = layer_of(self, r) end
  local run = self.bidirectional and both_ways or one_way
  local y = run(self, layers, x, states)
  return self.batch_first and y:transpose(1, 2) or y, last_states(self, states)
end

local function describe(self)
  return ("%d, %d%s"):format(self.inputs, self.hidden,
    self.layers > 1 and (", %d layers"):format(self.layers) or "")
end

local function new_class(name)
  local class = Module(name, "tensor")
  class.init, class.forward, class.describe = init, forward, describe
  return class
end

local recurrent = {}

--- Make an Elman network: h = tanh(W_ih x + b_ih + W_hh h + b_hh).
---
---     local y, h = nn.RNN(8, 16)(mrt.randn(20, 4, 8))   -- [20,4,16], [1,4,16]
---@class mrt.nn.RNN: mrt.nn.Module
---@overload fun(inputs: integer, hidden: integer, options?: mrt.nn.RecurrentOptions): mrt.nn.RNN
recurrent.RNN = new_class "RNN"

--- Make an LSTM (Hochreiter & Schmidhuber 1997, with a forget gate).  It takes x
--- and perhaps the first states h and c, `[layers, N, H]`, and returns all
--- results of the last layer and the last states.
---
---     local lstm = nn.LSTM(8, 16, {layers = 2})
---     local y, h, c = lstm(x)
---     y, h, c = lstm(next_x, h, c)
---@class mrt.nn.LSTM: mrt.nn.Module
---@overload fun(inputs: integer, hidden: integer, options?: mrt.nn.RecurrentOptions): mrt.nn.LSTM
recurrent.LSTM = new_class "LSTM"

--- Make a GRU (Cho et al. 2014, arXiv:1406.1078); it is called like an RNN.
---
---     nn.GRU(3, 4)(mrt.zeros(2, 5, 3)):type()  --> f32[2,5,4]
---@class mrt.nn.GRU: mrt.nn.Module
---@overload fun(inputs: integer, hidden: integer, options?: mrt.nn.RecurrentOptions): mrt.nn.GRU
recurrent.GRU = new_class "GRU"

return recurrent
