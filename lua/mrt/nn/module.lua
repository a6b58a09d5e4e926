--- module.lua -- what every layer is: constructor, forward, named parameters
---
---     local Net = nn.Module "Net"
---     function Net:init(dim) self.fc = nn.Linear(dim, dim) end
---     function Net:forward(x) return self.fc(x):relu() end
---     local net = Net(8)
---     local y = net(mrt.randn(4, 8))
---
--- A module finds its parameters in its own fields: variables, modules and
--- lists of either.  They are named by the path of fields ("blocks.1.fc.weight")
--- and come in the order in which the fields were first assigned, which is why
--- `__newindex` keeps a list.  A parameter that appears twice (tied weights)
--- counts once, under its first name.
---
--- `nn.Module("Net", "tensor")` makes a class whose modules refuse, by name, to be
--- called with anything but a tensor first.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local mode = require "mrt.nn.mode"
local options = require "mrt.util.options"
local tree = require "mrt.nn.tree"
local weights = require "mrt.compile.param_dtype"

--- Make a class of modules: `init` gets what it is called with, `forward` what a module is
--- called with.  Its parameters are the variables and modules that are assigned to its
--- fields, or stand in lists there, by the names of these.
---
---     local Net = nn.Module "Net"
---     function Net:init(dim) self.fc = nn.Linear(dim, dim) end
---     function Net:forward(x) return self.fc(x):relu() end
---     local y = Net(8)(mrt.randn(4, 8))
---@class mrt.nn.Module
---@field training boolean  false in evaluation mode
---@field frozen boolean    true: left out of `parameters()`
---@overload fun(...: mrt.Tensor): mrt.Tensor ...
local Module = { training = true, frozen = false, type = "Module" }
Module.__index = Module

local function is_module(value)
  return type(value) == "table" and value.parameters == Module.parameters
end

--- Is this a class of modules, not a module?
---
---     nn.Module.is_class(nn.Linear)  --> true
---
--- Raises: nothing; anything may be asked.
---@param value any
---@return boolean
function Module.is_class(value) return is_module(value) and not value._fields end

