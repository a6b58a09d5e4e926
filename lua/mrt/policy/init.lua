--- policy -- what the planner may do about memory, as values for mrt.compile
---
---     local policy = mrt.policy
---     mrt.compile(fn, { checkpoint = policy.checkpoint.sqrt() })
---
--- SPDX-License-Identifier: MIT

---@class mrt.policy
---@field checkpoint mrt.policy.checkpoint
---@field precision mrt.policy.precision
---@field swap mrt.policy.swap
---@field shard mrt.policy.shard
---@field place mrt.policy.place
local policy = {}

--- Read a policy script: a file that returns options of mrt.compile.
---
---     local step = mrt.compile(fn, mrt.policy.load "small.lua")
---
--- Raises: what is no path; a file's faults are a message.
---@param path string
---@return table? options  those the file names
---@return string? message  no such file
---@return string? code
function policy.load(path) return require "mrt.policy.script".load(path) end

local modules = { checkpoint = true, swap = true, precision = true, shard = true,
  place = true }

return setmetatable(policy, { __fields = { modules }, __index = function(t, key)
  if not modules[key] then return nil end
  local module = require("mrt.policy." .. key)
  rawset(t, key, module)
  return module
end })
