--- mrt.pipeline -- stages one behind the other, and the schedules of their work
---
---     local order = mrt.pipeline.check(mrt.pipeline.one_f_one_b, 4, 8)
---     local sim = mrt.pipeline.simulate(order)
---     print(mrt.pipeline.text(sim))
---     print(sim.bubble, sim.in_flight[1])
---
--- SPDX-License-Identifier: MIT

local check = require "mrt.pipeline.check"
local core = require "mrt.core"
local picture = require "mrt.pipeline.picture"
local schedule = require "mrt.pipeline.schedule"

---@class mrt.pipeline
local pipeline = { gpipe = schedule.gpipe, one_f_one_b = schedule.one_f_one_b,
  interleaved = schedule.interleaved, zero_bubble = schedule.zero_bubble,
  check = check.order, simulate = require "mrt.pipeline.simulate",
  svg = picture.svg, text = picture.text }

--- Plan a call of a compiled function with the option `pipeline` on each of `p` stages,
--- running nothing: what each takes, to the byte, and how the schedule runs with the
--- predicted times of its phases (messages take none).
---
---     local step = mrt.compile(fn, { accumulate = 2, pipeline = {} })
---     local all = mrt.pipeline.plan(step, 2, tokens, targets)
---     for s, plan in ipairs(all.plans) do print(s, plan.peak) end
---     print(mrt.pipeline.text(all.simulation))
---
--- Shapes: as for the call.
--- Raises: what planning raises; a function without the option.
---@param step mrt.Compiled
---@param p integer   stages
---@param ... any     as for the call
---@return {plans: mrt.Plan[], simulation: mrt.PipelineSimulation, order: mrt.PipelineOrder}
function pipeline.plan(step, p, ...) return require "mrt.pipeline.every" (step, p, ...) end

--- Give every stage the parameters of the others, and what optimizers keep of them, as
--- they are now: to evaluate, or to save.  A collective: all ranks call it.  What was not
--- in memory here is from then on.
---
---     local step = mrt.compile(fn, { accumulate = 2, pipeline = {} })
---     step(tokens, targets)
---     mrt.pipeline.collect(step)
---
--- Raises: a function without the option `pipeline`, or that has not been planned.
---@param step mrt.Compiled
function pipeline.collect(step)
  local settings = type(step) == "table" and step.options and step.options.pipeline
  if not settings or not settings.owned then
    core.fail("value", "collect", "a compiled function with the option 'pipeline' wanted that "
      .. "has been called or planned")
  end
  require "mrt.pipeline.run".collect(settings)
end

for name, f in pairs(pipeline) do pipeline[name] = core.front(f, nil, name) end

return pipeline
