--- attention.lua -- methods of tensors for fused attention
---
--- One operator computes softmax(scale q k^T + mask) v for all that follows and
--- never stores the scores, nor do its gradients: a mask is read where it lies,
--- by the strides it has, and what a window, causality or lengths hide is not
--- computed.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local show = require "mrt.util.options".show

local op = core.op
local read, refuse = argument.read, argument.refuse
---@class mrt.Tensor
local Tensor = core.methods

---@class mrt.AttentionOptions
---@field causal? boolean   a query sees no key behind its own position
---@field scale? number     of the scores; default 1 / sqrt(D)
---@field mask? mrt.Tensor  bool, true what is seen; or floats that are added to the
---  scores, which have a gradient.  Any shape that broadcasts to `[B,H,T,S]`; it is
---  never expanded
---@field window? integer|integer[]  how many keys before and after its own position
---  a query sees: one number for both, or {before, after}; -1: all
---@field softcap? number   scores become cap tanh(score / cap)
---@field lengths? mrt.Tensor      `[B]` integers: how many queries each sample has; the
---  rest are padding, whose results and gradients are 0
---@field key_lengths? mrt.Tensor  `[B]` integers: how many keys
---@field offset? integer|mrt.Tensor  at which position of the keys, from 0, query 0
---  stands: one number, or `[B]` integers.  Default: the last query stands at the
---  last key
---@field pages? mrt.Tensor  `[B,n]` integers: k and v `[P,page,Hk,D]` are pages of a
---  cache, and these are the pages of each sample.  Forward only

local names = { "causal", "scale", "mask", "window", "softcap", "lengths", "key_lengths",
  "offset", "pages" }

-- How many keys before and after: two integers.
local function window_of(who, window)
  if window == nil then return -1, -1 end
  local list = type(window) == "table" and window or { window, window }
  local left, right = math.tointeger(list[1]), math.tointeger(list[2])
  if core.is_tensor(window) or #list ~= 2 or not (left and right) then
    refuse(who, "window %s, an integer or {before, after} wanted", show(window))
  end
  return left, right
end

-- A mask with all four dimensions, as a view.
local function mask_of(who, mask)
  argument.tensor(who, "mask", mask)
  if mask:dim() > 4 then
    core.fail("shape", who, ("mask %s, what broadcasts to [B,H,T,S] wanted"):format(mask:type()))
  end
  for _ = mask:dim() + 1, 4 do mask = mask:unsqueeze(1) end
  return mask
end

-- The integer offset of the options, and the tensor, of which one is nil.
local function offset_of(who, offset)
  if offset == nil or core.is_tensor(offset) then return nil, offset end
  local at = math.tointeger(offset)
  if not at then
    refuse(who, "offset %s, an integer or a tensor of one for each sample wanted", show(offset))
  end
  return at, nil
end

