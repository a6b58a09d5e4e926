-- composed_spec.lua -- sharding with precision, recomputing, budgets: what plans take
--
-- SPDX-License-Identifier: MIT

local files = require "support.files"
local program = require "support.program"

-- Plans of random GPTs, one of many ranks: a line for each plan.
local script = files.temporary [[
  local mrt = require "mrt"
  package.path = "spec/?.lua;" .. package.path
  local random_graph = require "support.random_graph"
  local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy
  local first, last = tonumber(arg[1]), tonumber(arg[2])
  local checkpoints = { false, policy.checkpoint.every(1), policy.checkpoint.sqrt(),
    policy.checkpoint.none() }
  local precisions = { false, policy.precision.bf16(), policy.precision.bf16_pure() }

  local function plan_of(seed, reduce, memory, k)
    local random = random_graph.generator(seed)
    local dim, T = 32 * random(4), 8 * random(6)
    local model = nn.GPT { vocab = 64 * random(6), context = T, layers = 1 + random(6),
      heads = 2, dim = dim }
    local params, stage = model:parameters(), random(4) - 1
    local o = { gather = random(2) == 1 and "bf16" or nil, reduce = reduce,
      bucket = random(3) == 1 and 1 << 14 or nil, prefetch = ({ 0, 1 })[random(3)] }
    local optimizer = random(2) == 1 and optim.adamw(params, { lr = 1e-4 })
      or optim.sgd(params, { lr = 1e-2 })
    local x = mrt.zeros({ k and 3 or random(3), T }, { dtype = "i64" })
    local largest = 0
    for _, p in ipairs(params) do largest = math.max(largest, p:numel()) end
    return mrt.compile(function(ids)
      local loss = model:loss(ids, ids)
      optimizer:step(mrt.grad(loss, params))
      return loss
    end, { shard = stage == 0 and policy.shard.ddp(o) or policy.shard.zero(stage, o),
      checkpoint = checkpoints[random(4)] or nil, precision = precisions[random(3)] or nil,
      memory = memory, accumulate = k }):plan(x), largest, stage, o, params
  end

  local RANKS <const> = 64

  -- Over three micro-batches: accumulators are in pieces, and weights travel once.
  local function accumulated(seed, reduce)
    local one = plan_of(seed, reduce, nil, 1)
    local three, _, stage, o, params = plan_of(seed, reduce, nil, 3)
    local elements, least = 0, 0
    for _, p in ipairs(params) do elements = elements + (p:numel() + 255) // 256 * 256 end
    local pieces = stage == 0 and 1 or RANKS
    least = 4 * elements / pieces -- buckets end at multiples of 256 elements a rank
    local most = least + 1024 * #params + 256
    local rise = three.persistent - one.persistent
    if stage == 0 then most = most + 64 * #params end
    print(("%d accumulators %d %d"):format(seed, rise, math.floor(most)))
    local own = params[1].dtype == "bf16" and 2 or 4
    local sent, back = reduce and 2 or own, o.gather and 2 or own
    local wire = one.wire * 3
    if stage == 1 or stage == 2 then
      wire = one.wire * (3 * sent + back) / (sent + back)
    elseif stage == 3 then -- where memory allows it some are gathered once
      wire = 3 * (2 * back + sent) * (elements + 256 * RANKS * #params) * (RANKS - 1) / RANKS
    end
    print(("%d wire %d %d"):format(seed, three.wire, math.floor(wire + 0.5)))
  end

  for seed = first, last do
    accumulated(seed)
    accumulated(seed, "bf16")
    local wide, largest = plan_of(seed)
    local narrow = plan_of(seed, "bf16")
    print(("%d reduce %d %d"):format(seed, narrow.peak, wide.peak + 2 * largest))
    for _, part in ipairs { 0.5, 0.95 } do
      local budget = math.floor(narrow.peak - (1 - part) * narrow.transient)
      local ok, plan = pcall(plan_of, seed, "bf16", budget)
      local least = not ok and tonumber(tostring(plan):match "%((%d+) bytes%) is the least found")
      if not ok and not least then error(plan, 0) end
      print(("%d %s %d %d"):format(seed, ok and "within" or "refused",
        ok and plan.peak or least, ok and budget or narrow.peak))
    end
  end]]

local count = os.getenv "MRT_SPEC_LEAN" and 1 or tonumber(os.getenv "MRT_SPEC_GRAPHS") or 3

describe("a plan of one of many ranks", function()
  local seen, text = {}, nil

  lazy_setup(function()
    local code, out = program.run(("plan --ranks 64 %s 1 %d"):format(script, count))
    assert(code == 0, out)
    text = out
    for seed, what, is, most in out:gmatch "(%d+) (%l+) (%d+) (%d+)\n" do
      seen[what] = seen[what] or {}
      table.insert(seen[what], { seed = seed, is = tonumber(is), most = tonumber(most) })
    end
  end)

  local function holds(what)
    for _, case in ipairs(seen[what] or {}) do
      assert.is_true(case.is <= case.most, ("seed %s: %d bytes, at most %d wanted")
        :format(case.seed, case.is, case.most))
    end
    return #(seen[what] or {})
  end

  it("takes no more with gradients that travel in bf16 than one such gradient", function()
    assert.equal(count, holds "reduce", text)
  end)

  it("adds up micro-batches in pieces, and gathers weights as often as DeepSpeed", function()
    assert.equal(2 * count, holds "accumulators")
    assert.equal(2 * count, holds "wire")
  end)

  it("keeps to its budget", function()
    assert.is_true(holds "within" > 0)
  end)

  it("is refused a budget with a least not above what it takes without one", function()
    assert.equal(2 * count, holds "refused" + holds "within")
  end)
end)
