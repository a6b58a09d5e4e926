--- signature.lua -- arguments and results of a compiled function
---
--- Arguments are tensors, plain values and tables of them, one level deep; so are
--- results.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

local signature = {}

local function sorted_keys(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b)
    if type(a) == type(b) and type(a) ~= "boolean" then return a < b end
    return type(a) < type(b)
  end)
  return keys
end

local function check_key(key)
  local kind = type(key)
  if kind ~= "string" and kind ~= "number" then
    core.fail("value", "compile",
      ("a table argument has a %s as key, strings and numbers wanted")
      :format(kind))
  end
end

local write = {
  string = function(v) return ("%q"):format(v) end,
  number = function(v)
    return math.type(v) == "float" and ("%a"):format(v) or tostring(v)
  end,
  boolean = tostring,
  ["nil"] = tostring,
}

-- Append the signature of one argument to `parts`, its tensors to `tensors`.
local function describe(value, parts, tensors, nested)
  local kind = type(value)
  if core.is_tensor(value) then
    parts[#parts + 1] = value:type()
    tensors[#tensors + 1] = value
  elseif write[kind] then
    parts[#parts + 1] = write[kind](value)
  elseif kind == "table" and not nested then
    parts[#parts + 1] = "{"
    for _, key in ipairs(sorted_keys(value)) do
      check_key(key)
      describe(key, parts, tensors, true)
      describe(value[key], parts, tensors, true)
    end
    parts[#parts + 1] = "}"
  else
    core.fail("value", "compile",
      ("an argument is a %s%s, tensors, plain values or a table of them wanted")
      :format(kind, kind == "table" and " in a table" or ""))
  end
end

-- The modules in evaluation mode, if there are modules at all.
local function mode()
  local modes = package.loaded["mrt.nn.mode"]
  return modes and modes.current or 0
end

--- What a trace depends on, as text, and the tensors among the arguments, in order.
---@param n integer
---@param ... any
---@return string
---@return mrt.Tensor[]
function signature.of(n, ...)
  local parts, tensors = { mode() }, {}
  for i = 1, n do describe((select(i, ...)), parts, tensors, false) end
  return table.concat(parts, " "), tensors
end

--- The same argument with `new_input(tensor)` for its tensors, noted in `inputs`.
local function stand_in(value, new_input, inputs, nested)
  if core.is_tensor(value) then
    local input = new_input(value)
    if value.name then input.name = value.name end
    inputs[#inputs + 1] = input
    return input
  elseif type(value) == "table" and not nested then
    local out = {}
    for _, key in ipairs(sorted_keys(value)) do
      out[key] = stand_in(value[key], new_input, inputs, true)
    end
    return out
  end
  return value
end

-- Results as a template: tensors become their number in `outputs`, wrapped.
local function record(value, outputs, nested)
  if core.is_tensor(value) then
    outputs[#outputs + 1] = value
    return { output = #outputs }
  elseif type(value) == "table" then
    if nested then
      core.fail("value", "compile",
        "a result is a table in a table, tensors or tables of them wanted")
    end
    local fields = {}
    for key, field in pairs(value) do
      fields[key] = record(field, outputs, true)
    end
    return { fields = fields }
  end
  return { value = value }
end

local function restore(template, outputs)
  if template.output then return outputs[template.output] end
  if not template.fields then return template.value end
  local out = {}
  for key, field in pairs(template.fields) do
    out[key] = restore(field, outputs)
  end
  return out
end

signature.stand_in, signature.record, signature.restore = stand_in, record, restore

--- The same arguments with lazy zeros for tensors: to plan with, without bytes.
---@param n integer
---@param ... any
---@return table packed  as table.pack gives
function signature.hollow(n, ...)
  return signature.resized({ n = n, ... }, function(shape) return shape end)
end

--- The same with other shapes.
---@param args table  as hollow gives
---@param shape_of fun(shape: integer[]): integer[]
---@return table packed
function signature.resized(args, shape_of)
  local out = { n = args.n }
  for i = 1, args.n do
    out[i] = stand_in(args[i], function(x)
      return core.op.full { shape = shape_of(x.shape), value = 0, dtype = x.dtype }
    end, {}, false)
  end
  return out
end

return signature
