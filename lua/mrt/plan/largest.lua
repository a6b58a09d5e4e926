--- largest.lua -- the largest size whose step fits a budget
---
--- By plans alone: a size fits if the plan of it takes no more than the budget.  Sizes
--- are doubled until one does not fit, then halved between; the answer is a size that
--- fits beside one that does not, both planned.  Plans of larger sizes than those tried
--- might fit again; none that was tried does.  Where sizes between two that can be planned
--- are refused, as a width that the heads do not divide, the least step that is not becomes
--- the step.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local format = require "mrt.util.format"
local options = require "mrt.util.options"

---@class mrt.Trial
---@field size integer
---@field peak integer?     bytes; nil: it could not be planned
---@field needs integer?    bytes that a budget must hold; nil: the peak
---@field seconds number?   predicted, of a step
---@field message string?   why it could not
---@field plan mrt.Plan?    where it was planned in this process

---@class mrt.Largest
---@field what string       "batch"
---@field budget integer    bytes
---@field best mrt.Trial?   the largest that fits; nil: none does
---@field next mrt.Trial?   the next size, which does not; nil: all that may be tried fit
---@field step integer      sizes are so far apart
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
  if self.step > 1 then lines[#lines + 1] = ("  in steps of %d"):format(self.step) end
  return table.concat(lines, "\n")
end

-- How far to look for a size that is not refused: at first, where perhaps all are, and
-- between two that are not.
local FIRST <const>, FURTHEST <const> = 32, 256

-- The least step from `low` to a size up to `high` that can be planned.
local function step_from(low, high, planned)
  for step = 2, math.min(high - low, low == 0 and FIRST or FURTHEST) do
    if planned(low + step) then return step end
  end
end

-- What is known of sizes: `trial` plans one once.
local Search = {}
Search.__index = Search

function Search:trial(size)
  if not self.seen[size] then
    self.seen[size] = self.try(size)
    self.found.tried = self.found.tried + 1
  end
  return self.seen[size]
end

function Search:fits(size)
  local trial = self:trial(size)
  return trial.peak and (trial.needs or trial.peak) <= self.found.budget
end

-- A size that is refused at first or between two that can be planned: widen the step.
-- Did it change?
function Search:widen(size, low, high)
  if not self.free or self:trial(size).peak then return false end
  if low > 0 and not self:trial(high).peak then return false end
  self.free = false
  local step = step_from(low, high, function(n) return self:trial(n).peak end)
  self.found.step = step or 1
  return step ~= nil
end

-- The largest size that fits, if `high` does not and sizes from 0 or one that fits, `low`,
-- may.
function Search:between(low, high)
  while high - low > self.found.step do
    local middle = low + math.max(1, (high - low) // (2 * self.found.step)) * self.found.step
    if not self:widen(middle, low, high) then
      if self:fits(middle) then low = middle else high = middle end
    end
  end
  return low
end

--- Look for the largest of the sizes step, 2 * step, ...
---@param what string
---@param o {budget: integer, from: integer, step: integer?}
---  from: where to begin; step: nil: 1, or more where sizes between are refused
---@param try fun(size: integer): mrt.Trial
---@return mrt.Largest
function largest.search(what, o, try)
  local found = setmetatable({ what = what, budget = o.budget, tried = 0, step = o.step or 1 },
    Largest)
  local search = setmetatable({ seen = {}, free = not o.step, try = try, found = found }, Search)
  local low, high = 0, math.max(1, o.from // found.step) * found.step
  if search:widen(high, 0, MOST) then high = found.step end
  while low < MOST and search:fits(high) do low, high = high, 2 * high end
  if low < MOST then low = search:between(low, high) end
  found.best = search.seen[low]
  if low < MOST then found.next = search:trial(low + found.step) end
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
  return { size = size, peak = plan.peak, needs = plan:needs(), seconds = plan.seconds,
    plan = plan }
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
  return largest.search(what, { budget = budget, step = given.step, from = from },
    function(size) return trial(size, pcall(make, size)) end)
end

return largest