-- Remember the order of fields that may hold parameters; their names become paths.
local function remember(self, key, value)
  if type(key) ~= "string" and math.type(key) ~= "integer" then
    core.fail("value", self.type, "a field has a name, got " .. options.show(key))
  end
  rawset(self, key, value)
  local kind = type(value)
  if kind == "table" or kind == "userdata" then
    local fields = self._fields
    fields[#fields + 1] = key
  end
end

local function construct(class, ...)
  local self = setmetatable({ _fields = {}, _buffers = {} }, class)
  self:init(...)
  return self
end
construct = core.front(construct, nil, true)

--- Make a class of modules; `init` is its constructor, `forward` its call.
---@param name string  shown by tostring
---@return table class
local function new_class(name)
  local class = { type = name, __name = "mrt.nn." .. name }
  class.__index = class
  class.__newindex = remember
  class.__call = Module.__call
  class.__tostring = Module.__tostring
  return setmetatable(class, { __index = Module, __call = construct,
    __tostring = function() return "class " .. name end })
end

local function define(class, key, value)
  if key == "forward" and type(value) == "function" then
    local forward = value
    function value(self, x, ...)
      if not is_module(self) then
        core.fail("value", "forward", ("a module wanted in front, got %s: m(x) calls it")
          :format(options.show(self)))
      end
      argument.tensor(self.type, "argument 1", x)
      return forward(self, x, ...)
    end
  end
  rawset(class, key, value)
end

-- The same, called with a tensor first: anything else is refused by name, of calls
-- and of `forward` alike.
local function new_class_of_tensors(name)
  local class = new_class(name)
  getmetatable(class).__newindex = define
  return class
end

function Module:init() end

---@return mrt.Tensor ...
function Module:forward()
  core.fail("state", self.type, "has no forward")
end


-- ---- walking ---------------------------------------------------------------

local function walk(value, path, owner, key, out)
  if out.seen[value] then return end
  if is_module(value) then
    out.seen[value] = true
    out.modules[#out.modules + 1] = { path, value }
    local prefix = path == "" and "" or path .. "."
    for _, field in ipairs(value._fields) do
      local held = rawget(value, field)
      if held ~= nil then walk(held, prefix .. field, value, field, out) end
    end
  elseif core.is_variable(value) then
    out.seen[value] = true
    out.variables[#out.variables + 1] = { path, value, owner, key }
  elseif type(value) == "table" and not getmetatable(value) then
    if out.within[value] then
      core.fail("value", nil, ("'%s' of a module is a list that contains itself"):format(path))
    end
    out.within[value] = true
    for i, held in ipairs(value) do
      walk(held, path .. "." .. i, owner, key, out)
    end
    out.within[value] = nil
  end
end

local paths = core.module_paths

-- Reports name modules by these.  A module that turns out to be within another has the
-- longer path from then on; of those it has in one network the first.
local function note_paths(modules)
  for _, entry in ipairs(modules) do
    local path, module = entry[1], entry[2]
    local known = paths[module]
    if not known or known == "" or #path > #known + 1
      and path:sub(-#known - 1) == "." .. known then
      paths[module] = path
    end
  end
end

-- Everything under a module, in order, and named after its place.
local function contents(module)
  if Module.is_class(module) then
    core.fail("value", module.type, ("a class, %s() makes a module"):format(module.type))
  end
  local out = { seen = {}, within = {}, modules = {}, variables = {} }
  walk(module, "", nil, nil, out)
  for _, entry in ipairs(out.variables) do
    if not entry[2]:get_name() then entry[2]:set_name(entry[1]) end
  end
  note_paths(out.modules)
  return out
end

-- So that a path is known before anybody has asked for parameters.
local function look_around(self)
  local out = { seen = {}, within = {}, modules = {}, variables = {} }
  if pcall(walk, self, "", nil, nil, out) then note_paths(out.modules) end
  paths[self] = paths[self] or ""
end

Module.__call = core.front(function(self, ...)
  if not paths[self] then look_around(self) end
  return self:forward(...)
end, nil, true)

local function each(list)
  local i = 0
  return function()
    i = i + 1
    if list[i] then return list[i][1], list[i][2] end
  end
end

local function variables(module, buffers, frozen)
  local list = {}
  for _, entry in ipairs(contents(module).variables) do
    local owner = entry[3]
    local is_buffer = owner._buffers[entry[4]] == true
    if is_buffer == buffers and (frozen or not owner.frozen) then
      list[#list + 1] = entry
    end
  end
  return list
end

local function tensors(list)
  local out = {}
  for i, entry in ipairs(list) do out[i] = entry[2] end
  return out
end

--- List the parameters to train, in a reproducible order: what `mrt.grad` and
--- optimizers take.  Frozen ones are left out.
---
---     local model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
---     #model:parameters()  --> 4
---
--- Shapes: variables of any shape.
---@return mrt.Tensor[]
function Module:parameters() return tensors(variables(self, false, false)) end

--- Iterate over names and parameters, frozen ones included.
---
---     local model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
---     for name, p in model:named_parameters() do print(name, p:type()) end
---
--- Shapes: variables of any shape.
---@return fun(): string?, mrt.Tensor?
function Module:named_parameters() return each(variables(self, false, true)) end

--- List the state that is not trained (running statistics).
---
---     #nn.BatchNorm(4):buffers()  --> 2
---
--- Shapes: variables of any shape.
---@return mrt.Tensor[]
function Module:buffers() return tensors(variables(self, true, true)) end

--- Iterate over names and modules, this one first under the name "".
---
---     local model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
---     for name, layer in model:modules() do print(name, layer.type) end
---@return fun(): string?, mrt.nn.Module?
function Module:modules() return each(contents(self).modules) end

--- Keep a variable that is state but not trained.
---
---     local model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
---     model:register_buffer("steps", mrt.variable(mrt.zeros(1)))
---
--- Shapes: a variable of any shape.
--- Raises: what is no variable.
---@param name string
---@param variable mrt.Tensor
function Module:register_buffer(name, variable)
  if type(name) ~= "string" or not core.is_variable(variable) then
    core.fail("value", "register_buffer", ("a name and a variable wanted, got %s and %s")
      :format(options.show(name), options.show(variable)))
  end
  if not self._buffers then
    core.fail("value", "register_buffer", "a module wanted, got a class of them")
  end
  self._buffers[name] = true
  self[name] = variable
end

-- ---- modes -----------------------------------------------------------------

local function want_truth(who, on)
  if on ~= nil and type(on) ~= "boolean" then
    core.fail("value", who, ("true or false wanted, got %s"):format(options.show(on)))
  end
end

--- Go into training mode, or into evaluation mode with `on` false.  Compiled
--- functions are traced once per mode.
---
---     local model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
---     model:train()
---
--- Raises: what is neither true nor false.
---@param on? boolean  default true
---@return mrt.nn.Module self
function Module:train(on)
  want_truth("train", on)
  local training = on ~= false
  local list = tensors(contents(self).modules)
  for _, module in ipairs(list) do rawset(module, "training", training) end
  mode.set(list, training)
  return self
end

--- Go into evaluation mode: dropout does nothing.
---
---     local model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
---     model:eval()
---@return mrt.nn.Module self
function Module:eval() return self:train(false) end

--- Leave this module's parameters out of `parameters()`, or take them in again
--- with `on` false.  Do so before the optimizer is made.
---
---     local model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
---     model:freeze()
---
--- Raises: what is neither true nor false.
---@param on? boolean  default true
---@return mrt.nn.Module self
function Module:freeze(on)
  want_truth("freeze", on)
  for _, entry in ipairs(contents(self).modules) do
    rawset(entry[2], "frozen", on ~= false)
  end
  return self
end

-- ---- state -----------------------------------------------------------------

--- Return all parameters and buffers by name.
---
---     local model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
---     local state = model:state()
---     mrt.save("model.safetensors", state)
---
--- Shapes: variables of any shape.
---@return table<string, mrt.Tensor>
function Module:state()
  local state = {}
  for _, entry in ipairs(contents(self).variables) do
    state[entry[1]] = entry[2]
  end
  return state
end

--- Set all parameters and buffers, all or none.
---
--- Raises: a name that is missing, unknown, or has another shape.
---
---     local model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
---     model:load_state(assert(mrt.load "model.safetensors"))
---@param state table<string, mrt.Tensor>
---@param message? any  what mrt.load returns second: why there is no first
---@return mrt.nn.Module self
function Module:load_state(state, message)
  if state == nil and type(message) == "string" then
    core.fail("file", "load_state", message)
  end
  require "mrt.io.load_state".load(self:state(), state)
  return self
end

--- Store the parameters, frozen ones too, in another float dtype, where they are.
--- Pending tensors that read them are computed before; compiled functions that do
--- are traced again.  Buffers (running statistics) stay as they are.
---
---     model:to "bf16"
---
--- Raises: a dtype that there is not.
---@param dtype mrt.DType
---@return mrt.nn.Module self
function Module:to(dtype)
  local facts = core.dtypes()[dtype]
  if not facts or not facts.floating then
    core.fail("dtype", "to", ("a float dtype wanted, got %s (where a model is, mrt.device says "
      .. "when it is made)"):format(options.show(dtype)))
  end
  for _, p in self:named_parameters() do weights.convert(p, dtype) end
  return self
end

-- ---- printing --------------------------------------------------------------

--- What stands between the parentheses when the module is printed.
---
---     nn.Linear(2, 3):describe()  --> 2, 3
---@return string
function Module:describe() return "" end

--- Count the numbers in all parameters.
---
---     nn.Linear(2, 3):count()  --> 9
---@return integer
function Module:count()
  local count = 0
  for _, p in self:named_parameters() do count = count + p:numel() end
  return count
end

function Module:__tostring() return tree(self) end

-- Without a module before the colon a method says so, rather than fail within.
local free = { is_class = true, init = true, forward = true, describe = true }
for name, method in pairs(Module) do
  if type(method) == "function" and not free[name] and not name:find "^__" then
    Module[name] = function(self, ...)
      if not is_module(self) then
        core.fail("value", name, ("a module wanted in front, got %s: m:%s(), with a colon")
          :format(options.show(self), name))
      end
      return method(self, ...)
    end
  end
end

local function unknown(_, name) return require "mrt.util.hints".answer("module", name) end

return setmetatable(Module, { __index = unknown, __call = function(_, name, first)
  if type(name) ~= "string" then
    core.fail("value", "Module", "a name wanted, got " .. options.show(name))
  end
  return first == "tensor" and new_class_of_tensors(name) or new_class(name)
end })
