--- bits.lua -- tensors as bytes, for results that must not differ by a bit
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"

local bits = {}

--- Of a list of tensors, evaluated together.
function bits.of(list)
  local all = {}
  for i, t in ipairs(mrt.eval(list)) do all[i] = t:bytes() end
  return table.concat(all, "|")
end

--- Of all that training changes: parameters and the optimizer's state.
function bits.trained(model, opt)
  local list, state, names = {}, opt:state(), {}
  for name in pairs(state) do names[#names + 1] = name end
  table.sort(names)
  for _, p in ipairs(model:parameters()) do list[#list + 1] = p end
  for _, name in ipairs(names) do list[#list + 1] = state[name] end
  return bits.of(list)
end

return bits
