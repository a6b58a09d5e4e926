--- json.lua -- a plan as JSON
---
--- All numbers are bytes unless said otherwise; steps and numbers of values count
--- from 1.
---
---     schema        "mrt.plan/1"
---     name          what was compiled
---     peak          persistent + transient + outputs: what a run takes
---     persistent transient outputs inputs lower_bound order_free_bound working_set
---     kept_peak     with a checkpoint policy: live bytes with all kept, where that was
---                   looked for
---     compressed, compressed_to
---                   bytes packed for the backward pass, and what they are packed to;
---                   absent: none
---     flops         of one run
---     seconds       of one run, predicted; stall of them: spent waiting for copies
---     unlinked      collectives that the device's profile has no links for: seconds
---                   lacks what they take; absent: none
---     wire          bytes that this rank gives to others in a run
---     collectives   how many of them a run has
---     swapped       in the file of what is swapped; not in peak
---     tiers         [{name, bytes, capacity? (absent: unknown), copied_out, copied_in}]:
---                   what it takes of each swap tier, quickest first; bytes add up to
---                   swapped
---     copied_out, copied_in
---                   bytes that a run copies to the swap tier, and back
---     hosted, staging, hosted_in, hosted_out
---                   where the device has no kernel for some nodes: how many the CPU
---                   computes; bytes of the host for them, not in peak; bytes
---                   copied to it in a run, and back
---     device        what it was planned for: core/mrt.h, mrt_device_profile
---     micro_batches, micro_batch, batch, accumulators, gathered
---                   with micro-batches: how many, of how many rows, of how many;
---                   bytes (of persistent; of transient); steps are those of one micro-batch,
---                   then those that run once
---     pipeline      of a stage: {stage (from 1), stages, chunks, bubble (idle share of all
---                   stages), in_flight (micro-batches, of all its parts), held (bytes for
---                   them, of outputs), phases: [{kind (F, B, W), part, seconds
---                   (predicted), saved (bytes)}]}
---     nodes         in a run; nodes_traced before optimisation
---     passes        [{name, nodes}]: what each optimisation left
---     peak_step     where most bytes live
---     next_peak     a step, or absent: the highest off the peak's hill
---     at_peak       {role: bytes}: weight, optimizer, buffer, accumulator, gathered,
---                   constant, output, input, activation, gradient,
---                   workspace; fetched (a variable that lives in the swap
---                   tier, while in the arena), swapped (in the swap tier)
---     steps         [{op, module? (the path of the module that was called, "blocks.3.fc",
---                   or of the parameter that is updated), file, line (of the
---                   user's own code), layer (0: none), backward, recomputed (it
---                   runs again what has run), hosted? (by the CPU), in_tier? (where
---                   its variables are swapped to), accumulate?
---                   (what sums are rounded to after each term), class (kind of
---                   work), time (predicted, seconds), flops, speed (of them at best,
---                   over plain products in f32; 0: not the device's work), bytes (read and
---                   written), live, reads: [value], writes: [value]}]
---     values        [{role, op, name?, class?, type, bytes, offset (in the arena;
---                   0 outside it), tier? (of what is swapped), first, last (steps,
---                   both included), module?, file, line}]
---     transfers     [{lane ("in" or "out" of memory), name?, value (in the arena),
---                   swapped (behind it), tier (a number of tiers), bytes, start (a
---                   step), wait (the step that waits for it), time (predicted seconds
---                   of the copy, T_swap),
---                   beside (of the steps between, T_compute), stall}]: copies of
---                   what is swapped; of a micro-batch's and the final steps
---     pool          {reserved, live, wasted, calls, segments}: a dynamic caching
---                   allocator over the same execution, mrt/plan/caching_allocator.lua
---
--- SPDX-License-Identifier: MIT

local about = require "mrt.plan.report.about"
local json = require "mrt.util.json"
local pool = require "mrt.plan.caching_allocator"
local roles = require "mrt.plan.report.roles"

local order = { "schema", "name", "peak", "persistent", "transient", "outputs",
  "inputs", "lower_bound", "order_free_bound",
  "working_set", "flops", "seconds", "stall", "wire", "collectives", "swapped", "tiers",
  "copied_out", "copied_in", "nodes",
  "nodes_traced", "passes", "peak_step", "next_peak", "at_peak", "pool", "steps", "values",
  "transfers", "lane", "tier", "capacity",
  "role", "op", "type", "bytes", "offset", "first", "last", "module", "file", "line", "layer",
  "backward", "recomputed", "hosted", "in_tier", "accumulate", "class", "time", "speed", "live",
  "reads", "writes", "value",
  "start", "wait", "beside",
  "reserved", "wasted", "calls", "segments", "device" }
table.move(roles.order, 1, #roles.order, #order + 1, order)

local plain = { "peak", "persistent", "transient", "outputs", "inputs",
  "micro_batches", "micro_batch", "batch", "pipeline", "accumulators", "gathered",
  "lower_bound", "order_free_bound", "working_set", "kept_peak", "compressed",
  "compressed_to", "flops", "seconds", "unlinked",
  "stall", "wire", "collectives", "swapped", "copied_out", "copied_in", "device", "nodes",
  "nodes_traced", "passes", "peak_step" }

local of_host = { "hosted", "staging", "hosted_in", "hosted_out" }

local function with_operands(steps, operands)
  for i, step in ipairs(steps) do
    step.reads, step.writes = operands[i].reads, operands[i].writes
    json.array(step.reads)
    json.array(step.writes)
  end
  return json.array(steps)
end

---@param plan mrt.Plan
---@return string
return function(plan)
  local values, steps = plan:values(), plan:steps()
  local out = { schema = "mrt.plan/1", name = plan.title,
    pool = pool.simulate(plan) }
  for _, key in ipairs(plain) do out[key] = plan[key] end
  for _, key in ipairs(plan.hosted > 0 and of_host or {}) do out[key] = plan[key] end
  out.pool.microseconds = nil -- the same plan gives the same file
  out.at_peak = json.object(roles.sums(values, plan.peak_step))
  out.next_peak = about.next_peak(steps, plan.peak_step)
  for _, v in ipairs(values) do v.kind, v.id, v.accumulator, v.gathered = nil, nil, nil, nil end
  out.values = json.array(values)
  out.steps = with_operands(steps, plan:operands())
  out.tiers = json.array(plan:tiers())
  out.transfers = json.array(plan:transfers())
  return json.encode(out, { order = order, lossy = true }) .. "\n"
end
