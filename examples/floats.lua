--- floats.lua -- what the floating-point types hold, bit by bit
---
---     mrt examples/floats.lua
---
--- Bits of some numbers in each type; ranges and precisions; what overflows in f16
--- and not in bf16, and what bf16 loses instead; and what becomes of a sum of many
--- terms that is rounded to 16 bits after every addition, instead of once at the end,
--- and of a product of matrices whose sums are.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"

local types = { "f64", "f32", "f16", "bf16", "f8_e4m3", "f8_e5m2" }

local function title(text) print("\n== " .. text .. "\n") end

-- The bits of x in a type: sign, exponent, fraction, most significant first.
local function bits(x, dtype)
  local info, t = mrt.dtype_info(dtype), mrt.tensor({ x }, "f64"):to(dtype)
  local word = string.unpack("<I" .. info.bytes, t:bytes())
  local text = {}
  for i = 8 * info.bytes - 1, 0, -1 do
    text[#text + 1] = word >> i & 1
    if i == info.fraction or i == info.exponent + info.fraction then text[#text + 1] = " " end
  end
  return table.concat(text), t:to("f64"):item()
end

local function show_bits()
  title "Bits: sign, exponent, fraction"
  for _, x in ipairs { 1, -2.5, 0.1, 65504, 70000, 1e-8, math.huge } do
    print(("%.10g"):format(x))
    for i = 2, #types do -- 64 bits are too many for a line
      print(("  %-8s %-34s = %.10g"):format(types[i], bits(x, types[i])))
    end
  end
end

local function show_ranges()
  title "Range and precision"
  print(("%-8s %5s %8s %8s %11s %11s %11s %11s %7s"):format("", "bytes", "exponent",
    "fraction", "largest", "normal", "smallest", "epsilon", "digits"))
  for _, name in ipairs(types) do
    local d = mrt.dtype_info(name)
    print(("%-8s %5d %8d %8d %11.4g %11.4g %11.4g %11.4g %7.1f"):format(name, d.bytes,
      d.exponent, d.fraction, d.largest, d.smallest, d.smallest * 2.0 ^ -d.fraction,
      d.epsilon, -math.log(d.epsilon / 2, 10)))
  end
  print [[

normal: the smallest number with all its bits; smallest: with one. Epsilon is the distance
from 1 to the next number. A result is off by at most half of it, relative to itself. Beyond
the largest, f16 and bf16 have infinity; casts to f8 stop at the largest.]]
end

local function show_overflow()
  title "Squares: f16 overflows; bf16 does not, and is coarser"
  local numbers = { 3, 100.5, 255, 256, 1e5, 1e-4, 1e-5 }
  print(("%10s %14s %14s %14s"):format("x", "x*x in f32", "f16", "bf16"))
  local columns = {}
  for i, dtype in ipairs { "f32", "f16", "bf16" } do
    local x = mrt.tensor(numbers, "f32"):to(dtype)
    columns[i] = (x * x):to("f64"):totable()
  end
  for i, x in ipairs(numbers) do
    print(("%10g %14.6g %14.6g %14.6g"):format(x, columns[1][i], columns[2][i],
      columns[3][i]))
  end
end

-- Sums of the first `places` of some terms, rounded to their type after every
-- addition.
local function rounded_each_time(terms, dtype, places)
  local sum, out = mrt.zeros(1, { dtype = dtype }), {}
  for i, x in ipairs(terms) do
    sum = sum + mrt.tensor({ x }, dtype)
    mrt.eval(sum)
    if places[i] then out[i] = sum:item() end
  end
  return out
end

-- The same by the operator, which adds up in f32 and rounds the result.
local function rounded_once(terms, dtype, places)
  local x, out = mrt.tensor(terms, dtype), {}
  for n in pairs(places) do out[n] = x:slice(1, 1, n):sum():item() end
  return out
end

local function show_sums(name, terms)
  local places, columns = {}, {}
  for n = 4, math.log(#terms, 2), 2 do places[1 << n // 1] = true end
  for _, dtype in ipairs { "f16", "bf16" } do
    columns[#columns + 1] = rounded_each_time(terms, dtype, places)
    columns[#columns + 1] = rounded_once(terms, dtype, places)
  end
  print(("%-15s %9s %12s %12s %12s %12s"):format(name, "f64", "f16, each", "at the end",
    "bf16, each", "at the end"))
  local exact = 0.0
  for i, x in ipairs(terms) do
    exact = exact + x
    if places[i] then
      print(("%9d terms %9.2f %12.2f %12.2f %12.2f %12.2f"):format(i, exact,
        columns[1][i], columns[2][i], columns[3][i], columns[4][i]))
    end
  end
end

-- How far products of matrices of uniform numbers are off, relative to their size,
-- whose sums are of k terms: by what they add up in, all reading the same numbers.
local function show_products()
  print(("\n%9s %12s %12s %12s %12s"):format("terms", "f16 in f32", "in f16", "bf16 in f32",
    "in bf16"))
  for n = 6, 14, 2 do
    local k, row = 1 << n, {}
    for _, dtype in ipairs { "f16", "bf16" } do
      local a = mrt.rand(8, k):to(dtype):to "f32"
      local b = mrt.rand(k, 8):to(dtype):to "f32"
      local exact = a:to "f64":matmul(b:to "f64")
      for _, sums in ipairs { "f32", dtype } do
        local y = a:matmul(b, { accumulate = sums }):to(dtype):to "f64"
        row[#row + 1] = ((y - exact):abs():amax() / exact:amax()):item()
      end
    end
    print(("%9d %12.1e %12.1e %12.1e %12.1e"):format(k, table.unpack(row)))
  end
end

show_bits()
show_ranges()
show_overflow()
title "Sums of narrow terms, rounded at each addition or at the end"
local ones = {}
for i = 1, 4096 do ones[i] = 1.0 end
show_sums("ones", ones)
mrt.seed(1)
show_sums("of 0 to 1", mrt.rand(4096):totable())
title "Products of matrices: the largest error, by what their sums are in"
show_products()
print [[

Rounded each time, a sum stops where a term is no more than half the distance to the next
number: ones at 2^8 in bf16, at 2^11 in f16. That is why products, sums and norms of mrt add
up in f32 whatever they read, gradients of micro-batches too, and why parameters, to which a
step adds a thousandth of their size, stay f32.  A precision policy may ask for other sums:
precision.bf16 { accumulate = "bf16" } trains with them.]]
