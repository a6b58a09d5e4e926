--- statement.lua -- does what the statements of a template say
---
--- A function for each kind of node that parser.lua makes; one returns "break" or
--- "continue" where a loop is to be left, else nothing.
---
--- SPDX-License-Identifier: MIT

local evaluator = require "mrt.text.template.evaluate"
local fail = require "mrt.text.template.fail"
local operators = require "mrt.text.template.operators"
local print = require "mrt.text.template.print"
local value = require "mrt.text.template.value"

local evaluate = evaluator.evaluate
local kinds = {}

--- A scope within another: names are set in it, and looked up in both.
local function inner(scope) return setmetatable({}, { __index = scope }) end

--- Do the statements of a body.
---@param run mrt.template.Run
---@param body mrt.template.Node[]
---@param scope table
---@return "break"|"continue"|nil
local function perform(run, body, scope)
  for i = 1, #body do
    local node = body[i]
    run:spend(1)
    run.line = node.line
    local leave = kinds[node.kind](run, node, scope)
    if leave then return leave end
  end
end

-- Do a body whose text is not written but returned.
local function captured(run, body, scope)
  local outer = run:capture()
  perform(run, body, scope)
  return run:release(outer)
end

-- ---- text ------------------------------------------------------------------

function kinds.text(run, node) run:write(node.text) end

kinds["print"] = function(run, node, scope)
  run:write(print.str(run, evaluate(run, node[1], scope)))
end

function kinds.block(run, node, scope) return perform(run, node.body, scope) end

-- What the model is to write: where it is in the text, for those who ask.
function kinds.generation(run, node, scope)
  if run.captures > 0 then run.lost_spans = true end
  local first = run.out.bytes + 1
  perform(run, node.body, inner(scope))
  if run.spans and run.captures == 0 and run.out.bytes >= first then
    run.spans[#run.spans + 1] = { first, run.out.bytes }
  end
end

-- ---- assignment ------------------------------------------------------------

local assign = {}

function assign.target_name(_, node, scope, v) scope[node.name] = v end

function assign.target_attribute(run, node, scope, v)
  local space = scope[node.name]
  run.line = node.line
  if space == nil then fail.here("'%s' is undefined", node.name) end
  if value.kind(space) ~= value.Namespace then
    fail.here("cannot assign attribute '%s' on a %s, which is no namespace", node.attribute,
      value.type(space))
  end
  if node.attribute:sub(1, 1) == "_" then
    fail.here("namespaces have no names that begin with _, as %s", node.attribute)
  end
  run:take(64)
  value.put(space.dict, node.attribute, v)
end

function assign.target_tuple(run, node, scope, v)
  local items, n = value.each(run, v)
  if n ~= #node then fail.here("%d names for %d values", #node, n) end
  for i, part in ipairs(node) do assign[part.kind](run, part, scope, items[i]) end
end

function kinds.set(run, node, scope)
  assign[node[1].kind](run, node[1], scope, evaluate(run, node[2], scope))
end

-- The text of a body, through the filters of the statement.
local function filtered(run, node, filter, scope)
  run.captured = captured(run, node.body, inner(scope))
  return evaluate(run, filter, scope)
end

function kinds.set_block(run, node, scope)
  assign[node[1].kind](run, node[1], scope, filtered(run, node, node[2], scope))
end

function kinds.filter_block(run, node, scope)
  run:write(print.str(run, filtered(run, node, node[1], scope)))
end

kinds["with"] = function(run, node, scope)
  local within = inner(scope)
  for _, part in ipairs(node.sets) do
    assign[part[1].kind](run, part[1], within, evaluate(run, part[2], scope))
  end
  return perform(run, node.body, within)
end

-- ---- branches and loops ----------------------------------------------------

kinds["if"] = function(run, node, scope)
  for _, branch in ipairs(node.branches) do
    if value.truth(evaluate(run, branch[1], scope)) then
      return perform(run, branch.body, scope)
    end
  end
  if node.otherwise then return perform(run, node.otherwise, scope) end
end

-- The items that pass the loop's own test.
local function chosen(run, node, scope, items, n)
  local list = {}
  for i = 1, n do
    local within = inner(scope)
    assign[node[1].kind](run, node[1], within, items[i])
    if value.truth(evaluate(run, node.test, within)) then list[#list + 1] = items[i] end
  end
  return list, #list
end

kinds["for"] = function(run, node, scope)
  local items, n = value.each(run, evaluate(run, node[2], scope))
  if node.test then items, n = chosen(run, node, scope, items, n) end
  local loop = setmetatable({ items = items, n = n, index = 0 }, value.Loop)
  local finished = false
  for i = 1, n do
    loop.index = i
    local within = inner(scope)
    within.loop = loop
    assign[node[1].kind](run, node[1], within, items[i])
    local leave = perform(run, node.body, within)
    if leave == "break" then break end
    finished = finished or not leave
  end
  if not finished and node.otherwise then return perform(run, node.otherwise, inner(scope)) end
end

kinds["break"] = function() return "break" end
kinds["continue"] = function() return "continue" end

-- ---- macros ----------------------------------------------------------------

-- Arguments by place that no parameter takes.
local function extra(node, within, list)
  local count = #node.parameters
  if node.varargs then
    local rest = table.move(list, count + 1, list.n, 1, {})
    within.varargs = value.tuple(rest, math.max(0, list.n - count))
  elseif list.n > count then
    fail.here("macro '%s' takes at most %d arguments, got %d", node.name, count, list.n)
  end
end

-- Arguments by name that no parameter takes, and the caller.
local function extra_named(node, within, named)
  local known, rest = { caller = node.caller }, value.dict()
  for _, parameter in ipairs(node.parameters) do known[parameter.name] = true end
  for _, name in ipairs(named.keys) do
    if not known[name] then value.put(rest, name, value.get(named, name)) end
  end
  if rest.n > 0 and not node.kwargs then
    fail.here("macro '%s' takes no argument '%s'", node.name, tostring(rest.keys[1]))
  end
  within.kwargs = node.kwargs and rest or nil
  if node.caller then
    within.caller = value.find(named, "caller") or value.undefined "there is no caller"
  end
end

-- A macro's parameters in its scope: what was given, else the default.
local function receive(run, node, within, list, named)
  extra(node, within, list)
  extra_named(node, within, named)
  for i, parameter in ipairs(node.parameters) do
    local v = list[i]
    local by_name = value.find(named, parameter.name)
    if v == nil then
      v = by_name
    elseif by_name ~= nil then
      fail.here("macro '%s': '%s' is given twice", node.name, parameter.name)
    end
    if v == nil and parameter.default then v = evaluate(run, parameter.default, within) end
    if v == nil then
      v = value.undefined(("parameter '%s' was not provided"):format(parameter.name))
    end
    within[parameter.name] = v
  end
end

local function macro(node, scope)
  return value.callable(node.name, function(run, list, named)
    local within = inner(scope)
    receive(run, node, within, list, named or value.dict())
    return captured(run, node.body, within)
  end)
end

function kinds.macro(_, node, scope) scope[node.name] = macro(node, scope) end

function kinds.call_block(run, node, scope)
  local called = node[1]
  local callee = evaluate(run, called[1], scope)
  local list, named = evaluator.arguments(run, called.arguments, scope)
  named = named or value.dict()
  value.put(named, "caller", macro(node, scope))
  run.line = node.line
  run:write(print.str(run, evaluator.call(run, operators.defined(callee), list, named)))
end

return { perform = perform, inner = inner }
