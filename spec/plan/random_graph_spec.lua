-- random_graph_spec.lua -- planned and unplanned runs agree bit for bit
--
-- Random programs with gradients and updates run three ways: line by line with
-- nothing shared, planned with everything on, and planned with parts switched
-- off; dead memory is poisoned in all planned runs.  10,000 graphs
-- (MRT_SPEC_GRAPHS) take about twelve minutes of one core; MRT_SPEC_FIRST is the
-- first seed, to run them in parts.
local mrt = require "mrt"
local core = require "mrt.core"
local random_graph = require "support.random_graph"
local bits = require("support.bits").of

local graphs = tonumber(os.getenv "MRT_SPEC_GRAPHS") or 120
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

-- One graph in eight is searched for as long as by default; the others' plans
-- are the first that are found, in a tenth of the time.
local function effort_of(seed)
  if seed % 8 ~= 0 then return 0 end
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

-- What two steps return and leave behind.
local function run(seed, how)
  local program = random_graph.program(seed, 4 + seed % 14)
  local leaves = leaves_of(seed)
  local step
  if how.each then
    step = step_of(program, leaves, how.each)
  else
    local options = { effort = effort_of(seed) }
    for name, value in pairs(how.options) do options[name] = value end
    step = mrt.compile(step_of(program, leaves, identity), options)
  end
  local first = bits { step() }
  return first, bits(leaves), step
end

describe("random graphs", function()
  local others = {
    { fuse = false }, { inplace = false }, { share = false }, { order = "program" },
    { cse = false, fold = false, dce = false, simplify = false },
    { fuse = false, inplace = false, order = "program" },
    { fuse = false, share = false, cse = false }, { sink_permute = false },
    { sink_permute = false, order = "program" },
  }

  -- Each graph with everything on and with two of the others.
  local function plans_of(seed)
    return { {}, others[seed % #others + 1], others[(3 * seed + 1) % #others + 1] }
  end

  it("give the same bits planned or evaluated line by line", function()
    core.set_poison(true)
    for seed = first_seed, first_seed + graphs - 1 do
      local results, state = run(seed, { each = mrt.eval })
      for i, options in ipairs(plans_of(seed)) do
        local r, s, step = run(seed, { options = options })
        assert(r == results, ("seed %d, plan %d: results differ"):format(seed, i))
        assert(s == state, ("seed %d, plan %d: variables differ"):format(seed, i))
        local plan = step:plan()
        assert(plan.peak >= plan.lower_bound)
      end
    end
    core.set_poison(false)
  end)
end)

-- Which nodes compute in what: as random as the graph, the same for the same node.
local function random_precision(seed)
  return function(node)
    local h = seed * 31 + node.line + #node.op * 7 + node.bytes
    local kind = (h * 48271 % 2147483647) % 9
    if node.width == "narrow" and kind < 7 then return "bf16" end
    if kind == 7 then return { compute = "f32", output = "bf16" } end
    if kind == 8 then return "f16" end
  end
end

-- What is kept smaller for the backward pass, in a third of the graphs.
local function random_compress(seed)
  if seed % 3 ~= 1 then return nil end
  local formats = { "int8", "nf4", "f8" }
  return function(value)
    return not value.refused and formats[(seed + value.line + value.bytes // 4) % 3 + 1] or nil
  end
end

describe("random graphs in narrow floats", function()
  local policy = mrt.policy
  local others = {
    { fuse = false }, { inplace = false }, { share = false }, { order = "program" },
    { checkpoint = policy.checkpoint.all() }, { checkpoint = policy.checkpoint.sqrt() },
    { checkpoint = policy.checkpoint.swap(), swap = policy.swap.all() },
    { fuse = false, inplace = false, checkpoint = policy.checkpoint.every(2) },
    { place = policy.place.caching() },
    { place = policy.place.caching { segment = 1 << 14 }, checkpoint = policy.checkpoint.all() },
  }

  it("give the same bits however they are planned", function()
    core.set_poison(true)
    for seed = first_seed, first_seed + graphs // 2 do
      local precision = seed % 3 == 0 and policy.precision.bf16() or random_precision(seed)
      local function with(options)
        local o = { precision = precision, compress = random_compress(seed) }
        for name, value in pairs(options) do o[name] = value end
        return run(seed, { options = o })
      end
      local results, state = with {}
      for i = 0, 1 do
        local options = others[(seed + 3 * i) % #others + 1]
        local r, s = with(options)
        assert(r == results, ("seed %d, plan %d: results differ"):format(seed, i))
        assert(s == state, ("seed %d, plan %d: variables differ"):format(seed, i))
      end
    end
    core.set_poison(false)
  end)
end)
