--- policy_file.lua -- a candidate as a policy file, which `mrt --policy` takes
---
--- SPDX-License-Identifier: MIT

local policy_file = {}

-- Dimensions of one rank are left out.
local function mesh_of(mesh)
  local list = {}
  for _, name in ipairs { "tensor", "context", "expert", "data", "pipeline" } do
    if mesh[name] > 1 then list[#list + 1] = ("%s = %d"):format(name, mesh[name]) end
  end
  return #list > 0 and "{ " .. table.concat(list, ", ") .. " }" or nil
end

local precisions <const> = { bf16 = "policy.precision.bf16()", f8 = "policy.precision.fp8()",
  f32 = "policy.precision.f32()" }
local checkpoints <const> = { full = "policy.checkpoint.every(1)", none = nil,
  selective = 'policy.checkpoint.selective { recompute = { "attention" } }' }

-- Stages recompute all of a micro-batch or nothing.
local function pipeline_of(c)
  if c.mesh.pipeline == 1 then return nil end
  local list = { c.chunks > 1 and ('schedule = "interleaved", chunks = %d'):format(c.chunks)
    or 'schedule = "1f1b"' }
  if c.recompute == "full" then list[2] = "recompute = true" end
  return "{ " .. table.concat(list, ", ") .. " }"
end

--- The file's text.
---
---     policy_file.text(found.best, "dgx-a100:1024")
---@param c mrt.cluster.Candidate
---@param cluster string
---@return string
function policy_file.text(c, cluster)
  local lines = {
    ("-- For %s: %.4g s a step, by prediction.  Each rank is called with %d rows"):format(cluster,
      c.seconds or c.least, c.rows * c.micros),
    "-- (ranks of tensor, context and pipeline with the same).",
    'local policy = require "mrt".policy',
    "return {",
  }
  local function add(name, value)
    if value then lines[#lines + 1] = ("  %s = %s,"):format(name, value) end
  end
  add("mesh", mesh_of(c.mesh))
  add("accumulate", c.micros > 1 and tostring(c.micros))
  add("pipeline", pipeline_of(c))
  if c.zero > 0 and c.mesh.data * c.mesh.expert > 1 then
    add("shard", ("policy.shard.zero(%d)"):format(c.zero))
  end
  add("swap", c.offload and "policy.swap.optimizer()")
  add("precision", precisions[c.precision])
  if c.mesh.pipeline == 1 then add("checkpoint", checkpoints[c.recompute]) end
  lines[#lines + 1] = "}"
  return table.concat(lines, "\n") .. "\n"
end

return policy_file
