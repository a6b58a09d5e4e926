--- stage.lua -- the graph at a stage: what is traced, and what becomes of values
---
--- SPDX-License-Identifier: MIT

local stage = {}

--- What may become of a value that forward nodes make and gradient nodes need,
--- and what a node may be: the words of the legend, in its order.
stage.marks = {
  { name = "kept", words = "kept for the backward pass" },
  { name = "dropped", words = "dropped, and made again" },
  { name = "recomputed", words = "recomputed" },
  { name = "swapped", words = "swapped out and back" },
}

local function set_of(list)
  local set = {}
  for _, v in ipairs(list) do set[v] = true end
  return set
end

local function any(list, set)
  for _, v in ipairs(list) do if set[v] then return true end end
  return false
end

--- Leave what the program wrote before gradients: no node of theirs, none that
--- depends on one, none that only these read.
---@param graph table  of `plan:stage "differentiated"`
---@return table graph
function stage.traced(graph)
  local out, tainted = {}, {}
  for _, n in ipairs(graph.nodes) do
    if n.backward or any(n.reads, tainted) then
      for _, v in ipairs(n.writes) do tainted[v] = true end
    else
      out[#out + 1] = n
    end
  end
  local wanted, kept = set_of(graph.outputs), {}
  for i = #out, 1, -1 do
    local n = out[i]
    if n.updates > 0 or any(n.writes, wanted) then
      for _, v in ipairs(n.reads) do wanted[v] = true end
      table.insert(kept, n)
    end
  end
  for i = 1, #kept // 2 do
    kept[i], kept[#kept + 1 - i] = kept[#kept + 1 - i], kept[i]
  end
  return { nodes = kept, values = graph.values, outputs = graph.outputs }
end

--- Say what becomes of values: by number, the name of a mark.
---
--- A forward value that a gradient node reads is kept; one that is read as made
--- again is dropped, unless the plan says of either something else
--- (`value.fate`); what a recomputed node makes is recomputed.
---@param planned table  of `plan:stage "planned"`
---@return table<integer, string>
function stage.fates(planned)
  local fates, forward, values = {}, {}, planned.values
  local function read(v, n)
    local original = values[v].original
    if n.backward and forward[v] then fates[v] = fates[v] or "kept" end
    if original then fates[original] = "dropped" end
  end
  for _, n in ipairs(planned.nodes) do
    for _, v in ipairs(n.reads) do read(v, n) end
    for _, v in ipairs(n.writes) do
      if n.recomputed then fates[v] = "recomputed" end
      forward[v] = not n.backward and not n.recomputed and n.updates == 0
    end
  end
  for i, v in ipairs(values) do fates[i] = v.fate or fates[i] end
  return fates
end

return stage
