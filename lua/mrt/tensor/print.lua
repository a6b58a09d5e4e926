--- print.lua -- tensors as a person wants to read them
---
---     f32[2,3]
---     [[ 0.1234  1.5000 -2.2500]
---      [ 3.0000  0.0000  7.1250]]
---
--- A scalar is its number.  All numbers of a tensor share one format: as few
--- decimals as tell them apart, powers of ten when they differ too much in
--- size.
---
--- A tensor takes at most so many lines of a window's width, and shows at most so
--- many numbers.  What fits is shown whole, long rows on several lines; of the rest
--- the first and last places of each dimension, longer ones losing more.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

local print_tensor = {}

--- What a tensor may take.  The prompt sets the width of its window.
print_tensor.limits = { width = 80, lines = 24, numbers = 1000 }

local DIGITS <const> = 4

-- ---- numbers ---------------------------------------------------------------

local function is_finite(v) return v == v and v ~= math.huge and v ~= -math.huge end

local function special(v)
  return v ~= v and "nan" or v > 0 and "inf" or "-inf"
end

-- The fewest decimals, up to DIGITS, that show every number as it is.
local function decimals(values)
  for digits = 1, DIGITS do
    local exact = true
    for _, v in ipairs(values) do
      local shown = tonumber(("%." .. digits .. "f"):format(v))
      exact = exact and math.abs(shown - v) <= 1e-6 * math.abs(v)
    end
    if exact then return digits end
  end
  return DIGITS
end

