-- snapshot_spec.lua -- runs in stages that are saved and go on, whoever has what in pieces
--
-- SPDX-License-Identifier: MIT

local files = require "support.files"
local ranks = require "support.ranks"

describe("a run in stages", function()
  -- Two stages, each of two ranks with rows of their own.
  local code = [[
    local function go(folder, resume, steps)
      mrt.seed(7)
      local model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(32, 24), nn.Tanh(), nn.Linear(24, 3))
      local opt = optim.adamw(model:parameters(),
        { lr = function(t) return 0.01 / math.sqrt(t) end })
      local x = mrt.eval(mrt.randn(48, 6))
      local y = mrt.eval(x:slice(2, 1, 3):argmax(2):cast "i32")
      local losses, stdout = {}, io.stdout
      io.stdout = assert(io.open("/dev/null", "w"))
      train.run { model = model, optimizer = opt, steps = steps, log_every = 1 << 30,
        loader = mrt.data.batches({ x, y }, { batch = 8, seed = 3 + comm.rank %% 2 }),
        loss = function(m, a, b) return nn.cross_entropy(m(a), b) end,
        clip = 1.0, snapshots = folder, resume = resume, accumulate = 2, compile = { %s },
        on_step = function(info) losses[#losses + 1] = ("%%a"):format(info.loss) end }
      io.stdout:close()
      io.stdout = stdout
      return table.concat(losses, " ")
    end
    local whole = go(nil, nil, 7)
    return tostring(go(%q, false, 4) .. " " .. go(%q, true, 7) == whole) .. " " .. #whole
  ]]

  for _, how in ipairs { "mesh = { pipeline = 2, data = 2 }", "mesh = { pipeline = 2, shard = 2 }",
    "mesh = { pipeline = 2, data = 2 }, shard = policy.shard.zero(1)",
    "mesh = { pipeline = 2, data = 2 }, shard = policy.shard.zero(3), "
      .. "precision = policy.precision.bf16()",
    "mesh = { pipeline = 2, data = 2 }, gradient_noise = true, "
      .. 'precision = policy.precision.fp8 { scaling = "delayed", history = 3 }',
    "mesh = { pipeline = 2, shard = 2 }, compress = 'int8', "
      .. "pipeline = { schedule = 'zero_bubble' }, "
      .. 'precision = policy.precision.fp8 { scaling = "delayed", history = 2 }' } do
    it("goes on bit for bit: " .. how, function()
      local folder = files.folder()
      for _, said in ipairs(ranks.run(4, code:format(how, folder, folder))) do
        assert.matches("^true %d%d+$", said)
      end
    end)
  end
end)
