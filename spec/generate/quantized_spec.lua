-- quantized_spec.lua -- models in few bits generate what they compute without a cache

local mrt = require "mrt"
local nn = mrt.nn

local function size(x) return x:to "f32":abs():max():item() end

local function decoder(tie)
  mrt.seed(6)
  return nn.Decoder { vocab = 96, dim = 64, layers = 2, heads = 4, kv_heads = 2, context = 48,
    hidden = 96, tie = tie }:eval()
end

local function plainly(model, ids, count)
  ids = { table.unpack(ids) }
  for _ = 1, count do
    local logits = model(mrt.tensor({ ids }, "i32"))
    ids[#ids + 1] = logits:slice(2, #ids, #ids):reshape(-1):argmax(1):item()
  end
  return table.move(ids, #ids - count + 1, #ids, 1, {})
end

local function cached(model, ids, count)
  return model:generate { prompt = ids, count = count, temperature = 0, eos = false }:ids()
end

describe("a quantised model", function()
  it("reads one table for tokens and head, and generates with a cache", function()
    for _, kind in ipairs { "nf4", "int8", "q4_0", "q4_0/int8" } do
      local activations = kind:match "/(.*)"
      local model = decoder(true)
      local before, ids = mrt.eval(model(mrt.tensor({ { 1, 2, 3 } }, "i32"))), { 5, 17, 3, 44, 8 }
      nn.quantize(model, { kind = kind:match "^[^/]+", embeddings = true,
        activations = activations })
      assert.equal("QuantizedEmbedding", model.tokens.type)
      local rows = model.tokens(mrt.tensor({ 3, 90 }, "i32"))
      local all = model.tokens.rows:weights()
      assert.equal(0, size(rows - mrt.cat({ all:slice(1, 4, 4), all:slice(1, 91, 91) }, 1)))
      local after = model(mrt.tensor({ { 1, 2, 3 } }, "i32"))
      assert.is_true(size(after - before) < 0.25 * size(before), kind)
      assert.same(plainly(model, ids, 10), cached(model, ids, 10))
      local bytes = 0
      for _, x in pairs(model:state()) do bytes = bytes + x:nbytes() end
      assert.equal(bytes, model:generate { prompt = ids }:plan().weights)
    end
  end)

  it("keeps the dtype of narrow activations, and tables of positions", function()
    local model = nn.GPT { vocab = 64, dim = 32, layers = 1, heads = 2, context = 16 }:to "bf16"
    nn.quantize(model, { kind = "int8", embeddings = true })
    assert.equal("Embedding", model.positions.type)
    local logits = model:eval()(mrt.tensor({ { 1, 2, 3 } }, "i32"))
    assert.equal("bf16", logits.dtype)
    assert.equal(4, #cached(model, { 1, 2 }, 4))
  end)

  it("has adapters, merged or not", function()
    local model, ids = decoder(false), { 5, 17, 3 }
    nn.quantize(model, { kind = "nf4", embeddings = true, except = "^head" })
    nn.lora(model, { rank = 2, layers = { "q$", "down$" } })
    for name, x in pairs(nn.lora.state(model)) do
      if name:find "b$" then x:assign(mrt.randn(x:size(1), x:size(2)) * 0.3) end
    end
    model:eval()
    local wanted = plainly(model, ids, 12)
    assert.same(wanted, cached(model, ids, 12))
    nn.lora.merge(model)
    assert.same(wanted, cached(model, ids, 12))
  end)
end)
