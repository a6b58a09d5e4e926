--- run_spec.lua -- fine-tuning: it learns, goes on where it was, keeps its memory
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local choices = require "mrt.finetune.choices"
local files = require "support.files"
local finetune = require "mrt.finetune"
local method = require "mrt.finetune.method"
local random = require "mrt.data.random"
local read = require "mrt.finetune.options"
local step = require "mrt.finetune.step"
local tiny = require "finetune.tiny"

local function options_of(changes)
  local o = { model = tiny.model(), tokenizer = tiny.tokenizer, context = 32, batch = 2,
    lr = 0.02, rank = 4, say = function() end, steps = not (changes or {}).epochs and 6 or nil }
  for name, value in pairs(changes or {}) do o[name] = value end
  if o.batch == "unsaid" then o.batch = nil end
  return o
end

-- Run with standard output closed to the progress lines.
local function run(changes)
  local write = io.stdout
  local nowhere <close> = assert(io.open("/dev/null", "w"))
  io.stdout = nowhere -- luacheck: ignore 122
  local got = table.pack(pcall(finetune, options_of(changes)))
  io.stdout = write -- luacheck: ignore 122
  assert(got[1], got[2])
  return table.unpack(got, 2, got.n)
end

local function bits(model)
  local list = {}
  for name, p in model:named_parameters() do list[#list + 1] = name .. p:bytes() end
  table.sort(list)
  return table.concat(list)
end

local sums

setup(function() sums = tiny.file(tiny.sums(40)) end)
teardown(function() os.remove(sums) end)

describe("a run", function()
  it("learns, and watches samples that it does not learn", function()
    local lines = {}
    local found = assert(run { data = sums, method = "full", steps = 30, eval = 0.25,
      say = function(text) lines[#lines + 1] = text end, memory = "4GiB" })
    assert.is_true(found.loss < 3.6 and found.eval < 3.9)
    local text = table.concat(lines, "\n")
    assert.matches("40 samples, [%d,]+ tokens, [%d,]+ of them learned", text)
    assert.matches("full, f32, 2 x 32: a step takes", text)
    assert.matches("at the peak +([%d,]+) bytes", text)
  end)

  it("says its bytes, which are those of the plan", function()
    for _, name in ipairs { "full", "lora", "qlora" } do
      local o = read.options(options_of { data = sums, method = name, dtype = "bf16" })
      o.warmup = 0
      local choice = choices.plan(o.model.options, o)
      local b = choice.bytes
      assert.equal(choice.peak, b.weights + b.trained + b.state + b.other + b.transient)
      -- The model whose weights are there takes as many.
      local model = method.apply(tiny.model():to(method.stored(o)), o)
      local compiled = step.new(model, o)
      local x = mrt.zeros({ 2, 32 }, { dtype = "i32" })
      assert.equal(choice.peak, compiled:plan(x, x, x, x).peak)
    end
  end)

  it("of experts learns beside them, in micro-batches as in one", function()
    local changes = { experts = { count = 4, top = 2, hidden = 16, normalize = true,
      shared = 16 } }
    for name, most in pairs { lora = 2, full = 4 } do
      local losses = {}
      for _, parts in ipairs { 1, most } do
        local found = assert(run { model = tiny.model(changes), data = sums, method = name,
          batch = 4, accumulate = parts, steps = 3, lr = 0.01 })
        losses[#losses + 1] = found.loss
        for path in found.model:named_parameters() do
          assert.is_nil(path:match "router%.%a+%.a$" or path:match "shared_gate%.%a+%.a$")
        end
      end
      assert.near(losses[1], losses[2], 1e-5)
    end
    local named = assert(run { model = tiny.model(changes), data = sums, layers = "router",
      steps = 1 })
    assert.equal(4, #named.model:parameters())
  end)

  it("of a few samples has as many rows as they fill", function()
    local path = tiny.file(tiny.sums(1))
    finally(function() os.remove(path) end)
    local lines = {}
    assert(run { data = path, batch = "unsaid", say = function(text)
      lines[#lines + 1] = text
    end })
    assert.matches("1 rows of 32 positions, 6 steps of 1 rows", table.concat(lines, "\n"))
  end)

  it("counts epochs", function()
    local loader = finetune.loader(assert(finetune.read(sums, { tokenizer = tiny.tokenizer,
      context = 32 })).samples, { batch = 2, context = 32 })
    local found = assert(run { data = sums, epochs = 2 })
    assert.equal(2 * loader.batches, found.done)
  end)
end)

describe("a run that was stopped", function()
  -- Stop after a step as Ctrl-C does.
  local function stopper(at)
    return function(info) if info.step == at then error("interrupted!", 0) end end
  end

  for _, changes in ipairs {
    { method = "lora", dropout = 0.25 }, { method = "full", state = "8bit", accumulate = 2 },
    { method = "qlora", dtype = "bf16", pack = false },
  } do
    it("goes on bit for bit: " .. changes.method, function()
      local folder, lines = files.folder(), {}
      local function one(more)
        local o = { data = sums }
        for _, list in ipairs { changes, more or {} } do
          for name, value in pairs(list) do o[name] = value end
        end
        o.model = tiny.model():to(o.dtype or "f32")
        if o.method == "full" then function o.model.save() return true end end
        return assert(run(o))
      end
      local whole = one()
      local first = one { out = folder, on_step = stopper(4), again = "mrt finetune x --resume",
        say = function(text) lines[#lines + 1] = text end }
      assert.same({ true, 4 }, { first.stopped, first.done })
      assert.equal("stopped after step 4 of 6, and saved; to go on: mrt finetune x --resume",
        lines[#lines])
      local second = one { out = folder, resume = true }
      assert.same({ 2, whole.loss }, { second.steps, second.loss })
      assert.equal(bits(whole.model), bits(second.model))
    end)
  end

  it("does not go on as another one", function()
    local folder = files.folder()
    assert(run { data = sums, out = folder, steps = 2 })
    local ok, err = pcall(run, { data = sums, out = folder, steps = 2, resume = true, lr = 0.1 })
    assert.is_false(ok)
    assert.matches("resume: lr is 0.1, the snapshots are of 0.02", tostring(err))
  end)
end)

describe("a budget", function()
  it("that is too little is refused, with what else would fit", function()
    local lines = {}
    local found, message, code = run { data = sums, memory = "1MiB", say = function(text)
      lines[#lines + 1] = text
    end }
    assert.is_nil(found)
    assert.equal("budget", code)
    assert.matches("lora rank 4, f32, 2 x 32 does not fit 1.00 MiB, which leaves 0 B", message)
    assert.matches("all kept +within 1.00 MiB", lines[#lines])
    assert.matches("qlora rank 4, bf16, 1 x 32 .* no", lines[#lines])
  end)

  it("changes no bit of any combination", function()
    local rng = random.new(20)
    local function pick(...) return (select(1 + rng:integer(select("#", ...)), ...)) end
    for _ = 1, 5 do
      local o = read.options(options_of { data = sums, method = pick("lora", "qlora", "full"),
        dtype = pick("f32", "bf16"), pack = pick(true, false), accumulate = pick(1, 2),
        state = pick("f32", "8bit"), dropout = pick(0.0, 0.1), batch = 4 })
      o.warmup = 1
      local found = assert(finetune.read(sums, { tokenizer = tiny.tokenizer, context = 32 }))
      local function trained(memory)
        local model = method.apply(tiny.model():to(method.stored(o)), o)
        mrt.seed(4)
        o.memory = memory
        local compiled = step.new(model, o)
        local loader = finetune.loader(found.samples,
          { batch = 4, context = 32, pack = o.pack })
        local x = table.pack(loader:next())
        local plan = compiled:plan(table.unpack(x, 1, x.n))
        for _ = 1, 3 do compiled(loader:next()) end
        return plan, bits(model)
      end
      local plan, wanted = trained()
      local less = plan.persistent + plan.outputs + plan.transient * 7 // 10
      local fits, within, got = pcall(trained, less)
      if not fits then -- what kernels work in is too large a part: the least, then
        less = math.tointeger(tostring(within):match "%((%d+) bytes%) is the least")
        within, got = trained(less)
      end
      assert.is_true(within.peak <= less and less < plan.peak, choices.name(o))
      assert.equal(wanted, got, choices.name(o))
    end
  end)
end)
