--- operators.lua -- arithmetic and slices, as Python has them
---
--- Integers are those of 64 bits; what does not fit is refused.
---
--- SPDX-License-Identifier: MIT

local fail = require "mrt.text.template.fail"
local format = require "mrt.text.template.format"
local unicode = require "mrt.text.template.unicode"
local value = require "mrt.text.template.value"

local operators = {}

local LIMIT = 9.2e18
local type_of = value.type

-- Undefined fails with what it is where it is used.
local function defined(v)
  if value.is_undefined(v) then fail.here(("%s"):format(v.hint)) end
  return v
end
operators.defined = defined

-- As a number, true and false too; nil for anything else.
local function number(v)
  if type(v) == "number" then return v end
  if v == true then return 1 elseif v == false then return 0 end
end
operators.number = number

local function unsupported(name, a, b)
  fail.here("unsupported operand types for %s: '%s' and '%s'", name, type_of(a), type_of(b))
end

-- An exact result of integers, whose float says whether it fits.
local function fits(result, float)
  if math.type(result) == "integer" and math.abs(float) > LIMIT then
    fail.here "an integer beyond 64 bits"
  end
  return result
end

local sequences = { [value.List] = value.list, [value.Tuple] = value.tuple }

-- A sequence that is written `times` over.
local function repeated(run, v, times)
  times = math.max(times, 0)
  if type(v) == "string" then
    run:take(#v * (times + 0.0))
    return v:rep(times)
  end
  local make = sequences[value.kind(v)]
  run:take(16.0 * v.n * times)
  run:spend(v.n * times)
  local out = {}
  for i = 0, times - 1 do table.move(v, 1, v.n, i * v.n + 1, out) end
  return make(out, v.n * times)
end

local function can_repeat(v) return type(v) == "string" or sequences[value.kind(v)] end

local function add_sequences(run, a, b)
  local make = sequences[value.kind(a)]
  if not make or value.kind(a) ~= value.kind(b) then unsupported("+", a, b) end
  run:spend(a.n + b.n)
  run:take(16 * (a.n + b.n))
  local out = table.move(a, 1, a.n, 1, {})
  return make(table.move(b, 1, b.n, a.n + 1, out), a.n + b.n)
end

local entities = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ["'"] = "&#39;",
  ['"'] = "&#34;" }

-- Text marked safe escapes, for HTML, what it is added to.
local function add_safe(run, a, b)
  local parts = {}
  for i, v in ipairs { a, b } do
    if value.kind(v) == value.Markup then
      parts[i] = v.text
    elseif type(v) == "string" then
      parts[i] = v:gsub("[&<>'\"]", entities)
    else
      unsupported("+", a, b)
    end
  end
  return setmetatable({ text = run:made(table.concat(parts)) }, value.Markup)
end

local binary = {}
operators.binary = binary

