--- mrt.tensor -- what a tensor can do: fields, metamethods, operators
---
--- Every operator of the core is a method under its own name, applied by one
--- C function that checks its options (operators.lua has their types, for editors);
--- what is composed of operators is in method.lua, shape.lua, reduce.lua, linalg.lua
--- and image.lua.  A tensor is a lazy handle: shapes and dtypes are checked at once,
--- its elements are computed when they are looked at.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

local op = core.op

---@class mrt.QuantizeOptions
---@field kind? "int8"|"nf4"|"fp4"|"q4_0"|"q8_0"  default "int8"
---@field block? integer      numbers that share a scale; default 64, int8: the row
---@field columns? integer    of the matrix, where the codes do not tell
---@field transposed? boolean  quantized_linear: x @ w, not x @ w^T
---@field compute? mrt.DType  quantized_linear: x and w are rounded to it first
---@field activations? "exact"|"int8"  quantized_linear: "int8" rounds each row of x to
---  blocks of 32 numbers of 8 bits, and multiplies these; default "exact"

--- A lazy tensor.  `x[i]` is `x:select(1, i)`.
---
---     local x = mrt.tensor{{1, 2}, {3, 4}}
---     local y = x * x + 1
---     y:sum()  --> 34
---@class mrt.Tensor
---@field shape integer[]        a copy
---@field dtype mrt.DType
---@field rank integer           how many dimensions
---@field name string?           may be assigned
---@field T mrt.Tensor           all dimensions reversed
---@field [number|table|mrt.Tensor] any  a part
---@operator add(mrt.Operand): mrt.Tensor
---@operator sub(mrt.Operand): mrt.Tensor
---@operator mul(mrt.Operand): mrt.Tensor
---@operator div(mrt.Operand): mrt.Tensor
---@operator idiv(mrt.Operand): mrt.Tensor
---@operator mod(mrt.Operand): mrt.Tensor
---@operator pow(mrt.Operand): mrt.Tensor
---@operator unm: mrt.Tensor
---@operator band(mrt.Operand): mrt.Tensor
---@operator bor(mrt.Operand): mrt.Tensor
---@operator bxor(mrt.Operand): mrt.Tensor
---@operator bnot: mrt.Tensor
---@operator shl(mrt.Operand): mrt.Tensor
---@operator shr(mrt.Operand): mrt.Tensor
---@operator len: integer
local Tensor = core.methods

---@alias mrt.DType "f32"|"f64"|"i64"|"i32"|"u8"|"bool"|"f16"|"bf16"|"f8_e4m3"|"f8_e5m2"
---@alias mrt.Operand mrt.Tensor|number

local meta = core.Tensor

-- ---- operators as methods --------------------------------------------------

-- What reads no tensor is a function of the module, a collective a method of a
-- communicator.
local function is_method(o)
  return o.max_inputs ~= 0 and not o.internal and not o.collective
end

for _, o in ipairs(core.operators()) do
  if is_method(o) then Tensor[o.name] = op[o.name] end
end

local integers = { i64 = true, i32 = true, u8 = true, bool = true }

local function is_integer(x)
  if core.is_tensor(x) then return integers[x:get_dtype()] end
  return math.type(x) == "integer"
end

-- What to divide by.  Integers have no quotient by 0, floats have one: a number is
-- refused in Lua's words, an element when the division runs.
local function divisor(sign, x, y)
  if not is_integer(x) then return y end
  if core.is_tensor(y) then return is_integer(y) and op.divisor(y) or y end
  if math.type(y) == "integer" and y == 0 then
    core.fail("value", nil, ("attempt to perform 'n%s0'"):format(sign))
  end
  return y
end

--- Take what is left by `floor_divide`: the sign is y's, as of `%` in Lua.
--- Raises (value, data): integers by an integer 0.
---
---     mrt.tensor{-7, 7}:remainder(3)  --> [2 1]
---
--- Shapes: `[...]` of what x and y broadcast to.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor.remainder(x, y)
  return op.remainder(x, divisor("%%", x, y))
end

