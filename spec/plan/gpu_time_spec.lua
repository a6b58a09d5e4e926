-- gpu_time_spec.lua -- predicted times of steps on a GPU, beside measured ones
local mrt = require "mrt"
local json = require "mrt.util.json"
local files = require "support.files"

local device = mrt.device

after_each(function() device.use "declared" end)

-- What gpu_check measured, beside what is predicted for that card without it.
describe("an H100's profile", function()
  local gpt = require "mrt.bench.gpt"
  local measured = json.decode(files.read "kernels/cuda/h100.json")

  for _, case in ipairs { "124M", "1558M" } do
    it("predicts the step of GPT-2 that was measured: " .. case, function()
      device.use "h100"
      local step, x, y = gpt.make(gpt.cases[case], {})
      local plan, row = step:plan(x, y), measured["bench-" .. case].rows[1]
      local off = plan.seconds * 1e3 / row.ms
      assert.is_true(off > 0.95 and off < 1.05, ("%.3f times"):format(off))
      -- Tokens, targets and the learning rate are copied to slots, as they were there.
      assert.are.equal(2 * 8 * 16 * 1024 + 256, plan.slots)
      assert.are.equal(plan.peak, plan.persistent + plan.transient + plan.outputs)
      local more = row.overhead_after - row.overhead
      assert.near(1, plan:recording() / more, 0.1)
      assert.truthy(plan:text():find("recording +[%d.]+ MiB[^\n]*an estimate"))
    end)
  end
end)
