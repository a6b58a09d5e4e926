--- killed.lua -- a run that is killed: `mrt killed.lua FOLDER STEPS [save]`
---
--- Dropout, a schedule of rates, shuffled data with a smaller last batch and
--- micro-batches: all that has to go on where it was.  Prints the bits of the
--- parameters when it has come to the end; with `save` saves all the time.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local nn, optim, data, train = mrt.nn, mrt.optim, mrt.data, mrt.train

local folder, steps, mode = arg[1], math.tointeger(tonumber(arg[2])), arg[3]

mrt.seed(7)
local model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Dropout(0.5),
  nn.Linear(32, 3))
local opt = optim.adamw(model:parameters(),
  { lr = function(t) return 0.01 / math.sqrt(t) end })
local x = mrt.randn(21, 6)
local y = x:slice(2, 1, 3):argmax(2):cast "i32"
mrt.eval(x, y)

local summary = train.run {
  model = model, optimizer = opt, steps = steps, log_every = 1 << 30,
  loader = data.batches({ x, y }, { batch = 8, seed = 3 }),
  loss = function(m, a, b) return nn.cross_entropy(m(a), b) end,
  accumulate = 2, clip = 1.0, log = folder,
  snapshots = mode and folder, snapshot_every = 1, keep = 2,
  resume = mode ~= nil,
}

local bits = {}
for name, t in pairs(model:state()) do
  bits[#bits + 1] = name .. " " .. t:bytes():gsub(".", function(c)
    return ("%02x"):format(c:byte())
  end)
end
table.sort(bits)
io.write("\nbits ", table.concat(bits, " "), " loss ",
  ("%a"):format(summary.loss or -1), "\n")
