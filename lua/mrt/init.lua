--- mrt -- a training runtime: lazy tensors, gradients, steps planned to the byte
---
---     local mrt = require "mrt"
---     local x = mrt.randn(4, 8)
---     local y = (x * x):sum()
---     print(mrt.grad(y, x))
---
--- Modules (`mrt.nn`, `mrt.optim`, `mrt.data`, ...: listed below) load when they
--- are first used.  Nothing global is set.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

core.root(debug.getinfo(1, "S").source)
require "mrt.tensor"

local argument = require "mrt.util.argument"
local derivatives = require "mrt.tensor.derive"
local trace = require "mrt.compile.trace"
local file = require "mrt.io.file"
local make = require "mrt.tensor.random"
local options = require "mrt.util.options"
local part = require "mrt.tensor.part"
local scope = require "mrt.nn.scope"
local op = core.op

---@class mrt: mrt.make, mrt.derivatives, mrt.scans
---@field communicator mrt.communicator
---@field data mrt.data
---@field device mrt.device
---@field distributions mrt.distributions
---@field fft mrt.fft
---@field linalg mrt.linalg
---@field nn mrt.nn
---@field optim mrt.optim
---@field plan mrt.Plan
---@field policy mrt.policy
---@field text mrt.text
---@field train mrt.train
---@field prune mrt.prune
---@field estimate mrt.estimate
---@field version string  of the library, "0.1.0"
local mrt = { version = core.info().version }

-- ---- several tensors -------------------------------------------------------

--- Join tensors along a dimension; they may also stand side by side, `mrt.cat(x, y, 2)`.
---
---     mrt.cat({ mrt.tensor{1}, mrt.tensor{2, 3} })  --> [1 2 3]
---
--- Shapes: `[a,...]`, `[b,...]` -> `[a + b,...]`.
--- Raises: shapes that differ elsewhere.
---@param list mrt.Tensor[]
---@param dim? integer  default 1
---@return mrt.Tensor
function mrt.cat(list, dim, ...) return op.cat(list, dim, ...) end

--- Join tensors of one shape along a new dimension; they may also stand side by side.
---
---     mrt.stack({ mrt.tensor{1, 2}, mrt.tensor{3, 4} })  --> [[1 2] [3 4]]
---
--- Shapes: `[...]` n times -> `[n, ...]`.
--- Raises: shapes that differ.
---@param list mrt.Tensor[]
---@param dim? integer  default 1
---@return mrt.Tensor
function mrt.stack(list, dim, ...)
  local rows = {}
  if core.is_tensor(list) then
    local given, n = table.pack(list, dim, ...), 0
    while core.is_tensor(given[n + 1]) do n = n + 1 end
    list, dim = table.move(given, 1, n, 1, {}), given[n + 1]
  end
  if type(dim) == "table" then dim = options.read("stack", dim, { dim = 1 }).dim end
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

