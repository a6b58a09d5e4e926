--- optimizer.lua -- what optimizers share: groups, rates, state, a step
---
--- An optimizer of one's own names its state and says what one parameter's
--- update is:
---
---     local signsgd = optim.Optimizer("signsgd", {}, {})
---     function signsgd:update(p, g, state, at)
---       p:assign(p - g:sign() * at.lr, { when = at.when })
---     end
---     local opt = signsgd(model:parameters(), {lr = 0.01})
---
--- The learning rate is an input of the compiled step, read before each run, so
--- `opt.lr` may be set at any time, to a number or a schedule.  The count of
--- updates `t` is a variable like the rest of the state: a skipped update does
--- not count, and a saved state goes on where it was.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local argument = require "mrt.util.argument"
local describe = require "mrt.util.describe"
local options = require "mrt.util.options"
local groups = require "mrt.optim.groups"
local clip = require "mrt.optim.clip"
local count = require "mrt.optim.count"
local load_state = require "mrt.io.load_state"
local masks = require "mrt.prune.masks"
local owners = require "mrt.optim.owners"
local storage = require "mrt.optim.slots"
local trace = require "mrt.compile.trace"

local dtypes = core.dtypes()

--- Make a class of optimizers: its name, the slots of state that a parameter has (each of
--- its shape) and the defaults of its options; `update` is then written.
---
---     local Plain = optim.Optimizer("plain", {}, { lr = 0.1 })
---     function Plain:update(p, g, _, at)
---       p:assign(p - g * at.lr, { when = at.when })
---     end
---     local opt = Plain({ mrt.parameter(mrt.zeros(4)) })
---@class mrt.Optimizer
---@field lr number|mrt.Schedule  may be set at any time
---@field params mrt.Tensor[]     in the order of the gradients
---@field t mrt.Tensor            scalar: updates so far
---@field initial number         what the state begins as, 0
---@field elementwise boolean    an element's update depends on that element alone
local Optimizer = { initial = 0, elementwise = false }
Optimizer.__index = Optimizer

---@class mrt.Update
---@field lr mrt.Tensor      scalar of the parameter's dtype, f32 for narrow ones
---@field scale mrt.Tensor?  ditto: multiply the gradient by it; nil for 1
---@field stochastic boolean  how the parameter is rounded, if it is narrow
---@field draw integer?       of what is rounded at random: of all updates of a step
---@field place integer?      ditto: of the first element, among those of all updates
---@field when mrt.Tensor?   bool scalar: false leaves everything untouched
---@field t mrt.Tensor       scalar: this update's number, from 1
---@field weight_decay number

--- A part of a parameter's state that is not like the parameter.
---@class mrt.Slot
---@field name string
---@field dtype? mrt.DType   default: the parameter's, f32 for narrow ones
---@field size? integer[]    default: the parameter's
---@field initial? number    default: the optimizer's

-- What is computed in for a parameter.
local function real(p) return dtypes[p.dtype].narrow and "f32" or p.dtype end

local function new_state(self, p)
  local state = {}
  for _, slot in ipairs(self:slots_of(p)) do
    local s = type(slot) == "table" and slot or { name = slot }
    state[s.name] = mrt.parameter(mrt.full(s.size or p:size(), s.initial or self.initial,
      { dtype = s.dtype or real(p) }))
    state[s.name]:set_name((p:get_name() or "parameter") .. "." .. s.name)
  end
  return state
end

local function construct(class, params, given)
  local self = setmetatable({ compiled = {}, states = {} }, class)
  self.options = options.read(class.name, given, class.defaults)
  self.lr = self.options.lr
  if type(self.lr) == "number" and not (self.lr >= 0) then
    core.fail("value", class.name, ("lr = %g, 0 or more wanted"):format(self.lr))
  end
  self:init()
  self.params, self.group_of = groups.read(class.name, params)
  self.t = mrt.parameter(mrt.zeros {}, "t")
  for i, p in ipairs(self.params) do self.states[i] = new_state(self, p) end
  owners.set(self, self.params)
  return self
end

-- An update is also called by hand: what it is given is looked at before it is used.
local function checked(update)
  return function(self, p, g, state, at)
    local who = self.name .. ":update"
    argument.tensor(who, "the parameter", p)
    argument.tensor(who, "the gradient", g)
    if type(state) ~= "table" or type(at) ~= "table" then
      argument.refuse(who, "state and at: tables wanted, got %s and %s",
        options.show(state), options.show(at))
    end
    for _, slot in ipairs(self.slots) do
      local name = type(slot) == "table" and slot.name or slot
      argument.tensor(who, ("state.%s"):format(tostring(name)), state[name])
    end
    return update(self, p, g, state, at)
  end
