-- order_spec.lua -- the order chosen needs least memory, and never more than
-- program order
local mrt = require "mrt"
local optim = require "mrt.optim"
local random_graph = require "support.random_graph"

local graphs = tonumber(os.getenv "MRT_SPEC_GRAPHS") or 60
local COLUMNS = 64 -- f32: rows of 256 bytes, a multiple of any alignment
local ROW = COLUMNS * 4

-- The largest sum of live bytes of the arena.
local function live(plan)
  return plan.lower_bound - plan.persistent - plan.outputs
end

local function any_order(plan)
  return plan.order_free_bound - plan.persistent - plan.outputs
end

local function check_bounds(plan)
  assert(plan.working_set <= plan.order_free_bound)
  assert(plan.order_free_bound <= plan.lower_bound)
  assert(plan.lower_bound <= plan.peak)
end

-- A deep net without biases, trained by AdamW.
local function deep_net(layers, width, rows, options)
  local weights = {}
  for i = 1, layers do
    weights[i] = mrt.variable(mrt.randn(width, width) * 0.05, "w" .. i)
  end
  local opt = optim.adamw(weights, { lr = 1e-3 })
  local step = mrt.compile(function(x)
    local y = x
    for i = 1, layers do y = y:matmul(weights[i]):relu() end
    local loss = (y * y):mean()
    opt:step(mrt.grad(loss, weights))
    return loss
  end, options)
  return step:plan(mrt.randn(rows, width))
end

describe("the order of a deep net's step", function()
  local layers, width, rows = 24, 128, 4
  local weight, activation = width * width * 4, width * rows * 4

  it("keeps about one layer's gradients", function()
    local plan = deep_net(layers, width, rows)
    -- one activation a layer, two gradients of activations, scratch
    local rest, scratch = (layers + 4) * activation, 0
    for _, v in ipairs(plan:values()) do
      if v.kind == "workspace" then scratch = math.max(scratch, v.bytes) end
    end
    rest = rest + scratch
    assert(live(plan) < 2 * weight + rest,
      ("%d bytes live; a layer's gradient is %d"):format(live(plan), weight))
    check_bounds(plan)
  end)

  it("keeps all gradients in program order", function()
    local plan = deep_net(layers, width, rows, { order = "program" })
    assert(live(plan) >= layers * weight)
    check_bounds(plan)
  end)
end)

