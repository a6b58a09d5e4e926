--- unable.lua -- entries whose examples do not run in a spec, and why
---
--- SPDX-License-Identifier: MIT

return {
  ["mrt.nn.gpt2"] = "reads GPT-2's weights, of 548 MB",
  ["Trace:call"] = "runs inside a trace, of a transform",
}
