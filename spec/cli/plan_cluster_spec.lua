--- plan_cluster_spec.lua -- `mrt plan --cluster` and `--find` from outside
---
--- SPDX-License-Identifier: MIT

local files = require "support.files"
local program = require "support.program"

local gpt = [[
  local mrt = require "mrt"
  mrt.seed(1)
  local model = mrt.nn.GPT { vocab = 200, dim = 32, layers = 4, heads = 4, context = 16 }
  local params = model:parameters()
  local opt = mrt.optim.adamw(params)
  local step = mrt.compile(function(x, y)
    local loss = mrt.nn.cross_entropy(model(x), y)
    opt:step(mrt.grad(loss, params))
    return loss
  end)
  local ids = mrt.zeros({ 8, 16 }, { dtype = "i64" })
  print("loss", step(ids, ids):item())
]]

describe("mrt plan --cluster", function()
  local script = files.temporary(gpt)
  local function plan(words) return program.run(("plan %s '%s'"):format(words, script)) end

  it("predicts the step, and says what each kind of rank takes", function()
    local code, out = plan "--cluster dgx-a100:16 --mesh tensor=2,data=8"
    assert.equal(0, code, out)
    assert.matches("mesh { tensor = 2, data = 8 }", out)
    assert.matches("step time +[%d.]+ %as, predicted; exposed communication [%d.]+ .s; "
      .. "bubble 0.0 %%", out)
    assert.matches("\nall alike .* KiB", out)
    local policy = files.temporary "return { accumulate = 4 }"
    code, out = plan(("--cluster dgx-a100:16 --mesh pipeline=2,data=8 --policy '%s'")
      :format(policy))
    assert.equal(0, code, out)
    assert.matches("\nstage 1 .*\nstage 2 ", out)
    assert.is_true(tonumber(out:match "bubble ([%d.]+) %%") > 5)
  end)

  it("searches, and writes a policy that the script runs with", function()
    local policy = files.name ".lua"
    local code, out = plan(("--cluster dgx-a100:2 --find --write '%s'"):format(policy))
    assert.equal(0, code, out)
    assert.matches("the quickest that fits\n", out)
    assert.matches("its plan, of the stage that takes most by estimate: [%d.]+ MiB, exactly", out)
    code, out = program.run(("plan --ranks 2 --policy '%s' '%s'"):format(policy, script))
    assert.equal(0, code, out)
    assert.matches("\npeak ", out)
    -- and for a machine of one device, to the end
    code, out = plan(("--cluster dgx-a100:1 --find --write '%s'"):format(policy))
    assert.equal(0, code, out)
    code, out = program.run(("--policy '%s' '%s'"):format(policy, script))
    assert.equal(0, code, out)
    assert.matches("loss\t%d%.%d", out)
  end)

  it("says what a job costs, on fewer devices if these are in time", function()
    local code, out = program.run("plan --cluster dgx-a100:16 --find --gpt layers=4,dim=256,"
      .. "heads=8,vocab=1024,context=256,batch=64 --tokens 1e9 --price 2 --deadline 100")
    assert.equal(0, code, out)
    local dollars
    for n in out:gmatch "hours on %d+ devices: ([%d,]+) dollars" do
      local now = tonumber((n:gsub(",", "")))
      assert.is_true(not dollars or now >= dollars)
      dollars = now
    end
    assert.is_truthy(dollars)
  end)

  it("refuses in a line", function()
    local model = "layers=4,dim=256,heads=8,vocab=1024,context=256"
    for words, wanted in pairs {
      ["--cluster dgx-z9:4 SCRIPT"] = "no cluster 'dgx%-z9'",
      ["--cluster dgx-a100:16 --mesh tensor=2 SCRIPT"] = "has 2 ranks, .* has 16 devices",
      ["--find SCRIPT"] = "%-%-find wants %-%-cluster",
      ["--cluster dgx-a100:16 --find"] = "wanted",
      ["--cluster dgx-a100:16 --price 2 SCRIPT"] = "%-%-price goes with %-%-find",
      ["--cluster dgx-a100:16 --find --gpt layers=4"] = "dim is missing",
      ["--cluster dgx-a100:16 --find --gpt " .. model] = "%-%-batch wanted",
      ["--cluster dgx-a100:16 --find --batch 7 --gpt layers=1,dim=256,heads=1,vocab=9,context=8"]
        = "no mesh of 16 ranks divides 7 sequences",
      ["--cluster dgx-a100:8 --find --gpt layers=96,dim=12288,heads=96,vocab=51200,context=2048,"
        .. "batch=8"] = "nothing fits: the least is over by",
    } do
      local code, out = program.run("plan " .. words:gsub("SCRIPT", "'" .. script .. "'"))
      assert.not_equal(0, code, words)
      assert.matches(wanted, out)
      assert.not_matches("traceback", out)
    end
  end)
end)
