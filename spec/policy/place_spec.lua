-- Where blocks lie is a policy's to say: no bit changes, and what is planned is taken.
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local random_graph = require "support.random_graph"
local training = require "support.training"
local caching = require "mrt.plan.caching_allocator"
local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy

local function make(o)
  mrt.seed(6)
  local net = nn.Sequential(nn.Linear(16, 96), nn.GELU(), nn.Linear(96, 48), nn.GELU(),
    nn.Linear(48, 4))
  return training.step(net, optim.adamw(net:parameters(), { lr = 1e-3 }), o)
end

local x, y = mrt.eval(mrt.randn(32, 16), mrt.randint(0, 4, { 32 }, { dtype = "i32" }))

-- Losses, and the most that a step took beside what there was.
local function run(o)
  local step, losses = make(o), {}
  for i = 1, 2 do losses[i] = step(x, y):item() end
  collectgarbage()
  local plan, before = step:plan(x, y), mrt.memory().now
  mrt.memory { reset = true }
  losses[3] = step(x, y):item()
  return losses, plan, mrt.memory().peak - before
end

describe("the option place", function()
  it("runs a plan in the places of a caching allocator: what that reserves is taken", function()
    local wanted, lowest = run {}
    local losses, plan = run { place = policy.place.caching() }
    assert.same(wanted, losses)
    assert.equal(caching.simulate(plan).reserved, plan.transient)
    assert.is_true(plan.transient > lowest.transient)
    local big, coarse = run { place = policy.place.caching { segment = 1 << 20 } }
    assert.same(wanted, big)
    assert.equal(0, coarse.transient % (1 << 20))
    local far, apart = run { place = policy.place.apart() }
    assert.same(wanted, far)
    assert.is_true(apart.transient > lowest.transient)
  end)

  it("holds within budgets, micro-batches, precision and checkpoints", function()
    local base = make():plan(x, y)
    local low = base.peak - base.transient // 20
    for _, o in ipairs { { memory = low }, { accumulate = 2 }, { checkpoint =
      policy.checkpoint.all() }, { precision = policy.precision.bf16() },
      { swap = policy.swap.optimizer() }, { memory = low, precision = policy.precision.bf16() },
      { compress = "bf16" } } do
      local wanted = run(o)
      o.place = policy.place.caching()
      local ok, losses, plan = pcall(run, o)
      if ok then
        assert.same(wanted, losses)
        assert.is_true(not o.memory or plan.peak <= o.memory)
      else -- the pool takes more than fits
        assert.is_truthy(o.memory)
        assert.equal("budget", losses.code)
      end
    end
  end)

  it("changes no bit of random graphs, whatever a policy says", function()
    for seed = 1, 12 do
      local function values(place)
        mrt.seed(seed)
        local leaves = { mrt.variable(mrt.randn(4, 6)), mrt.variable(mrt.randn(6, 4)) }
        local program = random_graph.program(seed, 14)
        local step = mrt.compile(function()
          local out = program(leaves, function(t) return t end)
          return out[1], table.unpack(mrt.grad(out[1], leaves, { allow_unused = true }))
        end, { place = place })
        local out = { step() }
        for i, t in ipairs(out) do out[i] = t:bytes() end
        return out
      end
      local random = random_graph.generator(seed)
      local function anywhere(blocks) -- above those that live then, with holes
        local offsets = {}
        for i, b in ipairs(blocks) do
          local at = 0
          for k = 1, i - 1 do
            if blocks[k].last >= b.first then at = math.max(at, offsets[k] + blocks[k].bytes) end
          end
          offsets[i] = (at + b.align - 1 + b.align * random(3)) // b.align * b.align
        end
        return offsets
      end
      assert.same(values(), values(anywhere))
      assert.same(values(), values(policy.place.caching()))
    end
  end)

  it("is refused with what is wrong, and the line", function()
    local function says(what, place)
      assert.error_matches(function() make { place = place }(x, y) end,
        "[%w_]+.lua:%d+: .*" .. what)
    end
    says("overlaps block 1 %(", function(blocks)
      local offsets = {}
      for i in ipairs(blocks) do offsets[i] = 0 end
      return offsets
    end)
    says("a multiple of %d+ wanted", function(blocks)
      local offsets = {}
      for i in ipairs(blocks) do offsets[i] = i end
      return offsets
    end)
    says("an offset in bytes wanted", function() return { 0.5 } end)
    says("a list of offsets wanted", function() return "low" end)
    says("an arena of %-1", function(blocks) return policy.place.apart()(blocks), -1 end)
    says("failed on %d+ blocks: .*oops", function() error "oops" end)
    says("read%-only", function(blocks) blocks[1].bytes = 0 end)
    says("must be called", policy.place.caching)
    says("a policy or a function wanted", 3)
    local step = make { place = function() error "no" end }
    pcall(step, x, y)
    assert.is_false(require "mrt.core".tracing())
  end)
end)
