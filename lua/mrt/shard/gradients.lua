--- gradients.lua -- gradients behind which a bucket stands
---
--- What mrt.grad hands back of a bucket's parameters are views of the bucket's
--- gradient, gathered if somebody reads them.  Who works element by element, on
--- norms or on updates looks behind them instead.
---
--- SPDX-License-Identifier: MIT

local Bucket = require "mrt.shard.bucket"
local core = require "mrt.core"

local op = core.op

local gradients = {}

local behind = setmetatable({}, { __mode = "k" }) -- by gradient: {bucket, index, flat}

--- A gradient as handed back: whole for who reads it, with what stands behind it.
---@param b mrt.Bucket
---@param i integer           of the parameter in it
---@param flat mrt.Tensor     of the bucket: all pieces, of stages from 1 on this rank's
---@param whole mrt.Tensor    all pieces
---@return mrt.Tensor
function gradients.hand(b, i, flat, whole)
  local g = b:view(whole, i)
  behind[g] = { bucket = b, index = i, flat = flat }
  return g
end

--- All pieces, for whoever reads them.
---@param b mrt.Bucket
---@param flat mrt.Tensor
---@return mrt.Tensor
function gradients.whole(b, flat) return b.stage == 0 and flat or b:gather(flat) end

--- Do the same, element by element, to gradients, in pieces where they are so.
---@param next function  does it to others
---@param grads mrt.Tensor[]
---@param fn fun(g: mrt.Tensor): mrt.Tensor
---@return mrt.Tensor[]
function gradients.map(next, grads, fn)
  local out, done = {}, {}
  for k, g in ipairs(grads) do
    local a = behind[g]
    if a then
      local made = done[a.flat]
      if not made then
        local flat = fn(a.flat)
        made = { flat, gradients.whole(a.bucket, flat) }
        done[a.flat] = made
      end
      out[k] = gradients.hand(a.bucket, a.index, made[1], made[2])
    else
      out[k] = next({ g }, fn)[1]
    end
  end
  return out
end

-- How long a vector's blocks are.
local function lengths(flat)
  local blocks = op.reshape(flat, { flat:numel() // Bucket.BLOCK, Bucket.BLOCK })
  return op.row_norm(flat:get_dtype() == "f64" and blocks or op.cast(blocks, "f32"))
end

-- The same of a tensor by itself, filled up with 0.
local function own_lengths(g)
  local n = g:numel()
  local flat = op.reshape(g, { n })
  local more = -n % Bucket.BLOCK
  return lengths(more == 0 and flat
    or op.cat({ flat, op.full { shape = { more }, value = 0, dtype = g:get_dtype() } }, 1))
end

--- The sum of the squares of gradients, where buckets stand behind some of them: of
--- how long blocks of 256 elements are, which are added up in f64 and rounded to f32,
--- then over all blocks, in the order of the gradients, in f64.  So its bits depend
--- neither on who has them nor on buckets, and nothing overflows or vanishes on the way.
---@param grads mrt.Tensor[]
---@return mrt.Tensor? sum   scalar f64; nil: no bucket stands behind any
function gradients.squares(grads)
  local any, of, list = false, {}, {}
  for _, g in ipairs(grads) do any = any or behind[g] ~= nil end
  if not any then return nil end
  for k, g in ipairs(grads) do
    local a = behind[g]
    if a then
      of[a.flat] = of[a.flat] or gradients.whole(a.bucket, lengths(a.flat))
      local first, n = a.bucket.offsets[a.index], g:numel()
      list[k] = Bucket.slice(of[a.flat], first // Bucket.BLOCK,
        (first + n + Bucket.BLOCK - 1) // Bucket.BLOCK)
    else
      list[k] = own_lengths(g)
    end
    list[k] = op.cast(list[k], "f64")
  end
  local all = op.cat(list, 1)
  return op.sum(op.mul(all, all))
end

--- What was handed back for all of a bucket, or this rank's piece of what came of it.
---@param b mrt.Bucket
---@param grads mrt.Tensor[]  of its parameters
---@return mrt.Tensor
function gradients.piece(b, grads)
  local flat
  for i in ipairs(b.params) do
    local a = grads[i] and behind[grads[i]]
    if not a or a.bucket ~= b or flat and a.flat ~= flat then flat = nil break end
    flat = a.flat
  end
  return flat or b:own(b:flatten(grads, b.params[1]:get_dtype()))
end

return gradients
