-- bitwise.lua -- samples of operators on the bits of integers

local elements = require "op.elements"
local each, given, held = elements.each, elements.given, elements.held

local low, high = math.mininteger, math.maxinteger
local pairs_of = {
  given("i64", { low, high, -1, 5, -5, 0, 12, 6 }, { -1, 1, 7, 3, 2, 0, 18, 9 }),
  given("i32", { -2147483648, 2147483647, -1, 5, -5, 0 }, { -1, 1, 7, 3, 2, 0 }),
  given("u8", { 255, 0, 200, 7, 12 }, { 1, 1, 15, 0, 18 }),
  { inputs = { { dims = { 3, 67 }, dtype = "i64", low = -99, high = 99 },
               { dims = { 3, 67 }, dtype = "i64", low = -99, high = 99 } } },
  { inputs = { { dims = { 0, 3 }, dtype = "i32" }, { dims = { 0, 3 }, dtype = "i32" } } },
}
local truths = given("bool", { 0, 0, 1, 1 }, { 0, 1, 0, 1 })
local shifts = {
  given("i64", { 1, 1, 1, -8, -8, -8, 5, 5, high }, { 3, 63, 64, 1, 64, -1, 0, 200, 62 }),
  given("i32", { 1, 1, 1, -8, -8, -8, 5, 5 }, { 3, 31, 32, 1, 32, -1, 0, 200 }),
  given("u8", { 1, 1, 255, 255, 255 }, { 3, 8, 1, 7, 200 }),
}
local reals = { inputs = { { dims = { 3 } }, { dims = { 3 } } }, code = "dtype", match = "i64" }
local unequal = { inputs = { { dims = { 3 }, dtype = "i64" }, { dims = { 4 }, dtype = "i64" } },
                  code = "shape" }
local truth = { inputs = { { dims = { 3 }, dtype = "bool" }, { dims = { 3 }, dtype = "bool" } },
                code = "dtype", match = "bool" }
local bits = { i64 = 64, i32 = 32, u8 = 8 }

local function logic(op, f)
  return { op = op, grad = false, bad = { reals, unequal }, oracle = each(function(x, y, _, dtype)
      return held(f(x, y), dtype)
    end),
    cases = { truths, table.unpack(pairs_of) } }
end
local function integers(op, f, cases)
  return { op = op, grad = false, bad = { reals, unequal, truth }, cases = cases,
    oracle = each(function(x, y, _, dtype)
      return held(f(x, y, bits[dtype]), dtype)
    end) }
end
local function size(x) return x < 0 and -x or x end
local function gcd(x, y)
  x, y = size(x), size(y)
  while y ~= 0 do
    x, y = y, math.ult(x, y) and x or (y < 0 and x - y) or (x < 0 and -(low % y) % y) or x % y
  end
  return x
end

local small = { pairs_of[2], pairs_of[3], pairs_of[4], pairs_of[5],
  given("i64", { 12, -12, 0, 0, 7, 1 << 40 }, { 18, 18, 5, 0, -7, 1 << 35 }) }

return {
  { op = "bitwise_not", grad = false,
    bad = { { inputs = { { dims = { 3 } } }, code = "dtype", match = "bool" } },
    cases = { given("i64", { low, high, 0, -1, 6 }), given("i32", { 5, -5, 0 }),
      given("u8", { 0, 255, 6 }), given("bool", { 0, 1 }),
      { inputs = { { dims = { 3, 67 }, dtype = "i64", low = -99, high = 99 } } } },
    oracle = each(function(x, _, _, dtype)
      return dtype == "bool" and x == 0 or dtype ~= "bool" and held(~x, dtype)
    end) },
  logic("bitwise_and", function(x, y) return x & y end),
  logic("bitwise_or", function(x, y) return x | y end),
  logic("bitwise_xor", function(x, y) return x ~ y end),
  integers("bitwise_left_shift", function(x, y, n)
    return (y < 0 or y >= n) and 0 or x << y
  end, shifts),
  integers("bitwise_right_shift", function(x, y, n)
    if y < 0 or y >= n or y == 63 then return x < 0 and -1 or 0 end
    return x // (1 << y)
  end, { shifts[1], shifts[2], shifts[3] }),
  integers("gcd", gcd, small),
  integers("lcm", function(x, y)
    local divisor = gcd(x, y)
    return divisor == 0 and 0 or size(x) // divisor * size(y)
  end, small),
}
