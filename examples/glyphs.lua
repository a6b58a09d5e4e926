--- glyphs.lua -- made-up digits, where there are no files of real ones
---
--- No example of its own: mnist.lua and digits.lua read it.  Five dots by seven,
--- `scale` times as large, at random places of a square image, under noise.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"

local glyphs = {}

-- Seven rows of five dots each, the leftmost one the highest bit.
local drawn = {
  [0] = { 14, 17, 19, 21, 25, 17, 14 }, { 4, 12, 4, 4, 4, 4, 14 },
  { 14, 17, 1, 2, 4, 8, 31 }, { 31, 2, 4, 2, 1, 17, 14 }, { 2, 6, 10, 18, 31, 2, 2 },
  { 31, 16, 30, 1, 1, 17, 14 }, { 6, 8, 16, 30, 17, 17, 14 }, { 31, 1, 2, 4, 8, 8, 8 },
  { 14, 17, 17, 14, 17, 17, 14 }, { 14, 17, 17, 15, 1, 2, 12 },
}

-- The rows of a digit as bytes, 255 where there is a dot.
local function rows_of(digit, scale)
  local rows = {}
  for y, bits in ipairs(drawn[digit]) do
    local row = {}
    for x = 4, 0, -1 do
      row[#row + 1] = (bits >> x & 1 == 1 and "\255" or "\0"):rep(scale)
    end
    for k = 1, scale do rows[(y - 1) * scale + k] = table.concat(row) end
  end
  return rows
end

-- One image: rows of zeros, then the digit's between columns of zeros.
local function place(rows, o, left, top)
  local image = { ("\0"):rep(top * o.size) }
  local before, after = ("\0"):rep(left), ("\0"):rep(o.size - #rows[1] - left)
  for _, row in ipairs(rows) do image[#image + 1] = before .. row .. after end
  image[#image + 1] = ("\0"):rep((o.size - #rows - top) * o.size)
  return table.concat(image)
end

--- Make images u8 `[count, size, size]` and labels u8 `[count]`, the same ones for
--- the same seed (and mrt.seed).
---@param count integer
---@param o {size: integer, scale: integer, seed: integer, noise: number}  noise: 0 to 1
---@return mrt.Tensor[] images_and_labels
function glyphs.make(count, o)
  local random = mrt.data.random.new(o.seed)
  local digits, images, labels = {}, {}, {}
  for d = 0, 9 do digits[d] = rows_of(d, o.scale) end
  for i = 1, count do
    local digit = random:integer(10)
    local left = random:integer(o.size - 5 * o.scale + 1)
    local top = random:integer(o.size - 7 * o.scale + 1)
    images[i], labels[i] = place(digits[digit], o, left, top), string.char(digit)
  end
  local x = mrt.from_bytes(table.concat(images), "u8", { count, o.size, o.size })
  x = x:to "f32" * (1 - o.noise) + mrt.rand(count, o.size, o.size) * (255 * o.noise)
  return { x:to "u8", mrt.from_bytes(table.concat(labels), "u8", { count }) }
end

return glyphs
