--- svg.lua -- a plan as a picture: live bytes over time, and the arena
---
--- Above, the bytes alive at each step, stacked by kind; below, each block of the
--- arena as a rectangle, offset against time; then the copies of what is swapped.
--- Texts come up on hover; without them (`plain`) it is a quarter as long.
---
--- SPDX-License-Identifier: MIT

local about = require "mrt.plan.report.about"
local format = require "mrt.util.format"
local lanes = require "mrt.plan.report.lanes"
local markup = require "mrt.plan.report.markup"
local roles = require "mrt.plan.report.roles"

local WIDTH, HEIGHT = 1080, 772
local COLUMNS = 976 -- at most: one a pixel
local curve = { x = 84, y = 68, width = 976, height = 220 }
local blocks = { x = 84, y = 362, width = 976, height = 360 }
local stacked = { "fetched", "activation", "gradient", "workspace" }

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

-- The band between the heights `low` and `high`.
local function band(low, high, most, count, colour)
  local points = markup.stairs(high, curve, count, most)
  local below = markup.stairs(low, curve, count, most)
  for i = #below, 1, -1 do points[#points + 1] = below[i] end
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

-- Invisible columns that carry the hover texts of steps: of the highest one,
-- where several fall into a column.
local function draw_steps(out, plan, steps)
  local each = math.ceil(#steps / COLUMNS)
  local wide = curve.width / #steps * each
  for first = 1, #steps, each do
    local i = first
    for k = first + 1, math.min(first + each - 1, #steps) do
      if steps[k].live > steps[i].live then i = k end
    end
    local s = steps[i]
    out[#out + 1] = ('<rect class="bar" x="%s" y="%g" width="%s" height="%g">'
      .. '<title>step %d: %s%s\n%s\n%s live in the arena%s</title></rect>')
      :format(markup.number(curve.x + wide * (first - 1) / each), curve.y,
        markup.number(wide), curve.height, i, markup.escape(s.op),
        s.backward and " (gradient)" or "", markup.escape(about.place(s)),
        format.bytes(s.live), i == plan.peak_step and ", the peak" or "")
  end
end

-- What is thin has a border of its own colour: another would hide it.
local function draw_block(out, v, wide, tall)
  local width = math.max(wide * (v.last - v.first + 1), 0.3)
  local height = math.max(tall * v.bytes, 0.3)
  local bottom = blocks.y + blocks.height - tall * v.offset
  local colour, thin = markup.colours[v.role], math.min(width, height) < 2
  out[#out + 1] = ('<rect class="%s x="%s" y="%s" width="%s" height="%s" '
    .. 'fill="%s"><title>%s</title></rect>')
    :format(thin and ('block thin" color="%s"'):format(colour) or 'block"',
      markup.number(blocks.x + wide * (v.first - 1)),
      markup.number(bottom - height), markup.number(width),
      markup.number(height), colour,
      markup.escape(about.value(v)))
end

local function draw_blocks(out, values, most, count)
  for _, v in ipairs(values) do
    if roles.in_arena[v.role] and v.bytes > 0 then
      draw_block(out, v, blocks.width / count, blocks.height / most)
    end
  end
end

-- All blocks of a role as one path, and the thin ones as another.
local function draw_plain(out, values, wide, tall)
  local paths, n = { [false] = {}, [true] = {} }, markup.number
  for _, v in ipairs(values) do
    if roles.in_arena[v.role] and v.bytes > 0 then
      local width = math.max(wide * (v.last - v.first + 1), 0.3)
      local height = math.max(tall * v.bytes, 0.3)
      local own = paths[math.min(width, height) < 2]
      own[v.role] = own[v.role] or {}
      table.insert(own[v.role], ("M%s %sh%sv-%sh-%sz"):format(n(blocks.x + wide * (v.first - 1)),
        n(blocks.y + blocks.height - tall * v.offset), n(width), n(height), n(width)))
    end
  end
  for _, role in ipairs(roles.order) do
    for _, thin in ipairs { false, true } do
      local own = paths[thin]
      if own[role] then
        out[#out + 1] = ('<path class="block%s" color="%s" fill="%s" d="%s"/>'):format(
          thin and " thin" or "", markup.colours[role], markup.colours[role],
          table.concat(own[role]))
      end
    end
  end
end

local function titles(out, plan, present)
  out[#out + 1] = markup.title(16, 24, ("Bytes alive in the arena%s: peak %s at "
    .. "step %d of %d"):format(plan.title and " of "
      .. format.shorten(plan.title, 64, true) or "",
    format.bytes(plan.lower_bound - plan.persistent - plan.outputs),
    plan.peak_step, plan.nodes))
  out[#out + 1] = markup.title(16, blocks.y - 18,
    ("The arena, %s: offset against time"):format(format.bytes(plan.transient)))
  out[#out + 1] = ('<text x="%g" y="%g" text-anchor="end">step</text>')
    :format(blocks.x + blocks.width, blocks.y + blocks.height + 34)
  local entries = {}
  for _, role in ipairs(stacked) do
    if present[role] then
      entries[#entries + 1] = { markup.colours[role], roles.words[role] }
    end
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

-- With no arena there is nothing but a sentence to draw.
local function empty()
  return markup.svg(WIDTH, 40, { markup.title(16, 24,
    "Nothing lives in the arena: results and variables have places of their own") })
end

---@param plan mrt.Plan
---@param o? {plain: boolean?}
---@return string
return function(plan, o)
  local values, steps, out, present = plan:values(), plan:steps(), {}, {}
  local plain = o and o.plain
  if plan.transient == 0 then return empty() end
  local most, count = plan.transient, #steps
  for _, v in ipairs(values) do present[v.role] = true end
  titles(out, plan, present)
  for _, box in ipairs { curve, blocks } do markup.axis(out, box, most) end
  if count > 0 then
    draw_bands(out, values, most, count)
    if plain then
      draw_plain(out, values, blocks.width / count, blocks.height / most)
    else
      draw_steps(out, plan, steps)
      draw_blocks(out, values, most, count)
    end
    draw_peak(out, plan)
    for _, box in ipairs { curve, blocks } do markup.steps(out, box, count) end
  end
  return markup.svg(WIDTH, HEIGHT + lanes.draw(out, plan, values,
    { x = blocks.x, y = HEIGHT, width = blocks.width }), out)
end
