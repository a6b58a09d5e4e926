--- embedding_bag.lua -- several rows of a table as one
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local Module = require "mrt.nn.module"
local initial = require "mrt.nn.initial"
local options = require "mrt.util.options"
local parameter = require "mrt.nn.parameter"

local modes = { sum = true, mean = true, max = true }

---@class mrt.nn.EmbeddingBagOptions
---@field mode? "sum"|"mean"|"max"  default "mean"
---@field init? mrt.nn.Recipe       default normal, standard deviation 1

--- Make a table of vectors of which the sum, mean or largest of a bag of ids is
--- taken: ids `[..., L]` -> `[..., dim]`, or ids `[M]` and offsets `[B]` ->
--- `[B, dim]`.  The rows themselves are never stored.
---
---     local bag = nn.EmbeddingBag(1000, 16, {mode = "sum"})
---     bag(ids)             -- i32[32,10] -> f32[32,16]
---     bag(flat, offsets)   -- i32[300], i32[32] -> f32[32,16]
---@class mrt.nn.EmbeddingBag: mrt.nn.Module
---@field weight mrt.Tensor  `[rows, dim]`
---@overload fun(rows: integer, dim: integer, o?: mrt.nn.EmbeddingBagOptions): mrt.nn.EmbeddingBag
local EmbeddingBag = Module("EmbeddingBag", "tensor")

function EmbeddingBag:init(rows, dim, given)
  local o = options.read("EmbeddingBag", given,
    { mode = "mean", init = initial.normal(1) })
  options.size("EmbeddingBag", "rows", rows)
  options.size("EmbeddingBag", "dim", dim)
  if not modes[o.mode] then
    core.fail("value", "EmbeddingBag",
      ("mode '%s', sum, mean or max wanted"):format(o.mode))
  end
  self.mode = o.mode
  self.weight = parameter("EmbeddingBag", o.init, rows, dim)
end

---@param ids mrt.Tensor       integers in [0, rows): `[..., L]`, or `[M]`
---@param offsets? mrt.Tensor  `[B]`: where each bag begins among the ids, from 0
---@return mrt.Tensor          `[..., dim]`, or `[B, dim]`
function EmbeddingBag:forward(ids, offsets)
  return self.weight:embedding_bag(ids, offsets, { mode = self.mode })
end

function EmbeddingBag:describe()
  return ("%d, %d, %s"):format(self.weight:size(1), self.weight:size(2), self.mode)
end

return EmbeddingBag
