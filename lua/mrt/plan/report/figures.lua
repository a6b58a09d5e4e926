--- figures.lua -- what a table of several plans tells of one, as plain numbers
---
--- SPDX-License-Identifier: MIT

local roles = require "mrt.plan.report.roles"

---@class mrt.Figures
---@field peak integer        bytes, as all that follow but seconds
---@field persistent integer
---@field outputs integer
---@field limit? integer      that the peak is to keep, by --budget or --device
---@field over boolean        the peak does not
---@field weight integer      of persistent: what the model reads
---@field optimizer integer   of persistent: what only updates read
---@field kept integer        of the forward pass, that the backward pass reads
---@field wire number         given to other ranks in a step
---@field ranks integer       how many there are
---@field seconds number      predicted, of a step
---@field again number        of these: what runs again
---@field live integer[]      in the arena, at each step

---@param plan mrt.Plan
---@param limit? integer
---@return mrt.Figures
return function(plan, limit)
  local sums = roles.sums(plan:values(), plan.peak_step)
  local options = plan.step_options or {}
  local out = { peak = plan.peak, persistent = plan.persistent, outputs = plan.outputs,
    limit = limit, over = limit ~= nil and plan:needs() > limit,
    weight = sums.weight or 0, optimizer = sums.optimizer or 0, kept = plan:kept(),
    wire = plan.wire, ranks = options.ranks or 1, seconds = plan.seconds, again = 0,
    live = {} }
  for i, s in ipairs(plan:steps()) do
    out.live[i] = s.live
    if s.recomputed then out.again = out.again + s.time end
  end
  return out
end
