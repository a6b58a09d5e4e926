--- pieces.lua -- pieces of a decoder as small programs, for one rank of a mesh
---
--- A rank of `tensor` has its share of heads, of the middle layer and of the vocabulary;
--- what lies between such pieces (norms, residuals, dropout) it does for all tokens, or with
--- sequence parallelism for its share of them.  Each piece is a function of tensors over its
--- own parameters, written in operators of mrt: what it takes is read from its plan
--- (nodes.lua), not from a formula.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"

local pieces = {}

-- Parameters of a dtype, listed as they are made.
local function maker(dtype)
  local list = {}
  return list, function(...)
    local p = mrt.parameter(mrt.zeros({ ... }, { dtype = dtype }))
    list[#list + 1] = p
    return p
  end
end

local function share(of, parts, what, axis)
  if of % parts ~= 0 then
    core.fail("value", "cluster", ("%s: %d, which %d ranks of '%s' do not divide")
      :format(what, of, parts, axis or "tensor"))
  end
  return of // parts
end

local function norm(m, p)
  local weight = p(m.hidden)
  local bias = not m.gated and p(m.hidden) or nil
  if m.gated then return function(x) return (x:rms_norm(weight)) end end
  return function(x) return (x:layer_norm(weight, bias)) end
end

--- x + dropout(y + bias), and its norm.
function pieces.between(m, o)
  local list, p = maker(o.dtype)
  local after = norm(m, p)
  local bias = m.bias and p(m.hidden) or nil
  local shape = { o.rows, o.tokens_between, m.hidden }
  return { parameters = list, shapes = { shape, shape }, f = function(x, y)
    if bias then y = y + bias end
    if o.dropout > 0 then y = y:dropout { p = o.dropout } end
    x = x + y
    return x, after(x)
  end }
end

-- Scores that are stored: a product, their softmax, a product.
local function by_scores(o, q, k, v, width, mask)
  q, k, v = q:permute(1, 3, 2, 4), k:permute(1, 3, 4, 2), v:permute(1, 3, 2, 4)
  if o.fused_softmax then
    q = q * (1 / math.sqrt(width))
    k = q:matmul(k):softmax(-1)
  else -- scaled, masked and normalised by a kernel each
    k = q:matmul(k):to "f32" * (1 / math.sqrt(width))
    k = mask:where(k, -10000):softmax(-1):to(o.dtype)
  end
  if o.dropout > 0 then k = k:dropout { p = o.dropout } end
  return k:matmul(v):permute(1, 3, 2, 4)
end

-- Pairs are turned by a table of angles: two products and a sum, in one kernel.
local function turned(x, table_of)
  if not table_of then return x end
  return x * table_of + x:flip(4) * table_of
end

--- Attention of this rank's heads, the products around it included.
function pieces.attention(m, o)
  local list, p = maker(o.dtype)
  local width = m.hidden // m.heads
  local heads, kv = share(m.heads, o.tensor, "heads"), math.max(1, m.kv_heads // o.tensor)
  local inner = heads * width
  local qkv, out = p(inner + 2 * kv * width, m.hidden), p(m.hidden, inner)
  local bias = m.bias and p(inner + 2 * kv * width) or nil
  local turns = m.gated and p(o.tokens, 1, width) or nil
  local B, T = o.rows, o.tokens
  local stored = o.attention == "scores" and not o.fused_softmax
  return { parameters = list, shapes = { { B, T, m.hidden }, mask = stored and { T, T } },
    eager = stored, f = function(x, mask)
    local all = x:linear(qkv, bias):reshape(B, T, heads + 2 * kv, width)
    local q = turned(all:slice(3, 1, heads), turns)
    local k = turned(all:slice(3, heads + 1, heads + kv), turns)
    local v = all:slice(3, heads + kv + 1, heads + 2 * kv)
    local y
    if o.attention == "scores" then
      y = by_scores(o, q, k, v, width, mask)
    else
      y = q:attention(k, v, { causal = true })
    end
    return y:reshape(B, T, inner):linear(out)
  end }
end

--- The two layers of a perceptron, or three of a gated one.
function pieces.mlp(m, o)
  local list, p = maker(o.dtype)
  local inner = share(m.ffn, o.tensor, "ffn")
  local up, down = p((m.gated and 2 or 1) * inner, m.hidden), p(m.hidden, inner)
  local bias = m.bias and p(inner) or nil
  return { parameters = list, shapes = { { o.rows, o.tokens, m.hidden } }, f = function(x)
    local y = x:linear(up, bias)
    if not m.gated then return y:gelu():linear(down) end
    return (y:slice(3, 1, inner):silu() * y:slice(3, inner + 1, 2 * inner)):linear(down)
  end }
end

--- Who of the experts gets which tokens, whose rows are put in their order; and the sum of
--- what came back for each token.
function pieces.route(m, o)
  local list, p = maker(o.dtype)
  local router = p(m.experts, m.hidden)
  local n = o.rows * o.tokens
  local shape = { n, m.hidden }
  return { parameters = list, shapes = { shape, { n * m.top, m.hidden } }, f = function(x, made)
    local part, expert = x:linear(router):to "f32":softmax(-1):topk(m.top, -1)
    local _, order = expert:reshape(n * m.top):sort()
    local _, back = order:sort()
    local y = made:embedding(back):reshape(n, m.top, m.hidden)
    return x:embedding(order // m.top), (y * part:to(o.dtype):unsqueeze(3)):sum(2)
  end }
end

--- What this rank's experts make of the rows that came, an even share of all; ranks of tensor
--- have pieces of each expert, or compute them whole.
function pieces.experts(m, o)
  local list, p = maker(o.dtype)
  local count = share(m.experts, o.expert or 1, "experts", "expert")
  local inner = o.whole and m.ffn or share(m.ffn, o.tensor, "ffn")
  local gate = m.gated and p(count, m.hidden, inner) or nil
  local up, down = p(count, m.hidden, inner), p(count, inner, m.hidden)
  local shape = { o.rows * o.tokens * m.top, m.hidden }
  return { parameters = list, shapes = { shape, counts = { count } }, f = function(x, counts)
    local y = x:grouped_matmul(up, counts)
    y = gate and x:grouped_matmul(gate, counts):silu() * y or y:gelu()
    return y:grouped_matmul(down, counts)
  end }
end

--- Rows of the table, positions added.
function pieces.embedding(m, o)
  local list, p = maker(o.dtype)
  local rows = p(o.vocab, m.hidden)
  local positions = not m.gated and p(o.tokens, m.hidden) or nil
  return { parameters = list, shapes = { ids = { o.rows, o.tokens } }, f = function(ids)
    local x = rows:embedding(ids)
    if positions then x = x + positions end
    return o.dropout > 0 and x:dropout { p = o.dropout } or x
  end }
end

-- Megatron's loss of a vocabulary in pieces: a kernel for each step, in f32.  What it looks
-- up of the logits is too little to count.
local function by_steps(logits)
  local x = logits:to "f32"
  x = x - x:max(-1, true):detach()
  return x:exp():sum(-1):log():mean()
end

-- PyTorch's: rounded to f32, then one kernel each way.
local function by_softmax(logits)
  return logits:to "f32":log_softmax(-1)
end

--- Logits of this rank's share of the vocabulary, and their loss.
function pieces.head(m, o)
  local list, p = maker(o.dtype)
  local rows = p(o.vocab, m.hidden)
  local n = o.rows * o.tokens
  local shapes = { { o.rows, o.tokens, m.hidden }, ids = o.loss == "fused" and { n } or nil }
  return { parameters = list, wide = true, eager = o.loss ~= "fused", shapes = shapes,
    f = function(x, ids)
      local logits = x:linear(rows):reshape(n, o.vocab)
      if o.loss == "steps" then return by_steps(logits) end
      if o.loss == "softmax" then return by_softmax(logits) end
      return logits:to "f32":cross_entropy(ids)
    end }
end

return pieces
