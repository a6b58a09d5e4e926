--- file.lua -- recomputation instances, read from .tg files.
--
--     graph NAME OPS TENSORS CONST_BYTES COST_UNIT
--     t TENSOR BYTES PINNED_AT_END
--     o OP COST IS_BACKWARD NAME N_INPUTS TENSOR... N_OUTPUTS TENSOR...
--
-- Operators stand in executing order; both are numbered from 0, in order.
--
-- `read(path)` gives the problem as core.schedule wants it, with fields `name`,
-- `constant` (bytes of parameters and data) and `unit`, or nil and a message
-- with the line.  A tensor read twice by an operator counts once.
--
-- SPDX-License-Identifier: MIT

local function integer(text, what)
  local value = math.tointeger(tonumber(text))
  if not value or value < 0 then
    error({ ("%s '%s' is no integer from 0 up"):format(what, text or "") })
  end
  return value
end

local read = {}

function read.graph(problem, words)
  if problem.ops then error { "a second line 'graph'" } end
  if #words < 5 then error { "graph NAME OPS TENSORS CONST_BYTES COST_UNIT wanted" } end
  problem.name, problem.unit = words[2], words[6] or ""
  problem.op_count = integer(words[3], "the number of operators")
  problem.value_count = integer(words[4], "the number of tensors")
  problem.constant = integer(words[5], "bytes of constants")
  problem.ops, problem.bytes, problem.pinned = {}, {}, {}
end

function read.t(problem, words)
  if #words ~= 4 then error { "t TENSOR BYTES PINNED_AT_END wanted" } end
  local v = #problem.bytes + 1
  if integer(words[2], "tensor") ~= v - 1 then
    error({ ("tensor %s where %d is next"):format(words[2], v - 1) })
  end
  problem.bytes[v] = integer(words[3], "size")
  problem.pinned[v] = integer(words[4], "pinned") ~= 0
end

--- The list that begins at words[at] with its length; and where the next is.
local function list(problem, words, at)
  local n = integer(words[at], "number of tensors")
  local items, seen = {}, {}
  for i = at + 1, at + n do
    local v = integer(words[i], "tensor") + 1
    if v > problem.value_count then error { ("there is no tensor %d"):format(v - 1) } end
    if not seen[v] then items[#items + 1] = v end
    seen[v] = true
  end
  return items, at + n + 1
end

function read.o(problem, words)
  local op = {}
  if integer(words[2], "operator") ~= #problem.ops then
    error({ ("operator %s where %d is next"):format(words[2], #problem.ops) })
  end
  op.cost = tonumber(words[3])
  if not op.cost or op.cost < 0 or op.cost ~= op.cost or op.cost == math.huge then
    error({ ("cost '%s' is no number from 0 up"):format(words[3] or "") })
  end
  op.name = words[5]
  local past
  op.reads, past = list(problem, words, 6)
  op.makes, past = list(problem, words, past)
  if past ~= #words + 1 then
    error({ ("%d words, the lists end at %d"):format(#words, past - 1) })
  end
  problem.ops[#problem.ops + 1] = op
end

local function check_counts(problem)
  if not problem.ops then error { "empty, no instance" } end
  if #problem.ops ~= problem.op_count then
    error({ ("%d operators, %d are announced"):format(#problem.ops, problem.op_count) })
  end
  if #problem.bytes ~= problem.value_count then
    error({ ("%d tensors, %d are announced"):format(#problem.bytes, problem.value_count) })
  end
end

return function(path)
  local file <close>, problem = io.open(path)
  if not file then return nil, problem end
  local number, instance = 0, {}
  local function wrong(problem_found)
    if type(problem_found) ~= "table" then error(problem_found, 0) end
    return ("%s:%d: %s"):format(path, number, problem_found[1])
  end
  local ok, message = xpcall(function()
    for line in file:lines() do
      number = number + 1
      local words = {}
      for word in line:gmatch "%S+" do words[#words + 1] = word end
      local one = words[1]
      if one and not read[one] then error({ ("'%s' begins no line"):format(one) }) end
      if one and one ~= "graph" and not instance.ops then error { "'graph' comes first" } end
      if one then read[one](instance, words) end
    end
    check_counts(instance)
  end, wrong)
  if not ok then return nil, message end
  return instance
end
