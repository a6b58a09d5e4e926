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

-- Rows that experts multiply in the forward pass of a layer; nil: there are none.
local function grouped_rows(plan, values)
  local operands = plan:operands()
  for i, step in ipairs(plan:steps()) do
    if step.op == "grouped_matmul" and not step.backward then
      return dims(values[operands[i].reads[1]].type)[1]
    end
  end
end

-- Experts, of stacks of matrices `[count,·,·]`, and of the rows that these are multiplied with.
local function find_experts(plan, values, m)
  local stacks, rows = 0, grouped_rows(plan, values)
  for _, v in ipairs(rows and values or {}) do
    local d = v.role == "weight" and dims(v.type) or {}
    if #d == 3 and (d[2] == m.hidden or d[3] == m.hidden) then
      m.experts, stacks = d[1], stacks + 1
      m.ffn = d[2] == m.hidden and d[3] or d[2]
    end
  end
  if m.experts then m.top, m.gated = rows // (m.rows * m.seq), stacks >= 3 * m.layers end
end

-- The width of a perceptron beside the experts.
local function find_shared(m, count, list, together)
  for _, n in ipairs(list) do
    local other = n == m.hidden or n == together or n == m.kv_heads * m.width
    if not other and count[n] >= 2 * m.layers then m.shared = n end
  end
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
  find_experts(plan, values, m)
  if m.experts then find_shared(m, count, list, together) end
  local function look(n)
    if n > m.hidden and n ~= together and count[n] >= 2 * m.layers then
      if not m.experts then m.ffn, own = n, count[n] end
    elseif count[n] <= 2 and n ~= m.seq and (not m.vocab or n > m.vocab) then
      m.vocab = n
    end
  end
  for _, n in ipairs(list) do look(n) end
  if not m.ffn or not m.vocab or not count[m.hidden] then return nil end
  if own then m.gated = own >= 3 * m.layers end
  m.width = nil
  return m
end

return shape