end

local function define(class, key, value)
  local is_update = key == "update" and type(value) == "function"
  rawset(class, key, is_update and checked(value) or value)
end

--- Make a kind of optimizer; give it `update(self, p, g, state, at)`.
---@param name string
---@param slots (string|mrt.Slot)[]  state of each parameter
---@param defaults table   its options; `lr`, `weight_decay`, `maximize` are added
---@return table class     class(params, options) makes an optimizer
local function new_class(name, slots, defaults)
  if type(name) ~= "string" or type(slots) ~= "table" or type(defaults) ~= "table" then
    core.fail("value", "Optimizer", ("a name, slots and defaults wanted, got %s, %s and %s")
      :format(options.show(name), options.show(slots), options.show(defaults)))
  end
  local all = { lr = 0.001, weight_decay = 0, maximize = false }
  for key, value in pairs(defaults) do all[key] = value end
  local class = { name = name, slots = slots, defaults = all }
  class.__index, class.__tostring = class, Optimizer.__tostring
  return setmetatable(class, { __index = Optimizer, __newindex = define,
    __call = core.front(construct, nil, name),
    __tostring = function() return "class " .. name end })
end

--- Called once the options are read: a place to check them.
function Optimizer:init() end

--- Raise unless the option `betas` is two numbers from 0 on, below 1.
---@nodoc
function Optimizer:check_betas()
  local betas = self.options.betas
  if type(betas) ~= "table" then
    core.fail("value", self.name, "betas: two numbers wanted, got " .. options.show(betas))
  end
  for i = 1, 2 do
    local beta = betas[i]
    if type(beta) ~= "number" or not (beta >= 0 and beta < 1) then
      core.fail("value", self.name, ("betas[%d] = %s, wanted 0 <= beta < 1")
        :format(i, options.show(beta)))
    end
  end
end

function Optimizer:update()
  core.fail("state", self.name, "has no update")
end

--- Raise unless the option `state` says what state can be stored in.
---@param ... string  what there is beside "f32"
---@nodoc
function Optimizer:check_state(...)
  local given, known = self.options.state, { "f32", ... }
  for _, name in ipairs(known) do if name == given then return end end
  core.fail("value", self.name, ("state = %s, wanted %s"):format(options.show(given),
    table.concat(known, " or ")))
end

--- Raise unless the option `master` goes with the others: its operator takes all
--- elements, of moments that are floats.
---@nodoc
function Optimizer:check_master()
  if not self.options.master then return end
  for name, other in pairs { state = "8bit", lazy = true } do
    if self.options[name] == other then
      core.fail("value", self.name, ("master with %s = %s"):format(name, tostring(other)))
    end
  end
end

--- Raise unless the option `lazy` goes with how state is stored: in 8 bits elements
--- beyond a row share a scale.
---@nodoc
function Optimizer:check_lazy()
  if self.options.lazy and self.options.state == "8bit" then
    core.fail("value", self.name, "lazy with state = 8bit, f32 or bf16 wanted")
  end
end

--- The state of a parameter: all that is in `slots`, stored as the option `state`
--- says if there is such an option.
---
--- State in 8 bits: Dettmers, Lewis, Shleifer & Zettlemoyer, "8-bit optimizers via
--- block-wise quantization", ICLR 2022 (arXiv:2110.02861), as bitsandbytes has it: a
--- code for each element of slot `m`, in `m`, and a scale for each block of 256, in
--- `m_scale`.  Parameters of fewer than 4096 elements keep f32.
---
--- With the option `master` two bytes for each element, `high` and `low`: what a weight
--- in f32 has beside its upper half, in bf16, which is the parameter (the row of
--- adamw_master, core/op/update_master.c).
---@param p mrt.Tensor
---@return (string|mrt.Slot)[]
---@nodoc
function Optimizer:slots_of(p)
  if not self.options then
    core.fail("value", "slots_of", "an optimizer wanted, got a class of them")
  end
  return storage.of(self.slots, p, self.options.state or "f32", self.options.master)
end

