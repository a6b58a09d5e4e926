--- shape.lua -- the shape of a decoder, read from the plan of its step on one rank
---
--- SPDX-License-Identifier: MIT

local dims = require "mrt.cluster.nodes".dims

local shape = {}

-- Heads of keys, which are packed with queries or not: of what attention reads `[B,T,n]`.
local function kv_heads(read, heads, width)
  local n = read[#read] // width
  return n > heads and (n - heads) // 2 or n
end

-- Layers, heads, tokens: of the forward passes of attention, which writes `[B,T,H,D]`.
local function attended(plan, values)
  local m, operands = { layers = 0 }, plan:operands()
  for i, step in ipairs(plan:steps()) do
    if step.class == "attention" and not step.backward and not step.recomputed then
      local out = dims(values[operands[i].writes[1]].type)
      if #out ~= 4 then return nil end
      m.layers = m.layers + 1
      m.rows, m.seq, m.heads, m.width = table.unpack(out)
      m.kv_heads = kv_heads(dims(values[operands[i].reads[2]].type), m.heads, m.width)
    end
  end
  return m.layers > 0 and m or nil
end

-- How often each size stands in a matrix of weights.
local function sizes_of(values)
  local count, list = {}, {}
  for _, v in ipairs(values) do
    local d = v.role == "weight" and dims(v.type) or {}
    if #d == 2 then
      for _, n in ipairs(d) do
        if not count[n] then count[n], list[#list + 1] = 0, n end
        count[n] = count[n] + 1
      end
    end
  end
  table.sort(list)
  return count, list
end

--- Read it.
---
---     shape.of(step:plan(tokens, targets)).layers
---@param plan mrt.Plan  of one rank
---@return mrt.cluster.Model?  with `rows`, sequences of the call; nil: it is no such decoder
function shape.of(plan)
  local values = plan:values()
  local m = attended(plan, values)
  if not m then return nil end
  local count, list = sizes_of(values)
  m.hidden = m.heads * m.width
  local together, own = m.hidden + 2 * m.kv_heads * m.width, nil -- queries, keys, values in one
  local function look(n)
    if n > m.hidden and n ~= together and count[n] >= 2 * m.layers then
      m.ffn, own = n, count[n]
    elseif count[n] <= 2 and n ~= m.seq and (not m.vocab or n > m.vocab) then
      m.vocab = n
    end
  end
  for _, n in ipairs(list) do look(n) end
  if not m.ffn or not m.vocab or not count[m.hidden] then return nil end
  m.gated, m.width = own >= 3 * m.layers, nil
  return m
end

return shape
