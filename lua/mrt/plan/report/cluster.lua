--- cluster.lua -- what `mrt plan --cluster` prints: a step, and each kind of rank
---
--- SPDX-License-Identifier: MIT

local format = require "mrt.util.format"
local roles = require "mrt.plan.report.roles"

local together <const> = { allreduce = true, reduce_scatter = true, allgather = true,
  all_to_all = true, broadcast = true, shift = true }

-- Blocks that collectives read or write.
local function wired(plan)
  local out, steps = {}, plan:steps()
  for i, operands in ipairs(plan:operands()) do
    if together[steps[i].op] then
      for _, list in ipairs { operands.reads, operands.writes } do
        for _, v in ipairs(list) do out[v] = true end
      end
    end
  end
  return out
end

---@class mrt.RankBytes
---@field weights integer   bytes, as all that follow
---@field gradients integer  with what they are added up in
---@field state integer
---@field activations integer  what is in flight, workspaces and results among them
---@field buffers integer  of collectives
---@field peak integer

--- Bytes of a rank at its peak.
---@param plan mrt.Plan
---@return mrt.RankBytes
local function bytes_of(plan)
  local buffers, values, on_wire = 0, plan:values(), wired(plan)
  for i, v in ipairs(values) do
    local alive = v.first <= plan.peak_step and plan.peak_step <= v.last
    if on_wire[i] and roles.in_arena[v.role] and alive then
      buffers, v.role = buffers + v.bytes, "wired"
    end
  end
  local sums = setmetatable(roles.sums(values, plan.peak_step),
    { __index = function() return 0 end })
  local out = { weights = sums.weight + sums.constant + sums.buffer,
    gradients = sums.gradient + sums.accumulator, state = sums.optimizer,
    buffers = buffers + sums.gathered, peak = plan.peak }
  out.activations = plan.peak - out.weights - out.gradients - out.state - out.buffers
  return out
end

local LINE <const> = "%-10s %10s %10s %10s %12s %10s %10s %9s"
local columns <const> = { "weights", "gradients", "state", "activations", "buffers", "peak" }

local function line(name, bytes, capacity)
  local words = {}
  for i, column in ipairs(columns) do words[i] = format.bytes(math.max(0, bytes[column])) end
  words[#words + 1] = ("%.1f %%"):format(100 * bytes.peak / capacity)
  return (LINE):format(name, table.unpack(words))
end

--- The report, and whether all ranks fit.
---@param cluster mrt.Cluster
---@param name string
---@param mesh mrt.Mesh
---@param plans mrt.Plan[]
---@param step mrt.cluster.Planned
---@return string
---@return integer over  bytes that the largest lacks; 0 or less: none
return function(cluster, name, mesh, plans, step)
  local capacity, most = math.floor(cluster.device.memory), 0
  local lines = { ("%s, %s"):format(name, tostring(mesh)),
    ("step time   %s, predicted; exposed communication %s; bubble %.1f %%; %.1f %% of the peak "
      .. "in bf16"):format(format.time(step.seconds), format.time(step.exposed),
        100 * step.bubble, 100 * step.utilisation), "",
    (LINE):format("rank", "weights", "gradients", "state", "activations", "buffers", "peak",
      "of memory") }
  for s, plan in ipairs(plans) do
    local bytes, needs = bytes_of(plan), plan:needs()
    lines[#lines + 1] = line(#plans > 1 and "stage " .. s or "all alike", bytes, capacity)
    most = math.max(most, needs)
  end
  lines[#lines + 1] = ("\nBytes are exact, at each rank's peak of %s; activations with what is in "
    .. "flight, workspaces and\nresults; buffers: what collectives read and write.  Flops are "
    .. "the plan's, what is recomputed among them."):format(format.bytes(capacity))
  return table.concat(lines, "\n"), most - capacity
end
