--- evaluate.lua -- the value of an expression
---
--- A function for each kind of node that expression.lua makes.  Names are looked up in a
--- scope: a table whose metatable leads to the scope around it.
---
--- SPDX-License-Identifier: MIT

local compare = require "mrt.text.template.compare"
local fail = require "mrt.text.template.fail"
local filters = require "mrt.text.template.sequence_filters"
local methods = require "mrt.text.template.methods"
local operators = require "mrt.text.template.operators"
local print = require "mrt.text.template.print"
local tests = require "mrt.text.template.tests"
local value = require "mrt.text.template.value"

local kinds = {}

--- The value of a node.
---@param run mrt.template.Run
---@param node mrt.template.Node
---@param scope table
---@return any
local function evaluate(run, node, scope)
  run:spend(1)
  run.line = node.line
  return kinds[node.kind](run, node, scope)
end

-- ---- values ----------------------------------------------------------------

function kinds.const(_, node) return node.value end

function kinds.name(_, node, scope)
  local v = scope[node.name]
  if v == nil then return value.undefined(("'%s' is undefined"):format(node.name)) end
  return v
end

local function items(run, node, scope)
  run:take(16 * #node + 32)
  local list = {}
  for i, item in ipairs(node) do list[i] = evaluate(run, item, scope) end
  return list, #node
end

function kinds.list(run, node, scope) return value.list(items(run, node, scope)) end
function kinds.tuple(run, node, scope) return value.tuple(items(run, node, scope)) end

function kinds.dict(run, node, scope)
  run:take(64 * #node + 64)
  local dict = value.dict()
  for _, pair in ipairs(node) do
    value.put(dict, evaluate(run, pair[1], scope), evaluate(run, pair[2], scope))
  end
  return dict
end

-- What is written by the statement around: block set and filter put it here.
function kinds.captured(run) return run.captured end

-- ---- operators -------------------------------------------------------------

kinds["or"] = function(run, node, scope)
  local left = evaluate(run, node[1], scope)
  if value.truth(left) then return left end
  return evaluate(run, node[2], scope)
end

kinds["and"] = function(run, node, scope)
  local left = evaluate(run, node[1], scope)
  if not value.truth(left) then return left end
  return evaluate(run, node[2], scope)
end

kinds["not"] = function(run, node, scope)
  return not value.truth(evaluate(run, node[1], scope))
end

function kinds.cond(run, node, scope)
  if value.truth(evaluate(run, node[1], scope)) then return evaluate(run, node[2], scope) end
  if node[3] then return evaluate(run, node[3], scope) end
  return value.undefined "the inline if has no else, and its condition is false"
end

function kinds.compare(run, node, scope)
  local left = evaluate(run, node[1], scope)
  for _, part in ipairs(node.rest) do
    local right = evaluate(run, part[1], scope)
    run.line = node.line
    if not compare.by_sign[part.op](run, left, right) then return false end
    left = right
  end
  return true
end

function kinds.binary(run, node, scope)
  local left, right = evaluate(run, node[1], scope), evaluate(run, node[2], scope)
  run.line = node.line
  return operators.binary[node.op](run, left, right)
end

function kinds.sign(run, node, scope)
  return operators.sign(node.op, evaluate(run, node[1], scope))
end

function kinds.concat(run, node, scope)
  local parts = {}
  for i, part in ipairs(node) do parts[i] = print.str(run, evaluate(run, part, scope)) end
  return run:made(table.concat(parts))
end

-- ---- access and calls ------------------------------------------------------

function kinds.attribute(run, node, scope)
  local v = evaluate(run, node[1], scope)
  run.line = node.line
  return methods.attribute(run, v, node.name)
end

function kinds.item(run, node, scope)
  local v, key = evaluate(run, node[1], scope), evaluate(run, node[2], scope)
  run.line = node.line
  return methods.item(run, v, key)
end

function kinds.slice(run, node, scope)
  local v = evaluate(run, node[1], scope)
  local start = node.start and evaluate(run, node.start, scope)
  local stop = node.stop and evaluate(run, node.stop, scope)
  local step = node.step and evaluate(run, node.step, scope)
  run.line = node.line
  return operators.slice(run, v, start, stop, step)
end

-- What `**more` adds to the arguments by name.
local function add_named(named, more)
  for _, key in ipairs(more.keys) do
    if type(key) ~= "string" then fail.here "** wants texts as keys" end
    if value.get(named, key) ~= nil then fail.here("'%s' is given twice", key) end
    value.put(named, key, value.get(more, key))
  end
  return named
end

-- The arguments of a call: by place, and a dict of those by name, nil where none are.
local function arguments(run, node, scope)
  local list, n = {}, #node
  for i = 1, n do list[i] = evaluate(run, node[i], scope) end
  if node.rest then
    local more, count = value.each(run, evaluate(run, node.rest, scope))
    table.move(more, 1, count, n + 1, list)
    n = n + count
  end
  list.n = n
  local named = #node.named > 0 and value.dict() or nil
  for _, part in ipairs(node.named) do
    if value.get(named, part.name) ~= nil then
      fail.here("'%s' is given twice", part.name)
    end
    value.put(named, part.name, evaluate(run, part[1], scope))
  end
  if node.rest_named then
    local more = evaluate(run, node.rest_named, scope)
    if value.kind(more) ~= value.Dict then fail.here "** wants a dict" end
    named = add_named(named or value.dict(), more)
  end
  return list, named
end

--- Call a value of templates.
---@param run mrt.template.Run
---@param callee any
---@param list table    arguments, list.n of them
---@param named table?  a dict
---@return any
local function call(run, callee, list, named)
  operators.defined(callee)
  if value.kind(callee) ~= value.Function then
    fail.here("'%s' object is not callable", value.type(callee))
  end
  run:enter()
  local result = callee.call(run, list, named)
  run:leave()
  return result
end

function kinds.call(run, node, scope)
  local callee = evaluate(run, node[1], scope)
  local list, named = arguments(run, node.arguments, scope)
  run.line = node.line
  return call(run, callee, list, named)
end

function kinds.filter(run, node, scope)
  local v = evaluate(run, node[1], scope)
  local list, named = arguments(run, node.arguments, scope)
  run.line = node.line
  return filters.apply(run, node.name, v, list, named)
end

function kinds.test(run, node, scope)
  local v = evaluate(run, node[1], scope)
  local list, named = arguments(run, node.arguments, scope)
  run.line = node.line
  return tests.apply(run, node.name, v, list, named)
end

return { evaluate = evaluate, arguments = arguments, call = call }
