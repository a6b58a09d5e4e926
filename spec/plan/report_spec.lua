--- report_spec.lua -- what plans say: text, files, `mrt plan`
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local caching_allocator = require "mrt.plan.caching_allocator"
local json = require "mrt.util.json"
local training = require "support.training"
local files = require "support.files"
local nn, optim = mrt.nn, mrt.optim

local program = os.getenv "MRT" or "build/mrt"

local function with_file(ending, act)
  act(files.name(ending))
end

local function mlp_step(options)
  local model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 4))
  local step = training.step(model, optim.adamw(model:parameters(), { lr = 1e-3 }), options)
  return step, mrt.randn(16, 8), mrt.randint(0, 4, { 16 })
end

local function mlp_plan(options)
  local step, x, y = mlp_step(options)
  return step:plan(x, y)
end

local function bytes_by_role(plan)
  local sums = {}
  for _, v in ipairs(plan:values()) do
    sums[v.role] = (sums[v.role] or 0) + v.bytes
  end
  return sums
end

local function round(n) return (n + 63) // 64 * 64 end

describe("a report", function()
  it("says when products have no instructions for their type", function()
    local function says(precision)
      return mlp_plan({ precision = precision }):text():match "(%w+) products go through f32"
    end
    local precision = mrt.policy.precision
    assert.is_nil(says())
    assert.equal("f16", says(precision.f16()))
    finally(function() mrt.device.use "declared" end)
    mrt.device.use "a100-40"
    assert.is_nil(says(precision.f16()))
    mrt.device.use { name = "plain", memory = { capacity = 1e9, bandwidth = 1e9 },
      flops = { f32 = 1e9 } }
    assert.equal("bf16", says(precision.bf16()))
  end)
end)

describe("names in a plan", function()
  it("are those of the time it was made", function()
    local w = mrt.variable(mrt.ones(2), "before")
    local step = mrt.compile(function(x) return x * w end)
    local plan = step:plan(mrt.ones(2))
    w.name = "after, and long enough to move"
    collectgarbage()
    local names = {}
    for _, v in ipairs(plan:values()) do names[v.name or ""] = true end
    assert.is_true(names.before)
  end)
end)

