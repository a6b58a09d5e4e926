-- random_graph_spec.lua -- planned and unplanned runs agree bit for bit
--
-- Random programs with gradients and updates run three ways: step by step with
-- nothing shared, planned with everything on, and planned with single parts
-- switched off; dead memory is poisoned in all planned runs.  10,000 graphs
-- (MRT_SPEC_GRAPHS) take about 15 minutes of one core; MRT_SPEC_FIRST is the first
-- seed, to run them in parts.
local mrt = require "mrt"
local core = require "mrt.core"
local random_graph = require "support.random_graph"

local graphs = tonumber(os.getenv "MRT_SPEC_GRAPHS") or 60
local first_seed = tonumber(os.getenv "MRT_SPEC_FIRST") or 1

local function leaves_of(seed)
  mrt.seed(seed)
  local list = { mrt.variable(mrt.randn(4, 6), "w1"), mrt.variable(mrt.randn(1, 6), "w2"),
                 mrt.variable(mrt.randn(6, 4), "w3") }
  mrt.eval(list)
  mrt.seed(seed + 1) -- from here on both runs make the same nodes
  return list
end

local function identity(t)
  return t
end

-- One training step; `each` sees every tensor of the forward pass.
local function step_of(program, leaves, each)
  return function()
    local results = program(leaves, each)
    local grads = mrt.grad(results[1], leaves, { allow_unused = true })
    for i, w in ipairs(leaves) do
      w:assign(w - grads[i] * 0.01)
    end
    return table.unpack(results)
  end
end

local function bits(list)
  mrt.eval(list)
  local all = {}
  for i, t in ipairs(list) do
    all[i] = t:bytes()
  end
  return table.concat(all, "|")
end

-- What two steps return and leave behind.
local function run(seed, how)
  local program = random_graph.program(seed, 4 + seed % 14)
  local leaves = leaves_of(seed)
  local step
  if how.each then
    step = step_of(program, leaves, how.each)
  else
    step = mrt.compile(step_of(program, leaves, identity), how.options)
  end
  local first = bits { step() }
  return first, bits(leaves), step
end

describe("random graphs", function()
  local plans = {
    {}, { fuse = false }, { inplace = false }, { share = false }, { order = "program" },
    { fuse = false, inplace = false, order = "program" },
    { cse = false, fold = false, dead = false, identities = false },
  }

  it("give the same bits however they are planned", function()
    core.set_poison(true)
    for seed = first_seed, first_seed + graphs - 1 do
      local results, state
      for i, options in ipairs(plans) do
        local r, s, step = run(seed, { options = options })
        results, state = results or r, state or s
        assert(r == results and s == state, ("seed %d: plan %d differs"):format(seed, i))
        local plan = step:plan()
        assert(plan.peak >= plan.lower_bound)
      end
    end
    core.set_poison(false)
  end)

  it("give what evaluating every line at once gives", function()
    for seed = first_seed, first_seed + graphs - 1 do
      local planned, state = run(seed, { options = {} })
      local eager, eager_state = run(seed, { each = mrt.eval })
      assert(planned == eager, ("seed %d: results differ"):format(seed))
      assert(state == eager_state, ("seed %d: variables differ"):format(seed))
    end
  end)
end)
