--- derive.lua -- derivatives of functions of tensors, built of gradients
---
---   jacobian  dy_i / dx_j: a gradient of each element of y, or (forward) a
---             derivative along each element of x
---   hessian   d2y / dx_i dx_j of a scalar: the gradients of its gradient
---   jvp       the derivative along v, by differentiating the gradient twice: for
---             g(u) = J' u, which is linear in u, d (g . v) / du = J v
---   hvp       H v = d (g . v) / dx of a scalar's gradient g
---
--- What comes out is lazy and can be differentiated again; in a compiled function it
--- is part of the plan.
---
--- SPDX-License-Identifier: MIT

local argument = require "mrt.util.argument"
local core = require "mrt.core"
local options = require "mrt.util.options"
local trace = require "mrt.compile.trace"

local op = core.op
local dtypes = core.dtypes()
local MAX_RANK <const> = 8

---@class mrt.derivatives
local derivatives = {}

---@class mrt.DerivativeOptions
---@field allow_unused? boolean  default false; true: zeros where y does not depend on x

---@class mrt.JacobianOptions: mrt.DerivativeOptions
---@field mode? "reverse"|"forward"  a gradient for each element of y (default), or a
---  derivative for each element of x: better where x has fewer.  Same numbers but for
---  rounding

local defaults = { allow_unused = false }
local jacobian_defaults = { allow_unused = false, mode = "reverse" }

-- ---- what is given ---------------------------------------------------------

local function want_floats(who, what, x)
  if dtypes[x:get_dtype()].floating then return x end
  argument.refuse(who, "%s is %s, floats wanted", what, x:type())
end

-- A list of different tensors.
local function read_inputs(who, x)
  if core.is_tensor(x) then return { want_floats(who, "x", x) } end
  local list, seen = argument.tensors(who, x), {}
  if #list == 0 then argument.refuse(who, "x: a tensor or a list of them wanted, got none") end
  for i, t in ipairs(list) do
    want_floats(who, ("x %d"):format(i), t)
    if seen[t] then argument.refuse(who, "x %d and x %d are the same tensor", seen[t], i) end
    seen[t] = i
  end
  return list
end

