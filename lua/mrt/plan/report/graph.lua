--- graph.lua -- the graph after any stage as a picture
---
--- One row for each node, in order; a lane each for forward nodes, gradients and
--- updates.  Boxes of one colour share memory in the finished plan: they lie at
--- one offset of the arena.
---
--- SPDX-License-Identifier: MIT

local about = require "mrt.plan.report.about"
local format = require "mrt.util.format"
local markup = require "mrt.plan.report.markup"
local roles = require "mrt.plan.report.roles"
local stages = require "mrt.plan.report.stage"

local BOX, TALL, ROW, TOP, GAP = 250, 34, 54, 106, 90
local lane_names = { "forward", "gradient", "update" }

local style = [[<style>
svg .edge { fill: none; stroke: #888 }
svg .edge.kept { stroke: #0072b2; stroke-width: 1.6 }
@media (prefers-color-scheme: dark) { svg .edge.kept { stroke: #56b4e9 } }
svg .node { stroke: #555 } svg .gone { stroke-dasharray: 3 3 }
svg .label { font-size: 11px; fill: #222 } svg .small { fill: #666 }
svg .op { font-weight: 600 } svg .mark { font-size: 11px; font-weight: 600 }
svg .dropped { stroke-dasharray: 6 3 }
</style>]]

-- How a mark looks: the colour of its strip and its word.
local mark_colours = { kept = "#0072b2", dropped = "#6a6a6a",
  recomputed = "#a34400", swapped = "#00684c" }

-- What the picture is made of: the stage, and what the finished plan says of its
-- values.
local function describe(plan, name)
  local planned = plan:stage()
  local p = { graph = plan:stage(name), home = {}, seen = { count = 0 },
    fates = stages.fates(planned), maker = {}, lane_of = {}, lanes = {},
    marks = {}, white = false }
  local blocks = plan:values()
  for i, v in ipairs(planned.values) do p.home[i] = blocks[v.block] end
  local used = {}
  for i, n in ipairs(p.graph.nodes) do
    p.lane_of[i] = n.updates > 0 and 3 or n.backward and 2 or 1
    used[p.lane_of[i]] = true
    for _, v in ipairs(n.writes) do p.maker[v] = i end
  end
  local x = GAP
  for lane = 1, 3 do
    if used[lane] then p.lanes[lane], x = x, x + BOX + GAP end
  end
  p.width = math.max(x - GAP // 2, 760)
  return p
end

-- A pale colour of a hue from 0 to 359, as all renderers read it: lightness 0.82,
-- saturation 0.7.
local function pale(hue)
  local function channel(n)
    local k = (n + hue / 30) % 12
    local value = 0.82 - 0.7 * 0.18 * math.max(-1, math.min(k - 3, 9 - k, 1))
    return math.floor(255 * value + 0.5)
  end
  return ("#%02x%02x%02x"):format(channel(0), channel(8), channel(4))
end

-- Blocks at one offset of the arena have one colour, other memory is grey; white
-- is what has none: a view, or what a later pass takes away.
local function colour(p, block)
  if not block then return "#ffffff" end
  if not roles.in_arena[block.role] then return "#e4e4e4" end
  local seen = p.seen
  if not seen[block.offset] then
    seen.count = seen.count + 1
    seen[block.offset] = pale(seen.count * 137 % 360)
  end
  return seen[block.offset]
end

local function top(i) return TOP + (i - 1) * ROW end

-- To the next box in a lane straight down, past others on the left; to another
-- lane from side to side.
local function edge(p, from, to, kept)
  local a, b = p.lane_of[from], p.lane_of[to]
  local x1, y1 = p.lanes[a], top(from) + TALL / 2
  local x2, y2 = p.lanes[b], top(to) + TALL / 2
  local bow1, bow2 = x1 - math.min(18 + 3 * (to - from), 80), nil
  if a == b and to == from + 1 then
    x1, x2 = x1 + BOX / 2, x2 + BOX / 2
    y1, y2 = y1 + TALL / 2, y2 - TALL / 2
    bow1 = x1
  elseif a < b then
    x1 = x1 + BOX
    bow1, bow2 = x1 + 50, x2 - 50
  elseif a > b then
    x2 = x2 + BOX
    bow1, bow2 = x1 - 50, x2 + 50
  end
  return ('<path class="edge%s" d="M%g %g C%g %g %g %g %g %g"/>'):format(
    kept and " kept" or "", x1, y1, bow1, y1, bow2 or bow1, y2, x2, y2)
end

-- Names of what a node reads that no node makes.
local function leaves(p, n)
  local names = {}
  for _, r in ipairs(n.reads) do
    local v = p.graph.values[r]
    if not p.maker[r] then names[#names + 1] = v.name or v.kind end
  end
  return #names > 0 and "reads " .. table.concat(names, ", ") or nil
end

local function hover(p, i, n, block, mark)
  local lines = { ("node %d: %s%s"):format(i, n.op,
    n.backward and " (gradient)" or ""), about.place(n), leaves(p, n) }
  for _, m in ipairs(stages.marks) do
    if m.name == mark then lines[#lines + 1] = m.words end
  end
  lines[#lines + 1] = block and "in the place of " .. about.value(block)
    or "no memory of its own in the plan"
  return table.concat(lines, "\n")
end

-- A strip on the left of the box, and the word at its right end.
local function draw_mark(out, mark, x, y)
  if not mark then return end
  out[#out + 1] = ('<rect x="%g" y="%g" width="4" height="%d" rx="2" fill="%s"/>'
    .. '<text class="mark" x="%g" y="%g" text-anchor="end" style="fill:%s">%s'
    .. '</text>'):format(x + 3, y + 4, TALL - 8, mark_colours[mark], x + BOX - 7, y + 14,
      mark_colours[mark], mark)
end

-- The block that a node's results live in, what becomes of them, their type.
local function results(p, n)
  local block, mark, kind
  for _, w in ipairs(n.writes) do
    block, mark = block or p.home[w], mark or p.fates[w]
    kind = kind or p.graph.values[w].type
  end
  p.white, p.marks[mark or ""] = p.white or not block, true
  return block, mark, kind or ""
end

local function draw_node(p, out, i, n)
  local x, y = p.lanes[p.lane_of[i]], top(i)
  local block, mark, kind = results(p, n)
  out[#out + 1] = ('<g><title>%s</title><rect class="node%s%s" x="%g" y="%g" '
    .. 'width="%d" height="%d" rx="%d" fill="%s"/>')
    :format(markup.escape(hover(p, i, n, block, mark)), block and "" or " gone",
      mark and " " .. mark or "", x, y, BOX, TALL, n.backward and 0 or 6,
      colour(p, block))
  draw_mark(out, mark, x, y)
  out[#out + 1] = ('<text class="label op" x="%g" y="%g">%d %s</text>'
    .. '<text class="label" x="%g" y="%g">%s <tspan class="small">%s</tspan>'
    .. '</text></g>'):format(x + 11, y + 14, i,
      markup.escape(format.shorten(n.op, 26)), x + 11, y + 28, kind,
      markup.escape(format.shorten(about.place(n), math.max(36 - #kind, 8), true)))
end

local function draw(p)
  local edges, boxes = {}, {}
  for i, n in ipairs(p.graph.nodes) do
    local drawn = {}
    for _, r in ipairs(n.reads) do
      local from = p.maker[r]
      if from and from < i and not drawn[from] then
        drawn[from] = true
        local kept = n.backward and p.fates[r] == "kept"
        edges[#edges + 1] = edge(p, from, i, kept)
      end
    end
    draw_node(p, boxes, i, n)
  end
  table.move(boxes, 1, #boxes, #edges + 1, edges)
  return edges
end

local whole = { traced = true, differentiated = true, planned = true }

local function title(plan, name, p)
  local text = ("Graph%s, %s: %d nodes"):format(plan.title
    and " of " .. format.shorten(plan.title, 36, true) or "",
    whole[name] and name or "after " .. name, #p.graph.nodes)
  if name ~= "planned" then return text end
  return ("%s, arena %s"):format(text, format.bytes(plan.transient))
end

local function heading(plan, name, p)
  local out, words, entries = { style }, "Boxes of one colour share memory: they "
    .. "lie at one offset of the arena. Grey: outside it.", {}
  out[2] = markup.title(16, 24, title(plan, name, p))
  out[3] = ('<text x="16" y="46">%s%s</text>'):format(words, p.white
    and " Dashed: no memory of its own." or "")
  for _, m in ipairs(stages.marks) do
    if p.marks[m.name] then
      entries[#entries + 1] = { mark_colours[m.name], m.words }
    end
  end
  markup.legend(out, 16, 58, entries)
  for lane, x in pairs(p.lanes) do
    out[#out + 1] = ('<text x="%g" y="%d" style="font-weight:600">%s</text>')
      :format(x, TOP - 10, lane_names[lane])
  end
  return out
end

---@param plan mrt.Plan
---@param options? {stage: string?}  of `plan:stages()`, default "planned"
---@return string
return function(plan, options)
  local name = options and options.stage or "planned"
  local p = describe(plan, name)
  local body = draw(p)
  local out = heading(plan, name, p)
  table.move(body, 1, #body, #out + 1, out)
  return markup.svg(p.width, top(#p.graph.nodes + 1) + 10, out)
end
