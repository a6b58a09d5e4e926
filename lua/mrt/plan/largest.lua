--- largest.lua -- the largest size whose step fits a budget
---
--- By plans alone: a size fits if the plan of it takes no more than the budget.  Sizes
--- are doubled until one does not fit, then halved between; the answer is a size that
--- fits beside one that does not, both planned.  Plans of larger sizes than those tried
--- might fit again; none that was tried does.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local format = require "mrt.util.format"
local options = require "mrt.util.options"

---@class mrt.Trial
---@field size integer
---@field peak integer?     bytes; nil: it could not be planned
---@field seconds number?   predicted, of a step
---@field message string?   why it could not
---@field plan mrt.Plan?    where it was planned in this process

---@class mrt.Largest
---@field what string       "batch"
---@field budget integer    bytes
---@field best mrt.Trial?   the largest that fits; nil: none does
---@field next mrt.Trial?   the next size, which does not; nil: all that may be tried fit
---@field tried integer     plans made

local largest = {}

local Largest = {}
Largest.__index = Largest

local MOST <const> = 1 << 40 -- a size that nobody means

local function line(what, trial)
  if not trial.peak then return ("%s %d cannot be planned: %s"):format(what, trial.size,
    trial.message) end
  return ("%s %d takes %s (%s bytes), a step %s"):format(what, trial.size,
    format.bytes(trial.peak), format.count(trial.peak), format.time(trial.seconds))
end

function Largest:__tostring()
  local lines = { ("the largest %s within %s (%s bytes), by %d plans"):format(self.what,
    format.bytes(self.budget), format.count(self.budget), self.tried) }
  lines[2] = self.best and "  " .. line(self.what, self.best) or "  none fits"
  if self.next then lines[3] = "  " .. line(self.what, self.next) end
  return table.concat(lines, "\n")
end

--- Look for the largest of the sizes step, 2 * step, ...
---@param what string
---@param o {budget: integer, from: integer, step: integer, most: integer?}
---  from: where to begin
---@param try fun(size: integer): mrt.Trial
---@return mrt.Largest
function largest.search(what, o, try)
  local found = setmetatable({ what = what, budget = o.budget, tried = 0 }, Largest)
  local most = (o.most or MOST) // o.step
  local function fits(k)
    local trial = try(k * o.step)
    found.tried = found.tried + 1
    local yes = trial.peak and trial.peak <= o.budget
    found[yes and "best" or "next"] = trial
    return yes
  end
  local low, high = 0, math.max(1, math.min(o.from // o.step, most))
  while low < most and fits(high) do
    low, high = high, math.min(2 * high, most)
  end
  while low < high - 1 and low < most do
    local middle = (low + high) // 2
    if fits(middle) then low = middle else high = middle end
  end
  return found
end

-- ---- of a plan ---------------------------------------------------------------

local kinds = { memory = "any", step = "integer", recompute = "boolean", plan = "function",
  from = "integer" }

local function fail(text, ...) core.fail("value", "largest", text:format(...)) end

local function check(given)
  options.check_names("largest", given, kinds)
  for name, kind in pairs(kinds) do
    local value = given[name]
    local own = kind == "integer" and math.type(value) or type(value)
    if value ~= nil and kind ~= "any" and own ~= kind then
      fail("option '%s': a %s wanted, got %s", name, kind, options.show(value))
    end
  end
  if (given.step or 1) < 1 or (given.from or 1) < 1 then
    fail "options 'step' and 'from': 1 or more wanted"
  end
end

local function budget_of(plan, given)
  if given.memory == nil then
    local bytes = (plan.step_options or {}).memory or plan.device.capacity
    if bytes and bytes ~= 0 then return bytes end
    fail "option 'memory': a budget wanted, as \"24GiB\""
  end
  local bytes, message = format.read_bytes(given.memory)
  return bytes or fail("option 'memory': %s", message)
end

local dims = { batch = 1, context = 2 }

-- Shapes with another size where the first tensor's is.
local function reshaper(plan, what)
  local dim, shape = dims[what], plan.first_shape
  if not dim then
    fail("%s: option 'plan', a function that plans the step of a size, wanted (batch and context "
      .. "are read from the arguments)", what)
  end
  if not plan.replan or not shape or #shape < dim then
    fail("%s: the first tensor argument has no dimension %d", what, dim)
  end
  local own = shape[dim]
  return function(size)
    return function(s)
      if s[dim] ~= own then return s end
      local out = { table.unpack(s) }
      out[dim] = size
      return out
    end
  end, own
end

local function trial(size, ok, plan)
  if not ok then
    local text = type(plan) == "table" and plan.message or tostring(plan)
    return { size = size, message = text:match "^[^\n]*" }
  end
  return { size = size, peak = plan.peak, seconds = plan.seconds, plan = plan }
end

-- What plans a size, and where to begin.
local function maker(plan, what, given, budget)
  if given.plan then return given.plan, given.from or given.step or 1 end
  local shape_of, own = reshaper(plan, what)
  local within = given.recompute or (plan.step_options or {}).memory
  local changes = { memory = within and budget or nil }
  return function(size) return plan.replan(changes, shape_of(size)) end, given.from or own
end

--- The method plan:largest.
---@param plan mrt.Plan
---@param what string
---@param given? table
---@return mrt.Largest
function largest.of(plan, what, given)
  if type(what) ~= "string" then fail("a name wanted, as \"batch\", got %s", options.show(what)) end
  if given ~= nil and type(given) ~= "table" then
    fail("a table of options wanted, got %s", options.show(given))
  end
  given = given or {}
  check(given)
  local budget = budget_of(plan, given)
  local make, from = maker(plan, what, given, budget)
  return largest.search(what, { budget = budget, step = given.step or 1, from = from },
    function(size) return trial(size, pcall(make, size)) end)
end

return largest
