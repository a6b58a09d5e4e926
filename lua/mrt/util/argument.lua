--- argument.lua -- reads arguments as the core's operators do
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local options = require "mrt.util.options"

local argument = {}

local function is_options(value)
  return type(value) == "table" and not core.is_tensor(value) and #value == 0
end

--- Raise an error of code "value" in the name of `who`.
---@param who string
---@param text string  a format
---@param ... any
function argument.refuse(who, text, ...)
  core.fail("value", who, text:format(...))
end

--- Return `value` if it is a tensor; else raise.
---@param who string
---@param what string  "index", "element 2 of the list"
---@param value any
---@return mrt.Tensor
function argument.tensor(who, what, value)
  if core.is_tensor(value) then return value end
  argument.refuse(who, "%s: a tensor wanted, got %s%s", what, options.show(value),
    options.module_name(value) and ": m(x) is what it makes of x" or "")
end

--- Raise unless this can be called.
---@param who string
---@param fn any
function argument.callable(who, fn)
  if options.is_callable(fn) then return end
  argument.refuse(who, "a function or module wanted, got %s", options.show(fn))
end

--- Return `value` if it is a list of tensors; else raise.
---@param who string
---@param value any
---@return mrt.Tensor[]
function argument.tensors(who, value)
  if type(value) ~= "table" then
    argument.refuse(who, "a list of tensors wanted, got %s", options.show(value))
  end
  for i = 1, #value do
    argument.tensor(who, ("element %d of the list"):format(i), value[i])
  end
  return value
end

local function copy_named(who, names, given, out)
  local known = {}
  for _, name in ipairs(names) do known[name] = true end
  options.check_names(who, given, known)
  for name, value in pairs(given) do out[name] = value end
end

-- What is yes or no in every function that has it: 0 and "false", which count as true,
-- are refused.
local flags = {}
for name in ([[accumulate adjoint align_corners ceil_mode center count_include_pad enable_gqa
  equal_nan full_matrices hermitian include_self increasing is_causal keepdim left normalized
  onesided periodic pivot recompute_scale_factor replacement return_counts return_indices
  return_inverse stable training unitriangular with_replacement]]):gmatch "%g+" do
  flags[name] = true
end

-- A value that was given: flags are booleans, lists have no holes.
local function check(who, name, value)
  local kind = type(value)
  if flags[name] and kind ~= "boolean" then
    argument.refuse(who, "%s: true or false wanted, got %s", name, options.show(value))
  end
  if kind ~= "table" or getmetatable(value) ~= nil then return end
  argument.whole(who, name, value)
end

--- Raise where a list has a hole: what is behind it would be dropped.
---@param who string
---@param name string
---@param list table
function argument.whole(who, name, list)
  for i = 1, #list do
    if list[i] == nil then argument.refuse(who, "%s: number %d of the list is nil", name, i) end
  end
end

--- Read positional arguments under `names`, then perhaps a table of named ones.
---@param who string
---@param names string[]
---@param ... any
---@return table<string, any>
function argument.read(who, names, ...)
  local out, given, n = {}, { ... }, select("#", ...)
  while n > 0 and given[n] == nil do n = n - 1 end
  if type(given[n]) == "table" and is_options(given[n]) then
    copy_named(who, names, given[n], out)
    n = n - 1
  end
  for i = 1, n < #names and n or #names do
    if given[i] ~= nil then out[names[i]] = given[i] end
  end
  for name, value in pairs(out) do check(who, name, value) end
  return out
end

return argument