-- Linear layers, and a head whose logits are made and used in parts.
local function in_parts(layers, parts, o)
  local weights = {}
  for i = 1, layers do weights[i] = mrt.variable(mrt.zeros(32, 32), "w" .. i) end
  local head = mrt.variable(mrt.zeros(2048, 32), "head")
  local trained = { table.unpack(weights) }
  if not o.frozen then trained[#trained + 1] = head end
  local opt = optim.adamw(trained, { lr = 1e-3 })
  return mrt.compile(function(x, targets)
    for i = 1, layers do x = x + x:matmul(weights[i]):relu() end
    local loss = mrt.nn.linear_cross_entropy(x, head, targets, { chunks = parts })
    opt:step(mrt.grad(loss, trained))
    return loss
  end, o.options):plan(mrt.zeros(1024, 32), mrt.zeros(1024):to "i32")
end

describe("the order of a deep step whose head is taken in parts", function()
  local logits, gradient = 1024 * 2048 * 4, 2048 * 32 * 4

  it("has the logits of one part alive at a time", function()
    for _, layers in ipairs { 12, 160 } do
      for _, parts in ipairs { 4, 8, 16 } do
        for _, frozen in ipairs { false, true } do
          local plan = in_parts(layers, parts, { frozen = frozen })
          -- a frozen head has no gradients to be added up
          local more = live(plan) - any_order(plan)
          local may = (frozen and 0 or 2 * gradient) + logits // parts
          assert(more <= may, ("%d layers, %d parts: %d bytes more"):format(layers, parts, more))
          check_bounds(plan)
        end
      end
    end
  end)

  it("has so too where a policy recomputes", function()
    local every = mrt.policy.checkpoint.every(1)
    local function peak(parts)
      return live(in_parts(160, parts, { options = { checkpoint = every } }))
    end
    local whole = peak(1)
    assert(peak(8) < whole - 13 * logits // 16 + 2 * gradient)
  end)
end)

describe("the order of random training steps", function()
  local function plan_of(seed, options)
    local program = random_graph.program(seed, 4 + seed % 14)
    mrt.seed(seed)
    local leaves = { mrt.variable(mrt.randn(4, 6)), mrt.variable(mrt.randn(1, 6)),
                     mrt.variable(mrt.randn(6, 4)) }
    return mrt.compile(function()
      local results = program(leaves, function(t) return t end)
      local grads = mrt.grad(results[1], leaves, { allow_unused = true })
      for i, w in ipairs(leaves) do w:assign(w - grads[i] * 0.01) end
      return table.unpack(results)
    end, options):plan()
  end

  it("never needs more than program order, nor less than the bounds", function()
    for seed = 1, graphs do
      for _, inplace in ipairs { true, false } do
        local chosen = plan_of(seed, { inplace = inplace })
        local program = plan_of(seed, { inplace = inplace, order = "program" })
        assert(live(chosen) <= live(program), "seed " .. seed)
        check_bounds(chosen)
        check_bounds(program)
        assert(chosen.order_free_bound >= program.order_free_bound)
      end
    end
  end)
end)

-- ---- against every order there is ------------------------------------------

-- A random graph of n nodes: which nodes each reads (0: the input), how many
-- rows of each, and how many it makes.
local function draw(random, n)
  local nodes = { [0] = { rows = 8 } }
  for i = 1, n do
    local node = { reads = {}, taken = {}, rows = 0 }
    for from = 0, i - 1 do
      if random(i) <= 2 or (from == i - 1 and #node.reads == 0) then
        local rows = random(math.min(nodes[from].rows, 6))
        table.insert(node.reads, from)
        table.insert(node.taken, rows)
        node.rows = node.rows + 2 * rows
        nodes[from].is_read = true
      end
    end
    nodes[i] = node
  end
  return nodes
end

-- The same with tensors; returns what nobody reads.
local function run(nodes, input)
  local made, out = { [0] = input }, {}
  for i, node in ipairs(nodes) do
    local parts = {}
    for k, from in ipairs(node.reads) do
      local part = made[from]:slice(1, 1, node.taken[k])
      table.insert(parts, part)
      table.insert(parts, part)
    end
    made[i] = mrt.cat(parts, 1)
    if not node.is_read then out[#out + 1] = made[i] end
  end
  return table.unpack(out)
end

-- The least peak over all orders, by trying them.
local function least_peak(nodes)
  local best, waiting, ran = math.huge, {}, { [0] = true }
  for i = 0, #nodes do waiting[i] = 0 end
  local function count(node, by)
    for _, from in ipairs(node.reads) do waiting[from] = waiting[from] + by end
  end
  for _, node in ipairs(nodes) do count(node, 1) end
  local function size(i) -- outputs and the input live elsewhere
    return i > 0 and nodes[i].is_read and nodes[i].rows * ROW or 0
  end
  local function ready(i)
    if ran[i] then return false end
    for _, from in ipairs(nodes[i].reads) do
      if not ran[from] then return false end
    end
    return true
  end
  local function go(done, bytes, peak)
    if peak >= best then return end
    if done == #nodes then best = peak end
    for i, node in ipairs(nodes) do
      if ready(i) then
        local during = bytes + size(i)
        local after = during
        count(node, -1)
        for _, from in ipairs(node.reads) do
          if waiting[from] == 0 then after = after - size(from) end
        end
        ran[i] = true
        go(done + 1, after, math.max(peak, during))
        ran[i] = nil
        count(node, 1)
      end
    end
  end
  go(0, 0, 0)
  return best
end

describe("the order of small graphs", function()
  local as_written = { fuse = false, inplace = false, simplify = false,
                       cse = false, fold = false }

  it("is the best there is", function()
    local harder = 0
    for seed = 1, 4 * graphs do
      local random = random_graph.generator(seed)
      local nodes = draw(random, 3 + seed % 6)
      local step = mrt.compile(function(x) return run(nodes, x) end, as_written)
      local plan = step:plan(mrt.zeros(8, COLUMNS))
      assert(plan.nodes == #nodes)
      local best = least_peak(nodes)
      assert(live(plan) == best, ("seed %d: %d bytes live, %d would do")
        :format(seed, live(plan), best))
      check_bounds(plan)
      if any_order(plan) < best then harder = harder + 1 end
    end
    assert(harder > 0, "no graph was harder than its bound")
  end)
end)

describe("the order of graphs of every sort", function()
  local sorts = require "bench.plan.graphs"
  local best_order = require "bench.plan.best"

  local function live_of(nodes, options)
    local plan = sorts.plan(nodes, options)
    check_bounds(plan)
    return live(plan), plan
  end

  it("is the best there is, up to 20 nodes", function()
    for k, sort in ipairs(sorts.sorts) do
      for seed = 1, math.max(1, graphs // 30) do
        local nodes = sort[2](sorts.generator(seed * 50 + k), 14 + seed % 7)
        local bytes = live_of(nodes)
        assert(bytes == best_order(nodes, bytes // sorts.ROW) * sorts.ROW,
          ("%s, seed %d"):format(sort[1], seed))
      end
    end
  end)

  it("is near a longer search's, and the same every time", function()
    for k, sort in ipairs(sorts.sorts) do
      local nodes = sort[2](sorts.generator(k), 40)
      local bytes, plan = live_of(nodes)
      assert(plan:graph() == sorts.plan(nodes):graph(), sort[1])
      assert(bytes <= 1.05 * live_of(nodes, { effort = 5 }), sort[1])
      assert(bytes <= live_of(nodes, { order = "program" }), sort[1])
    end
  end)

  it("is searched for as long as it is worth, or as one says", function()
    for k, sort in ipairs(sorts.sorts) do
      local nodes = sort[2](sorts.generator(k), 60)
      local none, some = live_of(nodes, { effort = 0 }), live_of(nodes)
      local usual = live_of(nodes, { effort = 1 })
      assert(usual <= some and some <= none, sort[1])
      assert(none <= live_of(nodes, { order = "program" }), sort[1])
    end
  end)

  it("refuses an effort that is none", function()
    for _, effort in ipairs { -1, 1.5, 1001 } do
      local ok, message = pcall(mrt.compile, function() end, { effort = effort })
      assert(not ok and tostring(message):find "an integer from 0 to 1000 wanted")
    end
  end)
end)