local function same_shape(a, b)
  local one, other = a:get_shape(), b:get_shape()
  for d = 1, math.max(#one, #other) do
    if one[d] ~= other[d] then return false end
  end
  return true
end

-- One vector for each input, of its shape and dtype.
local function read_vectors(who, v, xs, x)
  local list = core.is_tensor(v) and { v } or argument.tensors(who, v)
  if #list ~= #xs or core.is_tensor(v) ~= core.is_tensor(x) then
    argument.refuse(who, "v: %s wanted, as x is", core.is_tensor(x) and "a tensor"
      or ("a list of %d tensors"):format(#xs))
  end
  local out = {}
  for i, t in ipairs(list) do
    if not same_shape(t, xs[i]) then
      argument.refuse(who, "v is %s, the shape of x wanted, %s", t:type(), xs[i]:type())
    end
    want_floats(who, "v", t)
    out[i] = t:get_dtype() == xs[i]:get_dtype() and t or op.cast(t, xs[i]:get_dtype())
  end
  return out
end

local function result(who, f, xs)
  argument.callable(who, f)
  local out = table.pack(f(table.unpack(xs)))
  if out.n ~= 1 or not core.is_tensor(out[1]) then
    argument.refuse(who, "the function returned %s, one tensor wanted",
      out.n == 1 and options.show(out[1]) or ("%d values"):format(out.n))
  end
  return want_floats(who, "what the function returned", out[1])
end

local function scalar(who, f, xs)
  local y = result(who, f, xs)
  if y:numel() == 1 then return y end
  argument.refuse(who, "the function returned %s, a scalar wanted", y:type())
end

-- ---- building --------------------------------------------------------------

-- 1 at element k, from 1, of a tensor like x, and 0 elsewhere.
local function unit(x, k)
  local at = op.arange { start = 0, stop = x:numel(), dtype = "i64" }
  return op.reshape(op.cast(op.eq(at, k - 1), x:get_dtype()), x:get_shape())
end

local function shape_of(...)
  local shape = {}
  for _, t in ipairs { ... } do table.move(t:get_shape(), 1, t:dim(), #shape + 1, shape) end
  return shape
end

-- Rows d of y, one for each of its elements, as one tensor [y..., x...].
local function stacked(who, rows, y, x)
  local shape = shape_of(y, x)
  if #shape > MAX_RANK then
    argument.refuse(who, "%s by %s has %d dimensions, at most %d wanted", y:type(), x:type(),
      #shape, MAX_RANK)
  elseif #rows == 0 then
    return op.full { shape = shape, value = 0, dtype = x:get_dtype() }
  end
  for i, row in ipairs(rows) do rows[i] = op.reshape(row, { 1, row:numel() }) end
  return op.reshape(op.cat(rows, 1), shape)
end

-- The gradients of y's elements with respect to xs: by input, one row for each.
local function rows_of(y, xs, o)
  local rows = {}
  for j = 1, #xs do rows[j] = {} end
  for k = 1, y:numel() do
    local dx = trace.grad({ y }, xs, { grad_outputs = { unit(y, k) },
      allow_unused = o.allow_unused })
    for j = 1, #xs do rows[j][k] = dx[j] end
  end
  return rows
end

-- J' u as a function of u: it, and u, which nothing else is.
local function pulled_back(y, xs, o)
  local u = op.full { shape = y:get_shape(), value = 0, dtype = y:get_dtype() }
  return core.grad({ y }, xs, { u }, o.allow_unused), u
end

local function pushed(g, u, v)
  return core.grad(g, { u }, v, true)[1]
end

local function forward(who, y, xs, o)
  local g, u = pulled_back(y, xs, o)
  local out = {}
  for j, x in ipairs(xs) do
    local columns = {}
    for k = 1, x:numel() do columns[k] = pushed({ g[j] }, u, { unit(x, k) }) end
    local turned = stacked(who, columns, x, y)
    local flat = op.transpose(op.reshape(turned, { x:numel(), y:numel() }), 1, 2)
    out[j] = op.reshape(flat, shape_of(y, x))
  end
  return out
end

-- ---- for users -------------------------------------------------------------

--- Return all derivatives of `f` at x: `[y..., x...]` for y = f(x).
---
---     mrt.jacobian(function(x) return x:softmax(1) end, mrt.randn(3))   -- f32[3,3]
---
--- Each element of y takes a gradient: for a few of them.
---
--- Raises: what is no function of tensors.
---@param f fun(...: mrt.Tensor): mrt.Tensor
---@param x mrt.Tensor|mrt.Tensor[]  one tensor; or several, which f gets as arguments
---@param o? mrt.JacobianOptions
---@return mrt.Tensor|mrt.Tensor[] jacobian  a list where x is one
function derivatives.jacobian(f, x, o)
  local who <const> = "jacobian"
  o = options.read(who, o, jacobian_defaults)
  if o.mode ~= "reverse" and o.mode ~= "forward" then
    argument.refuse(who, "option 'mode': \"reverse\" or \"forward\" wanted, got %s",
      options.show(o.mode))
  end
  local xs = read_inputs(who, x)
  local y, out = result(who, f, xs), {}
  if o.mode == "forward" then
    out = forward(who, y, xs, o)
  else
    local rows = rows_of(y, xs, o)
    for j, own in ipairs(xs) do out[j] = stacked(who, rows[j], y, own) end
  end
  return core.is_tensor(x) and out[1] or out
end

--- Return the second derivatives of a scalar function: `[x..., x...]`, and of
--- several tensors `[i][j]`, of x i and then of x j.
---
---     mrt.hessian(function(x) return (x ^ 3):sum() end, mrt.tensor { 1.0, 2 })
---     --> [[6.0 0.0] [0.0 12.0]]
---
--- Each element of x takes a gradient of the gradient: for a few of them; hvp takes
--- one for all.
---
--- Raises: what is no scalar function.
---@param f fun(...: mrt.Tensor): mrt.Tensor
---@param x mrt.Tensor|mrt.Tensor[]
---@param o? mrt.DerivativeOptions
---@return mrt.Tensor|mrt.Tensor[][] hessian
function derivatives.hessian(f, x, o)
  local who <const> = "hessian"
  o = options.read(who, o, defaults)
  local xs = read_inputs(who, x)
  local g, out = trace.grad({ scalar(who, f, xs) }, xs, o), {}
  for i, own in ipairs(xs) do
    local rows = rows_of(g[i], xs, { allow_unused = true })
    out[i] = {}
    for j, other in ipairs(xs) do out[i][j] = stacked(who, rows[j], own, other) end
  end
  return core.is_tensor(x) and out[1][1] or out
end

--- Return y = f(x) and its derivative along v, J v, without J.
---
---     local y, dy = mrt.jvp(model, x, mrt.randn(x.shape))
---
--- Raises: a v of another shape than x.
---@param f fun(...: mrt.Tensor): mrt.Tensor
---@param x mrt.Tensor|mrt.Tensor[]
---@param v mrt.Tensor|mrt.Tensor[]  as x is, and of its shapes
---@param o? mrt.DerivativeOptions
---@return mrt.Tensor y
---@return mrt.Tensor derivative  of y's shape
function derivatives.jvp(f, x, v, o)
  local who <const> = "jvp"
  o = options.read(who, o, defaults)
  local xs = read_inputs(who, x)
  local vs = read_vectors(who, v, xs, x)
  local y = result(who, f, xs)
  local g, u = pulled_back(y, xs, o)
  return y, pushed(g, u, vs)
end

--- Return y = f(x), a scalar, and H v, the derivative of its gradient along v, without
--- H: a gradient more.
---
---     local loss, hv = mrt.hvp(function() return loss_of(model) end, params, vs)
---
--- Raises: a v of another shape than x.
---@param f fun(...: mrt.Tensor): mrt.Tensor
---@param x mrt.Tensor|mrt.Tensor[]
---@param v mrt.Tensor|mrt.Tensor[]  as x is, and of its shapes
---@param o? mrt.DerivativeOptions
---@return mrt.Tensor y
---@return mrt.Tensor|mrt.Tensor[] product  as x is
function derivatives.hvp(f, x, v, o)
  local who <const> = "hvp"
  o = options.read(who, o, defaults)
  local xs = read_inputs(who, x)
  local vs = read_vectors(who, v, xs, x)
  local y = scalar(who, f, xs)
  local g = trace.grad({ y }, xs, o)
  local hv = trace.grad(g, xs, { grad_outputs = vs, allow_unused = true })
  return y, core.is_tensor(x) and hv[1] or hv
end

return derivatives