binary["+"] = function(run, a, b)
  if type(a) == "string" and type(b) == "string" then
    run:take(#a + #b)
    run:scan(#a + #b)
    return a .. b
  end
  local x, y = number(a), number(b)
  if x and y then return fits(x + y, x + 0.0 + y) end
  defined(a); defined(b)
  if value.kind(a) == value.Markup or value.kind(b) == value.Markup then
    return add_safe(run, a, b)
  end
  if type(a) == "string" then
    fail.here('can only concatenate str (not "%s") to str', type_of(b))
  end
  return add_sequences(run, a, b)
end

binary["-"] = function(_, a, b)
  local x, y = number(a), number(b)
  if x and y then return fits(x - y, x + 0.0 - y) end
  unsupported("-", defined(a), defined(b))
end

binary["*"] = function(run, a, b)
  local x, y = number(a), number(b)
  if x and y then return fits(x * y, (x + 0.0) * y) end
  defined(a); defined(b)
  if can_repeat(a) and math.type(y) == "integer" then return repeated(run, a, y) end
  if can_repeat(b) and math.type(x) == "integer" then return repeated(run, b, x) end
  unsupported("*", a, b)
end

-- A division of numbers.
local function dividing(name, compute)
  return function(_, a, b)
    local x, y = number(a), number(b)
    if not (x and y) then unsupported(name, defined(a), defined(b)) end
    if y == 0 then fail.here "division by zero" end
    return compute(x, y)
  end
end

binary["/"] = dividing("/", function(x, y) return x / y end)
binary["//"] = dividing("//", function(x, y) return x // y end)
local modulo = dividing("%", function(x, y)
  local rest = x % y
  return rest == 0 and math.type(rest) == "float" and (y < 0 and -0.0 or 0.0) or rest
end)

binary["%"] = function(run, a, b)
  if type(a) == "string" then return format.printf(run, a, b) end
  return modulo(run, a, b)
end

local function power(x, y)
  local out = 1
  for _ = 1, y do
    out = fits(out * x, (out + 0.0) * x)
    if out == 0 or out == 1 and x == 1 then return out end
    if x == -1 then return y % 2 == 0 and 1 or -1 end
  end
  return out
end

binary["**"] = function(_, a, b)
  local x, y = number(a), number(b)
  if not (x and y) then unsupported("**", defined(a), defined(b)) end
  if math.type(x) == "integer" and math.type(y) == "integer" and y >= 0 then
    return power(x, y)
  end
  if x == 0 and y < 0 then fail.here "0 to a negative power" end
  if x < 0 and y ~= math.floor(y) then fail.here "a complex number is not understood" end
  return (x + 0.0) ^ y
end

--- `-v` or `+v`.
function operators.sign(op, v)
  local x = number(defined(v))
  if not x then fail.here("bad operand type for unary %s: '%s'", op, type_of(v)) end
  return op == "-" and fits(-x, -(x + 0.0)) or x
end

-- ---- slices ----------------------------------------------------------------

local function bound(v, default)
  if v == nil or v == value.none then return default end
  if v == true then return 1 elseif v == false then return 0 end
  if math.type(v) ~= "integer" then
    if value.is_undefined(v) then fail.here(("%s"):format(v.hint)) end
    fail.here "slices are of integers or None"
  end
  return v
end

-- First, last (excluded) and step of a slice of n, as Python clips them.
local function indices(n, start, stop, step)
  step = bound(step, 1)
  if step == 0 then fail.here "slice step cannot be zero" end
  local low, high = step < 0 and -1 or 0, step < 0 and n - 1 or n
  local function clip(v, default)
    v = bound(v, default)
    if v == default then return v end
    if v < 0 then v = v + n end
    return math.max(low, math.min(high, v))
  end
  return clip(start, step < 0 and high or low), clip(stop, step < 0 and low or high), step
end

local function slice_range(v, from, to, by)
  local count = math.max(0, by > 0 and (to - from + by - 1) // by or (from - to - by - 1) // -by)
  return setmetatable({ start = value.range_at(v, from), stop = value.range_at(v, to),
    step = v.step * by, n = count }, value.Range)
end

-- Items from `from` on, before `to`, by `by`.
local function pick(run, items, from, to, by)
  local out, count = {}, 0
  for i = from, to - (by > 0 and 1 or -1), by do
    count = count + 1
    out[count] = items[i + 1]
  end
  run:spend(count)
  run:take(16 * count)
  return out, count
end

local function slice_text(run, v, from, to, by)
  run:scan(#v)
  if by == 1 then return run:made(unicode.sub(v, from, to)) end
  return run:made(table.concat((pick(run, (value.items(run, v)), from, to, by))))
end

--- v[start:stop:step], nil for what is left out.
function operators.slice(run, v, start, stop, step)
  if value.kind(defined(v)) == value.Markup then v = v.text end
  local k = value.kind(v)
  local n = (type(v) == "string" or sequences[k] or k == value.Range) and value.length(v)
  if not n then fail.here("'%s' object cannot be sliced", type_of(v)) end
  local from, to, by = indices(n, start, stop, step)
  if type(v) == "string" then return slice_text(run, v, from, to, by) end
  if k == value.Range then return slice_range(v, from, to, by) end
  return sequences[k](pick(run, v, from, to, by))
end

return operators
