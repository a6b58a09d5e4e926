--- cluster_spec.lua -- clusters that are there, clusters that users write, steps on them
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local kernels = require "mrt.cluster.kernels"
local nodes = require "mrt.cluster.nodes"

local function good()
  return { name = "lab", devices = 16,
    device = { name = "X", units = 100, memory = 80e9, bandwidth = 2e12,
      flops = { f32 = 20e12, bf16 = 300e12 } },
    levels = { { name = "in", size = 8, bandwidth = 200e9, latency = 3e-6 },
      { name = "out", bandwidth = 20e9, latency = 1e-5 } } }
end

describe("a cluster", function()
  it("is named, with so many devices", function()
    local c = mrt.cluster "dgx-h100:128"
    assert.equal(128, c.devices)
    assert.equal("dgx-h100", c.name)
    assert.is_true(c.device.flops.bf16 > 9e14)
  end)

  it("is each of those listed, and all their figures are there", function()
    for name in pairs(mrt.cluster.list()) do
      local c = mrt.cluster(name .. ":64")
      assert.is_true(c:collective("allreduce", 1e6) > 0)
      assert.is_true(c.device.memory > 0 and c.device.bandwidth > 0 and c.host.forward > 0)
    end
  end)

  it("of one's own is read", function()
    assert.equal(16, mrt.cluster(good()).devices)
    assert.is_true(mrt.cluster(good()):collective("allgather", 1e9) > 0)
  end)

  local bad = {
    { "no device", function(c) c.device = nil end, "lab: no figure for 'device'" },
    { "no memory", function(c) c.device.memory = nil end, "no figure for 'device.memory'" },
    { "no flop/s", function(c) c.device.flops = {} end, "no figure for 'device.flops.bf16'" },
    { "no links", function(c) c.levels = {} end, "no figure for 'levels'" },
    { "no bandwidth", function(c) c.levels[2].bandwidth = nil end,
      "no figure for 'levels%[2%].bandwidth'" },
    { "no size", function(c) c.levels[1].size = nil end, "'levels%[1%].size'" },
    { "a bandwidth below 0", function(c) c.levels[1].bandwidth = -1 end,
      "'levels%[1%].bandwidth': a positive number wanted" },
    { "less than no oversubscription", function(c) c.levels[2].oversubscription = 0.5 end,
      "oversubscription': 1 or more wanted" },
    { "a like that there is not", function(c) c.like = "x" end, "like 'x', which there is not" },
    { "no devices", function(c) c.devices = 0 end, "one or more, wanted" },
  }
  for _, row in ipairs(bad) do
    it("with " .. row[1] .. " is refused", function()
      local c = good()
      row[2](c)
      assert.error_matches(function() mrt.cluster(c) end, row[3])
    end)
  end

  it("that there is not is refused with those that there are", function()
    assert.error_matches(function() mrt.cluster "dgx-z9:8" end, "no cluster 'dgx%-z9' .*dgx%-a100")
  end)
end)

