--- page.lua -- a run as one self-contained page: loss, rate, speed, memory
---
--- SPDX-License-Identifier: MIT

local chart = require "mrt.plan.report.chart"
local format = require "mrt.util.format"
local markup = require "mrt.plan.report.markup"

local MOST = 600 -- points of a line

local escape = markup.escape

-- The points of one scalar, thinned by means of neighbours.
local function points_of(records, name)
  local all = {}
  for _, r in ipairs(records) do
    local v = r[name]
    if math.type(r.step) == "integer" and type(v) == "number" and v == v
      and math.abs(v) < math.huge then
      all[#all + 1] = { r.step, v }
    end
  end
  local width = (#all + MOST - 1) // MOST
  if width <= 1 then return all end
  local out = {}
  for i = 1, #all, width do
    local step, sum, last = 0, 0, math.min(i + width - 1, #all)
    for k = i, last do step, sum = step + all[k][1], sum + all[k][2] end
    out[#out + 1] = { step / (last - i + 1), sum / (last - i + 1) }
  end
  return out
end

-- Each point the mean of itself and what came before, newer ones weighing more.
local function smooth(points)
  local out, mean, weight = {}, 0, 0
  local keep = 1 - math.min(1, 20 / math.max(#points, 1))
  for i, p in ipairs(points) do
    mean, weight = keep * mean + (1 - keep) * p[2], keep * weight + (1 - keep)
    out[i] = { p[1], mean / weight }
  end
  return out
end

local function add(charts, title, label, series, bytes)
  local drawn = {}
  for _, s in ipairs(series) do
    if #s.points > 0 then drawn[#drawn + 1] = s end
  end
  if #drawn == 0 then return end
  charts[#charts + 1] = { title = title, x = { label = "step" },
    y = { label = label, bytes = bytes }, series = drawn }
end

-- What a run should take: its plan, a mini-batch, what was there before.
local function foreseen(run)
  return run.peak and run.peak + (run.inputs or 0) + (run.beside or 0)
end

local function charts_of(run, records)
  local charts, loss = {}, points_of(records, "loss")
  add(charts, "Loss", "loss", {
    { name = "each step", points = loss },
    { name = "smoothed", points = smooth(loss) },
    { name = "validation", points = points_of(records, "eval") },
  })
  add(charts, "Learning rate", "rate",
    { { name = "learning rate", points = points_of(records, "lr") } })
  add(charts, "Throughput", (run.unit or "examples") .. "/s",
    { { name = "throughput", points = points_of(records, "throughput") } })
  add(charts, "Gradient noise scale", "rows",
    { { name = "noise / square of the gradient", points = points_of(records, "gradient_noise") } })
  local memory = points_of(records, "memory")
  local planned, most = {}, foreseen(run)
  if most and #memory > 0 then
    planned = { { memory[1][1], most }, { memory[#memory][1], most } }
  end
  add(charts, "Memory", "bytes", { { name = "tensors, the most so far",
    points = memory }, { name = "planned, with inputs and what was there", points = planned,
    dashed = true } }, true)
  return charts
end

local function row(out, name, value)
  if value == nil then return end
  out[#out + 1] = ("<tr><td class=\"k\">%s</td><td>%s</td></tr>")
    :format(escape(name), escape(tostring(value)))
end

local function number(v)
  return type(v) == "number" and ("%.6g"):format(v) or v
end

local function lowest(records, name)
  local least
  for _, r in ipairs(records) do
    local v = r[name]
    if type(v) == "number" and v < (least or math.huge) then least = v end
  end
  return least
end

local function maybe(f, v) return v and f(v) end

local function table_of(run, records)
  local out, last = { "<table>" }, records[#records] or {}
  row(out, "begun", maybe(function(t)
    return os.date("%Y-%m-%d %H:%M:%S", t)
  end, run.begun))
  row(out, "steps", run.steps and last.step
    and ("%d of %d"):format(last.step, run.steps) or last.step)
  row(out, "time", maybe(format.duration, last.seconds))
  row(out, "last loss", number(last.loss))
  row(out, "lowest validation loss", number(lowest(records, "eval")))
  row(out, "gradient noise scale, in rows", number(last.gradient_noise))
  row(out, "parameters", maybe(format.count, run.parameters))
  row(out, "memory of a step", maybe(format.bytes, run.peak))
  row(out, "of its inputs", maybe(format.bytes, run.inputs))
  row(out, "of other tensors, before it began", maybe(format.bytes, run.beside))
  row(out, "predicted seconds of a step", number(run.predicted))
  out[#out + 1] = "</table>"
  return table.concat(out, "\n")
end

--- Draw a run.
---@param run table        what is known of all of it: name, unit, peak, ..
---@param records table[]  one for each step written
---@return string html
return function(run, records)
  local title, charts = run.name or "a run", charts_of(run, records)
  return markup.page(title, ("<h1>%s</h1>\n%s\n%s"):format(escape(title),
    table_of(run, records), #charts > 0 and chart.svg(charts) or ""))
end
