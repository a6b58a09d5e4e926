--- find_spec.lua -- the search over meshes: nothing that was tried is quicker, policies load
---
--- SPDX-License-Identifier: MIT

local files = require "support.files"
local mrt = require "mrt"
local policy_file = require "mrt.cluster.find.policy_file"
local script = require "mrt.policy.script"

local small = { layers = 4, hidden = 256, heads = 8, vocab = 1024, seq = 256 }

local function message_of(f, ...)
  local ok, problem = pcall(f, ...)
  assert.is_false(ok)
  return problem.message
end

describe("Cluster:find", function()
  local cluster = mrt.cluster "dgx-a100:16"
  local found = cluster:find { model = small, batch = 64 }

  it("finds what no candidate that fits beats, by the model", function()
    local runs = 0
    for _, c in ipairs(found.candidates) do
      local seconds = cluster:step { model = small, mesh = c.mesh, rows = c.rows,
        micros = c.micros, chunks = c.chunks, zero = c.zero, recompute = c.recompute }
      assert.is_true(c.least <= seconds * (1 + 1e-9))
      if c.over <= 0 then assert.is_true(found.best.seconds <= seconds * (1 + 1e-9)) end
      runs = runs + 1
    end
    assert.equal(found.tried, runs)
    assert.is_true(runs > 100 and found.run < runs)
  end)

  it("has a front in which more memory is quicker, that ends with the best", function()
    for i = 2, #found.front do
      assert.is_true(found.front[i].memory.peak >= found.front[i - 1].memory.peak)
      assert.is_true(found.front[i].seconds < found.front[i - 1].seconds)
    end
    assert.equal(found.best, found.front[#found.front])
  end)

  it("takes smaller memory into account, and says what does not fit", function()
    local least = math.huge
    for _, c in ipairs(found.candidates) do least = math.min(least, c.memory.peak) end
    local reserved = require "mrt.cluster.find.memory".reserved
    local tight = cluster:find { model = small, batch = 64, memory = reserved + least * 1.5 }
    assert.is_true(tight.best.memory.peak <= least * 1.5)
    assert.is_true(tight.best.seconds >= found.best.seconds)
    local none = cluster:find { model = small, batch = 64, memory = reserved + least / 2 }
    assert.is_nil(none.best)
    assert.equal(0, #none.front)
    assert.is_true(none.rivals[1].over > 0)
  end)

  it("puts moments into the host's memory where nothing fits without", function()
    local least, reserved = math.huge, require "mrt.cluster.find.memory".reserved
    for _, c in ipairs(found.candidates) do least = math.min(least, c.memory.peak) end
    local tight = cluster:find { model = small, batch = 64, memory = reserved + least * 0.9 }
    local best = tight.best
    assert.equal("state", best.offload)
    assert.is_true(best.memory.peak <= least * 0.9 and best.memory.host <= cluster.swap.memory)
    local text = policy_file.text(best, "dgx-a100:16")
    assert.is_function(assert(script.load(files.temporary(text))).swap)
    local job = { model = small, mesh = best.mesh, rows = best.rows, micros = best.micros,
      chunks = best.chunks, zero = best.zero, recompute = best.recompute }
    local without = cluster:step(job)
    job.offload = "state"
    local with, told = cluster:step(job)
    assert.is_true(with >= without)
    local moved = 8 * told.stages[best.memory.stage].parameters
      / (best.zero > 0 and best.mesh.data * best.mesh.context or 1)
    assert.is_true(told.update >= moved / cluster.swap.bandwidth * 0.999)
    local box = mrt.cluster "box-4090:16"
    assert.matches("no figure for 'swap' of box%-4090", message_of(box.step, box, job))
  end)

  it("writes each candidate as a policy that mrt.compile takes", function()
    local seen = {}
    for _, c in ipairs(found.candidates) do
      c.seconds = c.seconds or c.least
      local text = policy_file.text(c, "dgx-a100:16")
      local kind = ("%d %s %d %d"):format(c.zero, c.recompute, math.min(c.chunks, 2),
        math.min(c.mesh.pipeline, 2))
      if not seen[kind] then
        seen[kind] = true
        local options = assert(script.load(files.temporary(text)))
        local mesh = require "mrt.mesh".read(options.mesh)
        for _, axis in ipairs { "tensor", "context", "data", "pipeline" } do
          assert.equal(c.mesh[axis], mesh.size[axis])
        end
        assert.equal(c.micros > 1 and c.micros or nil, options.accumulate)
      end
    end
  end)

  it("refuses what nothing divides", function()
    assert.matches("no mesh of 16 ranks divides 7 sequences", message_of(cluster.find, cluster,
      { model = { layers = 1, hidden = 256, heads = 1, vocab = 1024, seq = 256 }, batch = 7 }))
    assert.matches("batch: a positive integer wanted", message_of(cluster.find, cluster,
      { model = small }))
    assert.matches("model.heads: a positive integer", message_of(cluster.find, cluster,
      { model = { layers = 1, hidden = 8 }, batch = 8 }))
  end)
end)

describe("Cluster:find of experts", function()
  local cluster = mrt.cluster "dgx-h100:16"
  local model = { layers = 4, hidden = 256, heads = 8, vocab = 1024, seq = 256, ffn = 512,
    gated = true, experts = 8, top = 2, shared = 128 }

  it("shares them over ranks with rows of their own, and none that fits is quicker", function()
    local found = cluster:find { model = model, batch = 64 }
    local shared = 0
    for _, c in ipairs(found.candidates) do
      local m = c.mesh
      assert.equal(16, m.tensor * m.context * m.expert * m.data * m.pipeline)
      local job = { model = model, mesh = m, rows = c.rows, micros = c.micros, chunks = c.chunks,
        zero = c.zero, recompute = c.recompute }
      local seconds = cluster:step(job)
      assert.is_true(c.least <= seconds * (1 + 1e-9))
      if c.over <= 0 then assert.is_true(found.best.seconds <= seconds * (1 + 1e-9)) end
      if m.expert > 1 then
        shared = shared + 1
        assert.matches(("expert = %d"):format(m.expert), policy_file.text(c, "dgx-h100:16"))
        job.as_mrt = true
        assert.is_true(cluster:step(job) >= seconds)
      end
    end
    assert.is_true(shared > 100)
  end)

  it("counts what a rank has of them", function()
    local stack, router = 3 * 256 * 512, 8 * 256
    for _, mesh in ipairs { { data = 16 }, { expert = 4, data = 4 }, { expert = 8, data = 2 },
      { expert = 4, tensor = 2, data = 2 } } do
      local _, told = cluster:step { model = model, mesh = mesh, zero = 1 }
      local tensor, own = mesh.tensor or 1, told.stages[1]
      assert.equal(4 * 8 * stack // ((mesh.expert or 1) * tensor), own.experts)
      local besides = 4 * (router + 3 * 256 * 128 // tensor + 4 * 256 * 256 // tensor + 2 * 256)
      local turns = 4 * 256 * 32 -- angles, which pieces of attention have
      assert.equal(besides + turns + 2 * 1024 * 256 // tensor, own.parameters) -- untied
    end
  end)

  it("tells what does not divide", function()
    local function message(o)
      o.model, o.zero = setmetatable(o.model or {}, { __index = model }), 1
      return message_of(cluster.step, cluster, o)
    end
    assert.matches("mesh.expert: 16, of a model with 8 experts", message { mesh = { expert = 16 } })
    assert.matches("model.top: 9 of 8 experts", message { model = { top = 9 },
      mesh = { data = 16 } })
  end)
end)

describe("the shape of a decoder", function()
  it("is read from the plan of its step", function()
    local shape = require "mrt.cluster.find.shape"
    local function of(model, vocab)
      local params = model:parameters()
      local opt = mrt.optim.adamw(params)
      local step = mrt.compile(function(x, y)
        local loss = mrt.nn.cross_entropy(model(x), y)
        opt:step(mrt.grad(loss, params))
        return loss
      end)
      local ids = mrt.zeros({ 2, 16 }, { dtype = "i64" })
      local m = shape.of(step:plan(ids, ids))
      assert.equal(vocab, m.vocab)
      return m
    end
    local gpt = of(mrt.nn.GPT { vocab = 200, dim = 32, layers = 3, heads = 4, context = 16 }, 200)
    assert.same({ layers = 3, rows = 2, seq = 16, heads = 4, kv_heads = 4, hidden = 32, ffn = 128,
      gated = false, vocab = 200 }, gpt)
    for _, gated in ipairs { true, false } do
      local experts = of(mrt.nn.Decoder { vocab = 200, dim = 32, layers = 3, heads = 4,
        kv_heads = 2, context = 16, hidden = 80, gated = gated,
        experts = { count = 4, top = 2, hidden = 24, shared = 20 } }, 200)
      assert.same({ layers = 3, rows = 2, seq = 16, heads = 4, kv_heads = 2, hidden = 32, ffn = 24,
        gated = gated, vocab = 200, experts = 4, top = 2, shared = 20 }, experts)
    end
    local plain = mrt.nn.Sequential(mrt.nn.Linear(4, 4))
    local step = mrt.compile(function(x) return plain(x):sum() end)
    assert.is_nil(shape.of(step:plan(mrt.ones(2, 4))))
  end)
end)