describe("the nodes of a piece", function()
  local m = { hidden = 64, heads = 4, kv_heads = 4, ffn = 256, bias = true, gated = false }
  local o = { dtype = "bf16", dropout = 0.1, rows = 2, tokens = 32, tokens_between = 32, tensor = 2,
    vocab = 64, attention = "scores", fused_softmax = true, loss = "steps" }

  it("come from its plan: products with the shapes of a rank", function()
    local list, sizes = nodes.of("mlp", m, o)
    local forward, backward = {}, 0
    for _, node in ipairs(list) do
      if node.kind == "product" and node.phase == "forward" then
        forward[#forward + 1] = ("%d %d %d"):format(node.m, node.n, node.k)
      end
      if node.kind == "product" and node.phase == "backward" then
        backward = backward + node.flops
      end
    end
    assert.same({ "64 128 64", "64 64 128" }, forward) -- 2 x 32 tokens, 256 / 2 columns
    assert.equal(4 * 2 * 64 * 128 * 64, backward)
    assert.same({ 128 * 64, 64 * 128, 128 }, sizes)
  end)

  it("have a product for each head where scores are stored, none where they are not", function()
    local function batched(attention)
      local n = 0
      local share = setmetatable({}, { __index = o })
      for k, v in pairs(o) do share[k] = v end
      share.attention = attention
      for _, node in ipairs((nodes.of("attention", m, share))) do
        if node.kind == "product" and node.count > 1 then n = n + 1 end
      end
      return n
    end
    assert.equal(6, batched "scores") -- two forward, four backward
    assert.equal(0, batched "fused")
  end)
end)

describe("a product", function()
  local device = mrt.cluster "dgx-a100".device
  local function seconds(m, n, k)
    return kernels.seconds(device, { kind = "product", m = m, n = n, k = k, count = 1,
      dtype = "bf16", flops = 2 * m * n * k, bytes = 2 * (m * n + n * k + m * k), weight = true })
  end

  it("is at no more than the device's peak", function()
    for _, n in ipairs { 64, 1000, 8192 } do
      assert.is_true(2 * n ^ 3 / seconds(n, n, n) < device.flops.bf16)
    end
  end)
  it("of more rows is never quicker", function()
    local last = 0
    for m = 128, 8192, 128 do
      local now = seconds(m, 4096, 1024)
      assert.is_true(now >= last - 1e-12)
      last = now
    end
  end)
end)

describe("a step", function()
  local model = { layers = 4, hidden = 1024, heads = 16, vocab = 50257, seq = 1024 }
  local function step(name, job)
    job.model, job.software = job.model or model, job.software or "megatron"
    return (mrt.cluster(name):step(job))
  end

  it("of more layers, rows or micro-batches takes longer", function()
    local base = step("dgx-a100:8", { mesh = { tensor = 2, data = 4 }, rows = 4, micros = 4 })
    local deeper = { layers = 8, hidden = 1024, heads = 16, vocab = 50257, seq = 1024 }
    assert.is_true(base < step("dgx-a100:8", { model = deeper, mesh = { tensor = 2, data = 4 },
      rows = 4, micros = 4 }))
    assert.is_true(base < step("dgx-a100:8", { mesh = { tensor = 2, data = 4 }, rows = 8,
      micros = 4 }))
    assert.is_true(base < step("dgx-a100:8", { mesh = { tensor = 2, data = 4 }, rows = 4,
      micros = 8 }))
  end)

  it("that recomputes takes longer", function()
    local job = { mesh = { data = 8 }, rows = 8, micros = 2 }
    local kept = step("dgx-a100:8", job)
    job.recompute = "full"
    assert.is_true(step("dgx-a100:8", job) > 1.1 * kept)
  end)

  it("on a mesh that is not all devices is refused", function()
    assert.error_matches(function() step("dgx-a100:8", { mesh = { tensor = 3 } }) end,
      "a mesh of 3 ranks, dgx%-a100 has 8 devices")
  end)
  it("of an axis, a recomputation or a stage that is not predicted is refused", function()
    for _, row in ipairs { { { mesh = { rows = 8 } }, "mesh.rows is not predicted" },
      { { mesh = { expert = 8 } }, "mesh.expert: 8, of a model with none" },
      { { mesh = { data = 8 }, recompute = "some" }, "none, selective, half or full wanted" },
      { { mesh = { data = 8 }, zero = 4 }, "0 to 3 wanted" },
      { { mesh = { data = 8 }, software = "x" }, "no software 'x'" },
      { { mesh = { data = 8 }, rows = 0 }, "rows: a positive integer wanted" } } do
      assert.error_matches(function() step("dgx-a100:8", row[1]) end, row[2])
    end
  end)
  it("with heads that ranks do not divide is refused", function()
    local odd = { layers = 2, hidden = 960, heads = 6, vocab = 100, seq = 128 }
    assert.error_matches(function() step("dgx-a100:4", { model = odd, mesh = { tensor = 4 } }) end,
      "heads over tensor: 6, which 4 do not divide")
  end)
end)

describe("a plan", function()
  local step = mrt.compile(function(x) return x:matmul(x):sum() end)
  local function seconds(n) return mrt.cluster "dgx-a100:8":plan(step:plan(mrt.ones(n, n))) end
  it("takes what its nodes take: at least its product at the peak", function()
    assert.is_true(seconds(1024) > 2 * 1024 ^ 3 / 19.5e12)
    assert.is_true(seconds(2048) > seconds(1024))
  end)
  it("takes what each of its micro-batches takes", function()
    local w = mrt.parameter(mrt.ones(1024, 1024))
    local function of(m, options)
      local trained = mrt.compile(function(x)
        return (mrt.grad(x:matmul(w):square():sum(), { w })[1]:sum())
      end, options)
      return mrt.cluster "dgx-a100:8":plan(trained:plan(mrt.ones(m * 1024, 1024)))
    end
    local one = of(1)
    assert.is_true(of(8, { accumulate = 8 }) > 7 * one)
    assert.is_true(of(8, { accumulate = 8 }) - of(4, { accumulate = 4 }) > 3 * one)
  end)
end)