--- Divide and round down; integers stay integers and must be below 2^53.
--- Raises (value, data): integers by an integer 0.
---
---     mrt.tensor{-7, 7}:floor_divide(2)  --> [-4 3]
---
--- Shapes: `[...]` of what x and y broadcast to.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor.floor_divide(x, y)
  y = divisor("//", x, y)
  if not (is_integer(x) and is_integer(y)) then
    return op.floor(op.div(x, y))
  end
  local like = op.add(x, y):get_dtype()
  local function wide(v) return core.is_tensor(v) and op.cast(v, "f64") or v end
  return op.cast(op.floor(op.div(wide(x), wide(y))), like)
end

meta.__add, meta.__sub, meta.__mul = op.add, op.sub, op.mul
meta.__idiv, meta.__mod = Tensor.floor_divide, Tensor.remainder
meta.__unm = function(x) return op.neg(x) end

-- ---- fields ----------------------------------------------------------------

local part -- x[...]; set below, as it is made of methods

local fields = { shape = Tensor.get_shape, dtype = Tensor.get_dtype,
  rank = Tensor.dim, name = Tensor.get_name }

function fields.T(x)
  local dims = {}
  for i = 1, x:dim() do dims[i] = x:dim() + 1 - i end
  return #dims > 1 and op.permute(x, dims) or x
end

-- A row; ipairs ends at nil, behind the last.
local function row(x, i)
  local n = x:dim() > 0 and #x or 0
  if i == n + 1 and x:dim() > 0 then return nil end
  if i == 0 or i > n or i < -n then return part.get(x, { i }) end -- raises
  return part.taken(Tensor.select(x, 1, i))
end

-- What has no such field may be a word of PyTorch's.
local function unknown(key)
  if type(key) ~= "string" then
    core.fail("value", nil, ("a tensor is indexed by a position, a list of them or a tensor, "
      .. "not by %s"):format(math.type(key) or type(key)))
  end
  local hints = require "mrt.util.hints"
  return hints.answer("tensor", key) or hints.in_place(key, Tensor)
end

function meta.__index(x, key)
  local method = Tensor[key]
  if method ~= nil then return method end
  local field = fields[key]
  if field then return field(x) end
  if math.type(key) == "integer" then return row(x, key) end
  if type(key) == "table" or core.is_tensor(key) then return part.taken(part.get(x, key)) end
  return unknown(key)
end

function meta.__newindex(x, key, value)
  if math.type(key) == "integer" or type(key) == "table" or core.is_tensor(key) then
    part.set(x, key, value)
    return
  elseif key ~= "name" then
    local hint = require "mrt.util.hints".set(key)
    core.fail("value", nil, ("a tensor has no field '%s' that can be set%s")
      :format(tostring(key), hint and ": " .. hint or ""))
  end
  Tensor.set_name(x, value)
end

local function no_order(x, y)
  local function show(v) return core.is_tensor(v) and v:type() or tostring(v) end
  core.fail("value", nil, ("%s against %s: x:lt(y), le, gt, ge and eq compare elements, and "
    .. "x:item() < y numbers"):format(show(x), show(y)))
end

meta.__lt, meta.__le = core.front(no_order), core.front(no_order)

function meta.__tostring(x) return require "mrt.tensor.print".tensor(x) end

-- Nobody changes what all tensors share; the prompt completes from `__fields`.
meta.__metatable = "mrt.Tensor"
meta.__fields, meta.__methods = { Tensor, fields }, Tensor

part = require "mrt.tensor.part"
require "mrt.tensor.method"
require "mrt.tensor.shape"
require "mrt.tensor.reduce"
require "mrt.tensor.linalg"
require "mrt.tensor.attention"
require "mrt.tensor.norm"
require "mrt.tensor.order"
require "mrt.tensor.search"
require "mrt.tensor.statistics"
require "mrt.tensor.scatter"
require "mrt.tensor.rearrange"
require "mrt.tensor.turn"
require "mrt.tensor.join"
require "mrt.tensor.pad"
require "mrt.tensor.product"
require "mrt.tensor.image"
require "mrt.tensor.conv"
require "mrt.tensor.pool"
require "mrt.tensor.resize"
require "mrt.tensor.grid"
require "mrt.tensor.recurrence"
require "mrt.tensor.pointwise"
require "mrt.tensor.activation"
require "mrt.tensor.matrix"

for name, method in pairs(Tensor) do
  if debug.getinfo(method, "S").what ~= "C" then
    Tensor[name] = core.front(method, name)
  end
end

return Tensor
