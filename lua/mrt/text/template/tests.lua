--- tests.lua -- `v is name(...)`
---
--- SPDX-License-Identifier: MIT

local arguments = require "mrt.text.template.arguments"
local compare = require "mrt.text.template.compare"
local fail = require "mrt.text.template.fail"
local operators = require "mrt.text.template.operators"
local print = require "mrt.text.template.print"
local strings = require "mrt.text.template.strings"
local value = require "mrt.text.template.value"

-- name -> { signature, call(run, value, ...) -> boolean }
local tests = {}

local function test(names, parameters, f)
  for name in names:gmatch "%g+" do
    tests[name] = { signature = arguments.signature(parameters), call = f }
  end
end

local function remainder(run, v, by) return operators.binary["%"](run, v, by) end

test("defined", "", function(_, v) return not value.is_undefined(v) end)
test("undefined", "", function(_, v) return value.is_undefined(v) end)
test("none", "", function(_, v) return v == value.none end)
test("boolean", "", function(_, v) return type(v) == "boolean" end)
test("true", "", function(_, v) return v == true end)
test("false", "", function(_, v) return v == false end)
test("integer", "", function(_, v) return math.type(v) == "integer" end)
test("float", "", function(_, v) return math.type(v) == "float" end)
test("number", "", function(_, v) return operators.number(v) ~= nil end)
test("string", "", function(_, v)
  return type(v) == "string" or value.kind(v) == value.Markup
end)
test("mapping", "", function(_, v) return value.kind(v) == value.Dict end)
test("sequence", "", function(_, v)
  local k = value.kind(v)
  return k ~= value.View and k ~= value.Loop and value.length(v) ~= nil
end)
test("iterable", "", function(run, v)
  return value.kind(v) == value.Iter or value.items(run, v) ~= nil
end)
test("callable", "", function(_, v)
  return value.kind(v) == value.Function or value.is_undefined(v)
end)
test("escaped", "", function(_, v) return value.kind(v) == value.Markup end)
test("odd", "", function(run, v) return remainder(run, v, 2) == 1 end)
test("even", "", function(run, v) return remainder(run, v, 2) == 0 end)
test("divisibleby", "num", function(run, v, by) return remainder(run, v, by) == 0 end)
for name, method in pairs { lower = strings.methods.islower, upper = strings.methods.isupper } do
  test(name, "", function(run, v) return method.call(run, print.str(run, v)) end)
end
test("sameas", "other", function(_, v, other)
  return rawequal(v, other) and math.type(v) == math.type(other)
end)

for names, op in pairs { ["== eq equalto"] = "==", ["!= ne"] = "!=", ["> gt greaterthan"] = ">",
  [">= ge"] = ">=", ["< lt lessthan"] = "<", ["<= le"] = "<=", ["in"] = "in" } do
  test(names, "other", compare.by_sign[op])
end

--- Apply the test of a name.
---@param run mrt.template.Run
---@param name string
---@param v any
---@param args table    args.n of them
---@param named table?  a dict
---@return boolean
function tests.apply(run, name, v, args, named)
  local found = tests[name]
  if type(found) ~= "table" then fail.here("the test '%s' is not understood", name) end
  run:spend(1)
  local list = arguments.bind(name, found.signature, args, named)
  return found.call(run, v, table.unpack(list, 1, #found.signature.names))
end

return tests
