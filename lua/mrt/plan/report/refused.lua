--- refused.lua -- results that could not take the place of an input, and why
---
--- SPDX-License-Identifier: MIT

local about = require "mrt.plan.report.about"
local roles = require "mrt.plan.report.roles"

-- For each step, for each value that it reads: which step reads it next.
local function next_readers(operands)
  local next_of, last = {}, {}
  for i = #operands, 1, -1 do
    next_of[i] = {}
    for _, v in ipairs(operands[i].reads) do next_of[i][v] = last[v] end
    for _, v in ipairs(operands[i].reads) do last[v] = i end
    for _, v in ipairs(operands[i].writes) do
      if not next_of[i][v] then last[v] = nil end
    end
  end
  return next_of
end

local function reason(input, output, step, reader, steps)
  if not roles.in_arena[input.role] then
    return ("it is one of the %s"):format(roles.words[input.role])
  elseif input.bytes ~= output.bytes then
    return "its size differs"
  elseif reader and steps[reader].backward and not step.backward then
    return ("the gradient reads it: %s, %s"):format(steps[reader].op,
      about.place(steps[reader]))
  elseif reader then
    return ("another consumer: %s, %s"):format(steps[reader].op,
      about.place(steps[reader]))
  end
  return "another view of it is read, or its type or layout differs"
end

---@class mrt.Refusal
---@field step integer
---@field op string       whose result wanted the place
---@field input string    of what
---@field reason string
---@field file string
---@field line integer
---@field module string?

--- List the refused candidates: steps whose operator could have left its result
--- in an input.
---@param plan mrt.Plan
---@return mrt.Refusal[]
return function(plan)
  local values, steps, operands = plan:values(), plan:steps(), plan:operands()
  local next_of, list = next_readers(operands), {}
  for i, o in ipairs(operands) do
    local output = values[o.writes[1]]
    if output and output.first == i and roles.in_arena[output.role] then
      for _, v in ipairs(o.overwritable) do
        local input, s = values[v], steps[i]
        list[#list + 1] = { step = i, op = s.op, file = s.file, line = s.line, module = s.module,
          input = ("%s %s"):format(input.name or input.op ~= "" and input.op
            or input.role, input.type),
          reason = reason(input, output, s, next_of[i][v], steps) }
      end
    end
  end
  return list
end
