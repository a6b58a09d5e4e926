--- attention.lua -- attention with several heads, of queries, keys and values
---
--- Vaswani et al. 2017 (arXiv:1706.03762), with the parameters of PyTorch's
--- MultiheadAttention: in_proj_weight `[3 E, E]` (or q_proj_weight, k_proj_weight,
--- v_proj_weight, where keys or values have a width of their own), in_proj_bias `[3 E]`,
--- out_proj.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local argument = require "mrt.util.argument"
local attend = require "mrt.nn.transformer.attend"
local initial = require "mrt.nn.initial"
local Linear = require "mrt.nn.linear"
local Module = require "mrt.nn.module"
local options = require "mrt.util.options"

local op = core.op
local NAME <const> = "MultiheadAttention"

---@class mrt.nn.MultiheadAttentionOptions
---@field dropout? number       of the probabilities, default 0
---@field bias? boolean         default true
---@field kdim? integer         width of keys, default embed_dim
---@field vdim? integer         width of values, default embed_dim
---@field batch_first? boolean  `[N, L, E]` in place of `[L, N, E]`, default false

--- Make an attention layer.
---
---     local attention = nn.MultiheadAttention(64, 8, {batch_first = true})
---     local y = attention(x, x, x, {need_weights = false, is_causal = true})
---@class mrt.nn.MultiheadAttention: mrt.nn.Module
---@overload fun(embed_dim: integer, num_heads: integer,
---  options?: mrt.nn.MultiheadAttentionOptions): mrt.nn.MultiheadAttention
local Attention = Module(NAME, "tensor")

local names = { "dropout", "bias", "kdim", "vdim", "batch_first" }

function Attention:init(dim, heads, ...)
  options.size(NAME, "embed_dim", dim)
  options.size(NAME, "num_heads", heads)
  local o = options.read(NAME, argument.read(NAME, names, ...), { dropout = 0, bias = true,
    kdim = options.of "size", vdim = options.of "size", batch_first = false })
  if dim % heads ~= 0 then
    core.fail("value", NAME, ("embed_dim %d is no multiple of %d heads"):format(dim, heads))
  elseif not (o.dropout >= 0 and o.dropout < 1) then
    core.fail("value", NAME, ("dropout = %g, wanted 0 <= dropout < 1"):format(o.dropout))
  end
  self.dim, self.heads, self.dropout, self.batch_first = dim, heads, o.dropout, o.batch_first
  local kdim, vdim, recipe = o.kdim or dim, o.vdim or dim, initial.xavier_uniform()
  if kdim == dim and vdim == dim then
    self.in_proj_weight = mrt.parameter(recipe(3 * dim, dim))
  else
    self.q_proj_weight = mrt.parameter(recipe(dim, dim))
    self.k_proj_weight = mrt.parameter(recipe(dim, kdim))
    self.v_proj_weight = mrt.parameter(recipe(dim, vdim))
  end
  if o.bias then self.in_proj_bias = mrt.parameter(mrt.zeros(3 * dim)) end
  self.out_proj = Linear(dim, dim, { bias = o.bias })
  if o.bias then self.out_proj.bias:assign(0) end
end

-- Part i of three of the weights, its bias, applied to x.
local function project(self, i, x)
  local E = self.dim
  local own = ({ self.q_proj_weight, self.k_proj_weight, self.v_proj_weight })[i]
  local w = own or self.in_proj_weight:slice(1, (i - 1) * E + 1, i * E)
  if x:size(-1) ~= w:size(2) then
    core.fail("shape", NAME, ("%s is %s, [..., %d] wanted")
      :format(({ "query", "key", "value" })[i], x:type(), w:size(2)))
  end
  if not self.in_proj_bias then return x:linear(w) end
  return x:linear(w, self.in_proj_bias:slice(1, (i - 1) * E + 1, i * E))
end

-- Queries, keys and values; from one product, where all are of one tensor.
local function projected(self, q, k, v)
  if rawequal(q, k) and rawequal(k, v) and self.in_proj_weight and q:size(-1) == self.dim then
    local all = self.in_proj_bias and q:linear(self.in_proj_weight, self.in_proj_bias)
      or q:linear(self.in_proj_weight)
    return all:split(self.dim, -1)
  end
  return project(self, 1, q), project(self, 2, k), project(self, 3, v)
end

local dtypes = core.dtypes()

