--- chart.lua -- lines of measured numbers: axes linear or logarithmic, a legend
---
---     chart.save("sublinear.svg", { {
---       title = "Memory of a chain of N layers",
---       x = { label = "layers", log = true },
---       y = { label = "peak", log = true, bytes = true },
---       series = { { name = "all kept", points = { { 16, 1.2e6 }, { 32, 2.4e6 } } } },
---     } })
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local format = require "mrt.util.format"
local markup = require "mrt.plan.report.markup"
local save = require "mrt.plan.report.save"

local WIDTH, HEIGHT = 760, 400
local MOST_DOTS = 100 -- a longer line stands without
local box = { x = 92, y = 66, width = 632, height = 270 }

---@class mrt.Axis
---@field label string
---@field log? boolean
---@field bytes? boolean   marks in KiB, MiB, ..
---@field first? number    default: the least point, or 0 on a linear axis
---@field last? number

---@class mrt.Series
---@field name string
---@field points any[][]     {x, y, words beside it?}, in order
---@field dashed? boolean    a bound, a prediction
---@field bare? boolean      points only
---@field same? boolean      the colour of the series before, with it in the legend

---@class mrt.ChartOptions
---@field title string
---@field x mrt.Axis
---@field y mrt.Axis
---@field series mrt.Series[]

local chart = {}

-- ---- axes --------------------------------------------------------------------

local function range(options, which)
  local low, high = math.huge, -math.huge
  for _, s in ipairs(options.series) do
    for _, p in ipairs(s.points) do
      local v = p[which]
      if v ~= v or math.abs(v) == math.huge then
        core.fail("value", "chart", ("series '%s' has the number %s")
          :format(s.name, tostring(v)))
      end
      low, high = math.min(low, v), math.max(high, v)
    end
  end
  return low, high
end

