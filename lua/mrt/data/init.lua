--- data -- texts, rows and streams as mini-batches
---
--- Training by *mini-batch* takes a few examples at a time, shuffled anew each
--- epoch; *full-batch* descent (`batch = "all"`) takes all of them every step.
--- What a loader gives is one mini-batch: one step.  Its *micro-batches* are none of
--- the loader's business: mrt.compile's `accumulate` splits it.
---
--- SPDX-License-Identifier: MIT

return {
  text = require "mrt.data.text",
  batches = require "mrt.data.batches",
  stream = require "mrt.data.stream",
  random = require "mrt.data.random",
}
