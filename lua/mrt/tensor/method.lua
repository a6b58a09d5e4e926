--- method.lua -- methods of tensors that convert, choose and assign
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local options = require "mrt.util.options"
local trace = require "mrt.compile.trace"

local op = core.op
---@class mrt.Tensor
local Tensor = core.methods

local read, refuse = argument.read, argument.refuse

-- ---- dtypes ----------------------------------------------------------------

local dtypes = core.dtypes()

-- What PyTorch calls dtypes.
local names = { float = "f32", float32 = "f32", double = "f64", float64 = "f64", half = "f16",
  float16 = "f16", bfloat16 = "bf16", int = "i32", int32 = "i32", long = "i64", int64 = "i64",
  byte = "u8", uint8 = "u8", float8_e4m3fn = "f8_e4m3", float8_e5m2 = "f8_e5m2" }

--- Convert; the tensor itself when it has that dtype already.  Or copy to another
--- device, which computes what is pending and cannot be done inside a compiled
--- function.
---
---     mrt.tensor{1, 2}:to "f16":type()  --> f16[2]
---
--- Shapes: `[...]` of x's shape.
--- Raises: a dtype or a device that there is not.
---@param dtype mrt.DType|string  a dtype, or a device: "cpu", "gpu:0"
---@return mrt.Tensor
function Tensor.to(x, dtype)
  if names[dtype] then refuse("to", "no dtype '%s', it is '%s' here", dtype, names[dtype]) end
  if type(dtype) == "string" and not dtypes[dtype] then
    local found, message = pcall(core.open_device, dtype)
    if not found then
      refuse("to", "'%s' is no dtype, and as a device: %s", dtype,
        (message.message:gsub("^device: ", "")))
    end
    return core.transfer(x, dtype)
  end
  if x:get_dtype() == dtype then return x end
  return op.cast(x, dtype)
end

--- As `to "f32"`.
---
---     mrt.tensor{1, 2}:float():type()  --> f32[2]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor.float(x) return x:to "f32" end

--- As `to "f64"`.
---
---     mrt.tensor{1, 2}:double():type()  --> f64[2]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor.double(x) return x:to "f64" end

--- As `to "i64"`: what follows the point is cut.
---
---     mrt.tensor{1.7, 2}:long()  --> [1 2]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor.long(x) return x:to "i64" end

--- As `to "i32"`: what follows the point is cut.
---
---     mrt.tensor{1.7, 2}:int()  --> [1 2]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor.int(x) return x:to "i32" end

--- As `to "u8"`.
---
---     mrt.tensor{1, 2}:byte():type()  --> u8[2]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor.byte(x) return x:to "u8" end

--- As `to "bool"`: true where x is not 0.
---
---     mrt.tensor{0, 2}:bool()  --> [false true]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor.bool(x) return x:to "bool" end

-- ---- choosing --------------------------------------------------------------

--- Put `value` where `mask` is true.
---
---     mrt.tensor{1, 2}:masked_fill(mrt.tensor{true, false}, 0)  --> [0 2]
---
--- Raises: shapes that do not broadcast.
---@param mask mrt.Tensor  bool, broadcasts
---@param value mrt.Operand
---@return mrt.Tensor
function Tensor.masked_fill(x, mask, value) return op.where(mask, value, x) end

--- Choose `x` where this condition is true, else `y`.
---
---     mrt.tensor{true, false}:where(1, 2)  --> [1 2]
---
--- Shapes: `[...]` of what all broadcast to.
--- Raises: shapes that do not broadcast.
---@param x mrt.Operand
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor.where(condition, x, y) return op.where(condition, x, y) end

--- 1 at each 0-based id, 0 elsewhere: `[...]` -> `[..., num_classes]`, i64.  Raises (data):
--- an id that is none of the classes.
---
---     mrt.tensor{0, 2}:one_hot(3)  --> [[1 0 0] [0 0 1]]
---@param num_classes integer|{num_classes: integer}
---@return mrt.Tensor
function Tensor.one_hot(ids, num_classes)
  local count = read("one_hot", { "num_classes" }, num_classes).num_classes
  if math.type(count) ~= "integer" or count < 1 then
    refuse("one_hot", "num_classes: a positive integer wanted, got %s", options.show(count))
  end
  if dtypes[ids:get_dtype()].floating then
    core.fail("dtype", "one_hot", ids:type() .. ", integers wanted")
  end
  local shape = ids:get_shape()
  shape[#shape + 1] = count
  local one = op.full { shape = { 1 }, value = 1, dtype = "i64" }
  local zeros = op.full { shape = shape, value = 0, dtype = "i64" }
  shape[#shape] = 1
  return op.scatter(zeros, op.cast(ids:unsqueeze(-1), "i64"), op.expand(one, shape),
    { dim = #shape })
end

--- Look up rows of a table: `table:embedding(ids)`, or `ids:embedding(table)` as PyTorch
--- has it, told apart by who has integers.
---
---     mrt.tensor{{1.0, 2.0}, {3.0, 4.0}}:embedding(mrt.tensor{1, 0})  --> [[3.0 4.0] [1.0 2.0]]
---
--- Raises: ids that are no integers; at the run, one outside of the table.
---@param other mrt.Tensor  0-based ids `[...]` for a table `[V, C]`, or the table
---@return mrt.Tensor       `[..., C]`
function Tensor.embedding(x, other)
  argument.tensor("embedding", "the second", other)
  if not dtypes[x:get_dtype()].floating and dtypes[other:get_dtype()].floating then
    x, other = other, x
  end
  return op.embedding(x, other)
end

-- ---- variables -------------------------------------------------------------

--- Set a variable: to a tensor of its shape, or to a number everywhere.  Inside
--- a compiled function it becomes an update of the plan, after every read of
--- the old value.
---
---     local w = mrt.variable(mrt.zeros(2))
---     w:assign(w + 1)
---
--- Raises: a tensor that is no variable, a value of another shape or dtype.
---@param value mrt.Operand
---@param given? {when: mrt.Tensor|boolean?}  a bool scalar: false leaves it
---@return mrt.Tensor self
function Tensor.assign(x, value, given)
  if type(given) == "table" and next(given) == nil then given = nil end
  local when = read("assign", { "when" }, given).when
  if when == false then return x end
  when = when ~= true and when or nil
  trace.assign(x, value, trace.gate(when))
  return x
end

return Tensor