--- Return the bytes of the state of parameters such as these, of which none is made:
--- what an optimizer's `slots` say is all there is to know.
---
---     optim.adamw:state_bytes({ w }, { state = "8bit" })
---
--- Shapes: parameters of any shape.
--- Raises: an option that there is not.
---@param params mrt.Tensor[]  or what has their dtype, dim, size and numel
---@param given? table         options, as for an optimizer
---@return number bytes
function Optimizer:state_bytes(params, given)
  local class = rawget(self, "defaults") and self or getmetatable(self)
  if type(params) ~= "table" then
    core.fail("value", self.name, "a list of parameters wanted, got " .. options.show(params))
  end
  local like = setmetatable({ options = options.read(self.name, given, self.defaults),
    group_of = setmetatable({}, { __index = function() return {} end }) }, class)
  like:init()
  local bytes = 0
  for _, p in ipairs(params) do
    for _, slot in ipairs(like:slots_of(p)) do
      local s = type(slot) == "table" and slot or {}
      local n = p:numel()
      if s.size then
        n = 1
        for _, extent in ipairs(s.size) do n = n * extent end
      end
      bytes = bytes + n * dtypes[s.dtype or real(p)].bytes
    end
  end
  return bytes
end

--- Does an update of this parameter need all of it, as a matrix, for its length or for
--- its rows (`lazy`), rather than element by element?  Then, of ranks that share
--- parameters, each gets it gathered and has all of its state.  A class says
--- `elementwise = true` if it never does otherwise.
---@param _ mrt.Tensor  the parameter
---@return boolean
---@nodoc
function Optimizer:whole(_) return not self.elementwise or self.options.lazy or false end

--- The state of a parameter, or of a piece that stands for one.
---@param p mrt.Tensor
---@return table<string, mrt.Tensor>
---@nodoc
function Optimizer:state_of(p)
  if self.standing and self.standing[p] then return self.standing[p].state end
  for i, q in ipairs(self.params) do if q == p then return self.states[i] end end
end

--- The parameter that a piece stands for; of others themselves.
---@param p mrt.Tensor
---@return mrt.Tensor
---@nodoc
function Optimizer:stands_for(p)
  local stands = self.standing and self.standing[p]
  return stands and stands.of or p
end

--- A piece of a parameter is updated in its place, with a state of its own.
---@param piece mrt.Tensor
---@param p mrt.Tensor
---@param state? table<string, mrt.Tensor>  nil: not made yet
---@nodoc
function Optimizer:stand_in(piece, p, state)
  argument.tensor(self.name .. ":stand_in", "the piece", piece)
  argument.tensor(self.name .. ":stand_in", "the parameter", p)
  self.standing = self.standing or setmetatable({}, { __mode = "k" })
  self.standing[piece] = { of = p, state = state }
  self.group_of[piece] = self.group_of[p]
  self:place(p)
  self.places[piece] = self.places[p]
end

