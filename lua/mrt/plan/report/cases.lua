--- cases.lua -- one script planned under several policies, each in a process of its own
---
--- What a policy does to variables stays: they go into pieces, or into another dtype.
--- So each is planned where no other has been.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local json = require "mrt.util.json"

local cases = {}

---@class mrt.PlanCase
---@field name string         for the table
---@field arguments string[]  of `mrt plan`; none: the script as it is

local function quoted(words)
  local list = {}
  for i, word in ipairs(words) do list[i] = "'" .. word:gsub("'", "'\\''") .. "'" end
  return table.concat(list, " ")
end

-- What a process writes into the file `path`, and all else that it and those that it
-- starts print.  None reads standard input, of which the first would leave no more.
local function output_of(words, path)
  local pipe = assert(io.popen(quoted(words) .. " 2>&1 </dev/null"))
  local said = pipe:read "a"
  pipe:close()
  local file <close> = io.open(path)
  return file and file:read "a" or "", said
end

-- Why there are no figures, by the end of what was said.
local function reason(said)
  local line = said:match "([^\n]*%S)%s*$"
  return "the process ended without a plan" .. (line and ": " .. line or "")
end

--- Plan a script in every case.
---@param list mrt.PlanCase[]
---@param common string[]  arguments of `mrt plan` in every case
---@param script string[]  its path and arguments
---@return {name: string, figures: mrt.Figures?, message: string?}[]
---@return string said  what the script said in the first case
function cases.plan(list, common, script)
  local entries, first = {}, nil
  for i, case in ipairs(list) do
    local path = os.tmpname()
    local words = { core.program(), "plan", "--figures=" .. path }
    for _, more in ipairs { common, case.arguments, script } do
      table.move(more, 1, #more, #words + 1, words)
    end
    local text, said = output_of(words, path)
    os.remove(path)
    local found = json.decode(text)
    first = first or said
    entries[i] = { name = case.name, message = not found and reason(said) or nil }
    if found and found.message then
      entries[i].message = found.message
    else
      entries[i].figures = found
    end
  end
  return entries, first
end

--- What mrt.plan.compare draws of figures.
---@param figures mrt.Figures
---@return table
function cases.curve(figures)
  return { peak = figures.peak, persistent = figures.persistent, outputs = figures.outputs,
    steps = function()
      local steps = {}
      for i, live in ipairs(figures.live) do steps[i] = { live = live } end
      return steps
    end }
end

return cases