describe("a plan", function()
  it("tells weights from optimizer state", function()
    local sums = bytes_by_role(mlp_plan())
    local weights = round(8 * 32 * 4) + round(32 * 4) + round(32 * 4 * 4) + round(16)
    assert.equal(weights, sums.weight)
    assert.equal(2 * weights + 64, sums.optimizer) -- m, v and the step count
  end)

  it("has weights that nothing updates, and no optimizer state, in inference", function()
    local layer = nn.Linear(4, 4)
    local plan = mrt.compile(function(x) return layer(x):relu() end)
      :plan(mrt.randn(2, 4))
    local sums = bytes_by_role(plan)
    assert.equal(round(64) + round(16), sums.weight)
    assert.is_nil(sums.optimizer)
  end)

  it("has a working set between what persists and the lower bound", function()
    local plan = mlp_plan()
    assert.is_true(plan.working_set > plan.persistent + plan.outputs)
    assert.is_true(plan.working_set <= plan.lower_bound)
  end)

  it("names who refuses a place", function()
    local step = mrt.compile(function(x)
      local a = x * 2
      local b = a:exp()
      local c = a:sin()
      return (b + c):sum(), mrt.grad(c:sum(), x)
    end, { fuse = false, order = "program" })
    local found = {}
    for _, r in ipairs(step:plan(mrt.randn(8, 8)):refused()) do
      found[#found + 1] = r.op .. ": " .. r.reason
    end
    local text = table.concat(found, "\n")
    assert.matches("mul: it is one of the inputs", text)
    assert.matches("exp: another consumer: sin, .-report_spec.lua:%d+", text)
    assert.matches("sin: the gradient reads it: cos", text)
  end)

  it("walks its steps, live bytes adding up to what is born and not dead", function()
    local text = require "mrt.plan.report.walk" (mlp_plan())
    local live = 0
    for line in text:gmatch "[^\n]+" do
      if line:match "^%s+%+ " then live = live + 1 end
      if line:match "^%s+%- " then live = live - 1 end
    end
    assert.equal(0, live)
    assert.matches("free block", text)
    assert.matches("= weight +over", text)
  end)
end)

describe("the caching pool", function()
  -- A plan made of births and deaths: {first, last, bytes}.
  local function plan_of(nodes, list)
    local values = {}
    for i, v in ipairs(list) do
      values[i] = { first = v[1], last = v[2], bytes = v[3], role = "activation" }
    end
    return { nodes = nodes, values = function() return values end }
  end

  it("splits, coalesces and takes the best fit", function()
    local report = caching_allocator.simulate(plan_of(4, {
      { 1, 1, 256 }, { 1, 3, 64 }, { 1, 1, 128 }, -- holes of 256 and 128
      { 2, 2, 128 }, -- the hole of 128
      { 3, 3, 256 }, -- the one of 256
      { 4, 4, 448 }, -- all of it, coalesced
    }), { segment = 448 })
    assert.equal(448, report.reserved)
    assert.equal(1, report.segments)
    assert.equal(12, report.calls)
    assert.equal(0, report.wasted)
  end)

  it("wastes what is in pieces", function()
    local report = caching_allocator.simulate(plan_of(2, {
      { 1, 1, 64 }, { 1, 2, 64 }, { 1, 1, 64 }, { 2, 2, 128 },
    }), { segment = 192 })
    assert.equal(192 + 192, report.reserved)
    assert.equal(192, report.wasted)
  end)

  it("never reserves less than the plan's live bytes", function()
    local plan = mlp_plan()
    local report = caching_allocator.simulate(plan)
    assert.equal(plan.lower_bound, report.live + plan.persistent + plan.outputs)
    assert.is_true(report.reserved >= report.live)
  end)
end)

describe("plan:save", function()
  it("writes JSON whose values add up to the peak", function()
    with_file(".json", function(path)
      local texts = {}
      for i = 1, 2 do -- the same twice
        assert.is_true(mlp_plan():save(path))
        texts[i] = files.read(path)
      end
      assert.equal(texts[1], texts[2])
      local got = assert(json.decode(texts[1]))
      local sum = got.transient
      for _, v in ipairs(got.values) do
        if v.role == "weight" or v.role == "optimizer" or v.role == "output"
          or v.role == "constant" then sum = sum + v.bytes end
      end
      assert.equal("mrt.plan/1", got.schema)
      assert.equal(got.peak, sum)
      assert.equal(got.nodes, #got.steps)
    end)
  end)

  it("writes a snapshot whose live bytes never overlap", function()
    with_file(".snapshot.json", function(path)
      local plan = mlp_plan()
      assert.is_true(plan:save(path))
      local alive, now, most = {}, 0, 0
      for _, e in ipairs(json.decode(files.read(path)).device_traces[1]) do
        if e.action == "alloc" then
          for address, size in pairs(alive) do
            assert.is_true(e.addr + e.size <= address or address + size <= e.addr)
          end
          alive[e.addr], now = e.size, now + e.size
          most = math.max(most, now)
        elseif e.action == "free_completed" then
          assert.equal(e.size, alive[e.addr])
          alive[e.addr], now = nil, now - e.size
        end
      end
      assert.equal(plan.lower_bound, most)
      assert.equal(plan.persistent + plan.outputs, now)
    end)
  end)

  it("draws every block of the arena, and escapes what programs name", function()
    local plan = mlp_plan { name = "<b>&" }
    local blocks = 0
    for _, v in ipairs(plan:values()) do
      if v.kind == "activation" or v.kind == "gradient" or v.kind == "workspace" then
        blocks = blocks + 1
      end
    end
    with_file(".svg", function(path)
      assert.is_true(plan:save(path))
      local _, drawn = files.read(path):gsub('<rect class="block', "")
      assert.equal(blocks, drawn)
    end)
    with_file(".graph.svg", function(path)
      assert.is_true(plan:save(path))
      local _, drawn = files.read(path):gsub('<rect class="node', "")
      assert.equal(plan.nodes, drawn)
    end)
    with_file(".html", function(path)
      assert.is_true(plan:save(path))
      local text = files.read(path)
      assert.matches("<h1>Plan of &lt;b&gt;&amp;:", text)
      assert.is_nil(text:find("https?://[^w]")) -- names of standards only
      assert.matches("f32%[16,32%]", text)
    end)
  end)

  it("compares plans, and takes an empty one", function()
    local empty = mrt.compile(function(x) return x end):plan(mrt.randn(2))
    with_file(".svg", function(path)
      assert.is_true(empty:save(path))
      assert.is_true(mrt.plan.compare { mlp_plan(), mlp_plan { share = false },
        names = { "one", "two" }, capacity = "1 MiB" }:save(path))
      local text = files.read(path)
      assert.matches("one: peak", text)
      assert.matches("capacity 1.00 MiB", text)
    end)
  end)

  it("hands back what the world does, and raises what a program does", function()
    local plan = mlp_plan()
    local ok, message = plan:save "/nowhere/plan.html"
    assert.is_nil(ok)
    assert.matches("/nowhere/plan.html", message)
    ok, message = plan:save("/dev/full", { format = "json" })
    assert.is_nil(ok)
    assert.matches("/dev/full", message)
    assert.error_matches(function() plan:save "plan.txt" end, "ends in none of")
    assert.error_matches(function() plan:save("a", { format = "gif" }) end,
      "no format 'gif'")
  end)
end)

describe("mrt plan", function()
  local script

  -- Exit status, standard output, standard error.
  local function plan(options, code, arguments)
    files.write(script, 'local mrt = require "mrt"\n' .. code)
    local errors = files.name()
    local pipe = io.popen(("'%s' plan %s %s %s 2>%s"):format(program, options,
      script, arguments or "", errors))
    local output = pipe:read "a"
    local _, _, status = pipe:close()
    local problem = files.read(errors)
    return status, output, problem
  end

  local step = [[
    local step = mrt.compile(function(x) return x:softmax(2):sum() end)
    pcall(function() step(mrt.ones(64, 64)) end)
    print "went on"
  ]]

  before_each(function() script = files.name() end)

  it("ends at the first compiled step, which a pcall does not catch", function()
    local status, out, err = plan("", step)
    assert.equal(0, status)
    assert.equal("", err)
    assert.matches("peak +%S+", out)
    assert.is_nil(out:find "went on")
  end)

  it("gives the script its arguments, and JSON to a pipe alone", function()
    local status, out, err = plan("--json", "print(arg[0], ...)\n" .. step, "a b")
    assert.equal(0, status)
    assert.equal("mrt.plan/1", assert(json.decode(out)).schema)
    assert.equal(script .. "\ta\tb\n", err)
  end)

  it("plans what no machine could hold", function()
    local status, out = plan("", [[
      local w = mrt.variable(mrt.zeros(1 << 20, 1 << 20))
      local step = mrt.compile(function(x) return x:matmul(w):sum() end)
      step(mrt.ones(1, 1 << 20))]])
    assert.equal(0, status)
    assert.matches("weights +4.00 TiB", out)
  end)

  it("refuses a budget that is too small, and names what is needed", function()
    for _, budget in ipairs { "100", "'0.1 KiB'", "1e2", "--budget=100" } do
      local status, out, err = plan((budget:find "=" and "" or "--budget ")
        .. budget, step)
      assert.equal(1, status)
      assert.matches("peak", out)
      assert.matches("takes [%d,]+ bytes .* working%-set bound", err)
    end
    assert.equal(0, (plan("--budget 2 GiB", step)))
  end)

  it("refuses an earlier evaluation over the budget, at its line", function()
    local status, _, err = plan("--budget 1MiB",
      "\nmrt.eval(mrt.randn(1024, 1024))\n" .. step)
    assert.equal(1, status)
    assert.matches(":3: .*takes 4194304 bytes, the budget is 1048576", err)
  end)

  it("says what is wrong with its options and scripts", function()
    local function says(wanted, pattern, ...)
      local status, _, err = plan(...)
      assert.equal(wanted, status)
      assert.matches(pattern, err)
    end
    says(1, "without calling or planning a compiled function", "", "print 'nothing'")
    says(2, "'six' is not a number of bytes; 6GiB", "--budget six", step)
    says(2, "'0' is not a number of bytes", "--budget 0", step)
    says(2, "no option '%-%-nonsense'", "--nonsense", step)
    says(1, "/nowhere/x.html", "--html /nowhere/x.html", step)
    says(1, "oh no", "", "error 'oh no'")
  end)
end)
