--- lbfgs.lua -- quasi-Newton steps from the last gradients, for whole batches
---
--- Liu & Nocedal, "On the limited memory BFGS method for large scale optimization",
--- Mathematical Programming 45 (1989), in the form of PyTorch's LBFGS.  A step makes up to
--- max_iter iterations, each with x all parameters as one vector, g the gradient:
---
---   1.  y = g - g before, s = x - x before; kept if y s > 1e-10, the last
---       history_size pairs
---   2.  d = -H g, H the approximate inverse Hessian of these pairs (two loops)
---   3.  x = x + t d, with t = lr, or by a line search that begins there; in the first
---       iteration of all lr min(1, 1 / |g|_1)
---
--- and ends early where gradient, direction or progress is below the tolerances.
---
--- How many iterations there are depends on numbers, so `step` is no part of a compiled
--- function; what it calls may be one.
---
--- State: vectors d and g, history_size pairs y and s (zeros until they are needed, which
--- take no memory until they are saved), and the numbers `at`.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local argument = require "mrt.util.argument"
local groups = require "mrt.optim.groups"
local line_search = require "mrt.optim.line_search"
local load_state = require "mrt.io.load_state"
local masks = require "mrt.prune.masks"
local describe = require "mrt.util.describe"
local options = require "mrt.util.options"
local owners = require "mrt.optim.owners"

local op = core.op

---@class mrt.LBFGSOptions
---@field lr? number|mrt.Schedule    default 1
---@field max_iter? integer          iterations of a step, default 20
---@field max_eval? integer          calls of the closure in a step, default max_iter * 5 // 4
---@field tolerance_grad? number     of the gradient's largest element, default 1e-7
---@field tolerance_change? number   of changes of parameters and loss, default 1e-9
---@field history_size? integer      default 100
---@field line_search_fn? "strong_wolfe"  default: none

---@class mrt.LBFGS
---@field lr number|mrt.Schedule  of the step's number, from 1
---@field params mrt.Tensor[]
local LBFGS = { name = "lbfgs" }
LBFGS.__index = LBFGS

local defaults = { lr = 1, max_iter = 20, max_eval = options.of "size",
  tolerance_grad = 1e-7, tolerance_change = 1e-9, history_size = 100,
  line_search_fn = options.of "string" }

-- Numbers of the state, by their place in `at`; behind them 1 / y s of each pair.
local numbers = { "steps", "iterations", "evaluations", "pairs", "newest", "t", "H", "loss" }
local MOST_PAIRS <const> = 10000
local WHOLE <const> = 5 -- of them are integers

local function refuse(text, ...) core.fail("value", "lbfgs", text:format(...)) end

-- A step reads its numbers from the state, which may have been loaded, and writes them back.
local function read_numbers(self)
  local values = self.at:totable()
  for i, name in ipairs(numbers) do
    self[name] = i <= WHOLE and math.tointeger(values[i]) or values[i]
  end
  for i = 1, #self.y do self.shares[i] = values[#numbers + i] end
end

