--- models_spec.lua -- whole models against the formulas they are made of
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local nn = mrt.nn

local function near(wanted, got, tolerance)
  local difference = (wanted - got):abs():amax():item()
  local size = wanted:abs():amax():item()
  assert.is_true(difference <= tolerance * size,
    ("differs by %g of %g"):format(difference, size))
end

local function tokens(vocab, B, T)
  local ids = mrt.randint(0, vocab, { B, T }, { dtype = "i32" })
  mrt.eval(ids)
  return ids
end

describe("Llama", function()
  local model

  setup(function()
    mrt.seed(5)
    model = nn.Llama { vocab = 11, dim = 24, layers = 2, heads = 4, kv_heads = 2,
      context = 8 }
  end)

  -- One layer with nothing fused: keys and values repeated, scores stored.
  local function layer(block, x)
    local B, T, C, width = x:size(1), x:size(2), x:size(3), 6
    local function norm(y, weight)
      return y / ((y * y):mean(3, true) + 1e-5):sqrt() * weight
    end
    local h = norm(x, block.norm1.weight)
    local function heads(linear, count)
      return h:matmul(linear.weight:t()):reshape(B, T, count, width)
    end
    local at = block.attention
    local q = heads(at.q, 4):rope():transpose(2, 3)
    local function shared(y)  -- each of two heads for two of q
      return y:reshape(B, T, 2, 1, width):expand(B, T, 2, 2, width)
        :reshape(B, T, 4, width):transpose(2, 3)
    end
    local k, v = shared(heads(at.k, 2):rope()), shared(heads(at.v, 2))
    local scores = q:matmul(k:transpose(3, 4)) / math.sqrt(width)
    local row, column = mrt.arange(T):reshape(T, 1), mrt.arange(T):reshape(1, T)
    local p = mrt.where(column:le(row), scores, -1e30):softmax(4)
    local y = p:matmul(v):transpose(2, 3):reshape(B, T, C)
    x = x + y:matmul(at.proj.weight:t())
    h = norm(x, block.norm2.weight)
    local gate = h:matmul(block.mlp.gate.weight:t())
    local up = h:matmul(block.mlp.up.weight:t())
    return x + (gate * gate:sigmoid() * up):matmul(block.mlp.down.weight:t())
  end

  it("computes what its formulas say", function()
    local ids = tokens(11, 3, 8)
    local x = model.tokens(ids)
    for _, block in ipairs(model.blocks) do x = layer(block, x) end
    x = x / ((x * x):mean(3, true) + 1e-5):sqrt() * model.norm.weight
    near(x:matmul(model.head.weight:t()), model(ids), 1e-4)
  end)

  it("sees no later token, and may share its table", function()
    local ids = tokens(11, 1, 8)
    local other = mrt.cat({ ids:slice(2, 1, 7), 10 - ids:slice(2, 8, 8) }, 2)
    assert.equal(model(ids):slice(2, 1, 7):bytes(),
      model(other):slice(2, 1, 7):bytes())
    local tied = nn.Llama { vocab = 11, dim = 24, layers = 2, heads = 4,
      kv_heads = 2, context = 8, tie = true }
    assert.equal(model:count() - 11 * 24, tied:count())
  end)

  it("refuses what does not divide, and more than its context", function()
    local function make(changes)
      local o = { vocab = 11, dim = 24, layers = 1, heads = 4, context = 8 }
      for k, v in pairs(changes) do o[k] = v end
      return nn.Llama(o)
    end
    assert.error_matches(function() make { kv_heads = 3 } end, "kv_heads 3")
    assert.error_matches(function() make { heads = 8 } end, "even width")
    assert.error_matches(function() make { layers = 0 } end, "layers")
    assert.error_matches(function() model(tokens(11, 1, 9)) end, "context = 8")
  end)
end)
