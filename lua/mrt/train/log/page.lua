--- page.lua -- runs as one self-contained page: loss, rate, speed, memory, and the plan
---
--- What the page's program knows of each run: name, colour, unit, planned (bytes) and
--- series, columns of step, seconds and value for each scalar, at most MOST points each.
---
--- SPDX-License-Identifier: MIT

local chart = require "mrt.plan.report.chart"
local embed = require "mrt.plan.report.embed"
local format = require "mrt.util.format"
local json = require "mrt.util.json"
local markup = require "mrt.plan.report.markup"

local MOST = 600 -- points of a line

local escape = markup.escape

---@class mrt.log.Run
---@field about table       what is known of all of it: name, unit, peak, ..
---@field records table[]   one for each step written
---@field picture? string   of its plan, SVG
---@field link? string      the page of its plan, as seen from this one

local function is_finite(v)
  return type(v) == "number" and v == v and math.abs(v) < math.huge
end

-- The points of one scalar {step, value, seconds}, thinned by means of neighbours.
local function points_of(records, name)
  local all, out = {}, {}
  for _, r in ipairs(records) do
    if math.type(r.step) == "integer" and is_finite(r[name]) then
      all[#all + 1] = { r.step, r[name], is_finite(r.seconds) and r.seconds or 0 }
    end
  end
  local width = (#all + MOST - 1) // MOST
  if width <= 1 then return all end
  for i = 1, #all, width do
    local sums, last = { 0, 0, 0 }, math.min(i + width - 1, #all)
    for k = i, last do
      for c = 1, 3 do sums[c] = sums[c] + all[k][c] / (last - i + 1) end
    end
    out[#out + 1] = sums
  end
  return out
end

-- ---- the picture that stands where no program runs -------------------------------

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
local function foreseen(about)
  return about.peak and about.peak + (about.inputs or 0) + (about.beside or 0)
end

-- The lines that one scalar has in all runs.
local function lines_of(runs, scalar, name)
  local out = {}
  for i, run in ipairs(runs) do
    local points = {}
    for k, p in ipairs(points_of(run.records, scalar)) do points[k] = { p[1], p[2] } end
    out[i] = { points = points,
      name = #runs > 1 and format.shorten(run.about.name, 24, true) .. ": " .. name or name }
  end
  return out
end

local function memory_of(runs)
  local lines = lines_of(runs, "memory", "tensors in a step")
  for i = 1, #runs do
    local points, most = lines[i].points, foreseen(runs[i].about)
    if most and #points > 0 then
      lines[#lines + 1] = { name = "planned, with inputs and what was there", dashed = true,
        points = { { points[1][1], most }, { points[#points][1], most } } }
    end
  end
  return lines
end

local function picture(runs)
  local charts, loss = {}, lines_of(runs, "loss", "loss")
  table.move(lines_of(runs, "eval", "validation"), 1, #runs, #loss + 1, loss)
  add(charts, "Loss", "loss", loss)
  add(charts, "Learning rate", "rate", lines_of(runs, "lr", "learning rate"))
  add(charts, "Length of the gradient", "norm", lines_of(runs, "grad_norm", "norm"))
  add(charts, "Throughput", (runs[1].about.unit or "examples") .. "/s",
    lines_of(runs, "throughput", "throughput"))
  add(charts, "Gradient noise scale", "rows",
    lines_of(runs, "gradient_noise", "noise / square of the gradient"))
  add(charts, "Memory", "bytes", memory_of(runs), true)
  return #charts > 0 and chart.svg(charts) or ""
end

-- ---- the data of the program -------------------------------------------------------

local scalars = { "loss", "eval", "lr", "grad_norm", "throughput", "memory",
  "gradient_noise" }

local function short(v) return math.tointeger(v) or tonumber(("%.6g"):format(v)) end

local function data_of(runs)
  local out = json.array {}
  for i, run in ipairs(runs) do
    local series = json.object {}
    for _, name in ipairs(scalars) do
      local columns = { step = json.array {}, value = json.array {}, seconds = json.array {} }
      for k, p in ipairs(points_of(run.records, name)) do
        columns.step[k], columns.value[k] = short(p[1]), short(p[2])
        columns.seconds[k] = short(p[3])
        series[name] = columns
      end
    end
    out[i] = { name = run.about.name, unit = run.about.unit or "examples", series = series,
      planned = foreseen(run.about), colour = markup.lines[(i - 1) % #markup.lines + 1] }
  end
  return out
end

-- ---- what is known of each ------------------------------------------------------------

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

local function most(records, name)
  local found
  for _, r in ipairs(records) do
    local v = r[name]
    if math.type(v) == "integer" then found = math.max(found or v, v) end
  end
  return found
end

local function maybe(f, v) return v and f(v) end

local facts = {
  { "begun", function(about)
    return maybe(function(t) return os.date("%Y-%m-%d %H:%M:%S", t) end, about.begun)
  end },
  { "steps", function(about, _, last)
    return about.steps and last.step and ("%d of %d"):format(last.step, about.steps) or last.step
  end },
  { "time", function(_, _, last) return maybe(format.duration, last.seconds) end },
  { "last loss", function(_, _, last) return number(last.loss) end },
  { "lowest validation loss", function(_, records) return number(lowest(records, "eval")) end },
  { "gradient noise scale, in rows", function(_, _, last) return number(last.gradient_noise) end },
  { "parameters", function(about) return maybe(format.count, about.parameters) end },
  { "most memory of tensors in a step", function(_, records)
    return maybe(format.bytes, most(records, "memory"))
  end },
  { "planned for it", function(about) return maybe(format.bytes, foreseen(about)) end },
  { "of which the step's plan", function(about) return maybe(format.bytes, about.peak) end },
  { "its inputs", function(about) return maybe(format.bytes, about.inputs) end },
  { "other tensors, before it began", function(about)
    return maybe(format.bytes, about.beside)
  end },
  { "predicted seconds of a step", function(about) return number(about.predicted) end },
}

local function table_of(runs)
  local out = { "<table>" }
  if #runs > 1 then
    local names = {}
    for i, run in ipairs(runs) do names[i] = "<th>" .. escape(run.about.name) .. "</th>" end
    out[2] = "<tr><th></th>" .. table.concat(names) .. "</tr>"
  end
  for _, fact in ipairs(facts) do
    local cells, any = {}, false
    for i, run in ipairs(runs) do
      local v = fact[2](run.about, run.records, run.records[#run.records] or {})
      cells[i], any = "<td>" .. escape(tostring(v or "")) .. "</td>", any or v ~= nil
    end
    if any then
      out[#out + 1] = ('<tr><td class="k">%s</td>%s</tr>'):format(fact[1], table.concat(cells))
    end
  end
  out[#out + 1] = "</table>"
  return table.concat(out, "\n")
end

local function plans(out, runs)
  for _, run in ipairs(runs) do
    if run.picture or run.link then
      out[#out + 1] = ("<h2>The plan of a step%s</h2>"):format(#runs > 1
        and ": " .. escape(run.about.name) or "")
    end
    if run.link then
      out[#out + 1] = ('<p>With zoom, readers and lines of each buffer: <a href="%s">%s</a></p>')
        :format(escape(run.link), escape(run.link))
    end
    if run.picture then out[#out + 1] = '<div class="wide">' .. run.picture .. "</div>" end
  end
end

--- Draw runs.
---@param runs mrt.log.Run[]  at least one
---@return string html
return function(runs)
  for _, run in ipairs(runs) do run.about.name = tostring(run.about.name or "a run") end
  local title = #runs == 1 and runs[1].about.name or ("%d runs"):format(#runs)
  local out = { ("<h1>%s</h1>"):format(escape(title)), table_of(runs),
    ('<div id="runs">%s</div>'):format(picture(runs)) }
  plans(out, runs)
  out[#out + 1] = embed.data("runs-data", data_of(runs))
  out[#out + 1] = embed.script("common", "plot", "runs")
  return markup.page(title, table.concat(out, "\n"))
end
