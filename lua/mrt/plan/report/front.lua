--- front.lua -- peak against predicted time, on the page of a plan
---
--- SPDX-License-Identifier: MIT

local chart = require "mrt.plan.report.chart"
local embed = require "mrt.plan.report.embed"
local format = require "mrt.util.format"
local front = require "mrt.plan.front"
local json = require "mrt.util.json"
local markup = require "mrt.plan.report.markup"

local function way(p)
  if p.memory then return "memory = " .. format.bytes(p.memory) end
  return p.way
end

-- The picture that stands where no program runs.
local function picture(points)
  local series = { { name = "as it is", points = {}, bare = true },
    { name = "recomputing or swapping", points = {}, bare = true },
    { name = "micro-batches", points = {}, bare = true } }
  for _, p in ipairs(points) do
    local s = series[p.memory and 2 or p.accumulate and 3 or 1]
    s.points[#s.points + 1] = { p.peak, p.seconds * 1e3 }
  end
  return chart.svg { { title = "Predicted time of a step against its peak",
    x = { label = "peak", bytes = true }, y = { label = "milliseconds" }, series = series } }
end

--- The section of a page; "" where there are not two plans to choose from.
---@param plan mrt.Plan
---@return string html
---@return boolean any
return function(plan)
  local points = front.of(plan)
  if #points < 2 then return "", false end
  local out, first = { "<h2>What less memory would cost</h2>" }, nil
  for _, p in ipairs(points) do if p.way == "as it is" then first = p end end
  out[2] = ('<div id="front">%s</div>'):format(picture(points))
  out[3] = '<table id="front-table"><tr><th>way</th><th class="n">peak</th>'
    .. '<th class="n">step</th><th class="n"></th><th>what it does</th></tr>'
  for i, p in ipairs(points) do
    out[#out + 1] = ('<tr data-row="%d"><td class="k">%s</td><td class="n">%s</td>'
      .. '<td class="n">%s</td><td class="n">%.2fx</td><td>%s%s</td></tr>'):format(i - 1,
        markup.escape(way(p)), format.bytes(p.peak), format.time(p.seconds),
        p.seconds / first.seconds, markup.escape(p.does or ""),
        p.guessed and "; copies as quick as the profile guesses" or "")
  end
  out[#out + 1] = "</table><p>Plans that the planner found, each the first within its budget; "
    .. "all give the same bits but for micro-batches, which add up in another order.</p>"
  out[#out + 1] = embed.data("front-data", json.array(points))
  return table.concat(out, "\n"), true
end
