--- process_spec.lua -- a bound on the whole process, under limits of the kernel
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local program = require "support.program"

-- A deep net that train.run trains; OPTIONS is what mrt.compile gets, MORE runs then.
local script = [[
local mrt = require "mrt"
local nn, optim = mrt.nn, mrt.optim
mrt.seed(1)
local layers = {}
for i = 1, 24 do
  layers[2 * i - 1], layers[2 * i] = nn.Linear(32, 32), nn.GELU()
end
local model = nn.Sequential(table.unpack(layers))
local function status(name)
  return assert(io.open "/proc/self/status"):read "a":match(name .. ":%s*(%d+)") * 1024 // 1
end
local function train(rows, options)
  local x = mrt.randn(rows, 32)
  local summary = mrt.train.run { model = model, steps = 2, compile = options,
    optimizer = optim.adamw(model:parameters()),
    loader = mrt.data.batches({ x }, { batch = rows }),
    loss = function(m, batch) return m(batch):square():mean() end }
  return ("%a"):format(summary.loss)
end
print(train(24576, OPTIONS), status "VmHWM")
MORE]]

-- Its loss and the most it had in memory, or all that it said.
local function train(options, before, more)
  local text = script:gsub("OPTIONS", options):gsub("MORE", more or "")
  local output = program.script(text, before)
  local loss, most = output:match "(0x[%x.p+-]+)%s+(%d+)"
  return loss, tonumber(most) or output, output
end

local BOUND <const> = '{ memory = { process = "120MiB" } }'

describe("a bound on the process #process", function()
  local loss, free = train "{ spend = 0 }"

  it("holds for all that is in memory, at the same bits", function()
    assert.is_true(free > 160 << 20, free)
    local bound, most = train(BOUND)
    assert.equal(loss, bound)
    assert.is_true(most <= 120 << 20, most)
  end)

  it("makes a step train where the kernel gives no more address space", function()
    for _, limit in ipairs { "ulimit -v 143360;", "ulimit -d 122880;" } do
      local none, message = train("{}", limit)
      assert.is_nil(none)
      assert.matches("out of memory", message)
      local bound, said = train('{ memory = { process = "4GiB" } }', limit .. " MRT_THREADS=4")
      assert(bound, said)
    end
  end)

  it("counts a later step's arena and variables once", function()
    local _, most, output = train(BOUND, nil, [[
      print("again", train(12288, { memory = { process = "110MiB" } }), status "VmHWM")]])
    assert.is_true(most <= 120 << 20, most)
    assert.matches("again", output)
  end)

  it("bounds micro-batches and the ways into a budget", function()
    local micro, most = train '{ memory = { process = "90MiB" }, accumulate = 4 }'
    assert(micro, most)
    assert.is_true(most <= 90 << 20, most)
    local step = mrt.compile(function(x) return x:square():sum() end)
    local ways = step:plan(mrt.ones(64)):options { budget = { process = "4GiB" } }
    assert.is_true(ways[1].fits)
  end)

  it("says what is taken where nothing is left", function()
    local step = mrt.compile(function(x) return x:sum() end, { memory = { process = 4096 } })
    assert.error_matches(function() step(mrt.ones(4)) end,
      "process = 4.00 KiB }: nothing is left for the step; .* of it in memory")
    local _, message = train '{ memory = { process = "37MiB" } }'
    assert.matches("37.0 MiB for the process, %d+.%d MiB of it in memory leave", message)
  end)

  it("refuses what is no bound", function()
    for _, given in ipairs { {}, { process = "x" }, { process = 9, device = 9 } } do
      assert.error_matches(function() mrt.compile(print, { memory = given }) end,
        "option 'memory': ")
    end
  end)
end)
