--- plan_spec.lua -- `mrt plan` and `mrt estimate` from outside
---
--- SPDX-License-Identifier: MIT

local codec = require "mrt.util.json"
local files = require "support.files"

local program = os.getenv "MRT" or "build/mrt"

local function count(text, pattern) return select(2, text:gsub(pattern, "")) end

describe("the program", function()
  -- Exit status, standard output, standard error of mrt.
  local function run(arguments, input)
    local script, errors = files.temporary(input or ""), files.name()
    local pipe = io.popen(("'%s' %s 2>%s <%s"):format(program,
      arguments:gsub("SCRIPT", script), errors, script))
    local output = pipe:read "a"
    local _, _, status = pipe:close()
    local problem = files.read(errors)
    return status, output, problem
  end

  local planned = [[
    local mrt = require "mrt"
    local step = mrt.compile(function(x) return x:softmax(2):sum() end)
    local plan = step:plan(mrt.ones(64, 64))
  ]]

  it("prints a report once that the script prints itself", function()
    local status, out = run("plan SCRIPT", planned .. "plan:report() step(mrt.ones(64, 64))")
    assert.equal(0, status)
    assert.equal(1, count(out, "lower bound"))
    status, out = run("plan --json SCRIPT", planned .. "plan:report() step(mrt.ones(64, 64))")
    assert.equal(0, status)
    assert.equal("mrt.plan/1", codec.decode(out).schema)
  end)

  it("says ten lines of what a user wants, and all with --long", function()
    local text = [[
      local mrt = require "mrt"
      local net = mrt.nn.Sequential(mrt.nn.Linear(64, 64), mrt.nn.GELU(), mrt.nn.Linear(64, 8))
      local opt = mrt.optim.adamw(net:parameters())
      mrt.compile(function(x)
        local loss = net(x):pow(2):mean()
        opt:step(mrt.grad(loss, net:parameters()))
        return loss
      end)(mrt.ones(32, 64))]]
    local status, out = run("plan SCRIPT", text)
    assert.equal(0, status)
    local peak = out:match "\npeak +[%d.]+ KiB %(([%d,]+) bytes%)"
    for _, pattern in ipairs { "^plan of ", "\nmade of +[%a ]+ [%d.]+ KiB, ",
      "\nlargest .*layers%.1, ",
      "\npeak is at +step %d+ of %d+: [^\n]*:%d+\n", "\nmore +mrt plan %-%-long",
      "\nstep time +[%d.]+ %as, predicted for ",
      "\nless +mrt plan %-%-budget [%d.]+KiB " .. out:match "(/%S+):%d+" } do
      assert.matches(pattern, out)
    end
    assert.is_true(count(out, "\n") <= 12)
    local _, long = run("plan --long SCRIPT", text)
    assert.truthy(long:find(peak .. " bytes", 1, true))
    assert.matches("\nlower bound", long)
    _, out = run("plan --budget 1MiB SCRIPT", text)
    assert.matches("; [%d.]+ %% of the budget of 1.00 MiB\n", out)
    status, out = run("plan --budget 80KiB SCRIPT", text)
    assert.matches("; [%d.]+ KiB more than the budget of 80.0 KiB\n", out)
    assert.matches("\nways into 80.0 KiB\n", out)
    assert.is_true(status <= 1)
  end)

  it("refuses in people's figures what no memory holds", function()
    local status, _, err = run([[-e 'local mrt = require "mrt"
      print(mrt.zeros(1 << 20, 1 << 20):sum())']])
    assert.equal(1, status)
    assert.matches("it takes 4.00 TiB %(%d+ bytes%), 4.00 TiB of them are still to be had, and "
      .. "[%d.]+ GiB are available; the largest part is full f32%[1048576,1048576%], 4.00 TiB ",
      err)
    assert.matches("compute less at a time, or compile it with the option memory", err)
  end)

  it("says how long planning took", function()
    local _, out = run("plan --long SCRIPT", planned)
    local us = tonumber(out:match "static.-(%d+)  to plan, once")
    assert.is_true(us > 0)
  end)

  it("takes the first plan of a script that calls none", function()
    local status, out = run("plan --json -", planned .. [[
      io.write "text" io.stdout:write "more" print(mrt)
      step:plan(mrt.ones(8, 8))]])
    assert.equal(0, status)
    assert.equal(64 * 64 * 4, codec.decode(out).transient)
  end)

  it("passes by the loading of weights", function()
    local status, out = run("plan --json -", planned .. [[
      local m = mrt.nn.Linear(2, 2)
      m:load_state(m:state())
      step(mrt.ones(8, 8))]])
    assert.equal(0, status)
    assert.equal(8 * 8 * 4, codec.decode(out).transient)
  end)

  it("refuses what it cannot read or write", function()
    local wrong = 1
    local function says(pattern, ...)
      local status, _, err = run(...)
      assert.equal(wrong, status)
      assert.matches(pattern, err)
    end
    says("cannot open nowhere.lua", "plan nowhere.lua")
    says(":1: unexpected symbol near '='", "plan SCRIPT", "x = = 1")
    says("not a regular file", "plan --html / SCRIPT", planned)
    says("below the working%-set bound, 16,448", "plan --budget 16KiB SCRIPT", planned)
    wrong = 2
    says("script.lua wanted", "plan")
    says("no option '%-%-bugdet'; did you mean %-%-budget%?", "plan --bugdet 1GiB SCRIPT", planned)
    says("%-%-html wants a value", "plan --html '' SCRIPT", planned)
    says("%-%-budget wants a value", "plan --budget")
    says("%-%-json takes no value", "plan --json=3 SCRIPT", planned)
    says("'50%%' is not a number of bytes", "plan --budget 50% SCRIPT", planned)
    says("'nan' is not", "plan --budget nan SCRIPT", planned)
  end)

  it("shows ways into less than the working set: by swapping", function()
    local status, out = run("plan --budget 400KiB SCRIPT", [[
      local mrt = require "mrt"
      local w = {}
      for i = 1, 8 do w[i] = mrt.parameter(mrt.zeros(128, 128), "w" .. i) end
      mrt.compile(function() for i = 1, 8 do w[i]:assign(w[i] + 1) end end)()]])
    assert.equal(0, status)
    assert.matches("swap weights and optimizer state .- fits", out)
  end)

  it("gives estimates as JSON", function()
    local function json(arguments)
      local status, out, err = run("estimate " .. arguments .. " --json")
      assert.equal("", err)
      assert.equal(0, status)
      local got = assert(codec.decode(out))
      assert.equal("mrt.estimate/1", got.schema)
      assert.equal(arguments:match "%S+", got.estimate)
      return got
    end
    local models = json("gpt3").models
    assert.equal(0, (run "estimate --json gpt3"))
    assert.equal(8, #models)
    assert.equal(2100000000000, models[8].adam)
    assert.equal(2 * models[8].boundary, models[8].boundary_f32)
    assert.equal(163840000000,
      json("boundary --tokens 1000000 --dim 2560 --layers 32").boundary)
    assert.equal(12e9, json("states --parameters 1e9").literature)
    assert.equal(3750000000, json("zero --parameters 1e9 --ranks 8 --stage 2").states)
    local gpt = json "transformer --layers 12 --dim 768 --heads 12 --sequence 1024 --vocab 50257"
    assert.equal(124439808, gpt.parameters)
    assert.equal(gpt.states.gradients * 2, gpt.states.optimizer)
    assert.is_true(gpt.activations.total > gpt.activations.layers)
    assert.equal(400, json("linear --inputs 10 --outputs 20 --rows 5").output)
  end)
end)
