--- print.lua -- tensors as a person wants to read them
---
---     f32[2,3]
---     [[ 0.1234  1.5000 -2.2500]
---      [ 3.0000  0.0000  7.1250]]
---
--- A scalar is its number.  All numbers of a tensor share one format: as few
--- decimals as tell them apart, powers of ten when they differ too much in
--- size.  Long dimensions show their first and last three places.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

local print_tensor = {}

local LONGEST, EDGE = 8, 3 -- a dimension beyond 8 shows 3 at each end
local DIGITS = 4

-- The positions of a dimension to show; 0 stands for those left out.
local function positions(n)
  local out = {}
  if n <= LONGEST then
    for i = 1, n do out[i] = i end
    return out
  end
  for i = 1, EDGE do
    out[i], out[EDGE + 1 + i] = i, n - EDGE + i
  end
  out[EDGE + 1] = 0
  return out
end

-- Call visit(i) with the flat position of each element to show.
local function each_shown(shape, visit)
  local function walk(depth, base)
    if depth > #shape then return visit(base + 1) end
    for _, i in ipairs(positions(shape[depth])) do
      if i > 0 then walk(depth + 1, base * shape[depth] + i - 1) end
    end
  end
  walk(1, 0)
end

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

-- ---- layout ----------------------------------------------------------------

local function texts(x, shape)
  local values, at = {}, {}
  each_shown(shape, function(i)
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

local function lay_out(shape, text, width)
  local function row(depth, base, indent)
    if depth > #shape then
      return (" "):rep(width - #text[base + 1]) .. text[base + 1]
    end
    local parts, last = {}, depth == #shape
    for _, i in ipairs(positions(shape[depth])) do
      parts[#parts + 1] = i == 0 and (last and "..." or " ...")
        or row(depth + 1, base * shape[depth] + i - 1, indent .. " ")
    end
    local gap = last and " " or ("\n"):rep(#shape - depth) .. indent .. " "
    return "[" .. table.concat(parts, gap) .. "]"
  end
  return row(1, 0, "")
end

--- Return a tensor as text; computes it.
---@param x mrt.Tensor
---@return string
function print_tensor.tensor(x)
  if core.is_closed(x) then return "tensor (closed)" end
  local shape = x:get_shape()
  if #shape == 0 then return scalar_text(x:item()) end
  if x:numel() == 0 then return x:type() .. "\n[]" end
  return x:type() .. "\n" .. lay_out(shape, texts(x, shape))
end

return print_tensor
