--- quantized_embedding.lua -- a table of vectors that is kept in 8 or 4 bits
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local Embedding = require "mrt.nn.embedding"
local Linear = require "mrt.nn.linear"
local Module = require "mrt.nn.module"
local QuantizedLinear = require "mrt.nn.quantized_linear"
local options = require "mrt.util.options"

--- Make a frozen table from another one: ids `[...]` -> `[..., dim]`, in the dtype that
--- the table had.  Rows are widened as they are looked up; a head that shares the table
--- (`logits`) reads the same codes, and rounds what it is given where the options say
--- `activations = "int8"`.
---
---     nn.QuantizedEmbedding(nn.Embedding(10, 64))(mrt.tensor{1, 2}):type()  --> f32[2,64]
---@class mrt.nn.QuantizedEmbedding: mrt.nn.Module
---@field rows mrt.nn.QuantizedLinear  the table
---@overload fun(table: mrt.nn.Embedding, o?: mrt.nn.QuantizedLinearOptions): mrt.nn.Module
local QuantizedEmbedding = Module("QuantizedEmbedding", "tensor")

function QuantizedEmbedding:init(given, o)
  if getmetatable(given) ~= Embedding then
    core.fail("value", "QuantizedEmbedding", "an Embedding wanted, got " .. options.show(given))
  end
  local rows = Linear(1, 1, { bias = false })
  rawset(rows, "weight", given.weight) -- the table itself: a copy might not fit beside it
  self.frozen, self.dtype = true, given.weight:get_dtype()
  self.rows = QuantizedLinear(rows, o)
end

---@param ids mrt.Tensor  integers in [0, rows), any shape
---@return mrt.Tensor     `[..., dim]`
function QuantizedEmbedding:forward(ids)
  local rows = self.rows
  local codes, scales = rows.codes:embedding(ids), rows:block_scales():embedding(ids)
  return codes:dequantize(scales, { kind = rows.kind, block = rows.block,
    columns = rows.inputs }):to(self.dtype)
end

--- The product of vectors with each row.
---
---     local table = nn.QuantizedEmbedding(nn.Embedding(10, 64))
---     table:logits(mrt.ones(2, 64)):type()  --> f32[2,10]
---
--- Raises: vectors of another width.
---@param x mrt.Tensor  `[..., dim]`
---@return mrt.Tensor   `[..., rows]`
function QuantizedEmbedding:logits(x) return self.rows(x) end

function QuantizedEmbedding:describe()
  return ("%d, %d"):format(self.rows.outputs, self.rows.inputs)
end

return QuantizedEmbedding
