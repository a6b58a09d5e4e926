--- recurrence.lua -- what each position makes of the one before it
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"

local op = core.op
local read = argument.read
---@class mrt.Tensor
local Tensor = core.methods

-- Two shapes as one, as pointwise operators take them.
local function joined(who, a, b)
  local x, y, out = a:get_shape(), b:get_shape(), {}
  for i = 0, math.max(#x, #y) - 1 do
    local m, n = x[#x - i] or 1, y[#y - i] or 1
    if m ~= n and m ~= 1 and n ~= 1 then
      core.fail("shape", who, ("%s and %s do not broadcast"):format(a:type(), b:type()))
    end
    table.insert(out, 1, m == 1 and n or m)
  end
  return out
end

--- Go along a dimension with h[t] = a[t] h[t-1] + b[t], element by element, in one
--- pass; its gradient is another.  a and b broadcast.
---
---     local h = mrt.linear_recurrence(a, b, { dim = 2 })
---
--- Raises: shapes that do not broadcast, dtypes that differ or are no f32 or f64, a
--- dim that is not there, an initial h of another shape than one position.
---@param b mrt.Operand
---@param ... any  dim (wanted), initial, reverse, or a table of them.  initial: h
---  before the first position, of the shape without dim, else zeros; reverse: from
---  the last position to the first
---@return mrt.Tensor h
function Tensor.linear_recurrence(a, b, ...)
  local who = "linear_recurrence"
  local o = read(who, { "dim", "initial", "reverse" }, ...)
  if type(b) == "number" then b = core.tensor(b, a:get_dtype()) end
  argument.tensor(who, "b", b)
  local shape = joined(who, a, b)
  a, b = op.expand(a, shape), op.expand(b, shape)
  local given = { dim = o.dim, reverse = o.reverse }
  if o.initial == nil then return op.linear_recurrence(a, b, given) end
  return op.linear_recurrence(a, b, argument.tensor(who, "initial", o.initial), given)
end

-- ---- recurrences of state-space models and of attention ---------------------

--- Go through time with a state of N numbers for each channel, which is never stored
--- whole: h[t] = exp(delta[t] A) h[t-1] + delta[t] u[t] B[t], y[t] = C[t] h[t].
---
---     local y = u:selective_scan(delta, A, B, C, { D = D, z = z, delta_softplus = true })
---
--- From: Gu & Dao, arXiv:2312.00752, whose code has time last: `[batch, D, T]`.
---
--- Raises: shapes that do not fit, dtypes that differ or are no f32 or f64.
---@param delta mrt.Tensor  `[batch, T, D]`, as u
---@param A mrt.Tensor      `[D, N]`, below 0 where states are to fade
---@param B mrt.Tensor      `[batch, T, N]`
---@param C mrt.Tensor      `[batch, T, N]`
---@param ... any  D (`[D]`: y + D u), z (`[batch, T, D]`: y silu(z)), delta_bias (`[D]`),
---  delta_softplus, or a table of them
---@return mrt.Tensor y     `[batch, T, D]`
function Tensor.selective_scan(u, delta, A, B, C, ...)
  local who = "selective_scan"
  local o = read(who, { "D", "z", "delta_bias", "delta_softplus" }, ...)
  argument.tensor(who, "delta", delta)
  argument.tensor(who, "A", A)
  argument.tensor(who, "B", B)
  argument.tensor(who, "C", C)
  if o.delta_bias ~= nil then delta = op.add(delta, o.delta_bias) end
  if o.delta_softplus then delta = op.softplus(delta) end
  local y = op.selective_scan(u, delta, A, B, C)
  if o.D ~= nil then y = op.add(y, op.mul(u, o.D)) end
  if o.z ~= nil then y = op.mul(y, op.silu(o.z)) end
  return y
end

-- What is left of the matrix after a step, as the operator takes it.
local function decay_of(who, q, decay)
  local B, T, H = table.unpack(q:size())
  if type(decay) == "number" then
    return op.expand(core.tensor(decay, q:get_dtype()), { B, T, H, 1 })
  end
  argument.tensor(who, "decay", decay)
  if decay:dim() == 1 then
    return op.expand(op.reshape(decay, { 1, 1, decay:size(1), 1 }), { B, T, H, 1 })
  end
  return decay:dim() == 3 and decay:unsqueeze(4) or decay
end

--- Attend without softmax, in time and memory that are linear in T: each head keeps a
--- matrix S[t] = diag(decay[t]) S[t-1] + k[t] v[t]^T, and o[t] = scale q[t] S[t].
---
---     local o = q:linear_attention(k, v, { decay = 0.98 })        -- as RetNet has it
---     local o = q:linear_attention(k, v, { decay = gate:sigmoid() }) -- [B,T,H,K]: GLA
---
--- From: Katharopoulos et al., arXiv:2006.16236; Sun et al., arXiv:2307.08621; Yang et al.,
--- arXiv:2312.06635.
---
--- Raises: shapes that do not fit, dtypes that differ or are no f32 or f64.
---@param k mrt.Tensor  `[batch, T, heads, K]`, as q
---@param v mrt.Tensor  `[batch, T, heads, V]`
---@param ... any  decay (a number, `[heads]`, `[batch, T, heads]` or `[batch, T, heads, K]`;
---  default 1), scale (default 1), or a table of them
---@return mrt.Tensor o  `[batch, T, heads, V]`
function Tensor.linear_attention(q, k, v, ...)
  local who = "linear_attention"
  local o = read(who, { "decay", "scale" }, ...)
  argument.tensor(who, "k", k)
  argument.tensor(who, "v", v)
  if o.scale ~= nil then q = op.mul(q, o.scale) end
  if o.decay == nil or q:dim() ~= 4 then return op.linear_attention(q, k, v) end
  return op.linear_attention(q, k, v, decay_of(who, q, o.decay))
end

return Tensor
