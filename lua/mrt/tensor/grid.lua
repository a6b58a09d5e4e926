--- grid.lua -- methods of tensors: images read at any places
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"

local op = core.op
local read, refuse = argument.read, argument.refuse
---@class mrt.Tensor
local Tensor = core.methods

--- Read images `[N,C,H,W]` at the places of a grid `[N,P,Q,2]` -> `[N,C,P,Q]`: column and
--- row, from -1 to 1 across the image.  Differentiable with respect to both.
---
---     local turned = x:grid_sample(theta:affine_grid(x:size()))
---
--- From: Jaderberg et al., arXiv:1506.02025.
---
--- Raises: shapes that do not fit, dtypes that differ or are no f32 or f64, another mode.
---@param grid mrt.Tensor
---@param ... any  mode ("bilinear" or "nearest"), padding_mode (what lies outside: "zeros",
---  "border", "reflection"), align_corners (-1 and 1 are the middles of the outermost
---  pixels, not their edges), or a table of them
---@return mrt.Tensor
function Tensor.grid_sample(x, grid, ...)
  local who = "grid_sample"
  local o = read(who, { "mode", "padding_mode", "align_corners" }, ...)
  argument.tensor(who, "grid", grid)
  local mode, padding = o.mode or "bilinear", o.padding_mode or "zeros"
  if mode ~= "bilinear" and mode ~= "nearest" then
    refuse(who, "mode %s, bilinear or nearest wanted", tostring(mode))
  end
  if padding ~= "zeros" and padding ~= "border" and padding ~= "reflection" then
    refuse(who, "padding_mode %s, zeros, border or reflection wanted", tostring(padding))
  end
  return op.grid_sample(x, grid, { mode = mode, padding = padding,
    align_corners = o.align_corners or false })
end

-- The middles of n pixels, from -1 to 1; with corners aligned the outermost are there.
local function middles(n, corners, dtype)
  local real = dtype == "f64" and dtype or "f32"
  local at = op.arange { start = 1 - n, stop = n, step = 2, dtype = real }
  at = op.div(at, corners and math.max(n - 1, 1) or n)
  return real == dtype and at or op.cast(at, dtype)
end

-- How many sides the images of a size have.
local function sides_of(who, size)
  local n = type(size) == "table" and #size - 2 or 0
  if n ~= 2 and n ~= 3 then
    refuse(who, "a size {N, C, H, W} or {N, C, D, H, W} wanted")
  end
  for i = 1, n + 2 do
    if math.type(size[i]) ~= "integer" or size[i] < 1 then
      refuse(who, "size %s, integers from 1 wanted", tostring(size[i]))
    end
  end
  return n
end

-- The middles of all pixels, the last side's coordinate first, and 1: [all, sides + 1].
local function homogeneous(sides, corners, dtype)
  local places, all, n = {}, 1, #sides
  for i = 1, n do all = all * sides[i] end
  for i = 1, n do
    local shape = {}
    for k = 1, n do shape[k] = k == i and sides[i] or 1 end
    local at = op.reshape(middles(sides[i], corners, dtype), shape)
    places[n + 1 - i] = op.reshape(op.expand(at, sides), { all, 1 })
  end
  places[n + 1] = op.expand(core.tensor(1.0, dtype), { all, 1 })
  return op.cat(places, 2)
end

--- Make the grid of an affine map, for grid_sample: `[N,2,3]` -> `[N,H,W,2]`, where a place
--- (column, row, 1) of the result is read at theta times it; of volumes `[N,3,4]` ->
--- `[N,D,H,W,3]`.
---
--- Raises: a theta of another shape, a size of other than 4 or 5 numbers.
---
---     mrt.tensor{{{1.0, 0.0, 0.0}, {0.0, 1.0, 0.0}}}:affine_grid({1, 1, 2, 2}):type()
---     --> f32[1,2,2,2]
---@param size integer[]            of the result: N, C, H, W, or N, C, D, H, W
---@param align_corners? boolean|table
---@return mrt.Tensor
function Tensor.affine_grid(theta, size, align_corners)
  local who = "affine_grid"
  local o = read(who, { "size", "align_corners" }, size, align_corners)
  size = o.size
  local n = sides_of(who, size)
  if theta:dim() ~= 3 or theta:size(1) ~= size[1] or theta:size(2) ~= n
    or theta:size(3) ~= n + 1 then
    core.fail("shape", who, ("theta %s, [%d,%d,%d] wanted"):format(theta:type(), size[1], n,
      n + 1))
  end
  local sides = { table.unpack(size, 3) }
  local y = op.matmul(homogeneous(sides, o.align_corners, theta:get_dtype()),
    op.transpose(theta, 2, 3))
  table.insert(sides, 1, size[1])
  sides[#sides + 1] = n
  return op.reshape(y, sides)
end

return Tensor
