--- vocabulary.lua -- PyTorch's functions beside ours, from the tables of spec/torch/
---
--- A row says what a function is called there and here, its arguments with PyTorch's
--- names, order and defaults, and how a random case of it is drawn (spec/torch/README.md).
--- From that come the page of names, the spec of signatures, the campaign of
--- differential tests and the benchmark of operators.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local op_rows = require "op.rows"

local vocabulary = {}

local folder = debug.getinfo(1, "S").source:match "^@(.*)support/vocabulary%.lua$" .. "torch"

--- All rows of spec/torch/, each with the `family` that its file is.
function vocabulary.rows()
  local list, names = {}, {}
  for _, file in ipairs(assert(core.list_folder(folder))) do
    names[#names + 1] = file:match "^(.+)%.lua$"
  end
  table.sort(names)
  for _, name in ipairs(names) do
    for i, row in ipairs(dofile(("%s/%s.lua"):format(folder, name))) do
      assert(type(row.torch) == "string", ("%s, row %d: no name"):format(name, i))
      row.family = name
      list[#list + 1] = row
    end
  end
  return list
end

local prefixes = { torch = "torch.", Tensor = "torch.Tensor.", linalg = "torch.linalg.",
  fft = "torch.fft.", functional = "torch.nn.functional.", nn = "torch.nn.",
  optim = "torch.optim.", scheduler = "torch.optim.lr_scheduler.",
  distributions = "torch.distributions." }
-- Where PyTorch has the same function several times.
local same = { torch = 1, Tensor = 1, functional = 1 }

--- What is wanted (wanted.txt) and has no row: full names; and how many are wanted, and
--- are in absent rows.
function vocabulary.missing()
  local has, list, count, absent = {}, {}, 0, 0
  for _, row in ipairs(vocabulary.rows()) do has[row.torch] = row.absent and "absent" or "here" end
  local function where(group, name)
    local found = has[prefixes[group] .. name]
    for other in pairs(same[group] and same or {}) do
      if found ~= "here" then found = has[prefixes[other] .. name] or found end
    end
    return found
  end
  for line in io.lines(folder .. "/wanted.txt") do
    local group, names = line:match "^(%a+): (.*)$"
    for name in (names or ""):gmatch "%S+" do
      count = count + 1
      local found = where(group, name)
      if not found then list[#list + 1] = prefixes[group] .. name end
      if found == "absent" then absent = absent + 1 end
    end
  end
  return list, count, absent
end

-- ---- what is here ------------------------------------------------------------

local roots = { Tensor = core.methods, mrt = mrt, nn = mrt.nn, optim = mrt.optim }

--- What a row's `ours` names: a function, a class; nil where there is none.
function vocabulary.ours(row)
  local at
  for word in row.ours:gmatch "[^.]+" do
    if at == nil then
      at = roots[word]
    else
      at = at[word]
    end
    if at == nil then return nil end
  end
  return at
end

-- ---- random cases ------------------------------------------------------------

local random = math.random

--- What rows draw with: r(low, high) is an integer.
local r = setmetatable({}, { __call = function(_, low, high) return random(low, high) end })
vocabulary.r = r

--- A shape of `low` to `high` dimensions, of 0 to 9 elements each; seldom 0.
function r.dims(low, high)
  local dims = {}
  for d = 1, random(low, high) do dims[d] = random() < 0.04 and 0 or random(9) end
  return dims
end

--- One of the dimensions, from the front or from the end.
function r.dim(dims)
  local d = random(math.max(1, #dims))
  return random() < 0.3 and d - math.max(1, #dims) - 1 or d
end

function r.pick(list) return list[random(#list)] end
function r.bool() return random() < 0.5 end
function r.real(low, high) return low + (high - low) * random() end

local function filled(spec, dtype)
  local flat = { dims = spec.dims, dtype = spec.dtype or spec.integer and "i64" or dtype,
    data = {} }
  local low, high = spec.low or -1, spec.high or 1
  local whole = flat.dtype:find "^[iu]" or flat.dtype == "bool"
  if flat.dtype == "u8" then low = math.max(low, 0) end
  if whole and high - low <= 2 then low, high = low * 5, high * 5 end
  if flat.dtype == "u8" then low = math.max(low, 0) end
  for i = 1, op_rows.count(spec.dims) do
    local x
    if spec.values then
      x = spec.values[(i - 1) % #spec.values + 1]
      if type(x) == "boolean" then x = x and 1 or 0 end
    elseif spec.integer then
      x = random(0, spec.integer - 1)
    elseif flat.dtype == "bool" then
      x = random(0, 1)
    elseif whole then
      x = random(math.floor(low), math.ceil(high))
    else
      x = low + (high - low) * random()
    end
    flat.data[i] = whole and math.tointeger(x) or x + 0.0
  end
  return op_rows.tensor(flat)
end

local function is_tensor_kind(kind) return kind == "tensor" or kind == "tensors" end

--- A case of a row: `values` by name (tensors made), `tensors` in order, each with
--- `constant` where no gradient is asked for.  `drawn` is what the row drew.
function vocabulary.case(row, drawn, dtype)
  local case = { row = row, values = {}, tensors = {}, constant = {}, dtype = dtype }
  local function add(spec)
    local t = filled(spec, dtype)
    case.tensors[#case.tensors + 1] = t
    case.constant[#case.tensors] = spec.constant or false
    return t
  end
  for _, argument in ipairs(row.args) do
    local name, kind = argument[1], argument[2]
    local value = drawn[name]
    if value ~= nil and kind == "tensor" then
      value = add(value)
    elseif value ~= nil and kind == "tensors" then
      local list = {}
      for i, spec in ipairs(value) do list[i] = add(spec) end
      value = list
    end
    case.values[name] = value
  end
  for name in pairs(drawn) do
    assert(case.values[name] ~= nil or name:sub(1, 1) == "_",
      ("%s: a draw of '%s', which is no argument"):format(row.torch, name))
    if name:sub(1, 1) == "_" then case.values[name] = drawn[name] end
  end
  return case
end

--- The same case of other tensors, in the order of case.tensors.
function vocabulary.with(case, tensors)
  local place, values = {}, {}
  for i, t in ipairs(case.tensors) do place[t] = i end
  for name, value in pairs(case.values) do
    local list = type(value) == "table" and place[value[1]] and {} or nil
    for i, t in ipairs(list and value or {}) do list[i] = tensors[place[t]] end
    values[name] = list or tensors[place[value]] or value
  end
  return { row = case.row, values = values, tensors = tensors, constant = case.constant }
end

-- How many arguments are given by their place: up to the last tensor at least; nil
-- ends what can be.
local function by_place(case, share)
  local args, least, most = case.row.args, 0, 0
  for i, argument in ipairs(args) do
    if is_tensor_kind(argument[2]) and case.values[argument[1]] ~= nil then least = i end
  end
  for i, argument in ipairs(args) do
    if argument.keyword or case.values[argument[1]] == nil and i > least then break end
    most = i
  end
  return least + math.floor((most - least) * share + 0.5)
end

-- The arguments of ours: a share of them by place, the others in a table of names.
local function arguments(case, share)
  local placed, list, named = by_place(case, share), {}, nil
  for i, argument in ipairs(case.row.args) do
    local value = case.values[argument[1]]
    if i <= placed then
      list[i] = value
    elseif value ~= nil then
      named = named or {}
      named[argument[1]] = value
    end
  end
  list[placed + 1] = named
  return list, placed + (named and 1 or 0)
end

--- A function that calls ours, and does nothing else.
function vocabulary.bind(case)
  local row = case.row
  if row.call then return function() return row.call(case.values, case.tensors) end end
  local f = assert(vocabulary.ours(row), row.ours .. " is not there")
  local list, n = arguments(case, 1)
  if n > 3 then return function() return f(table.unpack(list, 1, n)) end end
  local x, y, z = table.unpack(list, 1, n)
  if n <= 1 then return function() return f(x) end end
  if n == 2 then return function() return f(x, y) end end
  return function() return f(x, y, z) end
end

--- Call ours: a share of the arguments by place, the others by name.  The results as
--- a list.  `unknown`: an option more, which there is not.
function vocabulary.call(case, share, unknown)
  local row = case.row
  if row.call then return table.pack(row.call(case.values, case.tensors)) end
  local f = assert(vocabulary.ours(row), row.ours .. " is not there")
  local list, n = arguments(case, share or 1)
  if unknown then
    n = type(list[n]) == "table" and not mrt.is_tensor(list[n]) and #list[n] == 0 and n or n + 1
    list[n] = list[n] or {}
    list[n][unknown] = 1
  end
  return table.pack(f(table.unpack(list, 1, n)))
end

--- How many arguments after the last tensor a case has: those that have names.
function vocabulary.named(case)
  return by_place(case, 1) - by_place(case, 0)
end

-- ---- the same in Python ------------------------------------------------------

local function zero_based(d) return d > 0 and d - 1 or d end

local function number(x)
  if x ~= x then return "math.nan" end
  if x == math.huge then return "math.inf" end
  if x == -math.huge then return "-math.inf" end
  return math.type(x) == "integer" and tostring(x) or ("%.17g"):format(x)
end

local literal

local function sequence(list, kind)
  local parts = {}
  for i, x in ipairs(list) do parts[i] = literal(x, kind) end
  return "(" .. table.concat(parts, ", ") .. (#parts == 1 and ",)" or ")")
end

local dtypes = { f64 = "float64", f32 = "float32", f16 = "float16", bf16 = "bfloat16",
  i64 = "int64", i32 = "int32", u8 = "uint8", bool = "bool" }

function literal(value, kind)
  if type(value) == "table" then return sequence(value, kind) end
  if type(value) == "boolean" then return value and "True" or "False" end
  if type(value) == "string" then
    return kind == "dtype" and "torch." .. dtypes[value] or "'" .. value .. "'"
  end
  if kind == "dim" or kind == "dims" then value = zero_based(value) end
  return number(value)
end
vocabulary.literal = literal

local letters = "abcdefghijklmnopqrstuvwxyz"

--- The call in Python, of tensors a, b, c ...
function vocabulary.python(case)
  local row, values, parts, n = case.row, case.values, {}, 0
  local function letter()
    n = n + 1
    return letters:sub(n, n)
  end
  if row.expression then return row.expression(values) end
  local placing = true
  for i, argument in ipairs(row.args) do
    local name, kind, value = argument[1], argument[2], values[argument[1]]
    local text
    placing = placing and not argument.keyword
    if value == nil then
      placing = false
    elseif kind == "tensor" then
      text = letter()
    elseif kind == "tensors" then
      local list = {}
      for k = 1, #value do list[k] = letter() end
      text = "[" .. table.concat(list, ", ") .. "]"
    else
      text = literal(value, kind)
    end
    if text then parts[#parts + 1] = (placing or i == 1) and text or name .. "=" .. text end
  end
  return ("%s(%s)"):format(row.torch, table.concat(parts, ", "))
end

--- "torch.sort(a, dim=1): f32[3,4]", for messages.
function vocabulary.describe(case)
  local types = {}
  for i, t in ipairs(case.tensors) do types[i] = t:type() end
  return ("%s of %s"):format(vocabulary.python(case), table.concat(types, ", "))
end

return vocabulary
