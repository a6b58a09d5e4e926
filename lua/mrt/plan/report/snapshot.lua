--- snapshot.lua -- a snapshot for PyTorch's memory viewer, as JSON
---
--- What torch.cuda._memory_viz reads once it is decoded; the page pytorch.org/
--- memory_viz takes pickles only (snapshot_pickle.lua).
---
--- SPDX-License-Identifier: MIT

local json = require "mrt.util.json"
local snapshot = require "mrt.plan.report.snapshot_data"

---@param plan mrt.Plan
---@return string
return function(plan)
  return json.encode(snapshot(plan), { lossy = true }) .. "\n"
end
