--- pack_spec.lua -- samples side by side in a row compute what they do apart
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local finetune = require "mrt.finetune"
local pack = require "mrt.finetune.pack"
local random = require "mrt.data.random"
local step = require "mrt.finetune.step"
local tiny = require "finetune.tiny"

-- Samples of random bytes, some of which are learned.
local function samples_of(lengths, seed)
  local rng, out = random.new(seed), {}
  for i, n in ipairs(lengths) do
    local ids = {}
    for k = 1, n do ids[k] = string.pack("<i4", rng:integer(128)) end
    local first = 2 + rng:integer(n - 1)
    out[i] = { ids = table.concat(ids),
      learn = i % 3 > 0 and { first, math.min(n, first + rng:integer(n)) } or nil }
  end
  return out
end

local lengths = { 5, 17, 3, 9, 30, 2, 12, 8 }

describe("rows", function()
  it("have every sample once, and are as full as the lengths allow", function()
    local samples = samples_of(lengths, 1)
    local rows, seen = pack.rows(samples, 32, 5), {}
    for _, row in ipairs(rows) do
      local positions = 0
      for _, sample in ipairs(row) do
        assert.is_nil(seen[sample])
        seen[sample], positions = true, positions + #sample.ids // 4 - 1
      end
      assert.is_true(positions <= 32)
    end
    for _, sample in ipairs(samples) do assert.is_true(seen[sample]) end
    assert.equal(3, #rows)
  end)

  it("come in an order of the seed", function()
    local function first(seed)
      local loader = finetune.loader(samples_of(lengths, 1),
        { batch = 1, context = 32, seed = seed })
      return loader:next():bytes()
    end
    assert.equal(first(1), first(1))
    local all = { [first(1)] = true, [first(2)] = true, [first(3)] = true, [first(4)] = true }
    assert.is_truthy(next(all, next(all)))
  end)

  it("that do not fill a mini-batch are refused by their number", function()
    local ok, err = pcall(finetune.loader, samples_of({ 5, 4 }, 1), { batch = 2, context = 32 })
    assert.is_false(ok)
    assert.matches("2 samples fill 1 rows of 32 positions, a mini%-batch has 2", err.message)
  end)
end)

-- The loss and gradients of all samples in one batch.
local function computed(model, samples, o)
  local loader = finetune.loader(samples, { batch = o.batch, context = 32, pack = o.pack,
    shuffle = false, fill = true })
  local batch = table.pack(loader:next())
  local loss = step.loss(model, table.unpack(batch, 1, batch.n))
  local list = { loss, table.unpack(mrt.grad(loss, model:parameters())) }
  mrt.eval(list)
  return list
end

describe("a packed batch", function()
  for name, changes in pairs {
    ["rotary positions"] = {},
    ["learned positions"] = { positions = "learned", norm = "layer" },
    ["windows"] = { windows = 4 },
    ["dynamic frequencies"] = { rope = { scaling = { kind = "dynamic", factor = 2.0,
      original = 64 } } },
  } do
    it("has the loss and gradients of its samples apart, with " .. name, function()
      local model = tiny.model(changes)
      local samples = samples_of(lengths, 7)
      local packed = computed(model, samples, { batch = 3, pack = true })
      local apart = computed(model, samples, { batch = 8, pack = false })
      for i, x in ipairs(packed) do
        local scale = apart[i]:abs():max():item()
        assert.is_true((x - apart[i]):abs():max():item() <= 2e-5 * scale + 1e-9, tostring(i))
      end
    end)
  end

  it("learns completions alone: other targets do not count", function()
    local model = tiny.model()
    local data = { ids = tiny.tokenizer:pack "question: answer", learn = { 11, 16 } }
    local loader = finetune.loader({ data }, { batch = 1, context = 32 })
    local tokens, targets, segments, positions = loader:next()
    local loss = step.loss(model, tokens, targets, segments, positions):item()
    local losses = mrt.nn.cross_entropy(model(tokens), targets:maximum(0),
      { reduction = "none" }):totable()[1]
    local sum = 0
    for i = 10, 15 do sum = sum + losses[i] end
    assert.near(sum / 6, loss, 1e-5)
    assert.same({ -100, 97, -100 }, { targets:totable()[1][9], targets:totable()[1][10],
      targets:totable()[1][16] })
  end)
end)
