--- cut.lua -- where a traced loss is cut into parts
---
--- What depends on parameters is taken in the order of the program.  It can be cut behind
--- a value that is the only one read from there on: that one goes to the next part, and
--- its gradient comes back.  What depends on no parameter (masks, tables, rows of the
--- batch) is computed by each part that reads it.  Among these places the parts are
--- chosen so that the one with the most work has as little as possible, and each has
--- parameters.
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
---@field last integer       id of the last that reads it
---@field work number        flops, and bytes that count as some
---@field view boolean
---@field expression integer  of what makes it: all its results have the number
---@field module string?     the path of the module that it is of: "blocks.3.fc"
---@field part integer?

local BYTE <const> = 8 -- flops that take as long as to read or write one, about

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

local function sorted(found)
  local list = {}
  for _, node in pairs(found) do list[#list + 1] = node end
  table.sort(list, function(a, b) return a.id < b.id end)
  return list
end

-- Which of them depend on parameters, in order, with what they read of these.
local function tracked(found, is_param)
  local list, by_id, by_expression = {}, {}, {}
  for _, node in ipairs(sorted(found)) do
    if node.op and not is_param[node.id] then
      node.reads, node.params, node.last = {}, {}, node.id
      for _, y in ipairs(node.inputs) do
        local id = core.id(y)
        if is_param[id] then table.insert(node.params, id) end
        if by_id[id] then
          table.insert(node.reads, by_id[id])
          by_id[id].last = node.id
        end
      end
      if #node.params > 0 or #node.reads > 0 then
        local flops, bytes, view, expression, module = core.work(node.x)
        node.module, node.expression = module, expression
        node.view, node.work = view, view and 0 or flops + BYTE * bytes
        by_id[node.id], by_expression[expression] = node, node
        list[#list + 1] = node
      end
    end
    node.inputs = nil
  end
  return list, by_id, by_expression
end

local function is_float(x)
  local dtype = core.dtypes()[x:get_dtype()]
  return dtype and dtype.floating
end

-- Behind which node nothing but that node is read; with the work, parameters and bytes
-- so far.
local function places(list)
  local out, live, ends, work, params = {}, 0, {}, 0, 0
  for i, node in ipairs(list) do
    work, params = work + node.work, params + #node.params
    live = live - (ends[node.id] or 0)
    if node.last > node.id then
      live = live + 1
      ends[node.last] = (ends[node.last] or 0) + 1
    end
    if live == 1 and node.last > node.id and i < #list and is_float(node.x) then
      out[#out + 1] = { at = i, node = node, work = work, params = params,
        bytes = node.x:nbytes() }
    end
  end
  return out, { at = #list, work = work, params = params, bytes = 0 }
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

-- The last place before the first value of a module.
local function place_before(list, all, name)
  local first = 1
  while list[first] and not is_within(list[first].module, name) do first = first + 1 end
  if not list[first] then refuse("no parameter leads to anything of a module '%s'", name) end
  local found
  for _, place in ipairs(all) do
    if place.at < first then found = place end
  end
  -- between the two nothing of parameters is read
  if found and found.at < first - 1 then
    for i = found.at + 1, first - 1 do
      if #list[i].params > 0 then found = nil break end
    end
  end
  return found or refuse("more than one value goes on where '%s' begins", name)
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

local function balanced(all, whole, q)
  all = thin_out(all)
  all[#all + 1], all[0] = whole, { work = 0, params = 0 }
  return balance(all, q) or refuse("%d parts of the layers wanted, one for each stage and chunk; "
    .. "there are places for %d, each with parameters, and with one value to hand on", q,
    most_parts(all))
end

---@class mrt.PipelineCut
---@field nodes mrt.PipelineNode[]   in the order of the program
---@field by_id table<integer, mrt.PipelineNode>
---@field by_expression table<integer, mrt.PipelineNode>  by the number of what makes it:
---  one of its results
---@field ends mrt.PipelineNode[]    what part 1, 2, ... but the last gives the next
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
    parts_of = {}, work = {} }
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
      out.ends[part], out.work[part] = node, place.work - before
      part, before = part + 1, place.work
    end
  end
  out.work[part] = whole.work - before
  return out
end

return cut
