--- overlap.lua -- a rank's nodes on three streams: its host, its device, its links
---
---   input     nodes of a plan in its order (nodes.of_plan): kernels, collectives, and
---             `arrive` nodes, each of which waits for a collective that began ahead
---   output    seconds until the device and the links are done
---   method    Each stream does its work in order.  The host launches everything; what is
---             launched begins behind what the device did before.  A collective without an
---             `arrive` is waited for at once.  While links are busy kernels take 1 + o times
---             as long, o the machine's.  Whatever the device meets of collectives was
---             launched before, so they keep the links busy without a gap: when they are over
---             is one number, and a node takes one step.
---
--- SPDX-License-Identifier: MIT

local parts = require "mrt.cluster.parts"

local overlap = {}

-- The values of collectives that something waits for later.
local function awaited(list)
  local is = {}
  for _, node in ipairs(list) do
    if node.kind == "arrive" then is[node.value] = true end
  end
  return is
end

-- When a kernel that begins at `from` is over, where links are busy until `busy`.
local function over(from, seconds, busy, slower)
  local beside = math.max(0, busy - from) -- does so much of it
  if seconds * slower <= beside then return from + seconds * slower end
  return from + seconds + beside * (1 - 1 / slower)
end

--- How long a rank works for the nodes of its plan.
---@param job {cluster: mrt.Cluster, mesh: table, software: table}
---@param list mrt.cluster.Node[]
---@return number seconds
function overlap.seconds(job, list)
  local slower, ahead, done = 1 + job.cluster.overlap, awaited(list), {}
  local host, device, links = 0, 0, 0
  for _, node in ipairs(list) do
    if node.kind == "arrive" then
      device = math.max(device, done[node.value] or 0)
    else
      local launch = parts.launched(job, node)
      host = host + launch.host
      local from = math.max(host, device)
      if node.kind ~= "collective" then
        device = over(from, launch.device, links, slower)
      else
        links = math.max(from, links) + launch.device
        done[node.value] = links
        if not ahead[node.value] then device = links end
      end
    end
  end
  return math.max(device, links)
end

return overlap