-- The numbers 1, 2, 5, 10, .. from below `low` to above `high`, or the powers of
-- two of bytes; every `skip`-th of them, so that at most seven are left.
local function powers(low, high, bytes)
  local list = {}
  local k = bytes and math.floor(math.log(low, 2)) or 3 * math.floor(math.log(low, 10))
  local factor = { [0] = 1, 2, 5 }
  local function mark(i)
    return bytes and 2.0 ^ i or factor[i % 3] * 10.0 ^ (i // 3)
  end
  while mark(k + 1) <= low do k = k + 1 end
  local last = k
  while mark(last) < high do last = last + 1 end
  local skip = math.max(1, (last - k + 6) // 7)
  for i = k, last, skip do list[#list + 1] = mark(i) end
  return list, mark(k), mark(last)
end

-- Round numbers at equal distances.
local function steps(low, high, bytes)
  local base = bytes and 2 or 10
  local step = base ^ math.floor(math.log((high - low) / 5, base))
  for _, times in ipairs(bytes and { 1, 2 } or { 1, 2, 5, 10 }) do
    if (high - low) / (step * times) <= 6 then step = step * times break end
  end
  local list, first = {}, math.floor(low / step) * step
  local i = 0
  while first + (i - 1) * step < high do
    list[#list + 1], i = first + i * step, i + 1
    if list[#list] >= high then break end
  end
  return list, first, list[#list]
end

-- The least and the largest number an axis shows.
local function ends(axis, options, which)
  local low, high = range(options, which)
  if low > high then low, high = 1, 2 end
  if axis.log and low <= 0 then
    core.fail("value", "chart", ("axis '%s' is logarithmic, %s is not positive")
      :format(axis.label, tostring(low)))
  end
  low = axis.first or (axis.log and low or math.min(low, 0))
  high = axis.last or high
  if high <= low then high = low > 0 and low * 2 or low + 1 end
  return low, high
end

-- From a number to a share of the axis, and its marks.
local function scale(axis, options, which)
  local low, high = ends(axis, options, which)
  local marks, from, to = (axis.log and powers or steps)(low, high, axis.bytes)
  local f = axis.log and math.log or function(v) return v end
  return { marks = marks, at = function(v)
    return (f(v) - f(from)) / (f(to) - f(from))
  end }
end

local function word(axis, v)
  if axis.bytes then return format.bytes(math.tointeger(v) or v) end
  if v >= 1e4 then return format.rate(v) end
  return (("%.4g"):format(v))
end

local function line(out, class, x1, y1, x2, y2)
  out[#out + 1] = ('<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>')
    :format(class, x1, y1, x2, y2)
end

local function text(out, x, y, anchor, words, more)
  out[#out + 1] = ('<text x="%.1f" y="%.1f" text-anchor="%s"%s>%s</text>')
    :format(x, y, anchor, more or "", markup.escape(words))
end

local function draw_axes(out, options, x, y)
  local bottom, middle = box.y + box.height, box.y + box.height / 2
  for _, v in ipairs(x.marks) do
    local at = box.x + box.width * x.at(v)
    line(out, "axis", at, box.y, at, bottom + 4)
    text(out, at, bottom + 19, "middle", word(options.x, v))
  end
  for _, v in ipairs(y.marks) do
    local at = bottom - box.height * y.at(v)
    line(out, "axis", box.x - 4, at, box.x + box.width, at)
    text(out, box.x - 8, at + 4, "end", word(options.y, v))
  end
  text(out, box.x + box.width / 2, bottom + 42, "middle", options.x.label)
  text(out, 16, middle, "middle", options.y.label,
    (' transform="rotate(-90 16 %g)"'):format(middle))
end

-- ---- lines ---------------------------------------------------------------------

local function draw_series(out, options, s, colour, x, y)
  local points, dots, n = {}, {}, markup.number
  for i, p in ipairs(s.points) do
    local left = n(box.x + box.width * x.at(p[1]))
    local top = n(box.y + box.height * (1 - y.at(p[2])))
    points[i] = left .. "," .. top
    dots[i] = ('<circle cx="%s" cy="%s" r="3.5" fill="%s"><title>%s: %s, %s'
      .. '</title></circle>'):format(left, top, colour, markup.escape(p[3] or s.name),
        word(options.x, p[1]), word(options.y, p[2]))
    if p[3] then
      text(out, left + 12, top + 4, "start", p[3],
        (' transform="rotate(-60 %s %s)"'):format(left, top))
    end
  end
  if not s.bare then
    out[#out + 1] = ('<polyline fill="none" stroke="%s" stroke-width="%s"%s '
      .. 'points="%s"/>'):format(colour, #points > MOST_DOTS and 1.2 or 2,
        s.dashed and ' stroke-dasharray="6 4"' or "",
        table.concat(points, " "))
  end
  if not s.dashed and (s.bare or #points <= MOST_DOTS) then
    table.move(dots, 1, #dots, #out + 1, out)
  end
end

-- Colours and names for the legend; which of them each series has.
local function legend_of(list)
  local entries, of = {}, {}
  for i, s in ipairs(list) do
    if not s.same or i == 1 then
      entries[#entries + 1] = { markup.lines[#entries % #markup.lines + 1], s.name }
    end
    of[i] = #entries
  end
  return entries, of
end

local function draw(options)
  local out, head = {}, {}
  local entries, of = legend_of(options.series)
  local x, y = scale(options.x, options, 1), scale(options.y, options, 2)
  head[1] = markup.title(16, 24, options.title)
  draw_axes(out, options, x, y)
  for i, s in ipairs(options.series) do
    draw_series(out, options, s, entries[of[i]][1], x, y)
  end
  -- the axes make room for a legend of several lines
  local rows = markup.legend(head, box.x, 38, entries, WIDTH - 8)
  local more = 18 * (math.max(rows, 1) - 1)
  return ('%s\n<g transform="translate(0 %d)">\n%s\n</g>')
    :format(table.concat(head, "\n"), more, table.concat(out, "\n")), more
end

--- Draw charts one below the other; the picture as text.
---@param list mrt.ChartOptions[]
---@return string svg
function chart.svg(list)
  local out, top = {}, 0
  for i, options in ipairs(list) do
    local picture, more = draw(options)
    out[i] = ('<g transform="translate(0 %d)">\n%s\n</g>'):format(top, picture)
    top = top + HEIGHT + more
  end
  return markup.svg(WIDTH, math.max(top, HEIGHT), out)
end

--- Draw charts into a file: .svg or .html.
---@param path string
---@param list mrt.ChartOptions[]
---@return true? done
---@return string? message  no such folder, a full disk
function chart.save(path, list)
  local picture = chart.svg(list)
  if save.format(path, { [".svg"] = "svg", [".html"] = "html" }) == "html" then
    picture = markup.page(list[1].title, picture)
  end
  return save.write(path, picture)
end

return chart
