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
  local WAIT <const> = 0.009 -- ms: of each node that is measured by itself

  -- Milliseconds of nodes that were measured and are none any more, by the mean of
  -- their kind: bias gradients come with products (matmul_sums), and of the table that is
  -- the classifier, too, rows are added to the gradient (embedding_add).  What stands
  -- for the latter was not measured: its predicted time is taken off again.
  local function gone(profile, plan)
    local now, ms = {}, 0
    for _, s in ipairs(plan:steps()) do
      now[s.op] = (now[s.op] or 0) + 1
      if s.op == "embedding_add" then ms = ms - s.time * 1e3 end
    end
    for _, row in ipairs(profile.operators) do
      if row.op == "sum" or row.op == "add" or row.op == "embedding_grad" then
        ms = ms + (row.nodes - (now[row.op] or 0)) * (row.ms / row.nodes - WAIT)
      end
    end
    return ms
  end

  for _, case in ipairs { "124M", "1558M" } do
    it("predicts the step of GPT-2 that was measured: " .. case, function()
      device.use "h100"
      -- Gradients of norms were not added where they are computed, nor came that of the
      -- loss with the loss.
      local step, x, y = gpt.make(gpt.cases[case],
        { add_norm_grads = false, join_losses = false })
      local plan, row = step:plan(x, y), measured["bench-" .. case].rows[1]
      local profile = measured["profile-" .. case]
      local off = plan.seconds * 1e3 / (row.ms - gone(profile, plan))
      assert.is_true(off > 0.95 and off < 1.05, ("%.3f times"):format(off))
      -- Tokens, targets and the learning rate are copied to slots, as they were there.
      assert.are.equal(2 * 8 * 16 * 1024 + 256, plan.slots)
      assert.are.equal(plan.peak, plan.persistent + plan.transient + plan.outputs)
      local more = row.overhead_after - row.overhead
      local each = (plan:recording() - 1e7) / plan.nodes
      assert.near(1, (1e7 + each * profile.nodes) / more, 0.1)
      assert.truthy(plan:text():find("recording +[%d.]+ MiB[^\n]*an estimate"))
    end)
  end
end)