-- What the operator takes after k and v: tensors, then options.
local function operands(who, o)
  local left, right = window_of(who, o.window)
  local offset, at = offset_of(who, o.offset)
  local given = { causal = o.causal, scale = o.scale, left = left, right = right,
    softcap = o.softcap, offset = offset, has = 0 }
  local list, more = {}, { o.mask and mask_of(who, o.mask) or false, o.lengths or false,
    o.key_lengths or false, at or false }
  if o.pages ~= nil then list[1] = argument.tensor(who, "pages", o.pages) end
  for i, x in ipairs(more) do
    if x then
      list[#list + 1] = argument.tensor(who, ({ "mask", "lengths", "key_lengths" })[i], x)
      given.has = given.has | 1 << (i - 1)
    end
  end
  list[#list + 1] = given
  return table.unpack(list)
end

-- `attention` in the name of `who`.
local function attend(who, q, k, v, o)
  argument.tensor(who, "queries", q)
  argument.tensor(who, "keys", k)
  argument.tensor(who, "values", v)
  local run = o.pages ~= nil and op.paged_attention or op.attention
  return (run(q, k, v, operands(who, o)))
end

--- Fused attention that never stores the scores: q `[B,T,H,D]`, k `[B,S,Hk,D]` and v
--- `[B,S,Hk,Dv]` -> `[B,T,H,Dv]`; H is a multiple of Hk, whose heads are shared by
--- neighbours.  T and S may differ.
---
---     q:attention(k, v, { causal = true, window = { 1023, 0 } })
---     q:attention(k, v, { mask = ids:ne(padding):reshape(B, 1, 1, S) })
---
--- A query that sees no key gets 0.
---
--- Raises (shape, dtype, value): what does not fit; when run (data): a length that
--- is negative or more than there are, a page that the cache does not have.
---@param k mrt.Tensor
---@param v mrt.Tensor
---@param ... any  causal, scale, mask, window, softcap, lengths, key_lengths, offset,
---  pages; or a table of them, mrt.AttentionOptions
---@return mrt.Tensor
function Tensor.attention(q, k, v, ...)
  return attend("attention", q, k, v, read("attention", names, ...))
end

---@class mrt.RopeOptions
---@field base? number            default 10000
---@field offset? integer         position of the first row; default 0
---@field interleaved? boolean    pairs are neighbours, not halves
---@field inverse? boolean        turn back
---@field width? integer          how much of each head turns; default all
---@field scale? number           of cosines and sines; default 1
---@field frequencies? mrt.Tensor  `[width / 2]`: the angle of each pair at position 1, in
---  place of base^(-2 i / width)
---@field positions? mrt.Tensor   `[T]` or `[B,T]` integers, in place of offset + 0, 1, ...

local rope_names = { "base", "offset", "interleaved", "inverse", "width", "scale", "frequencies",
  "positions" }

--- Rotary positions (Su et al. 2021): pairs of each head turned by an angle that grows
--- with the position, `[..., T, H, D]` -> the same.
---
---     q:rope { base = 1e6, width = 32, positions = start:unsqueeze(2) + mrt.arange(T) }
---
--- Raises (shape, dtype, value): what does not fit.  Frequencies have no gradient.
---@param ... any  options by place, or a table of them, mrt.RopeOptions
---@return mrt.Tensor
function Tensor.rope(x, ...)
  local o = read("rope", rope_names, ...)
  local list = {}
  for _, name in ipairs { "frequencies", "positions" } do
    if o[name] ~= nil then list[#list + 1] = argument.tensor("rope", name, o[name]) end
    o[name] = nil
  end
  list[#list + 1] = o
  return op.rope(argument.tensor("rope", "x", x), table.unpack(list))
end

-- ---- as PyTorch has it -----------------------------------------------------

local SDPA <const> = "scaled_dot_product_attention"

-- x [..., n, D] as [B, n, heads, D].
local function heads_third(x)
  local rank = x:dim()
  if rank < 2 then
    core.fail("shape", SDPA, ("%s, [..., time, width] wanted"):format(x:type()))
  end
  for _ = rank + 1, 4 do x = x:unsqueeze(1) end
  if rank > 4 then
    local s, B = x:size(), 1
    for d = 1, rank - 3 do B = B * s[d] end
    x = op.reshape(x, B, s[rank - 2], s[rank - 1], s[rank])
  end
  return op.transpose(x, 2, 3)
end

-- y [B, T, H, D] with the dimensions before the last of `shape`, [..., H, T, D] or
-- [T, D].
local function heads_second(y, shape)
  local rank = #shape
  if rank == 4 then return op.transpose(y, 2, 3) end
  shape[rank] = y:size(4)
  if rank == 2 then return op.reshape(y, shape) end
  shape[rank - 1], shape[rank - 2] = shape[rank - 2], shape[rank - 1]
  return op.transpose(op.reshape(y, shape), rank - 2, rank - 1)
end

-- A mask for what heads_third makes of q, whose leading dimensions become one: so
-- do the mask's, expanded unless it is 1 of them all.
local function mask_for(mask, q)
  argument.tensor(SDPA, "attn_mask", mask)
  local rank, shape, B, own = q:dim(), q:size(), 1, 1
  if rank <= 4 or mask:dim() > rank then return mask end
  for _ = mask:dim() + 1, rank do mask = mask:unsqueeze(1) end
  local s = mask:size()
  for d = 1, rank - 3 do B, own = B * shape[d], own * s[d] end
  if own ~= 1 then
    for d = 1, rank - 3 do s[d] = shape[d] end
    mask, own = op.expand(mask, s), B
  end
  return op.reshape(mask, own, s[rank - 2], s[rank - 1], s[rank])
end

local function want_heads(q, k, v, shared)
  if q:dim() ~= k:dim() or q:dim() ~= v:dim() then
    core.fail("shape", SDPA, ("query %s, key %s and value %s, as many dimensions of each wanted")
      :format(q:type(), k:type(), v:type()))
  end
  if shared or q:dim() < 3 or q:size(-3) == k:size(-3) then return end
  core.fail("shape", SDPA, ("%d heads of query %s and %d of key %s, as many wanted, or " ..
    "enable_gqa = true"):format(q:size(-3), q:type(), k:size(-3), k:type()))
end

--- `attention` with heads before positions, as PyTorch has them: q `[B,H,T,D]`, k
--- `[B,H,S,D]`, v `[B,H,S,Dv]` -> `[B,H,T,Dv]`; the first dimensions may be more, or
--- absent.
---
--- A query that sees no key gets 0.  Causal queries begin at the first
--- key, as there; `attention` lets them end at the last one.
---
--- Raises (shape, dtype, value): what does not fit; dropout_p above 0, as
--- probabilities are never stored: drop elements of the result, `nn.Dropout`.
---
---     local q = mrt.randn(1, 2, 5, 4)
---     q:scaled_dot_product_attention(q, q):type()  --> f32[1,2,5,4]
---@param k mrt.Tensor
---@param v mrt.Tensor
---@param ... any  attn_mask (bool, true what is seen; or floats to add), dropout_p (0
---  only), is_causal, scale, enable_gqa (fewer heads of k and v, shared by neighbours);
---  or a table of them
---@return mrt.Tensor
function Tensor.scaled_dot_product_attention(q, k, v, ...)
  local o = read(SDPA, { "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa" }, ...)
  argument.tensor(SDPA, "query", q)
  argument.tensor(SDPA, "key", k)
  argument.tensor(SDPA, "value", v)
  if (o.dropout_p or 0) ~= 0 then
    refuse(SDPA, "dropout_p %s, 0 wanted: probabilities are never stored; nn.Dropout of the " ..
      "result drops elements of that", show(o.dropout_p))
  end
  want_heads(q, k, v, o.enable_gqa)
  if o.scale == 0 then q, o.scale = op.mul(q, 0), 1 end
  local y = attend(SDPA, heads_third(q), heads_third(k), heads_third(v), {
    mask = o.attn_mask ~= nil and mask_for(o.attn_mask, q) or nil,
    causal = o.is_causal, scale = o.scale, offset = o.is_causal and 0 or nil })
  return heads_second(y, q:size())
end

return Tensor
