--- compare.lua -- the live bytes of several plans, one over the other
---
--- A curve is the sum of what lives at a step; a dotted line is what its plan
--- takes, which is more where values do not share memory.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local format = require "mrt.util.format"
local markup = require "mrt.plan.report.markup"
local save = require "mrt.plan.report.save"

local WIDTH, HEIGHT = 1080, 460
local box = { x = 84, y = 64, width = 976, height = 350 }
local formats = { [".svg"] = "svg", [".html"] = "html" }

---@class mrt.Comparison
---@field plans mrt.Plan[]
---@field names string[]
---@field capacity? integer  bytes, drawn as a line
local Comparison = {}
Comparison.__index = Comparison
Comparison.__name = "mrt.Comparison"

-- All bytes at each step: what persists, the results, the arena's.
local function bytes_of(plan)
  local list, rest = {}, plan.persistent + plan.outputs
  for i, s in ipairs(plan:steps()) do list[i] = rest + s.live end
  return list
end

local function draw_capacity(out, capacity, most)
  if not capacity then return end
  local y = box.y + box.height * (1 - capacity / most)
  out[#out + 1] = ('<line class="limit" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/>'
    .. '<text x="%g" y="%.1f" text-anchor="end" class="over">capacity %s'
    .. '</text>'):format(box.x, box.x + box.width, y, y, box.x + box.width - 4,
      y - 5, format.bytes(capacity))
end

-- What the plan takes, above its curve where its arena has holes.
local function draw_peak(out, plan, colour, most)
  local y = box.y + box.height * (1 - plan.peak / most)
  out[#out + 1] = ('<line x1="%g" x2="%g" y1="%.1f" y2="%.1f" stroke="%s" '
    .. 'stroke-dasharray="2 4"/>'):format(box.x, box.x + box.width, y, y, colour)
end

local function picture(self)
  local out, curves, count, most = {}, {}, 1, (self.capacity or 1) * 1.08
  for i, plan in ipairs(self.plans) do
    curves[i] = bytes_of(plan)
    count, most = math.max(count, #curves[i]), math.max(most, plan.peak * 1.04)
  end
  local legend, head = {}, {}
  head[1] = markup.title(16, 24,
    "Bytes alive, step by step; dotted: what each plan takes")
  markup.axis(out, box, most)
  markup.steps(out, box, count)
  for i, list in ipairs(curves) do
    local colour = markup.lines[(i - 1) % #markup.lines + 1]
    local words = ("%s: peak %s"):format(format.shorten(self.names[i], 80),
      format.bytes(self.plans[i].peak))
    legend[i] = { colour, words }
    -- thinner and thinner: what lies below stays in sight
    local width = 1.5 + 3 * (#curves - i) / #curves
    out[#out + 1] = ('<polyline fill="none" stroke="%s" stroke-width="%.2g" '
      .. 'points="%s"><title>%s</title></polyline>'):format(colour, width,
        table.concat(markup.stairs(list, box, count, most), " "),
        markup.escape(words))
    draw_peak(out, self.plans[i], colour, most)
  end
  draw_capacity(out, self.capacity, most)
  local down = 18 * (markup.legend(head, box.x, 38, legend, box.x + box.width) - 1)
  head[#head + 1] = ('<g transform="translate(0 %d)">'):format(down)
  table.move(out, 1, #out, #head + 1, head)
  head[#head + 1] = "</g>"
  return markup.svg(WIDTH, HEIGHT + down, head)
end

--- Draw the curves into a file: .svg or .html.
---
---     comparison:save "plans.html"
---
--- Raises: an ending that there is not; a file's faults are a message.
---@param path string
---@return true? done
---@return string? message
function Comparison:save(path)
  local text = picture(self)
  if save.format(path, formats) == "html" then
    text = markup.page("Plans compared", "<h1>Plans compared</h1>\n" .. text)
  end
  return save.write(path, text)
end

--- Compare plans: the list, and `names` for them, and a `capacity` in bytes or
--- as text.
---@param given {names: string[]?, capacity: integer|string|nil, [integer]: mrt.Plan}
---@return mrt.Comparison
return function(given)
  local self = { plans = {}, names = {} }
  for i, plan in ipairs(given) do
    if type(plan) ~= "table" or not plan.peak then
      core.fail("value", "compare", ("entry %d is no plan"):format(i))
    end
    self.plans[i] = plan
    self.names[i] = given.names and given.names[i] or plan.title
      or "plan " .. i
  end
  if given.capacity then
    local bytes, message = format.read_bytes(given.capacity)
    if not bytes then core.fail("value", "compare", message) end
    self.capacity = bytes
  end
  return setmetatable(self, Comparison)
end