--- What parameters must have in common to be updated as one vector.
---@param p mrt.Tensor
---@return string
---@nodoc
function Optimizer:update_kind(p)
  p = self:stands_for(p)
  local words = { tostring(self.group_of[p]), tostring(self:whole(p)) }
  for _, slot in ipairs(self:slots_of(p)) do
    words[#words + 1] = type(slot) == "table" and ("%s %s"):format(slot.name, slot.dtype)
      or slot
  end
  return table.concat(words, " ")
end

--- Is some of a parameter's state rounded at random?
---@param p mrt.Tensor
---@return boolean
---@nodoc
function Optimizer:draws(p)
  for _, slot in ipairs(self:slots_of(self:stands_for(p))) do
    if type(slot) == "table" and slot.dtype == "bf16" then return true end
  end
  return false
end

--- Where a parameter stands among all that are updated, in elements: one behind the
--- other by kind, each at a multiple of 256.  Random bits depend on it, so that they are
--- the same in whatever pieces parameters are updated.
---@param p mrt.Tensor
---@return integer
---@nodoc
function Optimizer:place(p)
  if not self.places then
    local kinds, at = {}, 0
    self.places = setmetatable({}, { __mode = "k" })
    for _, q in ipairs(self.params) do
      local kind = self:update_kind(q)
      if not kinds[kind] then kinds[kind] = {} table.insert(kinds, kinds[kind]) end
      table.insert(kinds[kind], q)
    end
    for _, list in ipairs(kinds) do
      for _, q in ipairs(list) do
        self.places[q] = at
        at = at + (q:numel() + storage.BLOCK - 1) // storage.BLOCK * storage.BLOCK
      end
    end
  end
  return self.places[p]
end

--- List the parameters, in the order in which `step` takes gradients.
---
---     local model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
---     local opt = optim.adamw(model:parameters())
---     #opt:parameters()  --> 4
---
--- Shapes: variables of any shape.
---@return mrt.Tensor[]
function Optimizer:parameters() return self.params end

--- Return the learning rate of the next update.
---
---     local model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
---     local opt = optim.adamw(model:parameters())
---     opt:rate()
---
--- Raises: what is no group; a rate that is no number.
---@param group? mrt.Group
---@return number
function Optimizer:rate(group) return self:rate_after(count.now, group) end

--- The same, where `made` tells how many updates there are if that matters.
---@param made fun(t: mrt.Tensor): integer
---@param group? mrt.Group
---@return number
---@nodoc
function Optimizer:rate_after(made, group)
  if group ~= nil and type(group) ~= "table" then
    core.fail("value", self.name, "rate: a group wanted, got " .. options.show(group))
  end
  local lr = group and group.lr or self.lr
  if type(lr) == "function" then lr = lr(made(self.t) + 1) end
  if type(lr) == "number" then return lr end
  core.fail("value", self.name, "lr: a number wanted, got " .. options.show(lr))
end

-- A scalar that is `rate` at each run, in each dtype that computes with it.
local function rates(self)
  local inputs, cast, made = {}, {}, count.before(self.t)
  return function(p, group)
    local own = group.lr and group or self
    if not inputs[own] then
      inputs[own] = mrt.runtime(function() return self:rate_after(made, group) end)
      cast[own] = {}
    end
    local dtype = real(p)
    local lr = cast[own][dtype] or inputs[own]:to(dtype)
    cast[own][dtype] = lr
    return lr
  end
end

local function check(self, grads)
  if grads == nil then
    core.fail("value", self.name .. ":step", "gradients wanted, got nil: "
      .. "opt:step(mrt.grad(loss, opt:parameters()))")
  end
  argument.tensors(self.name .. ":step", grads)
  if #grads ~= #self.params then
    core.fail("value", self.name, ("%d gradients for %d parameters")
      :format(#grads, #self.params))
  end
  for i, p in ipairs(self.params) do
    if grads[i]:type() ~= p:type() then
      core.fail("shape", self.name, ("gradient %d is %s, parameter %s is %s")
        :format(i, grads[i]:type(), p:get_name() or i, p:type()))
    end
  end
end

-- What an update of a unit is told, but for what all have in common.
local function about(self, unit, common)
  local p, first = unit.p, unit.first or unit.p
  local out = { stochastic = common.stochastic, when = common.when, t = common.t }
  if common.stochastic or self:draws(first) then
    common.draw = common.draw or core.trace_draw()
    out.draw, out.place = common.draw, self:place(first) + (unit.offset or 0)
  end
  local group = self.group_of[self.params[unit.index]]
  out.lr, out.scale = common.rate(p, group), common.scale and common.scale:to(real(p))
  out.weight_decay = group.weight_decay or self.options.weight_decay
  return out
end

-- Add the updates to the trace.
local function apply(self, grads, clip_to, when)
  local raw, scale = trace.unscaled(grads)
  local norm
  grads = masks.gradients(self.params, raw)
  if clip_to then
    local shorter, length = clip.scale(grads, clip_to, scale)
    scale, norm = scale and shorter * scale or shorter, length
  end
  if self.options.maximize then scale = scale and -scale or mrt.full({}, -1) end
  when = trace.gate(when)
  count.update(self.t, when)
  local t = self.t + 1
  local common = { rate = rates(self), stochastic = trace.updates(self.params),
    scale = scale, when = when, t = t }
  for _, unit in ipairs(trace.units(self, self.params, grads)) do
    core.within(unit.p:get_name() or "", self.update, self, unit.p, unit.g,
      unit.state or self.states[unit.index], about(self, unit, common))
    if unit.done then unit.done() end
  end
  for _, p in ipairs(self.params) do masks.restore(p, when) end
  self.t:assign(t, { when = when })
  return norm
end

-- Outside a trace the update is a compiled function of the gradients, so it
-- happens whole or not at all here too.
local function run(self, grads, clip_to, when)
  mrt.eval(grads)
  local key = ("%s %s"):format(clip_to, when ~= nil)
  self.compiled[key] = self.compiled[key] or mrt.compile(function(...)
    local list = { ... }
    local predicate = when and table.remove(list) or nil
    return apply(self, list, clip_to, predicate)
  end)
  local inputs = table.move(grads, 1, #grads, 1, {})
  inputs[#inputs + 1] = when
  return self.compiled[key](table.unpack(inputs))
end

--- Update the parameters: now, or in the step that is being compiled.
---
---     opt:step(mrt.grad(loss, opt:parameters()), {clip = 1.0})
---
--- Raises: gradients that do not fit the parameters.
---@param grads mrt.Tensor[]  one for each parameter
---@param given? {clip: number?, when: mrt.Tensor?}  the longest gradient, all
---  taken together; a bool scalar, false to leave everything untouched
---@return mrt.Tensor? norm   with `clip`: the gradients' length before
function Optimizer:step(grads, given)
  if type(self) ~= "table" or not self.params then
    core.fail("value", "step", "an optimizer wanted in front, got " .. options.show(self)
      .. " (opt:step(grads), with a colon)")
  end
  local o = options.read(self.name .. ":step", given,
    { clip = options.of "number", when = options.of "tensor" })
  if o.clip and not (o.clip >= 0) then
    core.fail("value", self.name .. ":step", ("clip = %g, 0 or more wanted"):format(o.clip))
  end
  check(self, grads)
  if core.tracing() then return apply(trace.optimizer(self), grads, o.clip, o.when) end
  return run(self, grads, o.clip, o.when)
end

-- A caller that ends in `return opt:step(grads)` keeps its line.
Optimizer.step = core.front(Optimizer.step, nil, "step")

--- Make one that differs in how its state is stored, for plans: it has state of its own,
--- of which nothing is computed.  nil: this kind cannot store it so, or does already.
---@param how "bf16"|"8bit"
---@return mrt.Optimizer?
---@nodoc
function Optimizer:stored(how)
  local o = {}
  for name, value in pairs(self.options) do o[name] = value end
  o.state = how
  local other = setmetatable({ options = o, compiled = {}, states = {}, lr = self.lr,
    t = self.t, params = self.params, group_of = self.group_of }, getmetatable(self))
  if not self.options.state or self.options.state == how or not pcall(other.init, other) then
    return nil
  end
  local differs = false
  for i, p in ipairs(self.params) do
    local slots = other:slots_of(p)
    differs = differs or #slots > 0 and slots ~= self:slots_of(p)
    other.states[i] = new_state(other, p)
  end
  return differs and other or nil
end

--- Return the state by name: "t", and "3.m" for slot `m` of parameter 3.
---
---     local model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
---     local opt = optim.adamw(model:parameters())
---     local state = opt:state()
---
--- Shapes: variables of any shape.
---@return table<string, mrt.Tensor>
function Optimizer:state()
  local state = { t = self.t }
  for i, slots in ipairs(self.states) do
    for name, variable in pairs(slots) do state[i .. "." .. name] = variable end
  end
  return state
end

--- Set the state, all or nothing.
---
--- Raises: a name that is missing, unknown, or has another shape.
---
---     local model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
---     local opt = optim.adamw(model:parameters())
---     opt:load_state(opt:state())
---@param state table<string, mrt.Tensor>
---@return mrt.Optimizer self
function Optimizer:load_state(state)
  load_state.load(self:state(), state)
  return self
end

-- Without an optimizer before the colon a method says so, rather than fail within.
for _, name in ipairs { "parameters", "rate", "state", "load_state" } do
  local method = Optimizer[name]
  Optimizer[name] = function(self, ...)
    if type(self) ~= "table" or not self.params then
      core.fail("value", name, ("an optimizer wanted in front, got %s: opt:%s(), with a colon")
        :format(options.show(self), name))
    end
    return method(self, ...)
  end
end

-- What differs from the defaults, what is updated, and how often it was.
function Optimizer:__tostring()
  local o = options.with(self.options, "lr", self.lr)
  local common = options.with(self.defaults, "lr", nil)
  local state = {}
  for _, x in pairs(self:state()) do state[#state + 1] = x end
  local text = ("%s of %s; state %s"):format(describe.options(self.name, o, common),
    describe.tensors(self.params), describe.bytes(state))
  return core.tracing() and text or ("%s; %s"):format(text,
    describe.count(math.tointeger(self.t:item()), "update"))
end

local function unknown(_, name) return require "mrt.util.hints".answer("optimizer", name) end

return setmetatable(Optimizer, { __index = unknown, __call = function(_, ...)
  return new_class(...)
end })
