--- run_examples.lua -- run the examples of the reference in the working folder
---
---     mrt run_examples.lua SPEC RESULTS
---
--- SPEC is the folder of the specs; what comes of each example is a line of RESULTS:
--- how long it took, its entry, and what is wrong.
---
--- SPDX-License-Identifier: MIT

package.path = arg[1] .. "/?.lua;" .. package.path

local mrt = require "mrt"
local core = require "mrt.core"
local example = require "mrt.reference.example"
local reference = require "mrt.reference"
local surroundings = require "reference.surroundings"
local unable = require "reference.unable"

local device = core.device() -- examples may plan for another one

local results <close> = assert(io.open(arg[2], "w"))
local only = arg[3]

surroundings.write()
for _, entry in ipairs(reference.index().entries) do
  local name = entry.name
  if not unable[name] and (not only or name:find(only)) then
    for _, text in ipairs(example.list(entry)) do
      mrt.seed(1)
      core.set_device(device)
      local began = os.clock()
      local ran, wrong = pcall(example.run, text, surroundings.of(name))
      wrong = type(wrong) == "table" and wrong.message or wrong
      results:write(("%.3f\t%s\t%s\n"):format(os.clock() - began, name,
        tostring(wrong or ran and "" or "?"):gsub("%s+", " ")))
    end
  end
end
