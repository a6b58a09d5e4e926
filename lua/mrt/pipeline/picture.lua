--- picture.lua -- schedules as pictures: stages against time, and what each holds
---
---- A colour for each micro-batch, B dark and W pale.  Under each
--- stage's row a strip shows how many micro-batches it holds.  As text a letter stands
--- for a micro-batch, on a grid of time.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local markup = require "mrt.plan.report.markup"
local show = require "mrt.util.options".show

local picture = {}

local function check_simulation(who, sim)
  if type(sim) == "table" and type(sim.actions) == "table" then return end
  core.fail("value", who, "what pipeline.simulate returned wanted, got " .. show(sim))
end

local WIDTH <const> = 1080
local LEFT <const>, RIGHT <const> = 84, 150
local ROW <const>, STRIP <const>, GAP <const> = 22, 16, 6

-- Micro-batch i of m in a colour of its own: hues in steps of the golden angle are far
-- apart for neighbours.
local function colour(i, light)
  return ("hsl(%d,%d%%,%d%%)"):format((i * 137.508) // 1 % 360, 62, light)
end

local look = { F = { 58, "" }, B = { 42, "" }, W = { 78, "" } }

local number = markup.number

local function draw_action(out, a, s, x, y, wide, v)
  local text = wide > 7 * #tostring(a.micro) + 3 and a.micro or ""
  local where = ("%s of micro-batch %d%s on stage %d, %s to %s"):format(a.kind, a.micro,
    v > 1 and ", chunk " .. a.chunk or "", s, number(a.start), number(a.finish))
  out[#out + 1] = ('<rect class="block" x="%s" y="%g" width="%s" height="%d" fill="%s">'
    .. '<title>%s</title></rect>'):format(number(x), y, number(math.max(wide, 0.3)), ROW,
      colour(a.micro, look[a.kind][1] + (v > 1 and (a.chunk - 1) * 6 or 0)), where)
  if text ~= "" then
    out[#out + 1] = ('<text x="%s" y="%g" text-anchor="middle" pointer-events="none" '
      .. 'style="fill:%s">%s</text>'):format(number(x + wide / 2), y + 15,
        a.kind == "B" and "#fff" or "#000", text)
  end
end

-- The strip of a stage: how high, of the most that any stage of the picture holds.
local function draw_held(out, list, y, scale, most)
  local points = { ("%s,%g"):format(number(LEFT), y + STRIP) }
  local height = 0
  local function go_to(t, held)
    if held == height then return end
    for _, h in ipairs { height, held } do
      points[#points + 1] = ("%s,%s"):format(number(LEFT + t * scale),
        number(y + STRIP * (1 - h / most)))
    end
    height = held
  end
  for i, a in ipairs(list) do
    local after = list[i + 1]
    go_to(a.start, a.held)
    go_to(a.finish, not after and 0 or after.kind == "F" and after.held - 1 or after.held)
  end
  points[#points + 1] = ("%s,%g"):format(points[#points]:match "^[^,]+", y + STRIP)
  out[#out + 1] = ('<polygon fill="%s" fill-opacity=".55" points="%s"/>'):format(
    markup.colours.activation, table.concat(points, " "))
end

local function draw_one(out, item, y, scale, most)
  local sim, v = item.simulation, item.simulation.order.v
  out[#out + 1] = markup.title(16, y, ("%s: %.1f %% idle"):format(item.title, 100 * sim.bubble))
  y = y + 12
  for s, list in ipairs(sim.actions) do
    out[#out + 1] = ('<text x="%d" y="%g" text-anchor="end">stage %d</text>'):format(LEFT - 8,
      y + 15, s)
    out[#out + 1] = ('<rect class="lane" x="%d" y="%g" width="%s" height="%d"/>'):format(LEFT, y,
      number(sim.makespan * scale), ROW)
    for _, a in ipairs(list) do
      draw_action(out, a, s, LEFT + a.start * scale, y, (a.finish - a.start) * scale, v)
    end
    draw_held(out, list, y + ROW + 1, scale, most * v)
    local bytes = item.bytes and item.bytes[s]
    out[#out + 1] = ('<text x="%d" y="%g">holds %s%s</text>'):format(WIDTH - RIGHT + 10, y + 15,
      number(sim.in_flight[s] / v), bytes and ", " .. require "mrt.util.format".bytes(bytes) or "")
    y = y + ROW + STRIP + GAP
  end
  return y + 26
end

--- Draw schedules one below the other, on one scale of time, as SVG.
---
---     local sim = mrt.pipeline.simulate(mrt.pipeline.check(mrt.pipeline.gpipe, 4, 8))
---     mrt.pipeline.svg { { title = "GPipe", simulation = sim } }
---
--- Raises: what is no simulation.
---@param list {title: string, simulation: mrt.PipelineSimulation, bytes: integer[]?}[]
---  bytes: what each stage holds at most, to be written beside it
---@return string
function picture.svg(list)
  if type(list) ~= "table" then
    core.fail("value", "svg", "a list of simulations with titles wanted, got " .. show(list))
  end
  for _, item in ipairs(list) do
    check_simulation("svg", type(item) == "table" and item.simulation)
  end
  local longest, most, out = 0, 1, {}
  for _, item in ipairs(list) do
    local sim = item.simulation
    longest = math.max(longest, sim.makespan)
    for _, n in ipairs(sim.in_flight) do most = math.max(most, n / sim.order.v) end
  end
  local scale, y = (WIDTH - LEFT - RIGHT) / math.max(longest, 1e-9), 28
  for _, item in ipairs(list) do y = draw_one(out, item, y, scale, most) end
  out[#out + 1] = ('<text x="%d" y="%g">Time goes to the right; a colour and a number for each '
    .. 'micro-batch: forward, backward (dark), gradients of weights (pale).  Strips: '
    .. 'micro-batches held.</text>'):format(16, y - 6)
  return markup.svg(WIDTH, math.ceil(y + 8), out)
end

local COLUMNS <const> = 100 -- of text, at most

local NAMES <const> = "123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

local function name_of(i)
  local at = (i - 1) % #NAMES + 1
  return NAMES:sub(at, at)
end

local ansi = { 31, 32, 33, 34, 35, 36, 91, 92, 93, 94, 95, 96 }

-- What stands in column k of a stage: the action that runs in its middle.
local function cell(list, from, t, coloured)
  local i = from
  while list[i] and list[i].finish <= t do i = i + 1 end
  local a = list[i]
  if not a or a.start > t then return ".", i end
  local mark = name_of(a.micro)
  if not coloured then return mark, i end
  local style = a.kind == "B" and "7;" or a.kind == "W" and "2;" or ""
  return ("\27[%s%dm%s\27[0m"):format(style, ansi[(a.micro - 1) % #ansi + 1], mark), i
end

--- Draw a schedule as text: a line for each stage.
---
---     local sim = mrt.pipeline.simulate(mrt.pipeline.check(mrt.pipeline.gpipe, 2, 2))
---     print(mrt.pipeline.text(sim))
---
--- Raises: what is no simulation.
---@param sim mrt.PipelineSimulation
---@param coloured? boolean  for a terminal: B inverted, W dim
---@return string
function picture.text(sim, coloured)
  check_simulation("text", sim)
  local each = sim.makespan / COLUMNS
  local shortest = math.huge
  for _, list in ipairs(sim.actions) do
    for _, a in ipairs(list) do
      if a.finish > a.start then shortest = math.min(shortest, a.finish - a.start) end
    end
  end
  local columns = COLUMNS
  if shortest < math.huge and sim.makespan / shortest <= COLUMNS then
    each, columns = shortest, math.ceil(sim.makespan / shortest - 1e-9)
  end
  local lines = {}
  for s, list in ipairs(sim.actions) do
    local row, i = {}, 1
    for k = 1, columns do row[k], i = cell(list, i, (k - 0.5) * each, coloured) end
    lines[s] = ("stage %d  %s  holds %s"):format(s, table.concat(row),
      number(sim.in_flight[s] / sim.order.v))
  end
  lines[#lines + 1] = ("%.1f %% idle"):format(100 * sim.bubble)
  return table.concat(lines, "\n")
end

return picture
