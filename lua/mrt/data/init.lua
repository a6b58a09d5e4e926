--- data -- texts, rows and streams as mini-batches
---
--- Training by *mini-batch* takes a few examples at a time, shuffled anew each
--- epoch; *full-batch* descent (`batch = "all"`) takes all of them every step.
---
--- SPDX-License-Identifier: MIT

return {
  text = require "mrt.data.text",
  batches = require "mrt.data.batches",
  stream = require "mrt.data.stream",
  random = require "mrt.data.random",
}
