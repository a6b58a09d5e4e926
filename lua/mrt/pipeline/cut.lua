--- cut.lua -- where a traced loss is cut into parts
---
--- What depends on parameters is taken in the order of the program.  Where it is cut, all
--- that is made before and read from there on goes to the next part, and the gradients of
--- that come back; what a later part reads goes through those between.  What depends on no
--- parameter (masks, tables, rows of the batch) is computed by each part that reads it.
--- Among the places the parts are chosen so that the one with the most work has as little
--- as possible, and each has parameters.  Places where one value goes on, as between
--- blocks, are preferred, unless with others the most work is much less.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

local cut = {}

local function refuse(text, ...) core.fail("value", "pipeline", text:format(...)) end

---@class mrt.PipelineNode   a value on the way from parameters to the loss
---@field id integer
---@field x mrt.Tensor
---@field reads mrt.PipelineNode[]   those of them that it is computed from
---@field params integer[]   ids of the parameters that it reads
---@field at integer         where it stands among all
---@field last integer       where the last stands that reads it
---@field work number        flops, and bytes that count as some
---@field view boolean
---@field expression integer  of what makes it: all its results have the number
---@field module string?     the path of the module that it is of: "blocks.3.fc"
---@field part integer?

local BYTE <const> = 8 -- flops that take as long as to read or write one, about
local NEAR <const> = 8 -- places compete with those within a share of a part's work: 1 in 8
local MUCH <const> = 3 / 4 -- of the most work of a part

