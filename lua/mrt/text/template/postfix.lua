--- postfix.lua -- reads what stands behind a value: .name, [key], (arguments), | filter, is
---
--- SPDX-License-Identifier: MIT

local fail = require "mrt.text.template.fail"
local filters = require "mrt.text.template.sequence_filters"
local Parser = require "mrt.text.template.tokens"
local tests = require "mrt.text.template.tests"

local node = Parser.node

-- ---- attributes, items, calls -------------------------------------------------

function Parser:postfix(result)
  while true do
    local line = self:token().line
    if self:take("op", ".") then
      local name = self:take "name"
      if name then
        result = node("attribute", line, { result, name = name.value })
      else
        local index = self:expect "integer"
        result = node("item", line, { result, node("const", line, { value = index.value }) })
      end
    elseif self:take("op", "[") then
      result = self:subscript(result, line)
    elseif self:is_op "(" then
      result = node("call", line, { result, arguments = self:arguments() })
    else
      return result
    end
  end
end

function Parser:subscript(result, line)
  local parts, colons = {}, 0
  while not self:is_op "]" do
    if self:take("op", ":") then
      colons = colons + 1
    elseif self:is_op "," then
      self:refuse "an item by several keys is not understood"
    else
      parts[colons + 1] = self:expression()
      if not self:is_op "]" and not self:is_op ":" then self:expect("op", "]") end
    end
  end
  if colons > 2 or colons == 0 and not parts[1] then self:refuse "a key or a slice wanted" end
  self:expect("op", "]")
  if colons == 0 then return node("item", line, { result, parts[1] }) end
  return node("slice", line, { result, start = parts[1], stop = parts[2], step = parts[3] })
end

--- Read `(a, b, name=c, *list, **dict)`.
function Parser:arguments()
  self:expect("op", "(")
  local list = { named = {} }
  while not self:is_op ")" do
    if self:take("op", "*") then
      list.rest = self:expression()
    elseif self:take("op", "**") then
      list.rest_named = self:expression()
    elseif self:is "name" and self.tokens[self.at + 1].type == "op"
      and self.tokens[self.at + 1].value == "=" then
      local name = self:take("name").value
      self.at = self.at + 1
      list.named[#list.named + 1] = { name = name, self:expression() }
    else
      if #list.named > 0 or list.rest or list.rest_named then
        self:refuse "an argument by place behind one by name"
      end
      list[#list + 1] = self:expression()
    end
    if not self:take("op", ",") then break end
  end
  self:expect("op", ")")
  return list
end

-- A name with dots, which must be known; within a branch only where it is used.
function Parser:known(kind, list)
  local token = self:expect "name"
  local name = token.value
  while self:take("op", ".") do name = name .. "." .. self:expect("name").value end
  if type(list[name]) ~= "table" and self.branches == 0 then
    fail.at(token.line, "the %s '%s' is not understood", kind, name)
  end
  return name, token.line
end

--- Read filters behind their `|`, as far as they go.
function Parser:filter(result, first)
  while first or self:take("op", "|") do
    local name, line = self:known("filter", filters)
    local list = self:is_op "(" and self:arguments() or { named = {} }
    result = node("filter", line, { result, name = name, arguments = list })
    first = false
  end
  return result
end

local begins = { name = true, string = true, integer = true, float = true }
local brackets = { ["("] = true, ["["] = true, ["{"] = true }
local words_behind = { ["else"] = true, ["or"] = true, ["and"] = true }

function Parser:test(result)
  local negated = self:take("name", "not")
  local name, line = self:known("test", tests)
  local list = { named = {} }
  local token = self:token()
  if self:is_op "(" then
    list = self:arguments()
  elseif (begins[token.type] or token.type == "op" and brackets[token.value])
    and not (token.type == "name" and words_behind[token.value]) then
    if self:is_name "is" then self:refuse "tests cannot be chained with is" end
    list[1] = self:deeper(function() return self:postfix(self:primary()) end)
  end
  result = node("test", line, { result, name = name, arguments = list })
  return negated and node("not", line, { result }) or result
end

function Parser:filtered(result)
  while true do
    if self:is_op "|" then
      result = self:filter(result)
    elseif self:take("name", "is") then
      result = self:test(result)
    elseif self:is_op "(" then
      result = node("call", self:token().line, { result, arguments = self:arguments() })
    else
      return result
    end
  end
end
