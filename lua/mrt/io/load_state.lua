--- load_state.lua -- put saved numbers back into variables, all or none
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local argument = require "mrt.util.argument"
local masks = require "mrt.prune.masks"
local options = require "mrt.util.options"
local shard = require "mrt.shard"

local state = {}

local function sorted_names(map)
  local names = {}
  for name in pairs(map) do names[#names + 1] = name end
  table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
  return names
end

local dtypes = core.dtypes()

local function fits(value, variable)
  local wide = variable:get_dtype() == "f32" and dtypes[value:get_dtype()].narrow
  return value:type() == variable:type()
    or wide and value:to "f32":type() == variable:type()
end

-- Names for a message: not all of a large model's.
local function some(names)
  if #names == 0 then return "nothing" end
  local first = table.concat(names, ", ", 1, math.min(#names, 6))
  return #names > 6 and ("%s .. (%d in all)"):format(first, #names) or first
end

--- Raise unless `values` are what `variables` can be set to: a name that is missing
--- on either side, or another shape or dtype.  A narrow float may go where f32 is,
--- which holds it exactly.
---@param variables table<string, mrt.Tensor>
---@param values table<string, mrt.Tensor>
---@return string[] names  in their order
function state.check(variables, values)
  if type(values) ~= "table" then
    core.fail("value", "load_state", "tensors by name wanted, got " .. options.show(values))
  end
  for _, name in ipairs(sorted_names(values)) do
    if not variables[name] then
      core.fail("value", "load_state", ("there is no '%s' here, only %s")
        :format(tostring(name), some(sorted_names(variables))))
    end
  end
  local names = sorted_names(variables)
  for _, name in ipairs(names) do
    local variable, value = variables[name], values[name]
    if not value then
      core.fail("value", "load_state", ("'%s' is missing"):format(name))
    end
    argument.tensor("load_state", ("'%s'"):format(name), value)
    if not fits(value, variable) then
      core.fail("shape", "load_state", ("'%s' is %s, wanted %s")
        :format(name, value:type(), variable:type()))
    end
  end
  return names
end

--- Assign `values[name]` to `variables[name]` for every name.  Everything is
--- checked before the first assignment (state.check).
---@param variables table<string, mrt.Tensor>
---@param values table<string, mrt.Tensor>
function state.load(variables, values)
  local names = state.check(variables, values)
  local set = mrt.compile(function()
    for _, name in ipairs(names) do variables[name]:assign(values[name]) end
    for _, name in ipairs(names) do masks.restore(variables[name]) end
  end)
  set.passed_by = true -- mrt plan wants the step that comes after
  set()
  local list = {}
  for i, name in ipairs(names) do list[i] = variables[name] end
  shard.wrote(list)
end

return state
