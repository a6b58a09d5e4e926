--- interrupt_spec.lua -- Ctrl-C in a run: it is saved, and goes on bit for bit
---
--- SPDX-License-Identifier: MIT

local files = require "support.files"
local program = require "support.program"
local ranks = require "support.ranks"

-- A run that presses Ctrl-C itself after some steps, and goes on when it is heard:
-- among ranks the signal is for the thread of the program, which may be slow to wake.
-- `more`: options as Lua code.
local script = [[
local stop_at, folder, seed, resume, more = ...
local mrt = require "mrt"
local nn, optim, train, policy = mrt.nn, mrt.optim, mrt.train, mrt.policy
mrt.seed(7)
local model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 3))
local opt = optim.adamw(model:parameters(), { lr = function(t) return 0.01 / math.sqrt(t) end })
local x = mrt.eval(mrt.randn(48, 6))
local y = mrt.eval(x:slice(2, 1, 3):argmax(2):cast "i32")
local given = { model = model, optimizer = opt, steps = 12, log_every = 1 << 30,
  loader = mrt.data.batches({ x, y }, { batch = 8, seed = seed }),
  loss = function(m, a, b) return nn.cross_entropy(m(a), b) end,
  clip = 1.0, snapshots = folder, resume = resume,
  on_step = function(info)
    if info.step ~= stop_at then return end
    local core = require "mrt.core"
    local until_then = core.clock() + 60
    io.popen("kill -INT $PPID"):close()
    while not core.interrupted() and core.clock() < until_then do end
  end }
for name, value in pairs(more(policy)) do given[name] = value end
local stdout = io.stdout
io.stdout = assert(io.open("/dev/null", "w"))
local ok, raised = pcall(train.run, given)
io.stdout:close()
io.stdout = stdout
if not ok and (type(raised) ~= "table" or raised.code ~= "interrupted") then error(raised, 0) end
local bits = {}
for name, t in pairs(model:state()) do bits[#bits + 1] = name .. t:to("f32"):bytes() end
table.sort(bits)
return ok and table.concat(bits) or raised.message
]]

local ways = {
  ["as it is"] = "{}",
  ["in micro-batches, bf16"] = "{ accumulate = 2, "
    .. "compile = { precision = policy.precision.bf16() } }",
}

describe("Ctrl-C", function()
  for name, more in pairs(ways) do
    it("saves a run, which goes on bit for bit: " .. name, function()
      local options = assert(load("local policy = ... return " .. more))
      local function run(...)
        return assert(load(script, "=run"))(...)
      end
      local whole = run(0, nil, 3, nil, options)
      local folder = files.folder()
      assert.equal(("interrupted after step 5 of 12; saved in %s; to go on: the same again, "
        .. "with resume = true"):format(folder), run(5, folder, 3, nil, options))
      assert.equal(("interrupted after step 8 of 12; saved in %s; to go on: the same again")
        :format(folder), run(8, folder, 3, true, options))
      assert.equal(whole, run(0, folder, 3, true, options))
    end)
  end

  it("says where nothing is saved, and the next is what it was", function()
    assert.matches("^interrupted after step 2 of 12; nothing is saved: .*snapshots",
      assert(load(script))(2, nil, 1, nil, function() return {} end))
  end)

  it("ends several ranks after one step, saved together", function()
    local code = ("local run = assert(load(%q, '=run', 't')) "):format(script) .. [[
      require "mrt.train.stop".every = 0
      local function go(stop_at, folder, resume)
        return run(comm.rank == 1 and stop_at or 0, folder, 3 + comm.rank, resume, function()
          return { accumulate = 2, compile = { shard = policy.shard.zero(2),
            precision = policy.precision.bf16() } }
        end)
      end
      local whole = go(0)
      local folder = %q
      local said = go(4, folder, false)
      local again = go(0, folder, true)
      return ("%%s %%s"):format(said, whole == again)
    ]]
    local said = ranks.alike(2, code:format(files.folder()))
    assert.matches("^interrupted after step %d+ of 12; saved in .* true$", said)
  end)

  it("ends the program with status 130 and without a traceback", function()
    local code, text = program.run("'" .. files.temporary [[
      local mrt = require "mrt"
      local f = mrt.compile(function(x) return x:sum() end)
      mrt.train.run { step = f, steps = 9,
        loader = { next = function() return mrt.ones(2) end },
        on_step = function() io.popen("kill -INT $PPID"):close() end }]] .. "'")
    assert.equal(130, code)
    assert.matches("interrupted after step 1 of 9; nothing is saved", text)
    assert.is_nil(text:find("traceback", 1, true))
    code = program.run [[-e "io.popen('kill -INT \$PPID'):close() while true do end"]]
    assert.equal(130, code)
  end)
end)
