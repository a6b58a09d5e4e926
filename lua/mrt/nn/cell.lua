--- cell.lua -- one step of an RNN, an LSTM, a GRU
---
--- Parameters are PyTorch's: `weight_ih [G H, inputs]`, `weight_hh [G H, H]`, `bias_ih` and
--- `bias_hh [G H]`, with G = 1, 4 (i f g o) or 3 (r z n), uniform in +-1/sqrt(H) at first.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local argument = require "mrt.util.argument"
local Module = require "mrt.nn.module"
local initial = require "mrt.nn.initial"
local options = require "mrt.util.options"

local op = core.op
local cell = {}

-- Sums of gates from x, and from the state h.
local function products(self, x, h)
  local a = self.bias_ih and x:linear(self.weight_ih, self.bias_ih) or x:linear(self.weight_ih)
  local b = self.bias_hh and h:linear(self.weight_hh, self.bias_hh) or h:linear(self.weight_hh)
  return a, b
end

-- A state, zeros where none is given.
local function state_of(self, x, what, given)
  local shape = x:size()
  shape[#shape] = self.hidden
  if given == nil then return mrt.zeros(shape, { dtype = x:get_dtype() }) end
  argument.tensor(self.type, what, given)
  if table.concat(given:size(), ",") == table.concat(shape, ",") then return given end
  core.fail("shape", self.type, ("%s is %s, [%s] wanted"):format(what, given:type(),
    table.concat(shape, ",")))
end

local function want_inputs(self, x)
  if (x:dim() == 1 or x:dim() == 2) and x:size(-1) == self.inputs then return end
  core.fail("shape", self.type, ("%s, [N, %d] or [%d] wanted"):format(x:type(), self.inputs,
    self.inputs))
end

-- The class of cells with these gates; step(self, x, states...).
local function class_of(name, gates, defaults, step)
  local class = Module(name, "tensor")
  local names = { "bias", "nonlinearity" }
  function class:init(inputs, hidden, ...)
    options.size(name, "inputs", inputs)
    options.size(name, "hidden", hidden)
    local o = options.read(name, argument.read(name, names, ...), defaults)
    if o.nonlinearity and o.nonlinearity ~= "tanh" and o.nonlinearity ~= "relu" then
      core.fail("value", name, ("nonlinearity '%s', tanh or relu wanted"):format(o.nonlinearity))
    end
    self.inputs, self.hidden, self.nonlinearity = inputs, hidden, o.nonlinearity
    local recipe, rows = initial.uniform(1 / math.sqrt(hidden)), gates * hidden
    self.weight_ih = mrt.parameter(recipe(rows, inputs))
    self.weight_hh = mrt.parameter(recipe(rows, hidden))
    if not o.bias then return end
    self.bias_ih = mrt.parameter(recipe(rows))
    self.bias_hh = mrt.parameter(recipe(rows))
  end
  function class:forward(x, ...)
    want_inputs(self, x)
    return step(self, x, ...)
  end
  function class:describe() return ("%d, %d"):format(self.inputs, self.hidden) end
  cell[name] = class
end

--- h' = tanh(W_ih x + b_ih + W_hh h + b_hh): `[N, inputs]` and perhaps h `[N, H]` -> `[N, H]`.
---
---     nn.RNNCell(3, 4)(mrt.zeros(2, 3)):type()  --> f32[2,4]
---@class mrt.nn.RNNCell: mrt.nn.Module
---@overload fun(inputs: integer, hidden: integer, o?: mrt.nn.RecurrentOptions): mrt.nn.Module
class_of("RNNCell", 1, { bias = true, nonlinearity = "tanh" }, function(self, x, h)
  local a, b = products(self, x, state_of(self, x, "h", h))
  local sum = a + b
  return sum[self.nonlinearity](sum)
end)

--- One step of an LSTM: x and perhaps h and c -> h', c'.
---
---     local h, c = nn.LSTMCell(3, 4)(mrt.zeros(2, 3))
---@class mrt.nn.LSTMCell: mrt.nn.Module
---@overload fun(inputs: integer, hidden: integer, options?: {bias: boolean?}): mrt.nn.Module
class_of("LSTMCell", 4, { bias = true }, function(self, x, h, c)
  local a, b = products(self, x, state_of(self, x, "h", h))
  local _, next_c, next_h = op.lstm_cell(a, b, state_of(self, x, "c", c))
  return next_h, next_c
end)

--- One step of a GRU: x and perhaps h -> h'.
---
---     nn.GRUCell(3, 4)(mrt.zeros(2, 3)):type()  --> f32[2,4]
---@class mrt.nn.GRUCell: mrt.nn.Module
---@overload fun(inputs: integer, hidden: integer, options?: {bias: boolean?}): mrt.nn.Module
class_of("GRUCell", 3, { bias = true }, function(self, x, h)
  h = state_of(self, x, "h", h)
  local a, b = products(self, x, h)
  local _, next_h = op.gru_cell(a, b, h)
  return next_h
end)

return cell
