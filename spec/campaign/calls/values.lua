--- values.lua -- random arguments: of a type, or of none
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local types = require "campaign.calls.types"

local values = { pool = {}, folder = nil, inner = nil }

local random = math.random
local dtypes = { "f32", "f32", "f32", "f32", "f64", "i64", "i64", "i32", "u8", "bool",
  "f16", "bf16", "f8_e4m3", "f8_e5m2" }
local sizes = { 0, 1, 1, 2, 2, 3, 4, 4, 5, 8 }
local small = { 0, 1, 1, 1, 2, 2, 2, 3, 4, 4, 5, 8, -1, -1, -2, -3 }
local huge = { 1 << 31, 1 << 40, 1 << 62, math.maxinteger, math.mininteger, -1 << 31, 65537 }
local numbers = { 0.0, -0.0, 1.0, 0.5, 0.1, 0.9, 1e-8, -1.5, 3.7, 1e300, 1e-310, math.huge,
  -math.huge, 0 / 0, 2.0 ^ 63 }
local words = { "", "f32", "i64", "bool", "mean", "sum", "none", "x", "a.b", "tanh", "tensor",
  "\0", "no such", ("long"):rep(200), "%s%n", "auto", "2MiB", "cpu", "1", "all" }

--- One of a list.
local function one(list) return list[random(#list)] end
values.one = one

-- Shapes that meet: most tensors of a round have one of a few.
local shapes = {}

--- Begin a round.
function values.begin()
  values.pool = {}
  for i = 1, 5 do
    shapes[i] = {}
    for k = 1, random(0, 4) do shapes[i][k] = one(sizes) end
  end
  shapes[6], shapes[7] = { 4, 4 }, { 4 }
end

local function shape()
  if random() < 0.7 then return one(shapes) end
  local dims = {}
  for k = 1, random(0, 4) do dims[k] = one(sizes) end
  return dims
end

local function filled()
  local dims, dtype, kind = shape(), one(dtypes), random(6)
  if kind == 1 then return mrt.full(dims, one(numbers)):to(dtype) end
  if kind == 2 then return mrt.randint(0, 4, dims):to(dtype) end
  if kind == 3 then return mrt.variable(mrt.randn(dims):to(dtype)) end
  if kind == 4 then return mrt.ones(dims):to(dtype) end
  return mrt.randn(dims):to(dtype)
end

local function from_pool(wanted)
  for _ = 1, 8 do
    local value = values.pool[random(math.max(#values.pool, 1))]
    if value ~= nil and wanted(value) then return value end
  end
end

function values.tensor()
  local x = random() < 0.75 and from_pool(core.is_tensor) or nil
  if x then return x end
  local ok
  ok, x = pcall(filled)
  return ok and x or nil
end

function values.integer() return random() < 0.04 and one(huge) or one(small) end

local function number()
  return random() < 0.4 and one(numbers) or random() < 0.5 and one(small) or random() * 4 - 2
end

--- A path inside the round's folder: often of a file that is there.
function values.path()
  local ends = { ".safetensors", ".npz", ".npy", ".csv", ".txt", ".lua", "", "/", "/deep/x.npy" }
  return values.folder .. "/" .. random(6) .. one(ends)
end

function values.callable()
  return one {
    function(...) return ... end,
    function(x) return (x * x):sum() end,
    function() error "raised in a callback" end,
    function() return nil end,
    function() error({}) end,
    function() return one(values.pool) end,
    function(...) return values.inner(...) end,
    function(...) return values.inner(...) end,
    mrt.ones,
  }
end

--- A value of no type in particular.
function values.any(depth)
  local kind = random(12)
  if kind <= 3 then return values.tensor() end
  if kind == 4 then return values.integer() end
  if kind == 5 then return number() end
  if kind == 6 then return one(words) end
  if kind == 7 then return random() < 0.5 end
  if kind == 8 then return values.callable() end
  if kind == 9 then return nil end
  if kind == 10 or (depth or 0) > 2 then return one(values.pool) end
  local t = {}
  for i = 1, random(0, 3) do t[i] = values.any((depth or 0) + 1) end
  if random() < 0.3 then t[one(words)] = values.any((depth or 0) + 1) end
  if random() < 0.02 then t[#t + 1] = t end
  return t
end

-- Cut at `separator` outside brackets and quotes.
local function cut(text, separator)
  local parts, depth, quoted, from = {}, 0, false, 1
  for i = 1, #text do
    local c = text:sub(i, i)
    if c == '"' then quoted = not quoted end
    if not quoted then
      if c:find "[%(%[{<]" then depth = depth + 1 end
      if c:find "[%)%]}>]" then depth = depth - 1 end
      if c == separator and depth == 0 then
        parts[#parts + 1] = text:sub(from, i - 1)
        from = i + 1
      end
    end
  end
  parts[#parts + 1] = text:sub(from)
  return parts
end

local function fields(list, out, depth)
  for _, f in ipairs(list) do
    if not f.optional or random() < 0.25 then
      out[f.name] = values.of(f.type, depth + 1)
    end
  end
  local parent = types.classes[list.parent or ""]
  return parent and parent ~= list and depth < 6 and fields(parent, out, depth + 1) or out
end

local function record(text, depth)
  local out = {}
  for _, part in ipairs(cut(text:sub(2, -2), ",")) do
    local name, kind = part:match "^%s*([%w_]+)%s*%??%s*:%s*(.+)"
    if name and random() < 0.8 then out[name] = values.of(kind, depth + 1) end
  end
  return out
end

local simple = {
  integer = values.integer, number = number, path = values.path,
  string = function() return one(words) end,
  boolean = function() return random() < 0.5 end,
  dim = function() return one { 1, 1, 2, 2, 3, 4, -1, -1, -2, 0, 5, math.mininteger } end,
  ["nil"] = function() return nil end,
  ["function"] = values.callable, any = values.any,
  ["mrt.Tensor"] = values.tensor,
  ["mrt.DType"] = function() return one(dtypes) end,
}

-- An object of the library, or a table of a class's fields.
local function of_class(name, depth)
  local class = types.classes[name]
  local object = from_pool(function(v)
    return not core.is_tensor(v) and (type(v) == "table" or type(v) == "userdata")
  end)
  if not class or #class == 0 or object and random() < 0.2 then return object end
  return fields(class, {}, depth)
end

--- A value of a type as LuaCATS writes it; seldom of another.
function values.of(kind, depth)
  depth = depth or 0
  if depth > 5 or random() < 0.05 then return values.any(depth) end
  kind = kind:match "^%s*(.-)%s*%??$"
  local union = cut(kind, "|")
  if #union > 1 then return values.of(one(union), depth + 1) end
  if simple[kind] then return simple[kind]() end
  if types.aliases[kind] then return values.of(types.aliases[kind], depth + 1) end
  local inside = kind:match '^"(.*)"$'
  if inside then return inside end
  inside = kind:match "^(.+)%[%]$"
  if inside then
    local list = {}
    for i = 1, random(0, 4) do list[i] = values.of(inside, depth + 1) end
    return list
  end
  if kind:find "^fun" then return values.callable() end
  if kind:find "^{" then return record(kind, depth) end
  inside = kind:match "^table<(.+)>$"
  if inside then
    local pair, out = cut(inside, ","), {}
    for _ = 1, random(0, 3) do
      local key = values.of(pair[1], depth + 1)
      if key ~= nil and key == key then out[key] = values.of(pair[2] or "any", depth + 1) end
    end
    return out
  end
  if kind:find "^%(" then return values.of(kind:sub(2, -2), depth + 1) end
  return of_class(kind, depth)
end

--- The same value with every string a path of the round's folder.
function values.in_folder(value, depth)
  if type(value) == "string" or type(value) == "number" then return values.path() end
  if type(value) ~= "table" or getmetatable(value) or (depth or 0) > 3 then return value end
  local out = {}
  for k, v in pairs(value) do
    if type(v) == "string" or type(v) == "table" then v = values.in_folder(v, (depth or 0) + 1) end
    out[k] = v
  end
  return out
end

return values
