--- data -- texts, rows, files and streams as mini-batches
---
--- Training by *mini-batch* takes a few examples at a time, shuffled anew each
--- epoch; *full-batch* descent (`batch = "all"`) takes all of them every step.
--- What a loader gives is one mini-batch: one step.  Its *micro-batches* are none of
--- the loader's business: mrt.compile's `accumulate` splits it.
---
--- SPDX-License-Identifier: MIT

local files = require "mrt.data.files"
local streams = require "mrt.data.stream"

---@class mrt.data
---@field idle table  what an iterator of `stream` may give: nothing yet
return require "mrt.util.hints".attach("data", {
  text = require "mrt.data.text",
  tokens = require "mrt.data.tokens",
  windows = require "mrt.data.windows",
  batches = require "mrt.data.batches",
  stream = streams.stream,
  idle = streams.idle,
  random = require "mrt.data.random",

  bpe = require "mrt.data.bpe",
  csv = require "mrt.data.csv",
  idx = files.idx,
  cifar10 = files.cifar10,
  cifar100 = files.cifar100,
  npy = files.npy,
})
