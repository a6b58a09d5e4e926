--- sampler.lua -- the next token of each row, from its logits
---
--- All of it is operators of the step that computes the logits, so no vocabulary is
--- ever looked at in Lua.  Which of the filters there are is part of the plan; their
--- numbers are inputs of it, but for `top_k`.  They apply in the order that
--- transformers has: penalties, temperature, top_k, top_p, min_p.
---
--- A token is drawn by its place in the cumulative sum of what is left: the number
--- drawn for it, from [0, 1), is the caller's (draws.lua), so that the same seed
--- gives the same text in every batch.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"

local sampler = {}

--- What a plan depends on: which filters there are.
---@class mrt.generate.Kind
---@field greedy boolean    the likeliest, and nothing of what follows but the penalty
---@field top_k integer     0: all
---@field top_p boolean
---@field min_p boolean
---@field penalty boolean
---@field counts boolean    is there a presence or frequency penalty?

--- The numbers of the filters, as an input of the plan.
---@param o {temperature: number, top_p: number?, min_p: number?,
---  repetition_penalty: number?, presence_penalty: number?, frequency_penalty: number?}
---@return mrt.Tensor  f32 `[6]`
function sampler.numbers(o)
  return mrt.tensor({ o.temperature, o.top_p or 1, o.min_p or 0, o.repetition_penalty or 1,
    o.presence_penalty or 0, o.frequency_penalty or 0 }, "f32")
end

---@param o table  as numbers takes, and top_k
---@param vocab integer
---@return mrt.generate.Kind
function sampler.kind(o, vocab)
  local greedy = o.temperature == 0
  local function is(value, none) return value ~= nil and value ~= none end
  local top_k = not greedy and o.top_k and o.top_k < vocab and o.top_k or 0
  return { greedy = greedy, top_k = top_k,
    top_p = not greedy and is(o.top_p, 1), min_p = not greedy and is(o.min_p, 0),
    penalty = is(o.repetition_penalty, 1),
    counts = is(o.presence_penalty, 0) or is(o.frequency_penalty, 0) }
end

-- Keskar et al. 2019 (arXiv:1909.05858): logits of tokens that are there already
-- become smaller by a factor.  Places behind the end count as the first token.
local function penalised(logits, penalty, history, length)
  local n = history:size(2)
  local there = mrt.arange(0, n, { dtype = "i32" }):unsqueeze(1):lt(length:unsqueeze(2))
  local ids = mrt.where(there, history, history:slice(2, 1, 1)):to "i64"
  local own = logits:gather(2, ids)
  own = mrt.where(own:gt(0), own / penalty, own * penalty)
  return logits:scatter(2, ids, own)
end

-- Logits of tokens that have been generated become less, once and for each time; the prompt,
-- which ends at `begin`, does not count.  As OpenAI's and vLLM's interfaces have it.
local function counted(logits, once, each, history, length, begin)
  local places = mrt.arange(0, history:size(2), { dtype = "i32" }):unsqueeze(1)
  local there = places:lt(length:unsqueeze(2)):logical_and(places:ge(begin:unsqueeze(2)))
  local ids = mrt.where(there, history, 0):to "i64"
  local counts = (logits * 0):scatter_add(2, ids, there:to "f32")
  return logits - counts * each - counts:gt(0):to "f32" * once
end

-- Positions in the rows of `weights` that numbers in [0, 1) choose.
local function chosen(weights, drawn)
  local sums = weights:cumsum(2)
  local total = sums:slice(2, sums:size(2), sums:size(2))
  local passed = sums:le(drawn:unsqueeze(2) * total):logical_and(sums:lt(total))
  return passed:to "i32":sum(2, true)
end

-- Weights of tokens in descending order, without those that are filtered out.
local function filtered(p, kind, top_p, min_p)
  local kept
  if kind.top_p then
    local total = p:sum(2, true)
    kept = (p:cumsum(2) - p):le(total * top_p) -- the first always
  end
  if kind.min_p then
    local enough = p:ge(p:slice(2, 1, 1) * min_p)
    kept = kept and kept:logical_and(enough) or enough
  end
  return kept and mrt.where(kept, p, 0) or p
end

--- The next token of each row.
---@param logits mrt.Tensor  `[B,V]`
---@param kind mrt.generate.Kind
---@param numbers mrt.Tensor  as sampler.numbers gives
---@param drawn mrt.Tensor?   f32 `[B]` in [0, 1), unless greedy
---@param history? mrt.Tensor  i32 `[B,S]`: tokens so far, for the penalty
---@param length? mrt.Tensor   i32 `[B]`: how many
---@param begin? mrt.Tensor    i32 `[B]`: how many of them were given
---@return mrt.Tensor ids     i32 `[B]`
function sampler.next(logits, kind, numbers, drawn, history, length, begin)
  local function number(i) return numbers:slice(1, i, i) end
  logits = logits:to "f32"
  if kind.penalty then logits = penalised(logits, number(4), history, length) end
  if kind.counts then
    logits = counted(logits, number(5), number(6), history, length, begin)
  end
  if kind.greedy then return logits:argmax(2):to "i32" end
  logits = logits / number(1)
  local ids
  if kind.top_k > 0 then
    logits, ids = logits:topk(math.min(kind.top_k, logits:size(2)), 2)
  elseif kind.top_p then
    logits, ids = logits:sort(2, true)
  elseif kind.min_p then
    local p = logits:softmax(2)
    p = mrt.where(p:ge(p:amax(2, true) * number(3)), p, 0)
    return chosen(p, drawn):reshape(-1):to "i32"
  end
  local p = filtered(logits:softmax(2), kind, number(2), number(3))
  local place = chosen(p, drawn):to "i64"
  if ids then place = ids:gather(2, place) end
  return place:reshape(-1):to "i32"
end

return sampler
