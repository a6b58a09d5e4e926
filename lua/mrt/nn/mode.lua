--- mode.lua -- which modules are in evaluation mode, as one number
---
--- A compiled function is traced once per mode, because dropout is part of the
--- graph while training and absent while evaluating.  The mode is the set of
--- modules in evaluation mode, and how often modules were edited; equal sets have
--- equal numbers, so switching to and fro finds the plans already made.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local options = require "mrt.util.options"

local mode = { current = 0 }

local ids = setmetatable({}, { __mode = "k" })  -- module -> its number
local evaluating = setmetatable({}, { __mode = "k" })
local numbers = { ["0:"] = 0 }                  -- edits and set, as text -> mode
local last_id, last_number, edits = 0, 0, 0

local function refresh()
  local set = {}
  for module in pairs(evaluating) do set[#set + 1] = ids[module] end
  table.sort(set)
  local key = edits .. ":" .. table.concat(set, ",")
  if not numbers[key] then
    last_number = last_number + 1
    numbers[key] = last_number
  end
  mode.current = numbers[key]
end

--- Record that modules are training or evaluating, and bring
--- `mode.current` up to date.
---@param modules mrt.nn.Module[]
---@param training boolean
function mode.set(modules, training)
  for _, module in ipairs(modules) do
    if not ids[module] then
      last_id = last_id + 1
      ids[module] = last_id
    end
    evaluating[module] = not training or nil
  end
  refresh()
end

--- Record that the parts of some module were exchanged or pruned: what was traced
--- before is traced again.
function mode.changed()
  edits = edits + 1
  refresh()
end

local Back = { __close = function(self) self.model:train(self.training) end }

--- Bring a module into evaluation mode for the rest of a block:
---
---     local _ <close> = mode.evaluating(model)
---@param model mrt.nn.Module
---@return table back  closing it brings back the mode it was in
function mode.evaluating(model)
  if type(model) ~= "table" or type(model.eval) ~= "function" then
    core.fail("value", "evaluating", "a module wanted, got " .. options.show(model))
  end
  local back = setmetatable({ model = model, training = model.training }, Back)
  model:eval()
  return back
end

return mode
