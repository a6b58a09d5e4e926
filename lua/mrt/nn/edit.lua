--- edit.lua -- put other layers in the place of some
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local Module = require "mrt.nn.module"
local mode = require "mrt.nn.mode"
local options = require "mrt.util.options"

local edit = {}

local function is_module(value)
  return type(value) == "table" and value.parameters == Module.parameters
end

--- Raise unless this is a module, and no function is being compiled.
---@param who string
---@param model any
function edit.want_module(who, model)
  if not is_module(model) or Module.is_class(model) then
    core.fail("value", who, "a module wanted, got " .. options.show(model))
  elseif core.tracing() then
    core.fail("state", who, "inside a compiled function, wanted before it")
  end
end

--- What errors call a module.
---@param name string  where it was found; "": it is what was given
---@param layer mrt.nn.Module
---@return string
function edit.called(name, layer)
  return ("%s(%s)"):format(name == "" and layer.type or ("'%s', %s"):format(name, layer.type),
    layer:describe())
end

--- Read a choice of layers: nil for `default`, a pattern of Lua that the name
--- holds, a list of patterns, or a function of name and layer.
---@param who string
---@param name string  of the option
---@param choice any
---@param default boolean
---@return fun(name: string, layer: mrt.nn.Module): boolean
function edit.chooser(who, name, choice, default)
  if choice == nil then return function() return default end end
  if options.is_callable(choice) then return choice end
  local patterns = type(choice) == "table" and choice or { choice }
  for _, pattern in ipairs(patterns) do
    if type(pattern) ~= "string" then
      core.fail("value", who, ("option '%s': a pattern, a list of them or a function "
        .. "wanted, got %s"):format(name, options.show(pattern)))
    end
    local ok, message = pcall(string.find, "", pattern)
    if not ok then
      core.fail("value", who, ("option '%s': %s: %s"):format(name, options.show(pattern),
        message))
    end
  end
  return function(path)
    for _, pattern in ipairs(patterns) do
      if path:find(pattern) then return true end
    end
    return false
  end
end

-- Walk as module.lua does, exchanging as it goes; returns what stands there now.
local function visit(value, path, fn, done)
  if done[value] ~= nil then return done[value] end
  done[value] = value
  local prefix = path == "" and "" or path .. "."
  if is_module(value) then
    local other = fn(path, value)
    done[value] = other or value
    if other ~= nil then return done[value] end
    for _, field in ipairs(value._fields) do
      local held = rawget(value, field)
      if type(held) == "table" then rawset(value, field, visit(held, prefix .. field, fn, done)) end
    end
  elseif not getmetatable(value) then
    for i, held in ipairs(value) do
      if type(held) == "table" then value[i] = visit(held, prefix .. i, fn, done) end
    end
  end
  return done[value]
end

--- Call `fn(name, module)` for a module and all within, the outer ones first.  What
--- it returns takes the module's place; with that, or with false, the module is not
--- entered.  A module found twice is asked for once.
---@param model mrt.nn.Module
---@param fn fun(name: string, module: mrt.nn.Module): mrt.nn.Module|false|nil
---@return mrt.nn.Module model  itself, or what took its place
function edit.replace(model, fn)
  local out = visit(model, "", fn, {})
  mode.changed()
  return out
end

--- Let a module that takes another one's place be in the same mode.
---@param new mrt.nn.Module
---@param old mrt.nn.Module
---@return mrt.nn.Module new
function edit.inherit(new, old)
  if not old.training then new:eval() end
  return new
end

return edit
