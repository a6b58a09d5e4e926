--- cluster.lua -- GPT-3 175B on 1,024 GPUs that are not here: which mesh, and why
---
---     mrt examples/cluster.lua
---     mrt examples/cluster.lua --cluster dgx-h100:512 --batch 2048
---     mrt examples/cluster.lua --software megatron --write policy.lua
---
--- Hundreds of meshes, micro-batches, schedules and kinds of recomputation are predicted;
--- printed are the quickest that fits, the front of memory against time, and why the best of
--- other meshes lose.  Beside them stands the mesh that was published for such a machine
--- (Narayanan et al., SC 2021): tensor 8, everything recomputed.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local arguments = require "mrt.cli.arguments"
local policy_file = require "mrt.cluster.find.policy_file"
local report = require "mrt.plan.report.find"

local flags = arguments.script {
  about = "Search for the mesh on which a GPT trains quickest.",
  { "--cluster NAME:N", "machine and devices", default = "dgx-a100:1024" },
  { "--layers N", "of the model", default = 96, least = 1 },
  { "--dim N", "its width", default = 12288, least = 1 },
  { "--heads N", "attention heads", default = 96, least = 1 },
  { "--context N", "tokens of a sequence", default = 2048, least = 1 },
  { "--vocab N", "tokens that there are", default = 51200, least = 1 },
  { "--batch N", "sequences of a step, over all ranks", default = 1536, least = 1 },
  { "--software NAME", "megatron_core; megatron: of 2021, scores stored", default = "megatron" },
  { "--write FILE", "the winner as a policy, for mrt --policy" },
}

local cluster = mrt.cluster(flags.cluster)
local model = { layers = flags.layers, hidden = flags.dim, heads = flags.heads,
  vocab = flags.vocab, seq = flags.context }

local found = cluster:find { model = model, batch = flags.batch, software = flags.software }
print(report(found, { cluster = flags.cluster, devices = cluster.devices,
  tokens_of_step = flags.batch * flags.context }))

-- Tensor 8, pipeline 8 or 16, one sequence at a time, everything recomputed.
for _, stages in ipairs { 8, 16 } do
  local data = cluster.devices // (8 * stages)
  if found.best and data > 0 and flags.batch % data == 0 then
    local seconds = cluster:step { model = model, software = flags.software,
      mesh = { tensor = 8, pipeline = stages, data = data }, micros = flags.batch // data,
      recompute = "full" }
    print(("as published, tensor 8, pipeline %d, data %d: %.1f s, %.2f of what was found"):format(
      stages, data, seconds, seconds / found.best.seconds))
  end
end

if flags.write and found.best then
  assert(require "mrt.core".write_file(flags.write, policy_file.text(found.best, flags.cluster)))
end