-- A mask as floats to add: -inf where a bool one is true.
local function additive(what, mask, dtype, shapes)
  argument.tensor(NAME, what, mask)
  local given, wanted = table.concat(mask:size(), ","), {}
  for i, shape in ipairs(shapes) do
    wanted[i] = ("[%s]"):format(table.concat(shape, ","))
    if table.concat(shape, ",") == given then
      if mask:get_dtype() == "bool" then
        return op.where(mask, -math.huge, op.full { shape = {}, value = 0, dtype = dtype })
      elseif dtypes[mask:get_dtype()].floating then
        return mask:to(dtype)
      end
    end
  end
  core.fail("shape", NAME, ("%s %s, %s of bool or floats wanted"):format(what, mask:type(),
    table.concat(wanted, " or ")))
end

-- Both masks as one that broadcasts to [N, H, L, S].
local function joint_mask(self, o, N, L, S, dtype)
  local mask
  if o.attn_mask then
    mask = additive("attn_mask", o.attn_mask, dtype, { { L, S }, { N * self.heads, L, S } })
    if mask:dim() == 3 then mask = mask:reshape(N, self.heads, L, S) end
  end
  if o.key_padding_mask then
    local unseen = additive("key_padding_mask", o.key_padding_mask, dtype,
      { { N, S }, N == 1 and { S } or nil }):reshape(N, 1, 1, S)
    mask = mask and mask + unseen or unseen
  end
  return mask
end

-- Three tensors as [N, time, width], and how to put the result back.
local function batches(self, q, k, v)
  local rank = q:dim()
  local function refuse(text)
    core.fail("shape", NAME, text:format(q:type(), k:type(), v:type()))
  end
  if rank ~= 2 and rank ~= 3 or k:dim() ~= rank or v:dim() ~= rank then
    refuse "%s, %s and %s, all of 3 dimensions (or 2, without a batch) wanted"
  end
  local function turn(x)
    if rank == 2 then return x:unsqueeze(1) end
    return self.batch_first and x or x:transpose(1, 2)
  end
  local a = turn(q)
  local b = rawequal(q, k) and a or turn(k)
  local c = rawequal(k, v) and b or turn(v)
  if b:size(1) ~= a:size(1) or c:size(1) ~= a:size(1) or b:size(2) ~= c:size(2) then
    refuse "%s, %s and %s do not fit each other"
  end
  return a, b, c, function(y)
    if rank == 2 then return y:squeeze(1) end
    return self.batch_first and y or y:transpose(1, 2)
  end
end

local call_names = { "key_padding_mask", "need_weights", "attn_mask", "average_attn_weights",
  "is_causal" }

---@class mrt.nn.MultiheadAttentionCall
---@field key_padding_mask? mrt.Tensor  `[N, S]`: bool, true where a key is not seen; or floats
---  to add
---@field need_weights? boolean   give the probabilities too, default true; without them they
---  are never stored
---@field attn_mask? mrt.Tensor   `[L, S]` or `[N heads, L, S]`, likewise
---@field average_attn_weights? boolean  over the heads, default true
---@field is_causal? boolean      no key behind its query, default false

---@param query mrt.Tensor  `[L, N, E]`, `[N, L, E]` if batch_first, or `[L, E]`
---@param key mrt.Tensor    `[S, N, kdim]` ...
---@param value mrt.Tensor  `[S, N, vdim]` ...
---@param ... any           options: a table, or by place
---@return mrt.Tensor       of query's shape
---@return mrt.Tensor? weights  `[N, L, S]`, of every head `[N, heads, L, S]`
function Attention:forward(query, key, value, ...)
  argument.tensor(NAME, "key", key)
  argument.tensor(NAME, "value", value)
  local o = options.read(NAME, argument.read(NAME, call_names, ...), {
    key_padding_mask = options.of "tensor", need_weights = true,
    attn_mask = options.of "tensor", average_attn_weights = true, is_causal = false })
  local q, k, v, back = batches(self, query, key, value)
  local N, L, S = q:size(1), q:size(2), k:size(2)
  q, k, v = projected(self, q, k, v)
  local function heads(x) return x:reshape(N, x:size(2), self.heads, -1):transpose(2, 3) end
  local y, weights = attend(heads(q), heads(k), heads(v), {
    mask = joint_mask(self, o, N, L, S, q:get_dtype()), causal = o.is_causal,
    dropout = self.training and self.dropout or 0, need_weights = o.need_weights })
  y = back(self.out_proj(y:transpose(2, 3):reshape(N, L, self.dim)))
  if not o.need_weights then return y end
  if o.average_attn_weights then weights = weights:mean(2) end
  return y, query:dim() == 2 and weights:squeeze(1) or weights
end

function Attention:describe() return ("%d, %d heads"):format(self.dim, self.heads) end

return Attention
