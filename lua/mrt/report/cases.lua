--- cases.lua -- one script planned under several policies, each in a process of its own
---
--- What a policy does to variables stays: they go into pieces, or into another dtype.
--- So each is planned where no other has been.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local dkjson = require "dkjson"

local cases = {}

---@class mrt.PlanCase
---@field name string         for the table
---@field arguments string[]  of `mrt plan`; none: the script as it is

local function quoted(words)
  local list = {}
  for i, word in ipairs(words) do list[i] = "'" .. word:gsub("'", "'\\''") .. "'" end
  return table.concat(list, " ")
end

-- What `mrt plan --figures` writes, and what came on standard error.
local function output_of(words)
  local path = os.tmpname()
  local pipe <close> = assert(io.popen(("%s 2>%s"):format(quoted(words), quoted { path })))
  local text = pipe:read "a"
  local file <close> = io.open(path)
  local said = file and file:read "a" or ""
  os.remove(path)
  return text, said
end

local function last_line(text)
  return text:match "([^\n]+)\n*$" or "the process ended without a plan"
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
    local words = { core.program(), "plan", "--figures" }
    for _, more in ipairs { common, case.arguments, script } do
      table.move(more, 1, #more, #words + 1, words)
    end
    local text, said = output_of(words)
    local found = dkjson.decode(text)
    first = first or said
    entries[i] = { name = case.name, message = not found and last_line(said) or nil }
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
