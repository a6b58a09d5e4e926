--- profile.lua -- a cluster's device as a profile that plans are made with
---
--- SPDX-License-Identifier: MIT

-- What GPUs have in common, as lua/mrt/device/profiles.lua has it.
local ALIGN <const>, OVERHEAD <const> = 256, 512 * 2 ^ 20
local dtypes <const> = { "f32", "f16", "bf16" }

local function links(levels)
  local out, ranks = {}, 1
  for i, level in ipairs(levels) do
    ranks = level.size and ranks * level.size or nil
    out[i] = { name = level.name, ranks = ranks, bandwidth = level.bandwidth,
      latency = level.latency }
  end
  return out
end

--- The profile, for mrt.device.use.
---@param cluster mrt.Cluster
---@return mrt.Device
return function(cluster)
  local d, flops = cluster.device, {}
  for _, name in ipairs(dtypes) do flops[name] = d.flops[name] end
  flops.f64 = d.flops.f32 / 2
  return { name = d.name or cluster.name, about = "a device of " .. cluster.name, align = ALIGN,
    efficiency = 0.77, launch = 3e-6, call = 1e-5, threads = 1, serial = 0, epilogues = true,
    records = true, overhead = OVERHEAD, flops = flops,
    memory = { name = "memory", capacity = d.memory, bandwidth = d.bandwidth },
    links = links(cluster.levels) }
end
