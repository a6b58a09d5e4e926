--- markup.lua -- what the pictures share: colours, axes, escaping
---
--- SPDX-License-Identifier: MIT

local format = require "mrt.util.format"

local markup = {}

--- Okabe and Ito's colours, which colour-blind people tell apart.
markup.colours = { weight = "#009e73", optimizer = "#cc79a7", accumulator = "#e69f00",
  gathered = "#4dd0a8", buffer = "#8c5a2b", constant = "#b8a000", output = "#56b4e9",
  activation = "#0072b2", fetched = "#f0e442", gradient = "#d55e00", workspace = "#8a8a8a",
  input = "#dddddd" }

markup.lines = { "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00",
  "#56b4e9", "#8a8a8a" }

markup.style = [[
svg text { font: 12px system-ui, sans-serif; fill: #333 }
svg .title { font-size: 15px; font-weight: 600 }
svg .axis { stroke: #ccc; stroke-width: 1; shape-rendering: crispEdges }
svg .block { stroke: #fff; stroke-width: .5 }
svg .thin { stroke: currentColor; stroke-width: .4 }
svg .block:hover, svg .bar:hover { fill-opacity: .65; stroke: #000; stroke-width: 1.5 }
svg .bar { fill: transparent }
svg .bar:hover { fill: #000; fill-opacity: .08; stroke: none }
svg .peak { stroke: #000; stroke-dasharray: 4 3 }
svg .lane { fill: #8882 }
svg .limit { stroke: #c00; stroke-width: 2 } svg .over { fill: #c00 }
svg .paper { fill: #fff }
@media (prefers-color-scheme: dark) {
svg text { fill: #ddd } svg .paper { fill: #1a1a1d } svg .axis { stroke: #444 }
svg .block { stroke: #1a1a1d } svg .peak { stroke: #fff }
svg .lane { fill: #8882 }
svg .limit { stroke: #ff6b6b } svg .over { fill: #ff6b6b }
svg .block:hover { stroke: #fff } svg .bar:hover { fill: #fff }
}
]]

local entities = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;",
  ['"'] = "&quot;" }

--- Make text safe in XML, control characters and stray bytes included.
---@param text string
---@return string
function markup.escape(text)
  return (format.utf8(text):gsub('[&<>"]', entities):gsub("[%z\1-\8\11-\31\127]", "?"))
end

--- A number of a coordinate, no longer than it must be.
---@param x number
---@return string
function markup.number(x)
  return (("%.2f"):format(x):gsub("%.?0+$", ""))
end

--- Round marks for an axis of bytes: at most six, powers of two apart.
---@param most integer
---@return integer[]
function markup.marks(most)
  local step, list = 64, {}
  while most / step > 5 do step = step * 2 end
  for n = 0, most, step do list[#list + 1] = n end
  return list
end

--- Horizontal lines with bytes written on the left.
---@param out string[]
---@param box table    x, y, width, height
---@param most integer bytes at the top
function markup.axis(out, box, most)
  for _, n in ipairs(markup.marks(most)) do
    local y = box.y + box.height * (1 - n / most)
    out[#out + 1] = ('<line class="axis" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/>'
      .. '<text x="%g" y="%.1f" text-anchor="end">%s</text>')
      :format(box.x, box.x + box.width, y, y, box.x - 6, y + 4,
        format.bytes(n))
  end
end

--- Step numbers under a box whose width is `count` steps.
---@param out string[]
---@param box table
---@param count integer
function markup.steps(out, box, count)
  local step, factor = 1, 1
  while count / step > 10 do
    factor = factor % 3 + 1 -- 1, 2, 5, 10, ...
    step = step * (factor == 3 and 2.5 or 2)
  end
  for i = step > 1 and step or 1, count, step do
    out[#out + 1] = ('<text x="%.1f" y="%g" text-anchor="middle">%d</text>')
      :format(box.x + box.width * (i - 0.5) / count, box.y + box.height + 16,
        math.tointeger(i) or i)
  end
end

--- A heading within a picture.
---@param x number
---@param y number
---@param text string
---@return string
function markup.title(x, y, text)
  return ('<text class="title" x="%g" y="%g">%s</text>'):format(x, y,
    markup.escape(text))
end

--- Coloured squares with words, in rows.
---@param out string[]
---@param left number
---@param y number
---@param entries table[]  {colour, words}
---@param right? number    where a row ends; default: there is one row
---@return integer rows
function markup.legend(out, left, y, entries, right)
  local x, rows = left, 1
  for i, entry in ipairs(entries) do
    local wide = 17 + 7 * utf8.len(entry[2], 1, -1, true) + 22
    if i > 1 and x + wide > (right or math.huge) then
      x, y, rows = left, y + 18, rows + 1
    end
    out[#out + 1] = ('<rect x="%g" y="%g" width="12" height="12" fill="%s"/>'
      .. '<text x="%g" y="%g">%s</text>'):format(x, y, entry[1], x + 17, y + 10,
        markup.escape(entry[2]))
    x = x + wide
  end
  return rows
end

--- A curve that is level in each step, as points of a line: the ends of level
--- stretches only.
---@param list number[]   a height for each step
---@param box table
---@param count integer   steps in the box
---@param most number     height of the box
---@return string[]
function markup.stairs(list, box, count, most)
  local points, n = {}, markup.number
  for i = 1, #list do
    local y = n(box.y + box.height * (1 - list[i] / most))
    if list[i] ~= list[i - 1] then
      points[#points + 1] = n(box.x + box.width * (i - 1) / count) .. "," .. y
    end
    if list[i] ~= list[i + 1] then
      points[#points + 1] = n(box.x + box.width * i / count) .. "," .. y
    end
  end
  return points
end

--- One picture, complete, that stands alone or in a page.
---@param width integer
---@param height integer
---@param out string[]
---@return string
function markup.svg(width, height, out)
  return ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" '
    .. 'width="%d" height="%d" role="img">\n<style>%s</style>\n'
    .. '<rect class="paper" width="100%%" height="100%%"/>\n%s\n</svg>\n')
    :format(width, height, width, height, markup.style,
      table.concat(out, "\n"))
end

local page_style = [[
body { font: 14px/1.5 system-ui, sans-serif; color: #222; background: #fff }
body { margin: 2em auto; max-width: 1500px; padding: 0 1em }
h1 { font-size: 1.4em } h2 { font-size: 1.1em; margin-top: 1.8em }
h3 { font-size: 1em; margin: 1em 0 .3em }
table { border-collapse: collapse } svg { max-width: 100%; height: auto }
.whole > svg { display: block; width: 100%; height: 28px }
.wide { overflow-x: auto } .wide > svg { min-width: 820px }
td, th { padding: .15em .8em .15em 0; text-align: left; border-bottom: 1px solid #eee }
td, th { vertical-align: top; overflow-wrap: anywhere }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
td.n, th.n, td.k { white-space: nowrap; overflow-wrap: normal }
h1, h3, p, li { overflow-wrap: anywhere }
i { display: inline-block; width: .8em; height: .8em; margin-right: .5em }
code { font-size: .95em }
canvas { display: block; width: 100%; touch-action: pan-y; cursor: crosshair }
.tools, .legend { display: flex; flex-wrap: wrap; gap: .4em .6em; align-items: center }
.tools { margin: .6em 0 } .legend { gap: .2em 1.2em }
.tools button, .details button { font: inherit; color: inherit; cursor: pointer }
.tools button { background: #8881; border: 1px solid #8886; border-radius: 4px }
.tools button { min-width: 2.2em; padding: .15em .6em }
.tools input[type=search] { font: inherit; flex: 1 1 10em; max-width: 22em }
.tools label { display: flex; gap: .6em; align-items: center; flex-wrap: wrap }
.tools label.slide { flex: 1 1 14em; flex-wrap: nowrap; max-width: 44em }
.tools input[type=range] { flex: 1 }
.details button { background: none; border: 0; padding: 0 .6em 0 0; text-align: left }
.details button { color: #0060a0; text-decoration: underline }
.details .name { display: inline-block; min-width: 7em; margin-right: .6em; color: #666 }
.details h3 i { vertical-align: -.05em } .details ol { margin: .3em 0; padding-left: 2em }
.hint, .where { color: #666; font-variant-numeric: tabular-nums }
.tip { position: fixed; z-index: 9; max-width: min(34em, 92vw); padding: .3em .6em }
.tip { background: #fff; border: 1px solid #999; border-radius: 4px; pointer-events: none }
.tip { box-shadow: 0 2px 8px #0003; overflow-wrap: anywhere; font-size: .93em }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 32em), 1fr)) }
.charts { gap: 1em 2em } .charts figure { margin: 0; min-width: 0 }
figcaption { display: flex; gap: 1.2em; align-items: baseline; flex-wrap: wrap }
.tools select { font: inherit }
.plot { outline-offset: 2px } .plot > svg { display: block; max-width: none }
.says { font-weight: 600; font-variant-numeric: tabular-nums }
tr.on td { background: #0072b222 }
@media (max-width: 600px) {
body { margin: 1em auto; padding: 0 .7em }
table { display: block; overflow-x: auto } td:last-child:not(.n) { min-width: 11em }
td, th { overflow-wrap: break-word; max-width: 16em }
}
@media (prefers-color-scheme: dark) {
body { background: #1a1a1d; color: #ddd } td, th { border-color: #333 }
.tip { background: #26262a; border-color: #555 } .details button { color: #7cc0f0 }
.hint, .where, .details .name { color: #999 }
}
]]

-- Nothing comes from elsewhere: the page asks the browser to hold it to that.
local policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
  .. "img-src data:"

--- A page that needs nothing but itself.
---@param title string
---@param body string
---@return string
function markup.page(title, body)
  return ([[<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="%s">
<link rel="icon" href="data:,"><title>%s</title><style>
%s</style></head><body>
%s</body></html>
]]):format(policy, markup.escape(title), markup.style .. page_style, body)
end

return markup