-- One function that turns each of these numbers into text.
local function formatter(values)
  local finite, most, least = {}, 0, math.huge
  for _, v in ipairs(values) do
    if is_finite(v) then
      finite[#finite + 1] = v
      most = math.max(most, math.abs(v))
      if v ~= 0 then least = math.min(least, math.abs(v)) end
    end
  end
  local format = "%." .. decimals(finite) .. "f"
  if most >= 1e6 or (least < 1e-3 and most < 1) or least < 1e-4 * most then
    format = "%.4e"
    if most < 1e5 and least >= 1e-4 then format = "%.4f" end
  end
  return function(v)
    return is_finite(v) and format:format(v) or special(v)
  end
end

local function plain(v) return tostring(v) end

-- A number alone: as short as f32 deserves.
local function scalar_text(v)
  if math.type(v) ~= "float" then return tostring(v) end
  if not is_finite(v) then return special(v) end
  return ("%.7g"):format(v)
end

-- ---- what is shown -----------------------------------------------------------

-- The positions of a dimension of n of which `shown` are shown; 0 stands for those
-- left out.
local function positions(n, shown)
  local out = {}
  if shown >= n then
    for i = 1, n do out[i] = i end
    return out
  end
  local first = (shown + 1) // 2
  for i = 1, first do out[i] = i end
  out[first + 1] = 0
  for i = n - shown + first + 1, n do out[#out + 1] = i end
  return out
end

-- How many numbers of this width a line takes, behind `rank` brackets.
local function per_line(rank, width)
  return math.max(1, (print_tensor.limits.width - 2 * rank + 1) // (width + 1))
end

-- The lines that this takes, of rows on `row_lines` each.
local function lines_of(shape, shown, row_lines)
  local lines = row_lines
  for d = #shape - 1, 1, -1 do
    local places = shown[d] + (shown[d] < shape[d] and 1 or 0)
    lines = shown[d] * lines + places - shown[d] + (d < #shape - 1 and places - 1 or 0)
  end
  return lines
end

-- Show less of the dimension that shows most, but for the last.  False: none has more.
local function shrink(shape, shown)
  local most
  for d = 1, #shape - 1 do
    if shown[d] > 1 and (not most or shown[d] > shown[most]) then most = d end
  end
  if not most then return false end
  local whole = shown[most] == shape[most]
  shown[most] = math.max(1, shown[most] - (whole and 2 or 1))
  return true
end

-- How much of each dimension to show of numbers of this width.
local function choose(shape, numel, width)
  local limits, rank = print_tensor.limits, #shape
  local shown, fit = { table.unpack(shape) }, per_line(rank, width)
  local row_lines = (shape[rank] + fit - 1) // fit
  if numel <= limits.numbers and lines_of(shape, shown, row_lines) <= limits.lines then
    return shown
  end
  if shape[rank] > fit then
    shown[rank] = math.max(1, (limits.width - 2 * rank - 3) // (width + 1))
  end
  for d = 1, rank - 1 do shown[d] = math.min(shown[d], limits.lines) end
  while lines_of(shape, shown, 1) > limits.lines and shrink(shape, shown) do end
  return shown
end

-- ---- layout ------------------------------------------------------------------

-- Call visit(i) with the flat position of each element to show.
local function each_shown(shape, shown, visit)
  local function walk(depth, base)
    if depth > #shape then return visit(base + 1) end
    for _, i in ipairs(positions(shape[depth], shown[depth])) do
      if i > 0 then walk(depth + 1, base * shape[depth] + i - 1) end
    end
  end
  walk(1, 0)
end

-- By flat position the text of each element to show, and the width of the widest.
local function texts(x, shape, shown)
  local values, at = {}, {}
  each_shown(shape, shown, function(i)
    values[#values + 1] = x:element(i)
    at[i] = #values
  end)
  local show = math.type(values[1]) == "float" and formatter(values) or plain
  local out, width = {}, 0
  for i, k in pairs(at) do
    out[i] = show(values[k])
    width = math.max(width, #out[i])
  end
  return out, width
end

-- Numbers of a row, on as many lines as they need.
local function fold(parts, fit, indent)
  if #parts <= fit then return table.concat(parts, " ") end
  local lines = {}
  for i = 1, #parts, fit do
    lines[#lines + 1] = table.concat(parts, " ", i, math.min(i + fit - 1, #parts))
  end
  return table.concat(lines, "\n" .. indent .. " ")
end

local function lay_out(shape, shown, text, width, fit)
  local function row(depth, base, indent)
    local parts, last = {}, depth == #shape
    for _, i in ipairs(positions(shape[depth], shown[depth])) do
      local at = base * shape[depth] + i - 1
      parts[#parts + 1] = i == 0 and "..."
        or last and (" "):rep(width - #text[at + 1]) .. text[at + 1]
        or row(depth + 1, at, indent .. " ")
    end
    local gap = (depth < #shape - 1 and "\n\n" or "\n") .. indent .. " "
    local whole = shown[depth] == shape[depth]
    return "[" .. (last and fold(parts, whole and fit or #parts, indent)
      or table.concat(parts, gap)) .. "]"
  end
  return row(1, 0, "")
end

-- The width of numbers is known once they are read, and which are read depends on it.
local function body(x, shape, numel)
  local width = 1
  while true do
    local shown = choose(shape, numel, width)
    local text, widest = texts(x, shape, shown)
    if widest <= width then return lay_out(shape, shown, text, widest, per_line(#shape, widest)) end
    width = widest
  end
end

--- Return a tensor as text; computes it.
---@param x mrt.Tensor
---@return string
function print_tensor.tensor(x)
  if core.is_closed(x) then return "tensor (closed)" end
  local shape = x:get_shape()
  if #shape == 0 then return scalar_text(x:item()) end
  if x:numel() == 0 then return x:type() .. "\n[]" end
  return x:type() .. "\n" .. body(x, shape, x:numel())
end

--- Return a tensor as text that goes within a line: its type, and of a few numbers
--- what they are.
---@param x mrt.Tensor
---@return string
function print_tensor.short(x)
  if core.is_closed(x) then return "tensor (closed)" end
  local shape = x:get_shape()
  if #shape == 0 then return scalar_text(x:item()) end
  if #shape > 1 or shape[1] == 0 or shape[1] > 6 then return x:type() end
  local text, width = texts(x, shape, shape)
  return ("%s %s"):format(x:type(), lay_out(shape, shape, text, width, shape[1]))
end

return print_tensor
