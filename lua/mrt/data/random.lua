--- random.lua -- numbers and orders that a seed fixes
---
--- Data orders have a generator of their own: `math.random` belongs to the
--- user, and tensors have counter-based numbers.  This one is splitmix64
--- (Steele, Lea & Flood, OOPSLA 2014); its whole state is one integer.
---
--- An order of n things is not stored but computed: a Feistel network permutes
--- the powers of two above n, and what falls outside is sent through again
--- (Black & Rogaway 2002).  So a shuffled epoch over a billion rows takes no
--- memory, and resuming one takes a key and a position.
---
--- SPDX-License-Identifier: MIT

local argument = require "mrt.util.argument"
local options = require "mrt.util.options"

local random = {}

---@class mrt.data.Random
---@field state integer
local Random = {}
Random.__index = Random

local function mix(z)
  z = (z ~ z >> 30) * 0xbf58476d1ce4e5b9
  z = (z ~ z >> 27) * 0x94d049bb133111eb
  return z ~ z >> 31
end

local function check(who, name, value, least)
  if math.type(value) == "integer" and value >= least then return end
  argument.refuse(who, "%s: %s wanted, got %s", name,
    least > math.mininteger and "an integer from " .. least or "an integer", options.show(value))
end

--- Start a generator.
---
---     local r = mrt.data.random.new(1)
---
--- Raises: a seed that is no integer.
---@param seed integer
---@return mrt.data.Random
function random.new(seed)
  check("random.new", "seed", seed, math.mininteger)
  return setmetatable({ state = mix(seed) }, Random)
end

--- Return 64 random bits.
---
---     mrt.data.random.new(1):bits() ~= nil  --> true
---@return integer
function Random:bits()
  self.state = self.state + 0x9e3779b97f4a7c15
  return mix(self.state)
end

--- Return a float in [0, 1).
---
---     mrt.data.random.new(1):number() < 1  --> true
---@return number
function Random:number() return (self:bits() >> 11) * 2.0 ^ -53 end

--- Return an integer in [0, n).  The bias, n / 2^63, is below notice.
---
---     mrt.data.random.new(1):integer(10) < 10  --> true
---
--- Raises: n below 1.
---@param n integer
---@return integer
function Random:integer(n)
  check("integer", "n", n, 1)
  return (self:bits() >> 1) % n
end

local function bit_length(n)
  local bits = 0
  while n >> bits > 0 do bits = bits + 1 end
  return bits
end

local ROUNDS <const> = 6  -- even, so that the halves end where they began

--- Return an order of 0 .. n-1: a function of the position, from 0.
---
---     local order = mrt.data.random.order(10, 1)
---
--- Raises: n below 0.
---@param n integer
---@param key integer
---@return fun(position: integer): integer
function random.order(n, key)
  check("random.order", "n", n, 0)
  check("random.order", "key", key, math.mininteger)
  local bits = math.max(8, bit_length(n - 1))  -- narrower ones mix badly
  local low = bits // 2
  local function permute(i)
    local left, right = i >> low, i & (1 << low) - 1
    local left_bits, right_bits = bits - low, low
    for round = 1, ROUNDS do
      local mixed = mix(right + round * 0x9e3779b97f4a7c15 ~ key)
      left, right = right, left ~ mixed & (1 << left_bits) - 1
      left_bits, right_bits = right_bits, left_bits
    end
    return left << low | right
  end
  return function(position)
    check("random.order", "position", position, 0)
    local i = permute(position)
    while i >= n do i = permute(i) end
    return i
  end
end

return random
