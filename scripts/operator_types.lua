--- operator_types.lua -- types of the operators for editors, from their rows
---
---     build/mrt scripts/operator_types.lua      writes lua/mrt/tensor/operators.lua
---     build/mrt scripts/operator_types.lua -    prints what it would write
---
--- LuaCATS, which the Lua language server reads: every operator that is a method
--- of tensors as its row says it, with its formula, its options, their kinds and
--- defaults.  Methods written in Lua have their types in their own files.  Rows
--- do not name their inputs: the formula does, in their order.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"

local notes = dofile((arg[0]:match "^(.*)/" or ".") .. "/operator_notes.lua")

local PATH <const>, WIDTH <const> = "lua/mrt/tensor/operators.lua", 90

local kinds = { int = "integer", num = "number", bool = "boolean", dim = "integer",
  index = "integer", dtype = "mrt.DType", ints = "integer|integer[]",
  dims = "integer|integer[]" }

local function note(op) return notes[op.name] or {} end

-- What the input after the first, and so on, is called.
local function input(op, i)
  local names = note(op).names or {}
  return names[i - 1] or op.pointwise and i == 2 and "y"
    or ({ "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth" })[i - 1]
end

local function kind(option)
  if option.kind ~= "enum" then return kinds[option.kind] end
  return (option.words:gsub("%S+", '"%0"'):gsub(" ", "|"))
end

local function default(option)
  if option.default == nil then return "" end
  local text = option.default
  if type(text) == "number" and math.type(text) == "float" then text = ("%.14g"):format(text) end
  return "  default " .. tostring(text)
end

-- Lines of a comment, none longer than WIDTH.
local function comment(out, text)
  local line = "---"
  for word in text:gmatch "%S+" do
    if #line + #word >= WIDTH then
      out[#out + 1], line = line, "---"
    end
    line = line .. " " .. word
  end
  out[#out + 1] = line
end

local function option_class(out, op)
  out[#out + 1] = "---@class mrt.op." .. op.name
  for _, option in ipairs(op.options) do
    out[#out + 1] = ("---@field %s%s %s%s"):format(option.name, option.required and "" or "?",
      kind(option), default(option))
  end
  out[#out + 1] = ""
end

-- The tensors beside the first.
local function input_params(out, op, names)
  local what = op.pointwise and "mrt.Operand" or "mrt.Tensor"
  for i = 2, math.max(op.max_inputs, 1) do
    names[#names + 1] = input(op, i)
    out[#out + 1] = ("---@param %s%s %s"):format(input(op, i), i > op.min_inputs and "?" or "",
      what)
  end
  if op.max_inputs >= 0 then return false end
  out[#out + 1] = "---@param ... any  more tensors, then the options"
  return true
end

-- Options by position.
local function option_params(out, op, names)
  local list = false
  for _, option in ipairs(op.options) do
    list = list or option.kind == "ints" or option.kind == "dims"
    names[#names + 1] = option.name
    out[#out + 1] = ("---@param %s%s %s%s"):format(option.name, option.required and "" or "?",
      kind(option), default(option))
  end
  if list then
    out[#out + 1] = "---@param ... any  a list may be given as numbers one by one"
  end
  return list
end

-- All options by name in a table.
local function overload(out, op)
  local given = { "self: mrt.Tensor" }
  for i = 2, op.max_inputs do
    given[i] = ("%s%s: mrt.Tensor"):format(input(op, i), i > op.min_inputs and "?" or "")
  end
  given[#given + 1] = "options: mrt.op." .. op.name
  out[#out + 1] = ("---@overload fun(%s): mrt.Tensor"):format(table.concat(given, ", "))
end

-- What an expression gives, in one line.
local function value_of(expression, before)
  local chunk = assert(load((before or "") .. "\nreturn " .. expression, expression, "t",
    setmetatable({ mrt = mrt }, { __index = _G })))
  local results = table.pack(chunk())
  for i, x in ipairs(results) do
    local text = core.is_tensor(x) and tostring(x):gsub("^[%w_]+%[[%d,]*%]\n", "") or tostring(x)
    results[i] = text:gsub("%s*\n%s*", " "):gsub("%[ ", "["):gsub("%s+", " ")
  end
  return table.concat(results, ", ")
end

local function example(out, op)
  local n = note(op)
  if not n[1] then return end
  out[#out + 1] = "---"
  for line in (n.before or ""):gmatch "[^\n]+" do out[#out + 1] = "---     " .. line end
  out[#out + 1] = "---     " .. n[1]
    .. (n.quiet and "" or "  --> " .. value_of(n[1], n.before))
  out[#out + 1] = "---"
end

-- Shapes, and what is raised.
local function contract(out, op)
  local n, shapes, raises = note(op), nil, {}
  if op.pointwise then
    shapes = op.max_inputs > 1 and "`[...]` of what x and y broadcast to" or "`[...]` of x's shape"
    if op.max_inputs > 1 then raises[1] = "shapes that do not broadcast" end
  end
  for _, option in ipairs(op.options) do
    if option.name == "dim" then raises[#raises + 1] = "a dimension that x does not have" end
  end
  raises[#raises + 1] = n.raises
  if not raises[1] and op.options[1] then raises[1] = "an option of another type" end
  shapes = n.shapes or shapes
  if shapes then comment(out, "Shapes: " .. shapes .. ".") end
  if raises[1] then comment(out, "Raises: " .. table.concat(raises, "; ") .. ".") end
end

local function method(out, op)
  local names = {}
  if #op.options > 0 then option_class(out, op) end
  comment(out, op.doc)
  example(out, op)
  contract(out, op)
  local more = input_params(out, op, names)
  if not more then more = option_params(out, op, names) end
  if more then names[#names + 1] = "..." end
  out[#out + 1] = "---@return mrt.Tensor"
  local results = note(op).results or 1
  for _ = 2, results == "many" and 0 or results do out[#out + 1] = "---@return mrt.Tensor" end
  if results == "many" then out[#out + 1] = "---@return mrt.Tensor ...  and so on" end
  if #op.options > 0 and op.max_inputs > 0 then overload(out, op) end
  out[#out + 1] = ("function Tensor:%s(%s) end"):format(op.name, table.concat(names, ", "))
  out[#out + 1] = ""
end

local function text()
  local out = {
    "---@meta",
    "",
    "--- operators.lua -- the operators that are methods of tensors, for editors",
    "---",
    "--- Written by scripts/operator_types.lua from the operators' rows; never loaded.",
    "---",
    "--- SPDX-License-Identifier: MIT",
    "",
    "---@class mrt.Tensor",
    "local Tensor = {}",
    "",
  }
  for _, op in ipairs(core.operators()) do
    local own = core.methods[op.name]
    if own and own == core.op[op.name] then method(out, op) end
  end
  return table.concat(out, "\n")
end

if arg[1] == "-" then
  io.write(text())
else
  local all = text()
  local file = assert(io.open(PATH, "w"))
  file:write(all)
  assert(file:close())
end
