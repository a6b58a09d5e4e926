--- lanes.lua -- copies between memory and the swap tier, drawn under a timeline
---
--- Two lanes, out of memory and into it.  A bar lasts from the step that starts
--- the copy to the one that waits for it; bars that would cover each other lie in
--- rows.  A red mark is a predicted stall.
---
--- SPDX-License-Identifier: MIT

local about = require "mrt.plan.report.about"
local format = require "mrt.util.format"
local markup = require "mrt.plan.report.markup"

local lanes = {}

local THICK, MOST, GAP = 11, 96, 10 -- pixels: of a row, of a lane, between lanes
local HEAD, FOOT = 56, 24
local words = { out = "out of memory", ["in"] = "into memory" }
local colours = { hidden = "#009e73", long = "#e69f00", stall = "#c00" }

-- Does the copy take no longer than the steps beside it?
local function fits(t) return t.time <= t.beside end

local function made_by(v) return ("%s, %s"):format(v.op, about.place(v)) end

--- List the copies in order, each with `what` it is of: its name, or the operator
--- and the line that made it.
---@param plan mrt.Plan
---@param values table[]  of the plan
---@return table[]
function lanes.list(plan, values)
  local list, gone = plan:transfers(), {}
  table.sort(list, function(a, b)
    if a.start ~= b.start then return a.start < b.start end
    return a.value < b.value
  end)
  for _, t in ipairs(list) do
    if t.lane == "out" then gone[t.swapped] = made_by(values[t.value]) end
    t.what = t.name or gone[t.swapped] or made_by(values[t.value])
  end
  return list
end

--- Those that stall, the longest first.
---@param list table[]
---@return table[]
function lanes.stalls(list)
  local out = {}
  for _, t in ipairs(list) do if t.stall > 0 then out[#out + 1] = t end end
  table.sort(out, function(a, b)
    if a.stall ~= b.stall then return a.stall > b.stall end
    if a.start ~= b.start then return a.start < b.start end
    return a.value < b.value
  end)
  return out
end

--- Sum copies: bytes, and of how many T_swap <= T_compute.
---@param list table[]
---@return integer bytes
---@return integer hidden
function lanes.sums(list)
  local bytes, hidden = 0, 0
  for _, t in ipairs(list) do
    bytes, hidden = bytes + t.bytes, hidden + (fits(t) and 1 or 0)
  end
  return bytes, hidden
end

--- What the copies listed are of.
---@param plan mrt.Plan
---@return string
function lanes.scope(plan)
  return plan.micro_batches and "a micro-batch and the final steps" or "a run"
end

--- "T_swap 0.36 ms <= T_compute 1.35 ms", or ">".
---@param t table
---@return string
function lanes.compare(t)
  return ("T_swap %s %s T_compute %s"):format(format.time(t.time),
    fits(t) and "<=" or ">", format.time(t.beside))
end

-- The copies of a lane in rows, none over another; and how many rows.
local function rows_of(list, lane)
  local own, ends = {}, {}
  for _, t in ipairs(list) do
    if t.lane == lane then
      local row = 1
      while ends[row] and ends[row] >= t.start do row = row + 1 end
      ends[row], t.row, own[#own + 1] = t.wait, row, t
    end
  end
  return own, math.max(#ends, 1)
end

--- Give the copies of both lanes their rows, from 1: none lies over another.
---@param list table[]
---@return table[] list
function lanes.rows(list)
  for _, lane in ipairs { "out", "in" } do rows_of(list, lane) end
  return list
end

local function hover(t)
  return ("%s, %s %s\n%s\nsteps %d to %d; %s"):format(t.what,
    format.bytes(t.bytes), words[t.lane], lanes.compare(t), t.start, t.wait,
    t.stall > 0 and ("stalls %s, predicted"):format(format.time(t.stall))
      or "no stall")
end

local function draw_bar(out, t, box, wide, thick)
  local x, n = box.x + wide * (t.start - 1), markup.number
  local width, y = math.max(wide * (t.wait - t.start + 1), 1.5),
    box.y + thick * (t.row - 1)
  out[#out + 1] = ('<rect class="block" x="%s" y="%s" width="%s" height="%s" '
    .. 'fill="%s"><title>%s</title></rect>'):format(n(x), n(y), n(width),
      n(thick), colours[fits(t) and "hidden" or "long"],
      markup.escape(hover(t)))
  if t.stall > 0 then
    out[#out + 1] = ('<rect x="%s" y="%s" width="%s" height="%s" fill="%s" '
      .. 'pointer-events="none"/>'):format(n(x + width - math.min(3, width)), n(y),
        n(math.min(3, width)), n(thick), colours.stall)
  end
end

local function draw_lane(out, lane, list, box, count)
  local own, rows = rows_of(list, lane)
  local thick = math.min(THICK, MOST / rows)
  box.height = thick * rows
  out[#out + 1] = ('<rect class="lane" x="%g" y="%g" width="%g" height="%s"/>'
    .. '<text x="%g" y="%s" text-anchor="end">%s</text>'):format(box.x, box.y,
      box.width, markup.number(box.height), box.x - 6,
      markup.number(box.y + box.height / 2 + 4), lane)
  for _, t in ipairs(own) do draw_bar(out, t, box, box.width / count, thick) end
end

--- Draw both lanes; nothing where nothing is copied.
---@param out string[]
---@param plan mrt.Plan
---@param values table[]  of the plan
---@param box {x: number, y: number, width: number}  where they begin
---@return number height  taken
function lanes.draw(out, plan, values, box)
  local list, y = lanes.list(plan, values), box.y + HEAD
  if #list == 0 then return 0 end
  out[#out + 1] = markup.title(16, box.y + 16, ("Copies to and from the swap "
    .. "tier: %s %s, predicted stall of a run %s"):format(
      format.bytes((lanes.sums(list))), lanes.scope(plan), format.time(plan.stall)))
  markup.legend(out, box.x, box.y + 30, {
    { colours.hidden, "T_swap <= T_compute of the steps beside it" },
    { colours.long, "T_swap > T_compute" }, { colours.stall, "the run waits here" } })
  for _, lane in ipairs { "out", "in" } do
    local own = { x = box.x, y = y, width = box.width }
    draw_lane(out, lane, list, own, plan.nodes)
    y = y + own.height + (lane == "out" and GAP or 0)
  end
  markup.steps(out, { x = box.x, y = y, width = box.width, height = 0 }, plan.nodes)
  return y + FOOT - box.y
end

return lanes
