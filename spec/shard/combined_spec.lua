-- combined_spec.lua -- sharding with all else, drawn at random: bits, bytes
--
-- SPDX-License-Identifier: MIT

local ranks = require "support.ranks"

-- Four steps of a small model: bits of losses and parameters.  Each rank has taken
-- what its plan says.  `o.base`: all kept, no budget.
local code = [[
  local random_graph = require "support.random_graph"
  local seed, stage, base = %d, %d, %s
  local random = random_graph.generator(seed * 7919 + 1234567)
  local function pick(list) return list[random(#list)] or nil end
  local dim, layers, heads = pick { 32, 48 }, random(3), 2
  local dropout, k, rows = pick { 0, 0.1 }, random(3), pick { 4, 6 }
  local precision = pick { false, policy.precision.bf16(),
    policy.precision.f16 { loss_scale = "dynamic" }, policy.precision.bf16_pure() }
  local narrow = pick { false, "bf16" }
  local settings = { bucket = pick { 0, 1 << 20 }, gather = narrow, reduce = pick { false, "bf16" },
    retain = narrow and pick { true, false }, reduce_each = pick { "micro-batch", "step" },
    prefetch = pick { 0, 1 } }
  for name, value in pairs(settings) do settings[name] = value or nil end
  local checkpoint = pick { false, policy.checkpoint.every(1), policy.checkpoint.sqrt(),
    policy.checkpoint.all() }
  local budget, clip = pick { false, 0.6, 0.9 }, pick { false, 1.0 }
  local optimizer = pick { "adamw", "lion", "sgd" }
  local state = optimizer == "adamw" and pick { false, "8bit", "bf16" } or nil
  local master = optimizer == "adamw" and state ~= "8bit" and seed %% 2 == 0
  if master then precision = policy.precision.bf16_pure() end
  local other_budget = pick { false, 0.5, 0.8 } -- before the third step

  local compress = pick { false, "int8", "nf4" }
  local place = pick { false, false, policy.place.caching() }

  mrt.seed(seed)
  local own = mrt.randint(0, 40, comm.size * rows * 4, 9)
  local batches = {}
  for i = 1, 4 do
    local first = ((i - 1) * comm.size + comm.rank) * rows
    local part = own:slice(1, first + 1, first + rows)
    batches[i] = { mrt.eval(part:slice(2, 1, 8) + 0, part:slice(2, 2, 9) + 0) }
  end
  own:free()
  collectgarbage() collectgarbage()
  local before = mrt.memory().now
  mrt.seed(seed)
  local model = nn.GPT { vocab = 40, context = 8, layers = layers, heads = heads, dim = dim,
    dropout = dropout }
  local params = model:parameters()
  local opt = optim[optimizer](params, { lr = 1e-2, state = state or nil,
    master = master or nil })
  local function step_of(o)
    return mrt.compile(function(x, y)
      local loss = model:loss(x, y)
      opt:step(mrt.grad(loss, params), { clip = clip or nil })
      return loss
    end, o)
  end
  local o = { accumulate = k, precision = precision or nil, compress = compress or nil,
    shard = stage == 0 and policy.shard.ddp(settings) or policy.shard.zero(stage, settings) }
  -- random numbers follow from when a function is traced
  local function planned()
    mrt.seed(seed)
    local step = step_of(o)
    return step, step:plan(table.unpack(batches[1]))
  end
  o.checkpoint, o.place = not base and checkpoint or nil, not base and place or nil
  local step, plan = planned()
  if not base and budget then
    local most = math.floor(plan.peak - (1 - budget) * plan.transient)
    o.memory = most
    local ok, other, within = pcall(planned)
    assert(ok or other.code == "budget", tostring(other))
    assert(not ok or within.peak <= most)
    o.memory = nil
    if ok then step, plan = other, within else step, plan = planned() end
  end
  local function check_taken()
    collectgarbage() collectgarbage()
    local inputs = plan.inputs
    for _, x in ipairs(batches[1]) do inputs = inputs - x:nbytes() end
    local taken = mrt.memory().peak - before - inputs
    assert(taken == plan.peak, ("seed %%d, stage %%d: %%d bytes taken, %%d planned"):format(seed,
      stage, taken, plan.peak))
  end
  local words = {}
  for i, batch in ipairs(batches) do
    if i == 3 and other_budget and not base then
      check_taken()
      local most = math.floor(plan.peak - (1 - other_budget) * plan.transient)
      local ok, why = pcall(step.budget, step, most)
      assert(ok or why.code == "budget", tostring(why))
      plan = step:plan(table.unpack(batch))
      assert(not ok or plan.peak <= most)
    end
    local loss = step(table.unpack(batch))
    words[i] = ("%%a"):format(loss:item())
    loss:free()
    if i == 1 or i == 3 then -- parameters have begun as rank 0's, results have two places
      collectgarbage() collectgarbage()
      mrt.memory { reset = true }
    end
  end
  check_taken()
  for i, p in ipairs(params) do
    words[#words + 1] = ("%%a"):format((p:to "f64" * mrt.arange(p:numel(), { dtype = "f64" })
      :reshape(p:size())):sum():item())
  end
  return table.concat(words, " ")
]]

local count = os.getenv "MRT_SPEC_LEAN" and 1 or tonumber(os.getenv "MRT_SPEC_GRAPHS") or 3
local first = tonumber(os.getenv "MRT_SPEC_SEED") or 1

describe("all techniques together", function()
  it("have the same bits in every stage, and take what was planned", function()
    for seed = first, first + count - 1 do
      local n = 2 + seed % 3
      local wanted = ranks.run(n, code:format(seed, 0, "true"))
      for stage = 0, 3 do
        local got = ranks.run(n, code:format(seed, stage, "false"))
        assert.equal(wanted[1]:match "^%S+ %S+", got[1]:match "^%S+ %S+",
          ("losses of seed %d, stage %d on %d ranks"):format(seed, stage, n))
        assert.same(wanted, got, ("seed %d, stage %d on %d ranks"):format(seed, stage, n))
      end
    end
  end)
end)
