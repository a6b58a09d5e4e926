--- chain.lua -- the value of what is typed before a dot, without running any of it
---
---     model.blocks[2]:     x[1].     mrt.policy.checkpoint.     nn.Linear(2, 3):
---
--- Fields are read by raw access, along tables of `__index`. Where a metatable of ours says
--- by `__fields` which names there are, a part that is not loaded is asked for. An index
--- that is no literal, a call of what is not known, an operator: nothing is known then.
---
--- SPDX-License-Identifier: MIT

local chain = {}

-- Stands for a tensor that is not there yet.
local TENSOR <const> = {}

local function core() return package.loaded["mrt.core"] end

local function meta_of(value)
  local meta = debug.getmetatable(value)
  return type(meta) == "table" and meta or nil
end

-- ---- fields ------------------------------------------------------------------

--- The table behind a value's missing fields, or nil.
local function index_table(value)
  local meta = meta_of(value)
  local index = meta and rawget(meta, "__index")
  return type(index) == "table" and index or nil
end

-- Where `__index` is a function, the metatable may list in `__fields` tables that have
-- the field names as keys, and in `__methods` one of those that are called.
local function visit_fields(meta, calling, visit)
  local methods, fields = rawget(meta, "__methods"), rawget(meta, "__fields")
  if calling and type(methods) == "table" then return visit(methods) end
  for _, t in next, type(fields) == "table" and fields or {} do visit(t) end
end

--- Call visit(t) for the tables in which a field of `value` is looked up.
---@param value any
---@param calling boolean  what is called alone
---@param visit fun(t: table)
function chain.each_table(value, calling, visit)
  if rawequal(value, TENSOR) then return visit_fields(core().Tensor, calling, visit) end
  local seen = {}
  if type(value) ~= "table" then
    local meta = meta_of(value)
    if meta then visit_fields(meta, calling, visit) end
    value = index_table(value)
  end
  while value ~= nil and not seen[value] do
    seen[value] = true
    visit(value)
    local meta = meta_of(value)
    if meta then visit_fields(meta, calling, visit) end
    value = index_table(value)
  end
end

local own = debug.getinfo(1, "S").source:match "^(.*/)cli/repl/[^/]*$"

-- Is this part of mrt, so that asking for a field runs no code but ours?
local function is_ours(value)
  local meta = type(value) == "table" and meta_of(value)
  local index = meta and rawget(meta, "__index")
  return own and rawget(meta or {}, "__fields") and type(index) == "function"
    and debug.getinfo(index, "S").source:sub(1, #own) == own
end

local function field(value, name)
  local found
  chain.each_table(value, false, function(t)
    if found == nil then found = rawget(t, name) end
  end)
  if found == true and is_ours(value) then
    local ok, part = pcall(function() return value[name] end)
    return ok and part or nil
  end
  return found
end

-- ---- what calls and indices give ------------------------------------------------

local function is_tensor(value)
  return rawequal(value, TENSOR) or core() and core().is_tensor(value)
end

local plain = { bytes = true, dim = true, element = true, item = true, nbytes = true,
  numel = true, origin = true, size = true, totable = true, type = true, equal = true }

local function makes_tensor(name)
  return core().methods[name] ~= nil and not plain[name] and not name:find "^[gs]et_"
end

local created = {}
for name in ([[tensor zeros ones full rand randn randint arange linspace eye empty randperm
  variable parameter cat stack zeros_like ones_like einsum]]):gmatch "%S+" do
  created[name] = true
end

-- What calling `f`, the field `name` of `owner`, returns; nil: not known.
local function result(f, owner, name)
  if not core() then return nil end
  local ours = is_tensor(owner) or owner ~= nil and rawequal(owner, package.loaded.mrt)
  if ours and (makes_tensor(name) or not is_tensor(owner) and created[name]) then return TENSOR end
  local is_class = not ours and type(f) == "table" and rawequal(rawget(f, "__index"), f)
  return is_class and f or nil
end

-- The value of an index that is a literal: x[1], t["name"].
local function literal(words, from, to)
  local sign = 1
  if to - from == 1 and words[from].text == "-" then sign, from = -1, to end
  if from ~= to then return nil end
  local word = words[from]
  if word.kind == "number" then return sign * (tonumber(word.text) or 0 / 0) end
  return word.kind == "string" and word.text:match "^['\"](.*)['\"]$" or nil
end

local function indexed(value, words, from, to)
  if is_tensor(value) then return TENSOR end
  local key = literal(words, from, to)
  if type(value) ~= "table" or key == nil or key ~= key then return nil end
  return rawget(value, key)
end

-- ---- reading backwards ------------------------------------------------------------

local pairs_of = { ["]"] = "[", [")"] = "(", ["}"] = "{" }

-- The word that opens what word `at` closes.
local function opening(words, at)
  local depth = 0
  for i = at, 1, -1 do
    local text = words[i].kind == "mark" and words[i].text
    if pairs_of[text] then depth = depth + 1 end
    if text == "[" or text == "(" or text == "{" then depth = depth - 1 end
    if depth == 0 then return words[i].text == pairs_of[words[at].text] and i or nil end
  end
end

-- Can a call or an index follow this word?
local function ends_value(word)
  return word ~= nil and (word.kind == "name" or word.text == "]" or word.text == ")"
    or word.text == "}")
end

-- One suffix that ends at word `at`: how it is applied, and the word before it.
local function suffix(words, at)
  local word, before = words[at], words[at - 1]
  if word.kind == "name" and before and (before.text == "." or before.text == ":") then
    return { name = word.text }, at - 2
  elseif word.kind == "string" and ends_value(before) then
    return { call = true }, at - 1
  elseif pairs_of[word.text] and word.kind == "mark" then
    local open = opening(words, at)
    if not open or not ends_value(words[open - 1]) then return nil end
    if word.text == "]" then return { from = open + 1, to = at - 1 }, open - 1 end
    return { call = true }, open - 1
  end
end

local function begin(words, at, scope)
  local word = words[at]
  if word.kind == "name" then
    local exists, value = scope:get(word.text)
    if not exists then value = rawget(_G, word.text) end
    return value ~= nil, value
  end
  local text = words[at - 1] -- ("text"):
  return word.text == ")" and text and text.kind == "string"
    and words[at - 2] and words[at - 2].text == "(" or false, ""
end

--- The value of the expression that ends at word `at`.
---@param words mrt.repl.Word[]
---@param at integer
---@param scope mrt.repl.Chunks
---@return boolean known
---@return any value
function chain.value(words, at, scope)
  local list = {}
  while words[at] do
    local one, before = suffix(words, at)
    if not one then break end
    list[#list + 1], at = one, before
  end
  if not words[at] then return false end
  local known, value = begin(words, at, scope)
  local owner, name
  for i = #list, 1, -1 do
    if not known then return false end
    local one = list[i]
    if one.name then
      owner, name = value, one.name
      value = is_tensor(value) and name == "T" and TENSOR or field(value, name)
    elseif one.call then
      value, owner = result(value, owner, name), nil
    else
      value, owner = indexed(value, words, one.from, one.to), nil
    end
    known = value ~= nil
  end
  return known, value
end

return chain
