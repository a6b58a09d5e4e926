--- svg.lua -- a plan as a picture: live bytes over time, and the arena
---
--- Above, the bytes alive at each step, stacked by kind; below, each block of the
--- arena as a rectangle, offset against time.  Texts come up on hover.
---
--- SPDX-License-Identifier: MIT

local about = require "mrt.report.about"
local format = require "mrt.format"
local markup = require "mrt.report.markup"
local roles = require "mrt.report.roles"

local WIDTH, HEIGHT = 1080, 772
local curve = { x = 84, y = 68, width = 976, height = 220 }
local blocks = { x = 84, y = 362, width = 976, height = 360 }
local stacked = { "activation", "gradient", "workspace" }

-- Bytes alive at each step, by role.
local function live(values, count)
  local sums = {}
  for _, role in ipairs(stacked) do
    sums[role] = {}
    for i = 1, count + 1 do sums[role][i] = 0 end
  end
  for _, v in ipairs(values) do
    local sum = sums[v.role]
    if sum then
      sum[v.first], sum[v.last + 1] = sum[v.first] + v.bytes,
        sum[v.last + 1] - v.bytes
    end
  end
  for _, sum in pairs(sums) do
    for i = 2, count do sum[i] = sum[i] + sum[i - 1] end
  end
  return sums
end

-- The band between the heights `low` and `high`, as a path.
local function band(low, high, most, count, colour)
  local points, n = {}, markup.number
  local function point(i, bytes)
    points[#points + 1] = n(curve.x + curve.width * i / count) .. ","
      .. n(curve.y + curve.height * (1 - bytes / most))
  end
  for i = 1, count do
    point(i - 1, high[i])
    point(i, high[i])
  end
  for i = count, 1, -1 do
    point(i, low[i])
    point(i - 1, low[i])
  end
  return ('<polygon fill="%s" points="%s"/>'):format(colour,
    table.concat(points, " "))
end

local function draw_bands(out, values, most, count)
  local sums, low = live(values, count), {}
  for i = 1, count do low[i] = 0 end
  for _, role in ipairs(stacked) do
    local high, any = {}, false
    for i = 1, count do
      high[i] = low[i] + sums[role][i]
      any = any or high[i] > low[i]
    end
    if any then
      out[#out + 1] = band(low, high, most, count, markup.colours[role])
    end
    low = high
  end
end

-- Invisible columns that carry the hover texts of steps.
local function draw_steps(out, plan, steps)
  local wide = curve.width / #steps
  for i, s in ipairs(steps) do
    out[#out + 1] = ('<rect class="bar" x="%s" y="%g" width="%s" height="%g">'
      .. '<title>step %d: %s%s\n%s\n%s live in the arena%s</title></rect>')
      :format(markup.number(curve.x + wide * (i - 1)), curve.y,
        markup.number(wide), curve.height, i, markup.escape(s.op),
        s.backward and " (gradient)" or "", markup.escape(about.place(s)),
        format.bytes(s.live), i == plan.peak_step and ", the peak" or "")
  end
end

-- What is thin has no border, which would hide it.
local function draw_block(out, v, wide, tall)
  local width = math.max(wide * (v.last - v.first + 1), 0.3)
  local height = math.max(tall * v.bytes, 0.3)
  local bottom = blocks.y + blocks.height - tall * v.offset
  out[#out + 1] = ('<rect class="%s" x="%s" y="%s" width="%s" height="%s" '
    .. 'fill="%s"><title>%s</title></rect>')
    :format(math.min(width, height) < 2 and "block thin" or "block",
      markup.number(blocks.x + wide * (v.first - 1)),
      markup.number(bottom - height), markup.number(width),
      markup.number(height), markup.colours[v.role],
      markup.escape(about.value(v)))
end

local function draw_blocks(out, values, most, count)
  for _, v in ipairs(values) do
    if roles.in_arena[v.role] and v.bytes > 0 then
      draw_block(out, v, blocks.width / count, blocks.height / most)
    end
  end
end

local function titles(out, plan)
  out[#out + 1] = ('<text x="16" y="24" style="font-size:15px;font-weight:600">'
    .. '%s</text>'):format(markup.escape(("Bytes alive in the arena%s: peak %s "
      .. "at step %d of %d"):format(plan.title and " of " .. plan.title or "",
      format.bytes(plan.lower_bound - plan.persistent - plan.outputs),
      plan.peak_step, plan.nodes)))
  out[#out + 1] = ('<text x="16" y="%d" style="font-size:15px;font-weight:600">'
    .. 'The arena, %s: offset against time</text>'):format(blocks.y - 18,
      format.bytes(plan.transient))
  out[#out + 1] = ('<text x="%g" y="%g" text-anchor="end">step</text>')
    :format(blocks.x + blocks.width, blocks.y + blocks.height + 34)
  local entries = {}
  for _, role in ipairs(stacked) do
    entries[#entries + 1] = { markup.colours[role], roles.words[role] }
  end
  markup.legend(out, curve.x, 38, entries)
end

local function draw_peak(out, plan)
  local x = curve.x + curve.width * (plan.peak_step - 0.5) / plan.nodes
  for _, box in ipairs { curve, blocks } do
    out[#out + 1] = ('<line class="peak" x1="%.1f" x2="%.1f" y1="%g" y2="%g" '
      .. 'pointer-events="none"/>'):format(x, x, box.y, box.y + box.height)
  end
end

---@param plan mrt.Plan
---@return string
return function(plan)
  local values, steps, out = plan:values(), plan:steps(), {}
  local most, count = math.max(plan.transient, 1), #steps
  titles(out, plan)
  for _, box in ipairs { curve, blocks } do markup.axis(out, box, most) end
  if count > 0 then
    draw_bands(out, values, most, count)
    draw_steps(out, plan, steps)
    draw_blocks(out, values, most, count)
    draw_peak(out, plan)
    for _, box in ipairs { curve, blocks } do markup.steps(out, box, count) end
  end
  return markup.svg(WIDTH, HEIGHT, out)
end
