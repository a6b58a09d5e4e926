--- einsum.lua -- sums of products, named by their subscripts
---
---   from   a pair at a time: labels that one operand alone has are summed first, then
---          each pair is one product of matrices, [batch, rows, sums] @ [batch, sums,
---          columns], between views
---   order  of three operands and more the pair that is cheapest is contracted first, all
---          of them weighed anew after each (greedy; of up to 6 all orders are tried)
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local dims = require "mrt.tensor.dims"

local op, refuse = core.op, argument.refuse
local infos = core.dtypes()
local WHO <const> = "einsum"

-- ---- subscripts ------------------------------------------------------------

local MOST <const> = 500 -- texts that are read once and kept

local texts, texts_count = {}, 0

-- "ij..." -> { "i", "j", "..." }, which nobody changes
local function letters(given)
  if texts[given] then return texts[given] end
  local list, i = {}, 1
  local text = given:gsub("%s", "")
  while i <= #text do
    local c = text:sub(i, i)
    if text:sub(i, i + 2) == "..." then
      list[#list + 1], i = "...", i + 3
    elseif c:match "%a" then
      list[#list + 1], i = c, i + 1
    else
      refuse(WHO, "'%s' in '%s', letters and ... wanted", c, text)
    end
  end
  if texts_count == MOST then texts, texts_count = {}, 0 end
  texts[given], texts_count = list, texts_count + 1
  return list
end

local function count_of(list, label)
  local n = 0
  for _, l in ipairs(list) do n = n + (l == label and 1 or 0) end
  return n
end

-- Labels of an operand, one for each of its dimensions; those that ... stands for are
-- numbers from the end: -1 the last.
local function named(x, list, i)
  local dots = count_of(list, "...")
  local hidden = x:dim() - (#list - dots)
  if dots > 1 or hidden < 0 or (dots == 0 and hidden > 0) then
    refuse(WHO, "operand %d is %s, its subscripts name %d dimensions", i, x:type(), #list - dots)
  end
  local out = {}
  for _, l in ipairs(list) do
    if l ~= "..." then
      out[#out + 1] = l
    else
      for k = hidden, 1, -1 do out[#out + 1] = -k end
    end
  end
  return out, hidden
end

-- Sizes by label; 1 gives way.
local function measure(operands)
  local sizes = {}
  for i, o in ipairs(operands) do
    for d, label in ipairs(o.labels) do
      local n, known = o.x:size(d), sizes[label]
      if known and known ~= 1 and n ~= 1 and n ~= known then
        refuse(WHO, "'%s' is %d in operand %d, %d before", label, n, i, known)
      end
      if not known or known == 1 then sizes[label] = n end
    end
  end
  return sizes
end

-- What is not said of the result: what ... stands for, then labels that are there once,
-- in the order of the alphabet.
local function implied(operands, hidden)
  local seen, list = {}, {}
  for _, o in ipairs(operands) do
    for _, l in ipairs(o.labels) do
      if type(l) == "string" then seen[l] = (seen[l] or 0) + 1 end
    end
  end
  for l, n in pairs(seen) do
    if n == 1 then list[#list + 1] = l end
  end
  table.sort(list)
  for k = 1, hidden do table.insert(list, 1, -k) end
  return list
end

local function explicit(text, hidden, sizes)
  local list, seen = {}, {}
  for _, l in ipairs(letters(text)) do
    if seen[l] then refuse(WHO, "'%s' twice in the result", l) end
    seen[l] = true
    if l == "..." then
      for k = hidden, 1, -1 do list[#list + 1] = -k end
    elseif not sizes[l] then
      refuse(WHO, "'%s' of the result is in no operand", l)
    else
      list[#list + 1] = l
    end
  end
  return list
end

-- Operands with labels, sizes and the result's labels.
local function read(equation, list)
  local left, right = equation:match "^(.-)%->(.*)$"
  left = left or equation
  local parts, operands, hidden = {}, {}, 0
  for part in (left .. ","):gmatch "([^,]*)," do parts[#parts + 1] = part end
  if #parts ~= #list then
    refuse(WHO, "subscripts of %d operands for %d tensors", #parts, #list)
  end
  for i, x in ipairs(list) do
    local labels, own = named(x, letters(parts[i]), i)
    operands[i], hidden = { x = x, labels = labels }, math.max(hidden, own)
  end
  local sizes = measure(operands)
  return operands, sizes, right and explicit(right, hidden, sizes) or implied(operands, hidden)
end

-- ---- one operand -----------------------------------------------------------

local function place_of(list, label)
  for i, l in ipairs(list) do
    if l == label then return i end
  end
end

-- A label twice is a diagonal.
local function without_repeats(o)
  local x, labels = o.x, { table.unpack(o.labels) }
  local i = 1
  while i <= #labels do
    local label, first = labels[i], place_of(labels, labels[i])
    if first < i then
      if x:size(first) ~= x:size(i) then
        refuse(WHO, "'%s' is %d and %d in one operand", label, x:size(first), x:size(i))
      end
      x = op.diagonal(x, { dim1 = first, dim2 = i })
      table.remove(labels, i)
      table.remove(labels, first)
      labels[#labels + 1] = label
      i = 1
    else
      i = i + 1
    end
  end
  return { x = x, labels = labels }
end

-- Sum over labels that `kept` has not.
local function summed(o, kept)
  local over, labels = {}, {}
  for d, l in ipairs(o.labels) do
    if kept[l] then labels[#labels + 1] = l else over[#over + 1] = d end
  end
  if #over == 0 then return o end
  return { x = op.sum(o.x, { dim = over }), labels = labels }
end

-- x with labels in this order, those it lacks as dimensions of size 1.
local function arranged(o, order)
  local permutation, shape = {}, {}
  for _, l in ipairs(order) do
    local d = place_of(o.labels, l)
    if d then permutation[#permutation + 1] = d end
    shape[#shape + 1] = d and o.x:size(d) or 1
  end
  local x = #permutation > 1 and op.permute(o.x, permutation) or o.x
  return dims.same(x:get_shape(), shape) and x or op.reshape(x, shape)
end

-- ---- two operands ----------------------------------------------------------

-- Labels of a and b by what becomes of them: in both and kept, in one, summed.
local function classes(a, b, kept)
  local both, rows, columns, sums = {}, {}, {}, {}
  for _, l in ipairs(a.labels) do
    local shared = place_of(b.labels, l)
    if not shared then
      rows[#rows + 1] = l
    elseif kept[l] then
      both[#both + 1] = l
    else
      sums[#sums + 1] = l
    end
  end
  for _, l in ipairs(b.labels) do
    if not place_of(a.labels, l) then columns[#columns + 1] = l end
  end
  return both, rows, columns, sums
end

local function product_of(list, sizes)
  local n = 1
  for _, l in ipairs(list) do n = n * sizes[l] end
  return n
end

local function joined(...)
  local out = {}
  for _, list in ipairs { ... } do table.move(list, 1, #list, #out + 1, out) end
  return out
end

-- An operand in this order, sizes of 1 that give way repeated, as three dimensions.
local function as_matrix(o, first, second, third, sizes)
  local order, shape = joined(first, second, third), {}
  for i, l in ipairs(order) do shape[i] = sizes[l] end
  local x = dims.expand(arranged(o, order), shape)
  return op.reshape(x, { product_of(first, sizes), product_of(second, sizes),
    product_of(third, sizes) })
end

local function pair(a, b, kept, sizes)
  local known = {}
  for _, l in ipairs(b.labels) do known[l] = true end
  for l in pairs(kept) do known[l] = true end
  a = summed(a, known)
  known = {}
  for _, l in ipairs(a.labels) do known[l] = true end
  for l in pairs(kept) do known[l] = true end
  b = summed(b, known)
  local both, rows, columns, sums = classes(a, b, kept)
  local labels = joined(both, rows, columns)
  if #sums > 0 and not infos[a.x:get_dtype()].floating then -- matmul takes floats
    local all = joined(labels, sums)
    local kept_labels = {}
    for _, l in ipairs(labels) do kept_labels[l] = true end
    return summed({ x = op.mul(arranged(a, all), arranged(b, all)), labels = all }, kept_labels)
  elseif #sums == 0 then -- nothing is summed: a product, element by element
    return { x = op.mul(arranged(a, labels), arranged(b, labels)), labels = labels }
  end
  local x = op.matmul(as_matrix(a, both, rows, sums, sizes),
    as_matrix(b, both, sums, columns, sizes))
  local shape = {}
  for i, l in ipairs(labels) do shape[i] = sizes[l] end
  return { x = op.reshape(x, shape), labels = labels }
end

-- ---- the order -------------------------------------------------------------

-- What is needed once the operands i and j are one.
local function kept_beside(operands, i, j, result)
  local kept = {}
  for _, l in ipairs(result) do kept[l] = true end
  for k, o in ipairs(operands) do
    if k ~= i and k ~= j then
      for _, l in ipairs(o.labels) do kept[l] = true end
    end
  end
  return kept
end

local function union(a, b)
  local seen, out = {}, {}
  for _, l in ipairs(joined(a, b)) do
    if not seen[l] then
      seen[l] = true
      out[#out + 1] = l
    end
  end
  return out
end

-- Operands i and j as one, by labels alone; and the multiplications that takes.
local function contracted(operands, i, j, result, sizes)
  local kept, all = kept_beside(operands, i, j, result),
    union(operands[i].labels, operands[j].labels)
  local labels, rest = {}, {}
  for _, l in ipairs(all) do
    if kept[l] then labels[#labels + 1] = l end
  end
  for k, o in ipairs(operands) do
    if k ~= i and k ~= j then rest[#rest + 1] = o end
  end
  rest[#rest + 1] = { labels = labels }
  return rest, product_of(all, sizes) + 0.0
end

local function each_pair(operands, f)
  for i = 1, #operands do
    for j = i + 1, #operands do f(i, j) end
  end
end

-- The cost of the best order, and its first pair.
local function best(operands, result, sizes)
  if #operands < 3 then return product_of(union(operands[1].labels,
    (operands[2] or operands[1]).labels), sizes) + 0.0, 1, 2 end
  local least, first, second = math.huge, 1, 2
  each_pair(operands, function(i, j)
    local rest, cost = contracted(operands, i, j, result, sizes)
    if cost >= least then return end
    if #operands <= 6 then cost = cost + best(rest, result, sizes) end
    if cost < least then least, first, second = cost, i, j end
  end)
  return least, first, second
end

--- Sums of products of tensors: Einstein's notation.
---
---     mrt.einsum("bij,bjk->bik", mrt.ones(4, 2, 3), mrt.ones(4, 3, 5)):type()  --> f32[4,2,5]
---     mrt.einsum("ii", mrt.eye(3))  --> 3
---     mrt.einsum("...i,i", mrt.ones(2, 3), mrt.ones(3))  --> [3.0 3.0]
---
--- Shapes: as the equation says: `"ij,jk->ik"` takes `[i,j]`, `[j,k]`.
--- Raises: an equation that does not fit the shapes.
---@param equation string  subscripts of each operand, "->" and those of the result; without
---  it those that are there once, in the order of the alphabet
---@param ... mrt.Tensor|mrt.Tensor[]
---@return mrt.Tensor
local function einsum(equation, ...)
  if type(equation) ~= "string" then
    refuse(WHO, "subscripts wanted first, as \"ij,jk->ik\", got %s",
      require "mrt.util.options".show(equation))
  end
  local list = dims.tensors(WHO, ...)
  if #list == 0 then refuse(WHO, "no operands, one at least wanted") end
  local operands, sizes, result = read(equation, list)
  for i, o in ipairs(operands) do operands[i] = without_repeats(o) end
  local _
  while #operands > 1 do
    local i, j = 1, 2
    if #operands > 2 then _, i, j = best(operands, result, sizes) end
    local one = pair(operands[i], operands[j], kept_beside(operands, i, j, result), sizes)
    table.remove(operands, j)
    table.remove(operands, i)
    operands[#operands + 1] = one
  end
  local kept, shape = {}, {}
  for k, l in ipairs(result) do kept[l], shape[k] = true, sizes[l] end
  return dims.expand(arranged(summed(operands[1], kept), result), shape)
end

return einsum
