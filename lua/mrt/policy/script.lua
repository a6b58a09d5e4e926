--- script.lua -- policies in a file of their own
---
--- A policy script returns what it wants of the planner:
---
---     local policy = require "mrt".policy
---     return { checkpoint = policy.checkpoint.sqrt(), memory = "2GiB" }
---
--- `mrt --policy FILE train.lua` lays it over the options of every mrt.compile of
--- a script that knows nothing of it.  Who names a file on the command line means
--- it: what the file names stands in place of what the script says; all else is
--- the script's.
---
--- SPDX-License-Identifier: MIT

require "mrt" -- which says where its files are, for messages
local compile = require "mrt.compile"
local core = require "mrt.core"

local script = {}

local choice = { ["function"] = true, table = true }

-- What each may be; mrt.compile reads the values.
local kinds = {
  checkpoint = choice,
  compress = { string = true, number = true, ["function"] = true },
  memory = { string = true, number = true, table = true },
  accumulate = { number = true, string = true, ["function"] = true },
  swap = choice,
  precision = choice,
  shard = choice,
  mesh = { table = true },
  pipeline = { table = true },
}

local function known()
  local names = {}
  for name in pairs(kinds) do names[#names + 1] = name end
  table.sort(names)
  return table.concat(names, ", ")
end

local function wanted(kind)
  local names = {}
  for name in pairs(kind) do names[#names + 1] = name end
  table.sort(names)
  return table.concat(names, " or ")
end

local function check(path, options)
  if type(options) ~= "table" or getmetatable(options) ~= nil then
    core.fail("value", path, ("a policy script returns a table of %s, got %s")
      :format(known(), type(options) == "table" and tostring(options)
        or type(options)))
  end
  for name, value in pairs(options) do
    local kind = kinds[name]
    if not kind then
      core.fail("value", path, ("no policy '%s', there are %s")
        :format(tostring(name), known()))
    elseif not kind[type(value)] then
      core.fail("value", path, ("%s: a %s wanted, got %s"):format(name,
        wanted(kind), tostring(value)))
    end
  end
  compile.check(options, path)
  return options
end

--- Read a policy script.
---
--- Raises what is wrong with the script, with its name.
---@param path string
---@return table? options  of mrt.compile
---@return string? message  the file cannot be read
---@return string? code
function script.load(path)
  if type(path) ~= "string" then
    core.fail("value", "policy.load", "a path wanted, got " .. type(path))
  end
  local text, message, code = core.read_file(path)
  if not text then return nil, message, code end
  local chunk, problem = load(text:gsub("^#[^\n]*", ""), "@" .. path, "t")
  if not chunk then
    local named = problem:find(path, 1, true) and problem or path .. ": " .. problem
    core.fail("value", "policy.load", named)
  end
  return check(path, chunk())
end

--- Read a policy script; what is wrong with it comes back as a message.
---@param path string
---@return table? options
---@return string? message  with the path
function script.try(path)
  local ok, options, message = pcall(script.load, path)
  if ok then return options, message end
  return nil, type(options) == "table" and options.message or tostring(options)
end

--- Lay a policy script over every mrt.compile from now on: `mrt --policy`.
---@param path string
---@return string? problem
function script.apply(path)
  local options, message = script.try(path)
  compile.override = options
  return message
end

return script
