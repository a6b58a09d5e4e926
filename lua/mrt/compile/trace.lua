--- trace.lua -- the trace being made, and the hooks that transforms have in it
---
--- One object is the trace being made.  The core keeps it as long as it traces
--- and forgets it however that ends (`core.current_trace`), so nothing here has
--- to be put back after an error, and no module has a notion of its own of what
--- is being traced.
---
--- A *transform* changes what a function means while it is traced.  Each hook is
--- a chain: the first transform of the list is outermost, and calls `next` for
--- what lies inside it; innermost is what happens without transforms, `plain`
--- below.  Every function here can be called at any time: outside a trace it is
--- the plain one.
---
--- The function is called once in a trace, in micro-batches once for each size of
--- them and once for the whole batch.  Every call has transforms of its own: what
--- a hook sets in `self` is gone when the call is over.
---
--- README.md lists the hooks and the order of the library's own transforms.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"

local op = core.op

local trace = {}

---@class mrt.Transform
---@field name string
---@field wraps? string  the transform of the library that this one lies just
---  outside of; by default the outermost
---@field begin? fun(self, trace: mrt.Trace)  the function is about to be called
---@field finish? fun(self, trace: mrt.Trace)  it has returned
---@field grad? fun(self, next: function, ys: mrt.Tensor[], xs: mrt.Tensor[],
---  o: mrt.GradOptions): mrt.Tensor[]  mrt.grad
---@field derive? fun(self, next: function, y: mrt.Tensor, xs: mrt.Tensor[], apart: boolean,
---  asked: mrt.Tensor[], behind: integer[]?): (mrt.Tensor|false)[]  what micro-batches ask for
---  beside `grad`: the gradient of one of the sums that a loss is a function of, of what is
---  `asked` for, which reads as `xs`; `apart`: as if the xs did not depend on each other;
---  `behind`: where it is not 0, what comes from operators with larger numbers (core.work)
---@field assign? fun(self, next: function, variable: mrt.Tensor, value: mrt.Operand,
---  when: mrt.Tensor?)  variable:assign(value)
---@field map? fun(self, next: function, grads: mrt.Tensor[], f: function): mrt.Tensor[]
---  f, element by element, of gradients
---@field squares? fun(self, next: function, grads: mrt.Tensor[]): mrt.Tensor?
---  the sum of their squares, f64; nil: nobody has a way of his own to it
---@field gate? fun(self, next: function, when: mrt.Tensor?): mrt.Tensor?
---  whether an update happens, a bool scalar; nil: it does
---@field later? fun(self, next: function, update: fun(when: mrt.Tensor?))
---  call `update`, now or when the function has returned
---@field unscaled? fun(self, next: function, grads: mrt.Tensor[]): mrt.Tensor[], mrt.Tensor?
---  gradients as they were computed, and what to multiply them by
---@field optimizer? fun(self, next: function, optimizer: mrt.Optimizer): mrt.Optimizer
---  which one updates instead of this one
---@field cross_entropy? fun(self, next: function, logits: mrt.Tensor, targets: mrt.Tensor,
---  o: mrt.CrossEntropyOptions?): mrt.Tensor?  nil: as ever
---@field updates? fun(self, next: function, params: mrt.Tensor[]): boolean
---  an optimizer updates these; true: they are rounded at random
---@field units? fun(self, next: function, optimizer: mrt.Optimizer,
---  params: mrt.Tensor[], grads: mrt.Tensor[]): mrt.Unit[]  what it updates as one
---@field prepare? fun(self, k: integer)  a call is about to be traced and planned,
---  in k micro-batches
---@field totals? fun(self, k: integer): table[]  what is added up over k sizes of
---  micro-batches beside gradients (see accumulate)
---@field before_step? fun(self)  a step is about to run
---@field after_step? fun(self)  it has run to its end
---@field state? fun(self, out: table)  add what a later process goes on from
---@field load_state? fun(self, state: table)  go on from it
---@field expect_state? fun(self, state: table)  make the variables in it

--- What an optimizer updates as one.
---@class mrt.Unit
---@field p mrt.Tensor       variable
---@field g mrt.Tensor
---@field index integer      of the parameter, or of the first of those it stands for
---@field first mrt.Tensor?  that whose place among all it has, where it is not p
---@field offset integer?    elements from there
---@field state table?       of p, where it is not the parameter's
---@field done fun()?        called when the update is in the trace

-- ---- without transforms ----------------------------------------------------

-- Gradients of outputs, scaled; 1 where none is given.
local function seeds_of(ys, dys, scale)
  local seeds = {}
  for i, y in ipairs(ys) do
    local seed = scale:to(y:get_dtype())
    if dys then
      seeds[i] = op.mul(dys[i], seed)
    else
      if y:numel() ~= 1 then return nil end -- the core says what is wanted
      seeds[i] = op.expand(seed, y:get_shape())
    end
  end
  return seeds
