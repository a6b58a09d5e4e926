--- graph.lua -- the planned graph as a picture
---
--- One row for each step, in executing order; a lane each for forward nodes,
--- gradients and updates.  Boxes of one colour are results at one offset of the
--- arena; grey ones lie outside it.
---
--- SPDX-License-Identifier: MIT

local about = require "mrt.report.about"
local format = require "mrt.format"
local markup = require "mrt.report.markup"
local roles = require "mrt.report.roles"

local BOX, TALL, ROW, TOP = 230, 34, 54, 84
local lanes = { { "forward", 90 }, { "gradient", 430 }, { "update", 770 } }
local WIDTH = 1080

local function is_variable(v) return v.role == "weight" or v.role == "optimizer" end

-- Which lane a step stands in, and what it leaves behind.
local function describe(step, operands, values)
  local lane, written = step.backward and 2 or 1, nil
  for _, w in ipairs(operands.writes) do
    local v = values[w]
    if is_variable(v) then lane = 3 end
    if v.role ~= "workspace" then written = written or w end
  end
  return lane, written
end

-- Blocks at one offset of the arena have one colour, other memory is grey.
local function colour(v, seen)
  if not v or not roles.in_arena[v.role] then return "#eeeeee" end
  if not seen[v.offset] then
    seen.count = seen.count + 1
    seen[v.offset] = ("hsl(%d 70%% 82%%)"):format(seen.count * 137 % 360)
  end
  return seen[v.offset]
end

local function left(lane) return lanes[lane][2] end
local function top(i) return TOP + (i - 1) * ROW end

-- To the next box in a lane straight down, past others on the left; to another
-- lane from side to side.
local function edge(from, to, lane_from, lane_to)
  local x1, y1 = left(lane_from), top(from) + TALL / 2
  local x2, y2 = left(lane_to), top(to) + TALL / 2
  local bow1, bow2 = x1 - math.min(18 + 3 * (to - from), 80), nil
  if lane_from == lane_to and to == from + 1 then
    x1, x2 = x1 + BOX / 2, x2 + BOX / 2
    y1, y2 = y1 + TALL / 2, y2 - TALL / 2
    bow1 = x1
  elseif lane_from < lane_to then
    x1 = x1 + BOX
    bow1, bow2 = x1 + 50, x2 - 50
  elseif lane_from > lane_to then
    x2 = x2 + BOX
    bow1, bow2 = x1 - 50, x2 + 50
  end
  return ('<path class="edge" d="M%g %g C%g %g %g %g %g %g"/>'):format(x1, y1,
    bow1, y1, bow2 or bow1, y2, x2, y2)
end

-- Names of what a step reads that no step has made.
local function leaves(operands, values, maker)
  local names = {}
  for _, r in ipairs(operands.reads) do
    if not maker[r] then names[#names + 1] = values[r].name or values[r].role end
  end
  return #names > 0 and "reads " .. table.concat(names, ", ") or ""
end

local function shorten(text, most)
  return #text > most and text:sub(1, most - 2) .. ".." or text
end

local function box(out, i, step, lane, v, extra, fill)
  local x, y = left(lane), top(i)
  local hover = { ("step %d: %s"):format(i, step.op), about.place(step), extra }
  if v then hover[#hover + 1] = "in the place of " .. about.value(v) end
  out[#out + 1] = ('<g><title>%s</title><rect class="node" x="%g" y="%g" '
    .. 'width="%d" height="%d" rx="%d" fill="%s"/>'
    .. '<text x="%g" y="%g" style="font-weight:600">%d %s</text>'
    .. '<text x="%g" y="%g">%s <tspan class="small">%s</tspan></text></g>')
    :format(markup.escape(table.concat(hover, "\n")), x, y, BOX, TALL,
      lane == 1 and 8 or 0, fill, x + 8, y + 14, i,
      markup.escape(shorten(step.op, 30)), x + 8, y + 28,
      markup.escape(v and v.type or ""), markup.escape(about.place(step)))
end

local function draw_nodes(edges, nodes, values, steps, operands)
  local maker, lane_of, seen = {}, {}, { count = 0 }
  for i, step in ipairs(steps) do
    local o = operands[i]
    local lane, written = describe(step, o, values)
    lane_of[i] = lane
    local extra, drawn = leaves(o, values, maker), {}
    for _, r in ipairs(o.reads) do
      local from = maker[r]
      if from and not drawn[from] then
        drawn[from] = true
        edges[#edges + 1] = edge(from, i, lane_of[from], lane)
      end
    end
    box(nodes, i, step, lane, values[written], extra,
      colour(values[written], seen))
    for _, w in ipairs(o.writes) do maker[w] = i end
  end
end

---@param plan mrt.Plan
---@return string
return function(plan)
  local edges, nodes, steps = {}, {}, plan:steps()
  local out = { '<style>svg .edge { fill: none; stroke: #888 } '
    .. 'svg .node { stroke: #555 } svg g text { font-size: 11px } '
    .. 'svg .small { fill: #777 }</style>',
    ('<text x="16" y="24" style="font-size:15px;font-weight:600">%s</text>')
      :format(markup.escape(("Graph%s: %d nodes, arena %s"):format(plan.title
        and " of " .. plan.title or "", #steps, format.bytes(plan.transient)))),
    '<text x="16" y="44">Boxes of one colour lie at one offset of the arena, '
      .. "grey ones outside it.</text>" }
  for _, lane in ipairs(lanes) do
    out[#out + 1] = ('<text x="%g" y="72" style="font-weight:600">%s</text>')
      :format(lane[2], lane[1])
  end
  draw_nodes(edges, nodes, plan:values(), steps, plan:operands())
  table.move(edges, 1, #edges, #out + 1, out)
  table.move(nodes, 1, #nodes, #out + 1, out)
  return markup.svg(WIDTH, top(#steps + 1) + 10, out)
end
