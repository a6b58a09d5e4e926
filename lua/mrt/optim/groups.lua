--- groups.lua -- parameters that share settings
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local options = require "mrt.util.options"

local groups = {}

---@class mrt.Group
---@field params mrt.Tensor[]
---@field lr number|mrt.Schedule|nil  the optimizer's own when absent
---@field weight_decay number?        the optimizer's own when absent
---@field adamw boolean?              of optim.muon: AdamW for all of them

--- Give weight decay to matrices and embeddings, none to biases and norms
--- (parameters with fewer than two dimensions).  Gradients stay in the order of
--- `model:parameters()`.
---
---     local opt = optim.adamw(optim.groups(model, {weight_decay = 0.1}),
---                             {lr = 3e-4})
---
--- Raises: an option that there is not.
---@param model mrt.nn.Module|mrt.Tensor[]
---@param given? {weight_decay: number?}  default 0.01
---@return mrt.Group[]
function groups.split(model, given)
  local o = options.read("groups", given, { weight_decay = 0.01 })
  local is_module = type(model) == "table" and model.parameters
  local params = argument.tensors("groups", is_module and model:parameters() or model)
  local decay = { params = {}, weight_decay = o.weight_decay }
  local plain = { params = {}, weight_decay = 0 }
  for _, p in ipairs(params) do
    local list = (p:dim() >= 2 and decay or plain).params
    list[#list + 1] = p
  end
  return { decay, plain, order = params }
end

-- Either of the two ways to give parameters, as groups.
local function as_groups(given)
  if type(given[1]) == "table" then return given end
  return { { params = given } }
end

local defaults = { params = options.want "table", lr = options.of "number",
  adamw = options.of "boolean",
  weight_decay = options.of "number" }

local function params_of(what, i, group)
  return options.read(("%s: group %d"):format(what, i), group, defaults).params
end

--- Read what an optimizer was given: a list of parameters or of groups.
---
--- Raises: not a list of variables; an empty one; a variable that is in it twice.
---@param what string  the optimizer, for messages
---@param given mrt.Tensor[]|mrt.Group[]
---@return mrt.Tensor[] params   in the order of the gradients
---@return table<mrt.Tensor, mrt.Group> group_of
function groups.read(what, given)
  if type(given) ~= "table" then
    core.fail("value", what, ("a list of parameters wanted, got %s")
      :format(options.show(given)))
  end
  if given.parameters then
    core.fail("value", what, "a module given, model:parameters() wanted")
  end
  local params, group_of = {}, {}
  for i, group in ipairs(as_groups(given)) do
    for _, p in ipairs(params_of(what, i, group)) do
      if not core.is_variable(p) then
        core.fail("value", what, ("parameter %d: a variable wanted, got %s")
          :format(#params + 1, options.show(p)))
      elseif group_of[p] then
        core.fail("value", what, ("parameter %d, %s, is there twice")
          :format(#params + 1, p:get_name() or p:type()))
      end
      params[#params + 1], group_of[p] = p, group
    end
  end
  if #params == 0 then core.fail("value", what, "no parameters to work on") end
  return given.order or params, group_of
end

return groups
