--- ask.lua -- how a user's policy is asked
---
--- What it is shown is read-only; what it raises, or answers against the rules, is
--- reported with its own line and what it was asked about.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

local ask = {}

local function refuse_write(_, key)
  error(("what a policy is shown is read-only: '%s' cannot be set")
    :format(tostring(key)), 2)
end

--- Show a table read-only.
---@param t table
---@return table
function ask.view(t)
  return setmetatable({}, { __index = t, __newindex = refuse_write,
    __len = function() return #t end, __pairs = function() return next, t end })
end

--- Show a list of tables, and its named fields, read-only.
---@param list table[]
---@return table
function ask.view_all(list)
  local shown = {}
  for key, value in pairs(list) do
    shown[key] = type(value) == "table" and ask.view(value) or value
  end
  return ask.view(shown)
end

--- "the policy (train.lua:12)".
---@param policy function
---@return string
function ask.name(policy)
  local info = debug.getinfo(policy, "S")
  return ("the policy (%s:%d)"):format(info.short_src, info.linedefined)
end

--- Call a policy; what it raises is told with what it was asked about.
---@param who string  for messages
---@param about string
---@param policy function
---@return any ...
function ask.call(who, about, policy, ...)
  local ok, answer, more = pcall(policy, ...)
  if ok then return answer, more end
  local text = type(answer) == "table" and answer.message or answer
  if type(text) ~= "string" then
    text = ("the error object is a %s"):format(type(text))
  end
  core.fail("value", who, ("%s failed on %s: %s"):format(ask.name(policy), about,
    text))
end

--- Refuse a constructor of policies that stands where its result is wanted.
---@param who string
---@param option string  "checkpoint"
---@param given any
---@param module table<string, function>
function ask.refuse_uncalled(who, option, given, module)
  for name, make in pairs(module) do
    if make == given then
      core.fail("value", who, ("option '%s': policy.%s.%s makes a policy and must "
        .. "be called: policy.%s.%s()"):format(option, option, name, option, name))
    end
  end
end

--- Let functions be found in a module by name, where programs and the prompt do not
--- see them.
---@param module table
---@param hidden table<string, function>
---@return table module
function ask.hide(module, hidden)
  return setmetatable(module, { __index = function(_, name) return hidden[name] end })
end

return ask
