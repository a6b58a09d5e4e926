--- stage_spec.lua -- stages of the graph, and what else plans say of
--- themselves: schemas, roles, snapshots, names of every kind
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local codec = require "mrt.util.json"
local random_graph = require "support.random_graph"
local training = require "support.training"
local files = require "support.files"
local nn, optim = mrt.nn, mrt.optim

-- What plan:save writes into a file of this name.
local function saved(plan, name, options)
  local folder = files.folder()
  local ok, message = plan:save(folder .. "/" .. name, options)
  local text = ok and files.read(folder .. "/" .. name)
  return assert(text, message)
end

local function mlp_plan(options)
  local model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 4))
  local opt = optim.adamw(model:parameters(), { lr = 1e-3 })
  return training.step(model, opt, options):plan(mrt.randn(16, 8), mrt.randint(0, 4, { 16 }))
end

local function count(text, pattern) return select(2, text:gsub(pattern, "")) end

describe("the stages of a plan", function()
  -- The order is planned again; the finished plan is shown itself.
  it("are planned again to the same graph, whatever the program", function()
    for seed = 1, 25 do
      local run = random_graph.program(seed, 4 + seed % 14)
      mrt.seed(seed)
      local leaves = { mrt.variable(mrt.randn(4, 6)), mrt.variable(mrt.randn(1, 6)),
                       mrt.variable(mrt.randn(6, 4)) }
      local plan = mrt.compile(function()
        local results = run(leaves, function(t) return t end)
        local grads = mrt.grad(results[1], leaves, { allow_unused = true })
        for i, w in ipairs(leaves) do w:assign(w - grads[i]) end
        return table.unpack(results)
      end, { fuse = seed % 3 > 0, cse = seed % 4 > 0 }):plan()
      assert.equal(plan:graph(), plan:graph "order")
      for _, pass in ipairs(plan.passes) do
        assert.equal(pass.nodes, #plan:stage(pass.name).nodes)
      end
      assert.equal(plan.nodes_traced, #plan:stage("differentiated").nodes)
      local stages = plan:stages()
      local stage = stages[seed % #stages + 1]
      assert.equal(#plan:stage(stage).nodes,
        count(saved(plan, "graph.svg", { stage = stage }), '<rect class="node'))
    end
  end)

  it("begin with what the program wrote, without gradients", function()
    local step = mrt.compile(function(x)
      local y = x:matmul(x):tanh()
      local loss = (y * y):sum()
      return loss, y, mrt.grad(loss, x) * 2
    end)
    local ops = {}
    for i, n in ipairs(step:plan(mrt.randn(4, 4)):stage("traced").nodes) do
      ops[i] = n.op
    end
    assert.equal("matmul tanh mul sum", table.concat(ops, " "))
  end)

  it("show every value's place among the plan's, and whether it is kept", function()
    local plan = mlp_plan()
    local blocks, planned = plan:values(), plan:stage()
    for _, n in ipairs(planned.nodes) do
      for _, v in ipairs(n.writes) do
        assert.is_true(blocks[planned.values[v].block].bytes >= planned.values[v].bytes)
      end
    end
    local kept = {}
    local fates = require "mrt.plan.report.stage".fates(planned)
    for _, n in ipairs(planned.nodes) do
      for _, v in ipairs(n.writes) do
        if fates[v] then kept[#kept + 1] = n.op end
      end
    end
    table.sort(kept) -- the order depends on workspaces
    assert.equal("full linear tanh", table.concat(kept, " "))
  end)

  it("are drawn: a box for each node, marked where it is kept", function()
    local plan = mlp_plan { name = "<mlp>" }
    for _, stage in ipairs(plan:stages()) do
      local text = saved(plan, "graph.svg", { stage = stage })
      for fill in text:gmatch 'fill="([^"]*)"' do -- as every renderer reads it
        assert.truthy(fill:find "^#%x%x%x%x?%x?%x?$" or fill:find "^%l+$", fill)
      end
      assert.equal(#plan:stage(stage).nodes, count(text, '<rect class="node'))
      assert.matches("Graph of &lt;mlp&gt;, [%a ]*" .. stage, text)
      assert.equal(stage == "traced" and 2 or 3, count(text, '">kept</text>'))
      assert.is_nil(text:find(">recomputed<", 1, true))
    end
    assert.equal(saved(plan, "graph.svg"), saved(plan, "a.graph.svg"))
    assert.not_equal(saved(plan, "graph.svg"), saved(plan, "photograph.svg"))
  end)

  it("show what is recomputed, dropped or swapped, and ask a policy once", function()
    local asked = 0
    local plan = mlp_plan { checkpoint = function(value)
      asked = asked + 1
      return value.op == "tanh" and "recompute" or "keep"
    end }
    local before = asked
    plan.stage = function(self, name)
      local graph = mrt.plan.stage(self, name)
      if name == "planned" or not name then
        graph.values[graph.nodes[1].writes[1]].fate = "swapped"
      end
      return graph
    end
    for _, stage in ipairs(plan:stages()) do saved(plan, "graph.svg", { stage = stage }) end
    assert.equal(before, asked)
    local text = saved(plan, "graph.svg")
    for _, word in ipairs { "kept", "dropped", "recomputed", "swapped" } do
      assert.is_true(count(text, '">' .. word .. "</text>") > 0, word)
    end
    assert.matches("dropped, and made again", text)
  end)

  it("are refused by name", function()
    local plan = mlp_plan()
    assert.error_matches(function() plan:stage "nosuch" end,
      "no stage 'nosuch', there is traced, differentiated, experts, partition, simplify")
    assert.error_matches(function() plan:save("x.graph.svg", { stage = 3 }) end,
      "no stage '3'")
    assert.error_matches(function() plan:save("x.svg", { stage = "fuse" }) end,
      "into .graph.svg, not into 'x.svg'")
    assert.error_matches(function() plan:save("x.svg", { stages = "fuse" }) end,
      "no option 'stages'")
  end)
end)

describe("roles", function()
  local function roles_of(plan)
    local found = {}
    for _, v in ipairs(plan:values()) do
      if v.kind == "variable" then found[v.name] = v.role end
    end
    return found
  end

  it("are the same with micro-batches", function()
    local function of_model(o)
      local w = mrt.variable(mrt.randn(6, 6), "w")
      local opt = optim.adamw({ w }, { lr = 1e-3 })
      return roles_of(mrt.compile(function(x)
        local loss = (x:matmul(w) ^ 2):mean()
        opt:step(mrt.grad(loss, { w }))
        return loss
      end, o):plan(mrt.randn(4, 6)))
    end
    local wanted = { w = "weight", ["w.m"] = "optimizer", ["w.v"] = "optimizer",
      t = "optimizer" }
    assert.same(wanted, of_model {})
    local found = of_model { accumulate = 2 }
    for name, role in pairs(wanted) do assert.equal(role, found[name], name) end
  end)

  it("tell running statistics and averages from optimizer state", function()
    local w = mrt.variable(mrt.randn(6, 6), "w")
    local opt = optim.adamw({ w }, { lr = 1e-3 })
    local mean = mrt.variable(mrt.zeros(6), "mean")
    local average = mrt.variable(mrt.zeros(6, 6), "average")
    local scale = mrt.variable(mrt.ones(), "scale")
    local found = roles_of(mrt.compile(function(x)
      local h = x:matmul(w)
      local m = h:mean(1)
      mean:assign(mean * 0.9 + m:detach() * 0.1)
      local loss = ((h - m) * (h - m)):mean()
      opt:step(mrt.grad(loss, { w }), { when = scale:gt(0) })
      average:assign(average * 0.99 + w * 0.01)
      scale:assign(scale * 2)
      return loss
    end):plan(mrt.randn(3, 6)))
    assert.same({ w = "weight", ["w.m"] = "optimizer", ["w.v"] = "optimizer",
      t = "optimizer", scale = "optimizer", mean = "buffer", average = "buffer" },
      found)
  end)
end)

-- ---- JSON against its schema -------------------------------------------------

-- A type is a word, a list {item} or a map of fields; "?" ends what may lack.
local check

local function check_fields(value, schema, path)
  for key, kind in pairs(schema) do
    local name = key:gsub("%?$", "")
    if value[name] ~= nil or name == key then
      check(value[name], kind, path .. "." .. name)
    end
  end
  for key in pairs(value) do
    assert(schema[key] or schema[key .. "?"], path .. " has an undocumented " .. key)
  end
end

function check(value, kind, path)
  if type(kind) == "string" then
    local got = math.type(value) == "integer" and "integer" or type(value)
    assert(got == kind or kind == "number" and got == "integer",
      ("%s: %s wanted, got %s"):format(path, kind, got))
  elseif kind[1] then
    for i, item in ipairs(value) do check(item, kind[1], path .. "[" .. i .. "]") end
  else
    check_fields(value, kind, path)
  end
end

local int, text = "integer", "string"

-- Of the device, a name for each figure; lists and maps of numbers.
local device = {}
for name, value in pairs(require "mrt.core".device()) do
  if type(value) ~= "table" then
    device[name] = type(value) == "number" and "number" or type(value)
  elseif name ~= "edge" then
    device[name] = {}
    for key in pairs(value) do device[name][key] = "number" end
  else
    device.edge = {}
    for key in pairs(value) do device.edge[key] = { "number" } end
  end
end
local schema = { schema = text, name = text, peak = int, persistent = int,
  transient = int, outputs = int, inputs = int, lower_bound = int,
  order_free_bound = int, working_set = int, flops = "number",
  seconds = "number", stall = "number", wire = "number", collectives = "number", swapped = int,
  copied_out = int, copied_in = int,
  tiers = { { name = text, bytes = int, ["capacity?"] = int, copied_out = int,
    copied_in = int } },
  nodes = int,
  nodes_traced = int, passes = { { name = text, nodes = int } }, peak_step = int,
  ["next_peak?"] = int, device = device, ["micro_batches?"] = int,
  ["micro_batch?"] = int, ["batch?"] = int, ["accumulators?"] = int,
  ["gathered?"] = int, ["kept_peak?"] = int, ["unlinked?"] = int,
  ["compressed?"] = int, ["compressed_to?"] = int,
  at_peak = { ["weight?"] = int, ["optimizer?"] = int, ["buffer?"] = int,
    ["accumulator?"] = int, ["gathered?"] = int, ["constant?"] = int,
    ["output?"] = int, ["input?"] = int,
    ["activation?"] = int, ["gradient?"] = int, ["workspace?"] = int,
    ["fetched?"] = int, ["swapped?"] = int },
  steps = { { op = text, ["module?"] = text, file = text, line = int, layer = int,
    backward = "boolean",
    recomputed = "boolean", ["accumulate?"] = text, class = text, time = "number",
    flops = "number", speed = "number", bytes = "number", live = int,
    reads = { int }, writes = { int } } },
  values = { { role = text, op = text, ["name?"] = text, ["class?"] = text,
    ["tier?"] = int, type = text, bytes = int, offset = int, first = int, last = int,
    ["module?"] = text, file = text, line = int } },
  transfers = { { lane = text, ["name?"] = text, value = int, swapped = int, bytes = int,
    tier = int, start = int, wait = int, time = "number", beside = "number", stall = "number" } },
  pool = { reserved = int, live = int, wasted = int, calls = int, segments = int } }

describe("JSON", function()
  it("is what its schema says, for plans of any size", function()
    local layer = nn.Linear(4, 4)
    for _, plan in ipairs { mlp_plan(),
      mlp_plan { swap = mrt.policy.swap.all { least = 1 } },
      mrt.compile(function(x) return layer(x):relu() end):plan(mrt.randn(2, 4)),
      mrt.compile(function(x) return x end):plan(mrt.randn(2)),
      mrt.compile(function(x) return x:matmul(x, { accumulate = "f16" }) end)
        :plan(mrt.randn(2, 2)),
      mrt.compile(function(x)
        local loss = layer(x):sum()
        return loss, mrt.grad(loss, layer.weight)
      end, { accumulate = 3 }):plan(mrt.randn(7, 4)),
      mlp_plan { swap = mrt.policy.swap.all { least = 1 }, accumulate = 3 },
      mrt.compile(function() return end):plan() } do
      check(codec.decode(saved(plan, "x.json")), schema, "plan")
    end
  end)
end)

describe("names that are no UTF-8, or long, or markup", function()
  it("leave every file well formed", function()
    local name = "\xff<&\">'" .. ("é"):rep(150) .. "\0\1"
    local w = mrt.variable(mrt.zeros(4, 4), name)
    local plan = mrt.compile(function(x)
      local y = x:matmul(w)
      y.name = name
      return (y:exp() * y):sum()
    end, { name = name, fuse = false }):plan(mrt.randn(4, 4))
    for _, file in ipairs { "x.svg", "x.graph.svg", "x.html", "x.json",
      "x.snapshot.json" } do
      local written = saved(plan, file)
      assert.truthy(utf8.len(written), file)
      if file:find "json" then
        assert.truthy(codec.decode(written))
      else
        assert.is_nil(written:find "[%z\1-\8]")
        written = written:gsub("<script.-</script>", "")
        assert.is_nil(written:gsub("&#?%w+;", ""):find "&")
      end
    end
  end)
end)

-- ---- the pickle, read by a machine of its own ------------------------------------

local opcodes = {
  ["\x80"] = function(s) s.at = s.at + 1 end,
  ["}"] = function(s) s[#s + 1] = {} end,
  ["]"] = function(s) s[#s + 1] = {} end,
  ["("] = function(s) table.insert(s.marks, #s) end,
  X = function(s)
    s[#s + 1], s.at = ("<s4"):unpack(s.text, s.at)
  end,
  J = function(s) s[#s + 1], s.at = ("<i4"):unpack(s.text, s.at) end,
  ["\x8a"] = function(s)
    assert.equal(8, s.text:byte(s.at))
    s[#s + 1], s.at = ("<i8"):unpack(s.text, s.at + 1)
  end,
  e = function(s)
    local mark = table.remove(s.marks)
    table.move(s, mark + 1, #s, #s[mark] + 1, s[mark])
    for i = #s, mark + 1, -1 do s[i] = nil end
  end,
  u = function(s)
    local mark = table.remove(s.marks)
    for i = mark + 1, #s, 2 do s[mark][s[i]] = s[i + 1] end
    for i = #s, mark + 1, -1 do s[i] = nil end
  end,
}

local function unpickle(pickle)
  local s = { text = pickle, at = 1, marks = {} }
  while true do
    local opcode = pickle:sub(s.at, s.at)
    s.at = s.at + 1
    if opcode == "." then return s[1], s.at - 1 end
    opcodes[opcode](s)
  end
end

describe("a snapshot", function()
  it("is the same as a pickle, which the viewer's page takes, and as JSON", function()
    local model = nn.GPT { vocab = 31, dim = 48, layers = 8, heads = 3, context = 16 }
    local big = mrt.compile(function(x)
      local loss = model(x):sum()
      return mrt.grad(loss, model:parameters())
    end):plan(mrt.randint(0, 31, 2, 16))
    for _, plan in ipairs { mlp_plan(), big,
      mrt.compile(function(x) return x end):plan(mrt.randn(2)) } do
      local pickle = saved(plan, "x.snapshot.pickle")
      local got, length = unpickle(pickle)
      assert.equal(#pickle, length)
      local json = codec.decode(saved(plan, "x.snapshot.json"))
      assert.same(json, got)
      for _, s in ipairs(got.segments) do -- blocks fill their segment
        local bytes = 0
        for _, b in ipairs(s.blocks) do
          assert.equal(s.address + bytes, b.address)
          bytes = bytes + b.size
        end
        assert.equal(s.total_size, bytes)
      end
    end
  end)
end)
