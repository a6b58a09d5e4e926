--- globals.lua -- the functions that every template has
---
--- SPDX-License-Identifier: MIT

local arguments = require "mrt.text.template.arguments"
local fail = require "mrt.text.template.fail"
local print = require "mrt.text.template.print"
local value = require "mrt.text.template.value"

local globals = {}

local LONGEST_RANGE = 100000

local function global(name, parameters, f)
  local signature = arguments.signature(parameters)
  globals[name] = value.callable(name, function(run, list, named)
    local bound = arguments.bind(name, signature, list, named)
    return f(run, table.unpack(bound, 1, #signature.names))
  end)
end

global("raise_exception", "message", function(run, message)
  fail.here("%s", print.str(run, message))
end)

-- What strftime understands and every system has.
local codes = "aAbBcdHIjmMpSUwWxXyYZ%"

global("strftime_now", "format", function(run, format)
  format = arguments.text("strftime_now", format)
  for code in format:gmatch "%%(.?)" do
    if code == "" or not codes:find(code, 1, true) then
      fail.here("strftime_now: %%%s is not understood", code)
    end
  end
  run:take(16.0 * #format)
  return os.date(format, run.now)
end)

global("range", "start stop? step?", function(_, start, stop, step)
  start, step = arguments.integer("range", start), arguments.integer("range", step, 1)
  stop = arguments.integer("range", stop)
  if stop == nil then start, stop = 0, start end
  if start == nil then fail.here "range: an integer is wanted, not NoneType" end
  if step == 0 then fail.here "range: the step is 0" end
  local n = math.ceil((stop - start + 0.0) / step)
  if n > LONGEST_RANGE or math.abs(stop + 0.0) + math.abs(start) > 9e18 then
    fail.here("range: more than %d numbers", LONGEST_RANGE)
  end
  return setmetatable({ start = start, stop = stop, step = step, n = math.max(0, n) },
    value.Range)
end)

-- A dict of what dict() and namespace() are given: a dict, or pairs, and names.
local function dict_of(run, who, list, named)
  if list.n > 1 then fail.here("%s takes one dict at most", who) end
  local dict = value.dict()
  local first = list[1]
  if value.kind(first) == value.Dict then
    for _, key in ipairs(first.keys) do value.put(dict, key, value.get(first, key)) end
  elseif first ~= nil then
    local pairs_of, n = value.each(run, first)
    for i = 1, n do
      local pair, count = value.each(run, pairs_of[i])
      if count ~= 2 then fail.here("%s: pairs are wanted", who) end
      value.put(dict, pair[1], pair[2])
    end
  end
  for _, key in ipairs(named and named.keys or {}) do
    value.put(dict, key, value.get(named, key))
  end
  run:spend(dict.n)
  run:take(64 * dict.n + 64)
  return dict
end

globals.dict = value.callable("dict", function(run, list, named)
  return dict_of(run, "dict", list, named)
end)

globals.namespace = value.callable("namespace", function(run, list, named)
  local dict = dict_of(run, "namespace", list, named)
  for _, name in ipairs(dict.keys) do
    if type(name) == "string" and name:sub(1, 1) == "_" then
      fail.here("namespaces have no names that begin with _, as %s", name)
    end
  end
  return setmetatable({ dict = dict }, value.Namespace)
end)

return globals
