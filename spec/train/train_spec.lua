--- train_spec.lua -- the loop, its evaluation and what it prints
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local nn, optim, data, train = mrt.nn, mrt.optim, mrt.data, mrt.train
local progress = require "mrt.train.progress"

-- Something that can be written to as a file can.
local function sink()
  local parts = {}
  return {
    write = function(_, ...) for _, s in ipairs { ... } do parts[#parts + 1] = s end end,
    flush = function() end,
    text = function() return table.concat(parts) end,
  }
end

local function problem()
  mrt.seed(4)
  local x = mrt.randn(64, 3)
  local y = x:matmul(mrt.tensor { { 1.0 }, { -2.0 }, { 0.5 } })
  return { model = nn.Sequential(nn.Linear(3, 1), nn.Dropout(0.5)),
    loader = data.batches({ x, y }, { batch = 16, seed = 1 }),
    loss = function(m, a, b) return nn.mse_loss(m(a), b) end }
end

-- train.run, and what it prints.
local function quiet(given)
  local stdout, capture = io.stdout, io.tmpfile()
  io.stdout = capture -- luacheck: ignore 122
  local ok, summary = pcall(train.run, given)
  io.stdout = stdout -- luacheck: ignore 122
  capture:seek "set"
  local text = capture:read "a"
  capture:close()
  return ok, summary, text
end

describe("progress", function()
  it("writes plain lines into a pipe, with the mean loss since the last", function()
    local out = sink()
    local bar = progress.new { steps = 4, every = 2, out = out, terminal = false }
    for i = 1, 4 do bar:step(i, i, 100) end
    local losses = {}
    for step, loss in out.text():gmatch "step (%d)/4  loss (%S+)  %S+ tokens/s" do
      losses[tonumber(step)] = tonumber(loss)
    end
    assert.same({ [1] = 1, [2] = 2, [4] = 3.5 }, losses)
    assert.is_nil(out.text():find("\r", 1, true))
  end)

  it("rewrites one line on a terminal and leaves the last one standing", function()
    local out = sink()
    do
      local bar <close> = progress.new { steps = 3, out = out, terminal = true }
      for i = 1, 3 do bar:step(i, 0.5, 1) end
    end
    local text = out.text()
    assert.matches("^\rstep 1/3", text)
    local _, lines = text:gsub("\n", "")
    assert.equal(1, lines)
    assert.matches("step 3/3[^\r]*\n$", text)
  end)

  it("leaves out what matters least where the terminal is narrow, and asks each time", function()
    for wide = 1, 120 do
      local out = sink()
      local columns = wide
      local bar = progress.new { steps = 9, out = out, terminal = true, memory = 3 << 20,
        width = function() return columns end }
      bar:step(1, 0.5, 1 << 20, { lr = 3e-4, norm = 0.8312, memory = 1 << 20 })
      bar.shown, columns = 0, 1000
      bar:step(2, 0.25, 1, { lr = 3e-4, norm = 0.8312, memory = 1 << 20 })
      local first, second = out.text():match "^\r([^\27]*)\27%[K\r([^\27]*)\27%[K$"
      assert.is_true(utf8.len(first) < wide)
      if wide > 40 then assert.matches("^step 1/9  loss 0.5000  .*left$", first) end
      assert.matches("step 2/9  loss 0.2500  lr 0.0003  norm 0.831  %S+ tokens/s  "
        .. "1.00/3.00 MiB  %w+ left", second)
    end
  end)

  it("leaves a line of each evaluation and of the end, with all that is known", function()
    for _, columns in ipairs { 50, 200 } do
      local out = sink()
      local bar <close> = progress.new { steps = 2, out = out, terminal = true,
        memory = 3 << 20, width = function() return columns end }
      for i = 1, 2 do
        bar:step(i, 0.5, 1, { lr = 0.01, norm = 2, memory = 2 << 20, pending = true })
      end
      bar:evaluation("validation loss", 0.75)
      bar:summary({ loss = 0.5, eval = 0.75, eval_name = "validation loss", memory = 2 << 20 }, 2)
      local text = out.text():gsub("\n  ", "  "):gsub("[^\n]*\r\27%[K", "")
      assert.matches("^step 2/2  validation loss 0.7500  loss 0.5000  lr 0.01  norm 2  "
        .. "%S+ tokens/s  2.00/3.00 MiB  after %w+\n2 steps in %w+  loss 0.5000  "
        .. "validation loss 0.7500  %S+ tokens/s  memory 2.00 of 3.00 MiB planned\n$", text)
      for line in out.text():gmatch "[^\n\r]+" do
        assert.is_true(#line:gsub("\27%[K", "") < columns)
      end
    end
  end)

  it("foretells by the steps after the first, which plans", function()
    local out, core = sink(), require "mrt.core"
    local clock, now = core.clock, 0
    finally(function() core.clock = clock end)
    core.clock = function() return now end
    local bar = progress.new { steps = 10, every = 1, out = out, terminal = false }
    for i = 1, 10 do
      now = now + (i == 1 and 100 or 2)
      bar:step(i, 1, 10)
    end
    assert.matches("step 2/10  loss 1.0000  5 tokens/s  16s left", out.text())
    assert.matches("step 10/10  loss 1.0000  5 tokens/s  1m 58s", out.text())
  end)
end)

describe("train", function()
  it("evaluates without dropout, weighs by rows, and restores the mode", function()
    local p = problem()
    p.loader = data.batches({ mrt.ones(5, 3), mrt.zeros(5, 1) },
      { batch = 2, shuffle = false })
    local seen = 0
    local value = train.evaluator { model = p.model, loader = p.loader,
      loss = function(m, x, y)
        seen = seen + 1
        return nn.mse_loss(m(x), y)
      end }()
    local wanted = p.model.layers[1](mrt.ones(1, 3)):item() ^ 2
    assert.is_true(math.abs(value - wanted) < 1e-5 * math.max(1, wanted))
    assert.equal(2, seen)  -- traced for two rows and for one
    assert.is_true(p.model.training)
  end)

  it("runs steps, reports them and ends with an evaluation", function()
    local p, steps, evals = problem(), {}, 0
    p.model.layers[2].p = 0
    p.optimizer = optim.sgd(p.model:parameters(), { lr = 0.1 })
    p.steps, p.eval_every, p.log_every = 60, 25, 1000
    p.on_step = function(info) steps[#steps + 1] = info.loss end
    p.eval = function() evals = evals + 1 return 7 end
    local ok, summary = quiet(p)
    assert.is_true(ok, tostring(summary))
    assert.equal(60, #steps)
    assert.equal(3, evals)
    assert.equal(7, summary.eval)
    assert.equal(steps[60], summary.loss)
    assert.is_true(summary.loss < steps[1] / 100)
  end)

  it("knows how long gradients are where they are clipped, at 64 bytes and no bit", function()
    local function told(clip)
      local p, norms = problem(), {}
      p.optimizer = optim.sgd(p.model:parameters(), { lr = 0.1 })
      p.steps, p.clip, p.accumulate = 4, clip, 2
      p.on_step = function(info) norms[info.step] = info.norm or false end
      local ok, summary = quiet(p)
      assert.is_true(ok, tostring(summary))
      return summary.loss, norms
    end
    local plain, none = told(nil)
    local same, norms = told(math.huge)
    assert.same({ false, false, false, false }, none)
    assert.equal(plain, same)
    for i = 1, 4 do assert.is_true(norms[i] > 0) end
    assert.not_equal(plain, (told(norms[1] / 2)))
  end)

  it("reads losses a step late where it may, and tells the same", function()
    local function told(late)
      local p, list, batches = problem(), {}, 0
      local loader = p.loader
      p.optimizer = optim.sgd(p.model:parameters(), { lr = 0.1 })
      p.loader = { next = function()
        batches = batches + 1
        return loader:next()
      end }
      p.steps, p.eval_every, p.late = 7, 3, late
      p.on_step = function(info) list[#list + 1] = { info.step, info.loss, batches } end
      p.eval = function() list[#list + 1] = { "eval" } return 1 end
      local ok, summary = quiet(p)
      assert.is_true(ok, tostring(summary))
      assert.equal(list[#list - 1][2], summary.loss)
      return list
    end
    local now, late = told(false), told(true)
    assert.equal(10, #now)
    for i, entry in ipairs(now) do
      assert.same({ entry[1], entry[2] }, { late[i][1], late[i][2] })
      local step = math.tointeger(entry[1])
      if step then
        assert.equal(step, entry[3])
        -- the next batch was taken and begun: not before an evaluation, nor at the end
        assert.equal(step % 3 == 0 and step or math.min(step + 1, 7), late[i][3])
      end
    end
  end)

  it("takes the memory that it says, beside evaluations and batches of other sizes", function()
    local p = problem()
    mrt.seed(5)
    local x = mrt.randn(23, 3)
    local rest = { x, x:sum(2, true) }
    local _, _, text = assert(quiet { model = p.model, loss = p.loss, log_every = 1,
      optimizer = optim.adamw(p.model:parameters(), { lr = 0.01 }), steps = 9, eval_every = 2,
      loader = data.batches(rest, { batch = 9, seed = 2 }),
      eval = train.evaluator { model = p.model, loss = p.loss,
        loader = data.batches(rest, { batch = 7, shuffle = false }) } })
    local _, _, whole = assert(quiet { model = p.model, loss = p.loss, steps = 1,
      optimizer = optim.adamw(p.model:parameters(), { lr = 0.01 }),
      loader = data.batches({ mrt.randn(23, 3), mrt.randn(23, 1) }, { batch = "all" }) })
    assert.equal(whole:match "of ([%d.]+)", whole:match "memory ([%d.]+)", whole)
    local lines = 0
    for taken, planned in text:gmatch "([%d.]+)/([%d.]+) %aiB" do
      lines = lines + 1
      assert.is_true(tonumber(taken) <= tonumber(planned), text)
    end
    assert.equal(9, lines)
    local taken, planned = text:match "memory ([%d.]+) of ([%d.]+) %aiB planned"
    assert.equal(planned, taken, text)
  end)

  it("counts steps, whatever micro-batches they have", function()
    local function losses(k)
      local p, list = problem(), {}
      p.optimizer = optim.sgd(p.model:parameters(), { lr = 0.1 })
      local step = train.step { model = p.model, optimizer = p.optimizer, loss = p.loss,
        accumulate = k, clip = 1.0 }
      for i = 1, 5 do list[i] = step(p.loader:next()):item() end
      return list
    end
    local whole, parts = losses(nil), losses(3)
    for i = 1, 5 do assert.is_true(math.abs(whole[i] - parts[i]) < 1e-5 * whole[i]) end
  end)

  it("says what is missing", function()
    assert.error_matches(function() train.run { steps = 3 } end,
      "train.run: loader is missing")
    assert.error_matches(function() train.run { steps = 3, loader = 1 } end,
      "option 'loader': a table wanted, got 1")
    assert.error_matches(function() train.run { steps = 3, loader = {} } end,
      "step is missing, or model, optimizer and loss")
    local p = problem()
    p.optimizer = optim.sgd(p.model:parameters())
    p.steps, p.loader = 1, {}
    assert.error_matches(function() train.run(p) end, "option 'loader': a loader wanted")
    p.loader = { next = function() end }
    assert.error_matches(function() train.run(p) end, "loader:next%(%) gave nil, tensors wanted")
    assert.error_matches(function() train.run { stpes = 3 } end,
      "no option 'stpes'")
  end)
end)