local function write_numbers(self)
  local values = {}
  for i, name in ipairs(numbers) do values[i] = self[name] end
  table.move(self.shares, 1, #self.y, #numbers + 1, values)
  mrt.eval(self.at:assign(mrt.tensor(values, "f64")))
end

-- ---- parameters as a vector --------------------------------------------------

local function flat(self, list)
  local parts = {}
  for i, x in ipairs(list) do parts[i] = x:reshape(-1):to(self.dtype) end
  return #parts > 1 and op.cat(parts, 1) or parts[1]
end

-- Set the parameters to a vector.
local function set(self, x)
  local at = 0
  for _, p in ipairs(self.params) do
    local n = p:numel()
    if n > 0 then p:assign(x:slice(1, at + 1, at + n):reshape(p:size()):to(p.dtype)) end
    masks.restore(p)
    at = at + n
  end
  mrt.eval(self.params)
end

-- What the closure gave: the loss, and perhaps gradients, as a list or one by one.
local function gradients(self, loss, first, ...)
  argument.tensor("lbfgs", "what the closure returned", loss)
  if loss:numel() ~= 1 then refuse("the closure returned %s, a scalar wanted", loss:type()) end
  if first == nil then
    local ok, dx = pcall(mrt.grad, loss, self.params)
    if ok then return dx end
    refuse("no gradient of what the closure returned (%s); a compiled closure returns the loss "
      .. "and mrt.grad(loss, params)", tostring(dx))
  end
  local list = core.is_tensor(first) and { first, ... } or first
  argument.tensors("lbfgs", list)
  for i, p in ipairs(self.params) do
    if not list[i] or #list ~= #self.params or list[i]:type() ~= p:type() then
      refuse("gradients of the closure: %d for %d parameters, gradient %d is %s, %s wanted", #list,
        #self.params, i, options.show(list[i]), p:type())
    end
  end
  return list
end

-- The loss and its gradient where the parameters are.
local function evaluate(self, closure)
  self.evaluations = self.evaluations + 1
  local result = table.pack(closure())
  local loss = result[1]
  local g = flat(self, masks.gradients(self.params,
    gradients(self, table.unpack(result, 1, result.n))))
  mrt.eval(loss, g)
  return loss:item(), g, loss
end

-- ---- the direction -----------------------------------------------------------

local function dot(x, y) return op.sum(op.mul(x, y)) end

-- Keep how the gradient has changed along the last step, where it tells something.
local function remember(self, g)
  local y, s = mrt.eval(g - self.g, self.d * self.t)
  local ys = dot(y, s):item()
  if not (ys > 1e-10) then return end
  local size = #self.y
  self.newest = self.newest % size + 1
  self.pairs = math.min(self.pairs + 1, size)
  self.y[self.newest]:assign(y)
  self.s[self.newest]:assign(s)
  self.shares[self.newest], self.H = 1 / ys, ys / dot(y, y):item()
end

-- -H g by the two loops, from the newest pair to the oldest and back.
local function direction(self, g)
  local q, size, along = -g, #self.y, {}
  for k = 0, self.pairs - 1 do
    local i = (self.newest - 1 - k) % size + 1
    along[i] = dot(self.s[i], q) * self.shares[i]
    q = q - self.y[i] * along[i]
  end
  q = q * self.H
  for k = self.pairs - 1, 0, -1 do
    local i = (self.newest - 1 - k) % size + 1
    q = q + self.s[i] * (along[i] - dot(self.y[i], q) * self.shares[i])
  end
  return mrt.eval(q)
end

local function largest(x) return x:numel() > 0 and x:abs():amax():item() or 0 end

-- ---- a step ------------------------------------------------------------------

-- Go along d from where the parameters are; loss and gradient there.
local function go(self, closure, loss, g, slope, last)
  local x = mrt.eval(flat(self, self.params):copy())
  if self.options.line_search_fn == nil then
    set(self, x + self.d * self.t)
    if last then return loss, g end -- nobody would look at them
    return evaluate(self, closure)
  end
  local function try(t)
    set(self, x + self.d * t)
    local f, there = evaluate(self, closure)
    return { t = t, f = f, g = there, slope = dot(there, self.d):item() }
  end
  local found = line_search.strong_wolfe({ t = 0, f = loss, g = g, slope = slope }, self.t, try,
    self.options.tolerance_change / math.max(largest(self.d), 1e-300))
  self.t = found.t
  set(self, x + self.d * found.t)
  return found.f, found.g
end

-- One iteration; true if it was the last.
local function iterate(self, closure, now, k)
  local o = self.options
  self.iterations = self.iterations + 1
  if self.iterations == 1 then
    self.H, self.pairs = 1, 0
    self.d:assign(-now.g)
  else
    remember(self, now.g)
    self.d:assign(direction(self, now.g))
  end
  self.g:assign(now.g)
  mrt.eval(self.d, self.g)
  self.t = self.iterations == 1 and math.min(1, 1 / now.g:abs():sum():item()) * now.lr or now.lr
  local slope = dot(now.g, self.d):item()
  if not (slope <= -o.tolerance_change) then return true end
  local before = now.loss
  now.loss, now.g = go(self, closure, now.loss, now.g, slope, k == o.max_iter)
  self.loss = now.loss
  return self.evaluations - now.evaluations >= o.max_eval
    or largest(now.g) <= o.tolerance_grad
    or largest(self.d) * math.abs(self.t) <= o.tolerance_change
    or math.abs(now.loss - before) < o.tolerance_change
end

--- Make iterations, each of which calls the closure once or, with a line search, more often.
---
---     opt:step(function() return nn.mse(model(x), y) end)
---
---     local loss = mrt.compile(function(a, b)
---       local value = nn.mse(model(a), b)
---       return value, table.unpack(mrt.grad(value, model:parameters()))
---     end)
---     opt:step(function() return loss(x, y) end)
---
--- Shapes: the loss is scalar.
--- Raises: what the closure raises.
---@param closure fun(): mrt.Tensor, any  the loss; and perhaps its gradients, a list or one by
---  one.  It is called at several values of the parameters, and should draw nothing at random
---@return mrt.Tensor loss  as it was before
function LBFGS:step(closure)
  if core.tracing() then
    core.fail("state", "lbfgs", "step decides by numbers that it computes, so it cannot be in a "
      .. "compiled function; compile what it calls")
  end
  argument.callable("lbfgs:step", closure)
  read_numbers(self)
  self.steps = self.steps + 1
  local now = { lr = self:rate(), evaluations = self.evaluations }
  local first
  now.loss, now.g, first = evaluate(self, closure)
  if largest(now.g) > self.options.tolerance_grad then
    for k = 1, self.options.max_iter do
      if iterate(self, closure, now, k) then break end
    end
  end
  write_numbers(self)
  return first
end

--- Return the learning rate of the present step.
---
---     opt:rate()
---@return number
function LBFGS:rate()
  local lr = self.lr
  if type(lr) == "function" then lr = lr(math.max(1, self.steps)) end
  if type(lr) == "number" then return lr end
  refuse("lr: a number wanted, got %s", options.show(lr))
end

--- List the parameters.
---
---     print(#opt:parameters())
---
--- Shapes: variables of any shape.
---@return mrt.Tensor[]
function LBFGS:parameters() return self.params end

-- ---- state -------------------------------------------------------------------

--- Return the state by name.
---
---     local state = opt:state()
---
--- Shapes: variables of any shape.
---@return table<string, mrt.Tensor>
function LBFGS:state()
  local state = { at = self.at, d = self.d, g = self.g }
  for i in ipairs(self.y) do state["y." .. i], state["s." .. i] = self.y[i], self.s[i] end
  return state
end

--- Set the state, all or nothing.
---
--- Raises: a name that is missing, unknown, or has another shape.
---
---     opt:load_state(state)
---@param state table<string, mrt.Tensor>
---@return mrt.LBFGS self
function LBFGS:load_state(state)
  load_state.load(self:state(), state)
  return self
end

function LBFGS:__tostring()
  return ("%s of %s; %s"):format(describe.options("lbfgs", self.options, defaults),
    describe.tensors(self.params), describe.count(self.iterations or 0, "iteration"))
end

local function read_options(given)
  local o = options.read("lbfgs", given, defaults)
  options.size("lbfgs", "max_iter", o.max_iter)
  options.size("lbfgs", "history_size", o.history_size)
  if o.history_size > MOST_PAIRS then
    refuse("history_size %d, 1 to %d wanted: each is two vectors", o.history_size, MOST_PAIRS)
  end
  o.max_eval = o.max_eval or o.max_iter * 5 // 4
  if o.line_search_fn ~= nil and o.line_search_fn ~= "strong_wolfe" then
    refuse("line_search_fn '%s', \"strong_wolfe\" or none wanted", o.line_search_fn)
  end
  return o
end

--- Make an L-BFGS optimizer.
---
---     local opt = optim.lbfgs(model:parameters(), {line_search_fn = "strong_wolfe"})
---
--- Shapes: parameters of any shape.
--- Raises: an option that there is not.
---@param params mrt.Tensor[]
---@param given? mrt.LBFGSOptions
---@return mrt.LBFGS
return function(params, given)
  local o = read_options(given)
  local self = setmetatable({ options = o, lr = o.lr, params = groups.read("lbfgs", params),
    y = {}, s = {}, shares = {}, dtype = "f32" }, LBFGS)
  local n = 0
  for _, p in ipairs(self.params) do
    n = n + p:numel()
    if p:get_dtype() == "f64" then self.dtype = "f64" end
  end
  local function vector(name)
    return mrt.variable(mrt.zeros({ n }, { dtype = self.dtype }), "lbfgs." .. name)
  end
  self.d, self.g = vector "d", vector "g"
  for i = 1, o.history_size do
    self.y[i], self.s[i], self.shares[i] = vector("y." .. i), vector("s." .. i), 0
  end
  for _, name in ipairs(numbers) do self[name] = 0 end
  self.at = mrt.variable(mrt.zeros({ #numbers + o.history_size }, { dtype = "f64" }), "lbfgs.at")
  owners.set(self, self.params)
  return self
end
