--- embedding.lua -- one row of a table for each id
---
--- SPDX-License-Identifier: MIT

local Module = require "mrt.nn.module"
local initial = require "mrt.nn.initial"
local options = require "mrt.util.options"
local parameter = require "mrt.nn.parameter"

--- Make a table of vectors: ids `[...]` -> `[..., dim]`.
---
---     local x = nn.Embedding(65, 128)(tokens)   -- i32[12,64] -> f32[12,64,128]
---
--- Ids count from 0.  Rows begin normal with standard deviation 1, or as `init`
--- says.
---@class mrt.nn.Embedding: mrt.nn.Module
---@field weight mrt.Tensor  `[rows, dim]`
---@overload fun(rows: integer, dim: integer, options?: {init: mrt.nn.Recipe}): mrt.nn.Embedding
local Embedding = Module("Embedding", "tensor")

function Embedding:init(rows, dim, given)
  local o = options.read("Embedding", given, { init = initial.normal(1) })
  options.size("Embedding", "rows", rows)
  options.size("Embedding", "dim", dim)
  self.weight = parameter("Embedding", o.init, rows, dim)
end

---@param ids mrt.Tensor  integers in [0, rows), any shape
---@return mrt.Tensor     `[..., dim]`
function Embedding:forward(ids) return self.weight:embedding(ids) end

--- The product of vectors with each row: the head of a model that shares the table.
---
---     nn.Embedding(10, 4):logits(mrt.ones(2, 4)):type()  --> f32[2,10]
---
--- Raises: vectors of another width.
---@param x mrt.Tensor  `[..., dim]`
---@return mrt.Tensor   `[..., rows]`
function Embedding:logits(x) return x:linear(self.weight) end

function Embedding:describe()
  return ("%d, %d"):format(self.weight:size(1), self.weight:size(2))
end

return Embedding
