--- mrt -- a training runtime: lazy tensors, gradients, steps planned to the byte
---
---     local mrt = require "mrt"
---     local x = mrt.randn(4, 8)
---     local y = (x * x):sum()
---     print(mrt.grad(y, x))
---
--- Sub-modules (`mrt.nn`, `mrt.optim`, `mrt.data`, ...) load when they are first
--- used.  Nothing global is set.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

core.root(debug.getinfo(1, "S").source)
require "mrt.tensor"

local argument = require "mrt.argument"
local accumulate = require "mrt.accumulate"
local compile = require "mrt.compile"
local file = require "mrt.file"
local scope = require "mrt.scope"
local op = core.op

---@class mrt
---@field nn table
---@field optim table
---@field policy table
---@field data table
---@field train table
---@field estimate mrt.estimate
---@field version string
local mrt = { version = core.info().version }

-- ---- arguments -------------------------------------------------------------

local refuse = argument.refuse

-- A shape and options: (4, 8), ({4, 8}), (4, 8, {dtype = "f64"}) or
-- {4, 8, dtype = "f64"} -> {4, 8}, options.
local function read_shape(who, ...)
  local given, n, shape, options = { ... }, select("#", ...), {}, {}
  for i = 1, n do
    local value = given[i]
    if type(value) == "table" and not core.is_tensor(value) then
      for key, field in pairs(value) do
        if math.type(key) == "integer" then shape[key] = field
        else options[key] = field end
      end
    elseif type(value) == "number" then
      shape[#shape + 1] = value
    else
      refuse(who, "a shape wanted, got %s", tostring(value))
    end
  end
  return shape, options
end

local function check_options(who, options)
  if type(options) ~= "table" then
    refuse(who, "a table of options wanted, got %s", type(options))
  end
end

local function only_dtype(who, options)
  check_options(who, options)
  for name in pairs(options) do
    if name ~= "dtype" then
      refuse(who, "no option '%s' (options: dtype)", tostring(name))
    end
  end
  return options.dtype
end

-- ---- tensors from numbers --------------------------------------------------

--- Make a tensor of a number or of nested tables of numbers: integers give i64,
--- others f32, booleans bool, unless `dtype` says otherwise.  A tensor is
--- detached and converted.
---@param value any
---@param dtype? mrt.DType|{dtype: mrt.DType?}
---@return mrt.Tensor
function mrt.tensor(value, dtype)
  if type(dtype) == "table" then dtype = only_dtype("tensor", dtype) end
  if core.is_tensor(value) then
    value = op.detach(value)
    return dtype and value:to(dtype) or value
  end
  return core.tensor(value, dtype)
end

--- Make a tensor of bytes, row-major and little-endian.
---@param bytes string
---@param dtype mrt.DType
---@param shape integer[]
---@return mrt.Tensor
function mrt.from_bytes(bytes, dtype, shape)
  return core.from_bytes(bytes, dtype, shape)
end

--- Make a tensor of one number everywhere.
---@param shape integer[]
---@param value number
---@param options? {dtype: mrt.DType?}  default f32
---@return mrt.Tensor
function mrt.full(shape, value, options)
  if type(shape) == "number" then shape = { shape } end
  return op.full { shape = shape, value = value,
    dtype = only_dtype("full", options or {}) }
end

--- Make zeros: `mrt.zeros(4, 8)`, `mrt.zeros({4, 8}, {dtype = "i64"})`.
---@param ... integer|integer[]|{dtype: mrt.DType?}
---@return mrt.Tensor
function mrt.zeros(...)
  local shape, options = read_shape("zeros", ...)
  return mrt.full(shape, 0, options)
end

---@param ... integer|integer[]|{dtype: mrt.DType?}
---@return mrt.Tensor
function mrt.ones(...)
  local shape, options = read_shape("ones", ...)
  return mrt.full(shape, 1, options)
end

local function like(name, value)
  return function(x)
    if not core.is_tensor(x) then refuse(name, "a tensor wanted") end
    return mrt.full(x.shape, value, { dtype = x.dtype })
  end
end

---@type fun(x: mrt.Tensor): mrt.Tensor
mrt.zeros_like = like("zeros_like", 0)
---@type fun(x: mrt.Tensor): mrt.Tensor
mrt.ones_like = like("ones_like", 1)

--- Uniform in [0, 1).
---@param ... integer|integer[]|{dtype: mrt.DType?}
---@return mrt.Tensor
function mrt.rand(...)
  local shape, options = read_shape("rand", ...)
  return op.rand { shape = shape, dtype = only_dtype("rand", options) }
end

--- Normal with mean 0 and variance 1.
---@param ... integer|integer[]|{dtype: mrt.DType?}
---@return mrt.Tensor
function mrt.randn(...)
  local shape, options = read_shape("randn", ...)
  return op.randn { shape = shape, dtype = only_dtype("randn", options) }
end

--- Uniform integers, low <= x < high.
---@param low integer
---@param high integer
---@param ... integer|integer[]|{dtype: mrt.DType?}  the shape; dtype i64
---@return mrt.Tensor
function mrt.randint(low, high, ...)
  local shape, options = read_shape("randint", ...)
  return op.randint { low = low, high = high, shape = shape,
    dtype = only_dtype("randint", options) }
end

--- start, start + step, ... short of stop; `mrt.arange(stop)` begins at 0.
--- Integers give i64, others f32.
---@param start number
---@param stop? number
---@param step? number  default 1
---@param options? {dtype: mrt.DType?}
---@return mrt.Tensor
function mrt.arange(start, stop, step, options)
  if type(stop) == "table" then stop, options = nil, stop end
  if type(step) == "table" then step, options = nil, step end
  if not stop then start, stop = 0, start end
  step = step or 1
  local whole = math.type(start) == "integer" and math.type(stop) == "integer"
    and math.type(step) == "integer"
  return op.arange { start = start, stop = stop, step = step,
    dtype = only_dtype("arange", options or {}) or (whole and "i64" or "f32") }
end

--- `count` numbers from first to last, both included, evenly spaced.
---@param first number
---@param last number
---@param count integer
---@param options? {dtype: mrt.DType?}  default f32
---@return mrt.Tensor
function mrt.linspace(first, last, count, options)
  local dtype = only_dtype("linspace", options or {}) or "f32"
  if math.type(count) ~= "integer" or count < 1 then
    refuse("linspace", "%s numbers, a positive integer wanted", tostring(count))
  end
  local i = op.arange { stop = count, dtype = "f64" }
  local step = count > 1 and (last - first) / (count - 1) or 0.0
  return (i * step + first):to(dtype)
end

--- The identity matrix `[n, m]`.
---@param n integer
---@param m? integer|{dtype: mrt.DType?}  default n
---@param options? {dtype: mrt.DType?}    default f32
---@return mrt.Tensor
function mrt.eye(n, m, options)
  if type(m) == "table" then m, options = nil, m end
  local dtype = only_dtype("eye", options or {}) or "f32"
  local row = op.arange { stop = n, dtype = "i64" }:unsqueeze(2)
  return op.eq(row, op.arange { stop = m or n, dtype = "i64" }):to(dtype)
end

-- ---- several tensors -------------------------------------------------------

--- Join tensors along a dimension.
---@param list mrt.Tensor[]
---@param dim? integer  default 1
---@return mrt.Tensor
function mrt.cat(list, dim) return op.cat(list, dim) end

--- Join tensors of one shape along a new dimension.
---@param list mrt.Tensor[]
---@param dim? integer  default 1
---@return mrt.Tensor
function mrt.stack(list, dim)
  local rows = {}
  for i, x in ipairs(argument.tensors("stack", list)) do rows[i] = x:unsqueeze(dim or 1) end
  return op.cat(rows, dim)
end

-- ---- gradients -------------------------------------------------------------

---@class mrt.GradOptions
---@field allow_unused? boolean
---@field grad_outputs? mrt.Tensor|mrt.Tensor[]
---@field denominator? mrt.Tensor  with micro-batches (see mrt.compile), a scalar
---  t: the gradient is sum t g / sum t over them, where the loss does not tell; the
---  loss is a mean over what t counts

local function as_list(value) return core.is_tensor(value) and { value } or value end

local grad_options = { allow_unused = true, grad_outputs = true,
  denominator = true }

--- Return the gradient of y with respect to x as lazy tensors like any other:
--- one for one tensor, a list for a list.
---
---     local gx = mrt.grad(y, x)
---     local gw, gb = table.unpack(mrt.grad(loss, {w, b}))
---@param y mrt.Tensor|mrt.Tensor[]  scalars, unless grad_outputs are given
---@param x mrt.Tensor|mrt.Tensor[]
---@param options? mrt.GradOptions
---@return any gradients  allow_unused: zeros where y does not depend on x
function mrt.grad(y, x, options)
  options = options or {}
  check_options("grad", options)
  for name in pairs(options) do
    if not grad_options[name] then
      refuse("grad", "no option '%s' (options: allow_unused, denominator, "
        .. "grad_outputs)", tostring(name))
    end
  end
  local dx = accumulate.grad(as_list(y), as_list(x), as_list(options.grad_outputs),
    options.allow_unused, options.denominator)
  return core.is_tensor(x) and dx[1] or dx
end

--- Make an operator with a gradient of your own.  `backward` gets the gradient
--- of the result and the inputs, and returns one gradient, or false, for each.
---
---     local clip = mrt.custom{
---       forward = function(x) return x:clamp(0, 1) end,
---       backward = function(dy, x) return dy end,
---     }
---@param rule {forward: function, backward: function}
---@return fun(...: mrt.Tensor): mrt.Tensor
function mrt.custom(rule)
  if type(rule) ~= "table" or type(rule.forward) ~= "function"
    or type(rule.backward) ~= "function" then
    refuse("custom", "{forward = function, backward = function} wanted")
  end
  return function(...)
    local xs = { ... }
    local y = rule.forward(...)
    return core.custom(y, xs, function(dy)
      return { rule.backward(dy, table.unpack(xs)) }
    end)
  end
end

-- ---- variables and evaluation ----------------------------------------------

--- Make a variable: a tensor that can be assigned.  It begins as `init`, which
--- is computed when the variable is first needed.
---@param init mrt.Tensor|number
---@param name? string
---@return mrt.Tensor
function mrt.variable(init, name)
  if not core.is_tensor(init) then init = core.tensor(init, "f32") end
  return core.variable(init, name)
end

--- Make a variable that is to be trained.
mrt.parameter = mrt.variable

--- Name a tensor, for reports; returns it.
---@param x mrt.Tensor
---@param name string
---@return mrt.Tensor x
function mrt.name(x, name)
  argument.tensor("name", "what is named", x).name = name
  return x
end

--- Compute tensors now, together, and return them.
---@param ... mrt.Tensor|mrt.Tensor[]
---@return mrt.Tensor|mrt.Tensor[] ...
function mrt.eval(...)
  local list = {}
  for i = 1, select("#", ...) do
    local value = (select(i, ...))
    for _, x in ipairs(argument.tensors("eval", as_list(value))) do
      list[#list + 1] = x
    end
  end
  core.eval(list)
  return ...
end

--- Begin the random numbers anew: same seed, same program, same bits.
---@param seed integer
function mrt.seed(seed) core.seed(seed) end

--- Return how far the random numbers have got, to go on from there later, in
--- this process or another.  Compiled functions count their runs by themselves:
--- see Compiled:state.
---@return {seed: integer, next: integer}
function mrt.get_rng_state()
  local seed, next_key = core.random()
  return { seed = seed, next = next_key }
end

--- Go on from a state that get_rng_state returned.
---@param state {seed: integer, next: integer}
function mrt.set_rng_state(state) core.seed(state.seed, state.next) end

--- Return what tensors take, in bytes: now, at most so far, and in the file of
--- swapped values.
---@param options? {reset: boolean?}  forget the most so far
---@return {now: integer, peak: integer, slow: integer}
function mrt.memory(options)
  local info = core.info()
  if options and options.reset then core.reset_peak() end
  return { now = info.bytes_now, peak = info.bytes_peak, slow = info.bytes_slow }
end

--- Make the file that values are swapped to in this folder; otherwise the first
--- step that swaps makes it in $TMPDIR or /tmp.  It has no name and is gone when
--- the process ends.
---
--- Raises: something is swapped already; the folder takes no file.
---@param path string
function mrt.swap_folder(path) core.swap_folder(path) end

--- Return version, instruction set, threads and libraries.
---@return table
function mrt.info() return core.info() end

mrt.update, mrt.is_tensor, mrt.is_variable = core.update, core.is_tensor, core.is_variable
mrt.layer, mrt.checkpoint = scope.layer, scope.checkpoint
mrt.checkpoint_sequential = scope.checkpoint_sequential
mrt.load, mrt.save, mrt.open = file.load, file.save, file.open
mrt.compile, mrt.runtime, mrt.tracing = compile.compile, compile.runtime, core.tracing

-- Operators read well as functions too: mrt.where(c, x, y), mrt.maximum(x, y).
for name, method in pairs(core.methods) do
  if op[name] and mrt[name] == nil then mrt[name] = method end
end

for name, f in pairs(mrt) do
  if type(f) == "function" and debug.getinfo(f, "S").what ~= "C" then
    mrt[name] = core.front(f)
  end
end

-- For the prompt, which completes names without calling __index.
local modules = { nn = true, optim = true, policy = true, data = true,
  train = true, estimate = true, device = true }

return setmetatable(mrt, { __fields = { modules }, __index = function(t, key)
  local name = "mrt." .. tostring(key)
  if not package.preload[name] and not package.searchpath(name, package.path) then
    return nil
  end
  local module = require(name)
  rawset(t, key, module)
  return module
end })