-- All that `loss` is computed from, and what that reads; by id.
local function reach(loss)
  local found, stack = {}, { loss }
  while #stack > 0 do
    local x = table.remove(stack)
    local id = core.id(x)
    if not found[id] then
      local name, inputs = core.maker(x)
      found[id] = { id = id, x = x, op = name, inputs = inputs or {} }
      for _, y in ipairs(inputs or {}) do stack[#stack + 1] = y end
    end
  end
  return found
end

-- In the order of what makes them; results of one operator lie beside each other.
local function sorted(found)
  local list = {}
  for _, node in pairs(found) do
    if node.op then
      node.flops, node.bytes, node.view, node.expression, node.module = core.work(node.x)
      list[#list + 1] = node
    end
  end
  table.sort(list, function(a, b)
    if a.expression ~= b.expression then return a.expression < b.expression end
    return a.id < b.id
  end)
  return list
end

-- Which of them depend on parameters, in order, with what they read of these.
local function tracked(found, is_param)
  local list, by_id, by_expression = {}, {}, {}
  for _, node in ipairs(sorted(found)) do
    if not is_param[node.id] then
      node.reads, node.params, node.at = {}, {}, #list + 1
      node.last = node.at
      for _, y in ipairs(node.inputs) do
        local id = core.id(y)
        if is_param[id] then table.insert(node.params, id) end
        if by_id[id] then
          table.insert(node.reads, by_id[id])
          by_id[id].last = node.at
        end
      end
      if #node.params > 0 or #node.reads > 0 then
        node.work = node.view and 0 or node.flops + BYTE * node.bytes
        by_id[node.id], by_expression[node.expression] = node, node
        list[node.at] = node
      end
    end
    node.inputs, node.flops, node.bytes = nil, nil, nil
  end
  return list, by_id, by_expression
end

local function is_float(x)
  local dtype = core.dtypes()[x:get_dtype()]
  return dtype and dtype.floating
end

-- What goes on at the places behind nodes, as they are met in order.
local Live = {}
Live.__index = Live

function Live:count(node, sign)
  self.values, self.bytes = self.values + sign, self.bytes + sign * node.x:nbytes()
  if not is_float(node.x) then self.others = self.others + sign end
end

function Live:meet(node)
  for _, ended in ipairs(self.ends[node.at] or {}) do self:count(ended, -1) end
  self.ends[node.at] = nil
  if node.last == node.at then return end
  self:count(node, 1)
  self.ends[node.last] = self.ends[node.last] or {}
  table.insert(self.ends[node.last], node)
end

-- Behind which nodes it can be cut: floats go on from there; with how many these are, their
-- bytes, and the work and parameters so far.
local function places(list)
  local live = setmetatable({ values = 0, bytes = 0, others = 0, ends = {} }, Live)
  local out, work, params = {}, 0, 0
  for i, node in ipairs(list) do
    work, params = work + node.work, params + #node.params
    live:meet(node)
    local behind = list[i + 1] and list[i + 1].expression ~= node.expression
    if behind and node.last > i and live.values > 0 and live.others == 0 then
      out[#out + 1] = { at = i, values = live.values, work = work, params = params,
        bytes = live.bytes }
    end
  end
  return out, { at = #list, work = work, params = params, values = 0, bytes = 0 }
end

-- What goes on behind node `at`, in order.
local function going_on(list, at)
  local out = {}
  for i = 1, at do
    if list[i].last > at then out[#out + 1] = list[i] end
  end
  return out
end

-- Between two reads of parameters one place will do: that with the fewest bytes.
local function thin_out(all)
  local out = {}
  for _, place in ipairs(all) do
    local before = out[#out]
    if not before or before.params < place.params then
      out[#out + 1] = place
    elseif place.bytes < before.bytes then
      out[#out] = place
    end
  end
  return out
end

-- The most work of any part if the n-th ends at place k and those before end best; where
-- the one before ends.  `best` has the same of n - 1 parts.
local function end_at(all, best, n, k)
  local most, from
  for i = n - 1, n == 1 and 0 or k - 1 do
    local before, here = all[i], all[k]
    local ahead = best[i]
    if ahead and here.params > before.params then
      local own = math.max(ahead, here.work - before.work)
      if not most or own < most then most, from = own, i end
    end
  end
  return most, from
end

-- The places that cut `all`, which begins at 0, into q parts whose largest has the least
-- work.
local function balance(all, q)
  local best, from = { [0] = 0 }, {}
  for n = 1, q do
    local next_best = {}
    from[n] = {}
    for k = n, #all do next_best[k], from[n][k] = end_at(all, best, n, k) end
    best = next_best
  end
  if not best[#all] then return nil end
  local chosen, k = {}, #all
  for n = q, 2, -1 do
    k = from[n][k]
    table.insert(chosen, 1, all[k])
  end
  return chosen
end

local function most_parts(all)
  local n = 0
  for i, place in ipairs(all) do
    if place.params > all[i - 1].params then n = n + 1 end
  end
  return n
end

local function is_within(module, name)
  return module == name or module and module:sub(1, #name + 1) == name .. "."
end

-- The place before the first value of a module, behind the last read of parameters: that
-- with the fewest bytes, of several the last.
local function place_before(list, all, name)
  local first, found = 1, nil
  while list[first] and not is_within(list[first].module, name) do first = first + 1 end
  if not list[first] then refuse("no parameter leads to anything of a module '%s'", name) end
  local params = 0
  for i = 1, first - 1 do params = params + #list[i].params end
  for _, place in ipairs(all) do
    local here = place.at < first and place.params == params
    if here and not (found and found.bytes < place.bytes) then found = place end
  end
  return found or refuse("there is no place to cut where '%s' begins", name)
end

-- The places before these modules, which must come one after the other.
local function places_before(list, all, names, q)
  if #names ~= q - 1 then
    refuse("%d modules to begin parts with, of %d parts %d wanted", #names, q, q - 1)
  end
  local chosen = {}
  for i, name in ipairs(names) do
    chosen[i] = place_before(list, all, name)
    local before, here = chosen[i - 1] or { at = 0, params = 0 }, chosen[i]
    if here.at <= before.at or here.params <= before.params then
      refuse("the part before '%s' has no parameters", name)
    end
  end
  return chosen
end

local function single(all)
  local out = {}
  for _, place in ipairs(all) do
    if place.values == 1 then out[#out + 1] = place end
  end
  return out
end

-- Without those of several values that have one with fewer bytes near them.
local function best_around(all, near)
  local out = {}
  for i, place in ipairs(all) do
    local best = true
    for way = -1, 1, 2 do
      local k = i + way
      while best and place.values > 1 and all[k] and math.abs(all[k].work - place.work) <= near do
        best, k = all[k].bytes >= place.bytes, k + way
      end
    end
    if best then out[#out + 1] = place end
  end
  return out
end

local function most_work(chosen, whole)
  local most, before = 0, 0
  for i = 1, chosen and #chosen + 1 or 0 do
    local work = (chosen[i] or whole).work
    most, before = math.max(most, work - before), work
  end
  return chosen and most or math.huge
end

local function balanced(all, whole, q)
  local function among(list)
    list = thin_out(list)
    list[#list + 1], list[0] = whole, { work = 0, params = 0 }
    return balance(list, q), list
  end
  local chosen, even = among(single(all)), whole.work / q
  local much = MUCH * most_work(chosen, whole)
  if much > even then -- else no cut is so much better
    local several = among(best_around(all, even / NEAR))
    if most_work(several, whole) < much then chosen = several end
  end
  if chosen then return chosen end
  local _, list = among(all)
  return refuse("%d parts of the layers wanted, one for each stage and chunk; there are places "
    .. "for %d, each with parameters", q, most_parts(list))
end

---@class mrt.PipelineCut
---@field nodes mrt.PipelineNode[]   in the order of the program
---@field by_id table<integer, mrt.PipelineNode>
---@field by_expression table<integer, mrt.PipelineNode>  by the number of what makes it:
---  one of its results
---@field ends mrt.PipelineNode[][]  what part 1, 2, ... but the last gives the next: what
---  it has made, and what it was given
---@field behind integer[]           number of the last operator of part 1, 2, ...
---@field parts_of table<integer, integer[]>  by id of a parameter: the parts that read it
---@field work number[]              of each part

--- Cut the graph of a loss into `q` parts.
---
--- Raises: no such parts: where there is nothing to cut.
---@param loss mrt.Tensor
---@param params mrt.Tensor[]
---@param q integer
---@param names? string[]  of modules, with which the parts but the first begin
---@return mrt.PipelineCut
function cut.parts(loss, params, q, names)
  local is_param = {}
  for _, p in ipairs(params) do is_param[core.id(core.current(p))] = true end
  local list, by_id, by_expression = tracked(reach(loss), is_param)
  local all, whole = places(list)
  local chosen = names and places_before(list, all, names, q) or balanced(all, whole, q)
  local out = { nodes = list, by_id = by_id, by_expression = by_expression, ends = {},
    behind = {}, parts_of = {}, work = {} }
  local part, before = 1, 0
  for i, node in ipairs(list) do
    node.part = part
    for _, id in ipairs(node.params) do
      local of = out.parts_of[id] or {}
      if of[#of] ~= part then table.insert(of, part) end
      out.parts_of[id] = of
    end
    local place = chosen[part]
    if place and place.at == i then
      out.ends[part], out.behind[part] = going_on(list, i), node.expression
      out.work[part] = place.work - before
      part, before = part + 1, place.work
    end
  end
  out.work[part] = whole.work - before
  return out
end

return cut
