--- container.lua -- what holds modules and parameters, for those who come from PyTorch
---
--- A list of Lua is enough: `self.blocks = { a, b }` has parameters "blocks.1.weight" and so
--- on.  ModuleList and ParameterList are such lists; ModuleDict is for names, which a plain
--- table of Lua has in no order.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local Module = require "mrt.nn.module"
local options = require "mrt.util.options"

local container = {}

local function is_module(value)
  return type(value) == "table" and value.parameters == Module.parameters
    and not Module.is_class(value)
end

-- A list of what `fits`, as it is given.
local function list_of(name, what, fits)
  return function(given)
    given = given == nil and {} or given
    if type(given) ~= "table" or getmetatable(given) then
      argument.refuse(name, "a list of %ss wanted, got %s", what, options.show(given))
    end
    for i, value in ipairs(given) do
      if not fits(value) then
        argument.refuse(name, "element %d: a %s wanted, got %s", i, what, options.show(value))
      end
    end
    return given
  end
end

--- Return the list itself, once all in it are modules: a field that holds it is looked
--- through.  Append by `list[#list + 1] = module`.
---@param modules? mrt.nn.Module[]
---@return mrt.nn.Module[]
container.ModuleList = list_of("ModuleList", "module", is_module)

--- The same of parameters.
---@param parameters? mrt.Tensor[]
---@return mrt.Tensor[]
container.ParameterList = list_of("ParameterList", "variable", core.is_variable)

-- A module whose fields are what it was given by name, in the order of the names.
local function dict_of(name, what, fits)
  local class = Module(name)
  function class:init(given)
    local names = {}
    if type(given) ~= "table" and given ~= nil then
      argument.refuse(name, "a table of %ss by name wanted, got %s", what, options.show(given))
    end
    for key, value in pairs(given or {}) do
      if type(key) ~= "string" or class[key] ~= nil or key:sub(1, 1) == "_" then
        argument.refuse(name, "%s is no name for a %s here", options.show(key), what)
      elseif not fits(value) then
        argument.refuse(name, "'%s': a %s wanted, got %s", key, what, options.show(value))
      end
      names[#names + 1] = key
    end
    table.sort(names)
    for _, key in ipairs(names) do self[key] = given[key] end
  end
  container[name] = class
end

--- Make a module of modules by name: `heads.left(x)`.  New ones are set as fields.
---
---     local heads = nn.ModuleDict { left = nn.Linear(4, 2), right = nn.Linear(4, 3) }
---@class mrt.nn.ModuleDict: mrt.nn.Module
---@overload fun(modules?: table<string, mrt.nn.Module>): mrt.nn.ModuleDict
dict_of("ModuleDict", "module", is_module)

--- Make a module of parameters by name.
---
---     local p = nn.ParameterDict { scale = mrt.parameter(mrt.ones(4)) }
---@class mrt.nn.ParameterDict: mrt.nn.Module
---@overload fun(parameters?: table<string, mrt.Tensor>): mrt.nn.ParameterDict
dict_of("ParameterDict", "variable", core.is_variable)

--- Make a layer that puts several dimensions in the place of one.
---
---     nn.Unflatten(2, {4, 8})(x)   -- [N, 32] -> [N, 4, 8]
---@class mrt.nn.Unflatten: mrt.nn.Module
---@overload fun(dim: integer, sizes: integer[]): mrt.nn.Unflatten
local Unflatten = Module("Unflatten", "tensor")
container.Unflatten = Unflatten

function Unflatten:init(dim, sizes)
  if math.type(dim) ~= "integer" or dim == 0 then
    argument.refuse("Unflatten", "dim: a dimension from 1, or from the end, wanted, got %s",
      options.show(dim))
  elseif type(sizes) ~= "table" or #sizes == 0 then
    argument.refuse("Unflatten", "sizes: a list wanted, got %s", options.show(sizes))
  end
  self.dim = dim
  rawset(self, "sizes", sizes)
end

---@param x mrt.Tensor
---@return mrt.Tensor
function Unflatten:forward(x)
  local shape, rank = {}, x:dim()
  local dim = self.dim < 0 and self.dim + rank + 1 or self.dim
  if dim < 1 or dim > rank then
    core.fail("value", "Unflatten", ("dim %d of %s"):format(self.dim, x:type()))
  end
  for d = 1, rank do
    if d == dim then
      table.move(self.sizes, 1, #self.sizes, #shape + 1, shape)
    else
      shape[#shape + 1] = x:size(d)
    end
  end
  return x:reshape(shape)
end

function Unflatten:describe()
  return ("%d, {%s}"):format(self.dim, table.concat(self.sizes, ", "))
end

return container