end

local plain = {}

--- `o.scale`, a scalar: what the gradient is multiplied by where it begins; `o.behind`, as of
--- `derive`.
function plain.grad(ys, xs, o)
  local seeds = o.scale and seeds_of(ys, o.grad_outputs, o.scale) or o.grad_outputs
  return core.grad(ys, xs, seeds, o.allow_unused, o.behind)
end

function plain.derive(y, xs, apart, _, behind) return core.derive(y, xs, apart, behind) end

plain.assign = core.assign

function plain.map(grads, f)
  local out = {}
  for i, g in ipairs(grads) do out[i] = f(g) end
  return out
end

function plain.squares() return nil end

function plain.gate(when) return when end

function plain.later(update) update(trace.gate()) end

function plain.unscaled(grads) return grads end

function plain.optimizer(optimizer) return optimizer end

function plain.cross_entropy() return nil end

function plain.updates() return false end

function plain.units(_, params, grads)
  local units = {}
  for i, p in ipairs(params) do units[i] = { p = p, g = grads[i], index = i } end
  return units
end

-- ---- chains ----------------------------------------------------------------

---@class mrt.Trace
---@field options table       of the compiled function, as the planner reads them
---@field transforms mrt.Transform[]  outermost first
---@field runtime function[]  of this call: one for each input read at every run
---@field parts table?        what accumulate knows of micro-batches
---@field rows integer        of the batch on this rank
---@field ranks mrt.Communicator?  that share parameters, if there are several
---@field replicas mrt.Communicator?  ranks of a mesh that have the same pieces of these
---@field noise mrt.GradientNoise?  who looks at gradients of this rank
local Trace = {}
Trace.__index = Trace

-- Each hook as one function: outermost what is called, innermost the plain one.
local function chain(active, hook)
  local call = plain[hook]
  for i = #active, 1, -1 do
    local t, next = active[i], call
    local own = t[hook]
    if own then call = function(...) return own(t, next, ...) end end
  end
  return call
end

-- What `gate` has returned is not gated again: an optimizer asks, and so does each
-- assignment that it makes.
local function gate_once(gate)
  local gated = setmetatable({}, { __mode = "k" })
  return function(when)
    if when and gated[when] then return when end
    local out = gate(when)
    if out and not rawequal(out, when) then gated[out] = true end
    return out
  end
end

for hook in pairs(plain) do
  trace[hook] = function(...)
    local now = core.current_trace()
    return (now and now.chains[hook] or plain[hook])(...)
  end
  Trace[hook] = function(self, ...) return self.chains[hook](...) end
end

--- Whether transforms have a hook of this name, which is a chain.
---@param name any
---@return boolean
function trace.is_chain(name) return plain[name] ~= nil end

--- The hooks that are chains.
---@return string[]
function trace.hooks()
  local list = {}
  for name in pairs(plain) do list[#list + 1] = name end
  return list
end

--- Make the trace of a function.
---@param options table
---@param transforms mrt.Transform[]  outermost first
---@return mrt.Trace
function trace.new(options, transforms)
  return setmetatable({ options = options, transforms = transforms, runtime = {},
    chains = plain }, Trace)
end

--- Inside the trace: call `fn` among the transforms.  They begin from the inside
--- to the outside and finish the other way, so that each lies within those that it
--- calls: what one assigns as it finishes, those inside it still see.
---
---     trace:call(fn, x)
---
--- Raises: what the function raises.
---@param fn fun(...: any): any ...
---@param ... any
---@return table results  packed
function Trace:call(fn, ...)
  local active = {}
  for i, t in ipairs(self.transforms) do
    active[i] = setmetatable({ trace = self }, { __index = t })
  end
  self.runtime, self.chains = {}, {}
  for hook in pairs(plain) do self.chains[hook] = chain(active, hook) end
  self.chains.gate = gate_once(self.chains.gate)
  for i = #active, 1, -1 do
    if active[i].begin then active[i]:begin(self) end
  end
  local results = table.pack(fn(...))
  for _, t in ipairs(active) do
    if t.finish then t:finish(self) end
  end
  return results
end

--- Make a scalar f32 that is read anew before every run: a learning rate, a
--- loss scale.  Outside a trace it is a constant of the present value.
---
---     local rate = mrt.runtime(function() return 0.1 end)
---
--- Raises: what is no function.
---@param fn fun(): number
---@return mrt.Tensor scalar
function trace.input(fn)
  argument.callable("runtime", fn)
  local now = core.current_trace()
  if not now then return core.tensor(fn(), "f32") end
  table.insert(now.runtime, fn)
  return core.trace_input()
end

return trace
