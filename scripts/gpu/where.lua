--- where.lua -- what a device and its libraries are
---
---     mrt scripts/gpu/where.lua DEVICE FILE
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local results = require "results"

mrt.device(arg[1])
mrt.eval(mrt.ones(1))
results.write(arg[2], { info = require "mrt.core".info(), overhead = mrt.overhead() })