-- A table by name, in an order that does not change.
local function by_name(x)
  local list, names = {}, {}
  for name in pairs(x) do names[#names + 1] = name end
  table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
  for i, name in ipairs(names) do list[i] = x[name] end
  return list, names
end

-- The gradient, where an x may be a handle that was written: why there is none is said.
local function grad_of(ys, xs, o)
  local written = false
  for _, x in pairs(type(xs) == "table" and xs or {}) do written = written or part.written[x] end
  if not written then return trace.grad(ys, xs, o) end
  local ok, dx = pcall(trace.grad, ys, xs, o)
  if ok then return dx end
  local message = type(dx) == "table" and dx.message or ""
  if not message:find("does not lead to any output", 1, true) then error(dx, 0) end
  core.fail(dx.code, nil, (message:gsub("^[^:]*:%d+: ", ""))
    .. "; one of them was written (x[...] = v), and what was computed before depends on the "
    .. "value it had: write to a copy, x:clone()")
end

local grad_options = { allow_unused = false, grad_outputs = options.none,
  denominator = options.none }

-- A denominator as a scalar.
local function denominator(t)
  if not core.is_tensor(t) or t:numel() ~= 1 then
    argument.refuse("grad", "denominator: a scalar tensor wanted, got %s",
      core.is_tensor(t) and t:type() or tostring(t))
  end
  return op.reshape(t, {})
end

--- Return the gradient of y with respect to x as lazy tensors like any other:
--- one for one tensor, a list for a list, by name for a table by name.
---
---     local gx = mrt.grad(y, x)
---     local gw, gb = table.unpack(mrt.grad(loss, {w, b}))
---
--- Raises: y that is not scalar; an x that y does not depend on.
---@generic T: mrt.Tensor|mrt.Tensor[]|table<string, mrt.Tensor>
---@param y mrt.Tensor|mrt.Tensor[]  scalars, unless grad_outputs are given
---@param x T  one, a list, or a table by name
---@param o? mrt.GradOptions
---@return T gradients  allow_unused: zeros where y does not depend on x
function mrt.grad(y, x, o)
  o = options.read("grad", o, grad_options, true)
  if o.denominator ~= nil then o.denominator = denominator(o.denominator) end
  o.grad_outputs = as_list(o.grad_outputs)
  local xs, names = as_list(x), nil
  if options.module_name(x) then
    argument.refuse("grad", "with respect to tensors, got a module: "
      .. "mrt.grad(loss, model:parameters())")
  end
  if type(x) == "table" and #x == 0 and next(x) ~= nil then xs, names = by_name(x) end
  local dx = grad_of(as_list(y), xs, o)
  if names then
    local named = {}
    for i, name in ipairs(names) do named[name] = dx[i] end
    return named
  end
  return core.is_tensor(x) and dx[1] or dx
end

mrt.sweep = require "mrt.tensor.sweep"

--- Make an operator with a gradient of your own.  `backward` gets the gradient
--- of the result and the inputs, and returns one gradient, or false, for each.
---
---     local clip = mrt.custom{
---       forward = function(x) return x:clamp(0, 1) end,
---       backward = function(dy, x) return dy end,
---     }
---
--- Shapes: tensors of any shape.
--- Raises: what is no table of two functions.
---@param rule {forward: function, backward: function}
---@return fun(...: mrt.Tensor): mrt.Tensor
function mrt.custom(rule)
  if type(rule) ~= "table" or type(rule.forward) ~= "function"
    or type(rule.backward) ~= "function" then
    argument.refuse("custom", "{forward = function, backward = function} wanted")
  end
  return function(...)
    local xs = { ... }
    local y = rule.forward(...)
    return core.custom(y, xs, function(dy)
      return { rule.backward(dy, table.unpack(xs)) }
    end)
  end
end

---@class mrt.DTypeInfo
---@field name mrt.DType
---@field bytes integer
---@field floating boolean
---@field narrow boolean    a float of 16 or 8 bits: stored so, computed in f32
---@field exponent integer  bits of a float
---@field fraction integer  ditto, without the leading one
---@field largest number    the largest finite number
---@field smallest number   the smallest normal number above 0; of integers 1
---@field epsilon number    from 1 to the next number; of integers 1

local dtypes = core.dtypes()
for _, d in pairs(dtypes) do
  d.epsilon = 2.0 ^ -d.fraction
  d.smallest = d.floating and 2.0 ^ (2 - 2 ^ (d.exponent - 1)) or 1
end

--- Return the facts of a dtype.
---
---     mrt.dtype_info("bf16").epsilon  --> 0.0078125
---
--- Raises: a dtype that there is not.
---@param dtype mrt.DType
---@return mrt.DTypeInfo
function mrt.dtype_info(dtype)
  if not dtypes[dtype] then argument.refuse("dtype_info", "no dtype '%s'", tostring(dtype)) end
  local copy = {}
  for name, fact in pairs(dtypes[dtype]) do copy[name] = fact end
  return copy
end

-- ---- variables and evaluation ----------------------------------------------

--- Make a variable: a tensor that can be assigned.  It begins as `init`, which
--- is computed when the variable is first needed.
---
---     local w = mrt.variable(mrt.zeros(2, 3), "w")
---
--- Shapes: `[...]` of init's shape.
--- Raises: what is no tensor, no number and no list of numbers.
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
---
---     local h = mrt.name(mrt.ones(2), "hidden")
---
--- Shapes: any shape.
--- Raises: what is no tensor, a name that is neither a text nor a number.
---@param x mrt.Tensor
---@param name string
---@return mrt.Tensor x
function mrt.name(x, name)
  argument.tensor("name", "what is named", x).name = name
  return x
end

--- Compute tensors now, together, and return them.
---
---     local x = mrt.ones(2) * 3
---     mrt.eval(x)
---
--- Shapes: tensors of any shape.
--- Raises: what is no tensor; what running them raises.
---@param ... mrt.Tensor
---@return mrt.Tensor ...
---@overload fun(list: mrt.Tensor[]): mrt.Tensor[]
function mrt.eval(...)
  if core.eval_few(...) then return ... end
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
---
---     mrt.seed(1)
---
--- Raises: what is no integer.
---@param seed integer
function mrt.seed(seed) core.seed(seed) end

--- Return how far the random numbers have got, to go on from there later, in
--- this process or another.  Compiled functions count their runs by themselves:
--- see Compiled:state.
---
---     local state = mrt.get_rng_state()
---@return {seed: integer, next: integer}
function mrt.get_rng_state()
  local seed, next_key = core.random()
  return { seed = seed, next = next_key }
end

--- Go on from a state that get_rng_state returned.
---
---     mrt.set_rng_state(mrt.get_rng_state())
---
--- Raises: a table without a seed and a next.
---@param state {seed: integer, next: integer}
function mrt.set_rng_state(state)
  if type(state) ~= "table" then
    argument.refuse("set_rng_state", "a table of seed and next wanted, got %s",
      options.show(state))
  end
  for _, name in ipairs { "seed", "next" } do
    if math.type(state[name]) ~= "integer" then
      argument.refuse("set_rng_state", "%s: an integer wanted, got %s", name,
        options.show(state[name]))
    end
  end
  core.seed(state.seed, state.next)
end

--- Return what tensors take, in bytes: now, at most so far, and in the file of
--- swapped values; and what they have given back and is kept for the next (spare):
--- at most 256 MiB, or 8 once a compiled step has an arena.
---
---     mrt.memory().now >= 0  --> true
---
--- Raises: an option that there is not.
---@param o? {reset: boolean?}  forget the most so far
--- `tiers` lists the bytes of each place that is swapped to: first what stands behind
--- the device, then each folder that its profile names.
---@return {now: integer, peak: integer, swapped: integer, spare: integer,
---  tiers: {folder: string?, bytes: integer}[]}
function mrt.memory(o)
  local info = core.info()
  if options.read("memory", o, { reset = false }).reset then core.reset_peak() end
  return { now = info.bytes_now, peak = info.bytes_peak, swapped = info.bytes_swapped,
    spare = info.bytes_spare, tiers = core.swapped() }
end

--- Return the bytes of the device that are in use and that no tensor has: what its
--- driver and libraries hold now, compiled kernels and recorded steps included
--- (and what other processes hold).  On the CPU 0.
---
---     mrt.overhead()
---@return integer
function mrt.overhead() return core.overhead() end

--- Make the file that values are swapped to in this folder; otherwise the first
--- step that swaps makes it in $TMPDIR or /tmp.  It has no name and is gone when
--- the process ends.
---
--- Raises: something is swapped already; the folder takes no file.
---
---     mrt.swap_folder "/tmp"
---@param path string
function mrt.swap_folder(path) core.swap_folder(path) end

--- Return version, instruction set, threads and libraries.
---
---     mrt.info().version  --> 0.1.0
---@return table
function mrt.info() return core.info() end

for _, functions in ipairs { make, derivatives, require "mrt.tensor.join",
  require "mrt.tensor.product", (require "mrt.tensor.scan") } do
  for name, f in pairs(functions) do mrt[name] = f end
end
mrt.update, mrt.is_tensor, mrt.is_variable = core.update, core.is_tensor, core.is_variable
mrt.layer, mrt.checkpoint = scope.layer, scope.checkpoint
mrt.checkpoint_sequential = scope.checkpoint_sequential
mrt.load, mrt.save, mrt.open = file.load, file.save, file.open
mrt.runtime, mrt.tracing = trace.input, core.tracing

-- Methods read well as functions too: mrt.where(c, x, y), mrt.sort(x, 2).  Those of the
-- handle stay methods.
local handles = { assign = true, bytes = true, element = true, free = true, item = true,
  nbytes = true, origin = true, totable = true, type = true }
local function is_function(name) return not (handles[name] or name:find "^[gs]et_") end
for name, method in pairs(core.methods) do
  if mrt[name] == nil and is_function(name) then mrt[name] = method end
end

for name, f in pairs(mrt) do
  if type(f) == "function" and debug.getinfo(f, "S").what ~= "C" then
    mrt[name] = core.front(f, nil, name)
  end
end

-- What compiled functions are made by is half the library: it loads with the first.  Whose
-- option it is says what reads it.
--- Compile a function of tensors: traced when it is first called with arguments of these
--- shapes, planned, and then only run.  `step:plan(...)` says what it takes, before it runs.
---
---     local step = mrt.compile(function(x) return (x * x):sum() end)
---     step(mrt.ones(3)):item()
---
--- Raises: an option that there is not; when it is called, what the trace or the plan
--- raises.
---@param fn function|(fun(...: mrt.Tensor): any ...)
---@param given? mrt.CompileOptions
---@return mrt.Compiled
function mrt.compile(fn, given) return require "mrt.compile".compile(fn, given) end
mrt.compile = core.front(mrt.compile)

-- The public modules, each the folder of its name; all others are the library's
-- own.  The prompt completes these names without calling __index.
local modules = { cluster = true, communicator = true, data = true, device = true,
  distributions = true,
  estimate = true, fft = true, finetune = true, linalg = true, nn = true, optim = true,
  pipeline = true, plan = true, policy = true, prune = true, text = true, train = true }

return setmetatable(mrt, { __fields = { modules }, __index = function(t, key)
  if not modules[key] then return require "mrt.util.hints".answer("mrt", key) end
  local module = require("mrt." .. key)
  rawset(t, key, module)
  return module
end })
