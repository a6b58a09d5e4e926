--- expression.lua -- reads expressions by their operators
---
--- Precedence from the weakest: `a if b else c`, or, and, not, comparisons, + -, ~,
--- * / // %, **, unary signs, then attributes, calls, filters and tests (postfix.lua).
---
--- SPDX-License-Identifier: MIT

local fail = require "mrt.text.template.fail"
local Parser = require "mrt.text.template.tokens"
local value = require "mrt.text.template.value"

local node, show = Parser.node, Parser.show

-- ---- operators -------------------------------------------------------------

local function condition(self)
  local line = self:token().line
  local result = self:either()
  while self:take("name", "if") do
    self.branches = self.branches + 1
    local test = self:either()
    self.branches = self.branches - 1
    local other = self:take("name", "else") and self:deeper(condition) or nil
    result = node("cond", line, { test, result, other })
  end
  return result
end

--- Read an expression; without `if` and `else` where they belong to a statement.
function Parser:expression(without_condition)
  return self:deeper(without_condition and self.either or condition)
end

-- Left-associative operators of words.
local function words(kind, word, below)
  return function(self)
    local left = self[below](self)
    while self:is_name(word) do
      local line = self:token().line
      self.at = self.at + 1
      left = node(kind, line, { left, self[below](self) })
    end
    return left
  end
end

Parser.either = words("or", "or", "both")
Parser.both = words("and", "and", "negation")

function Parser:negation()
  local token = self:take("name", "not")
  if token then return node("not", token.line, { self:deeper(self.negation) }) end
  return self:comparison()
end

local comparisons = { ["=="] = true, ["!="] = true, ["<"] = true, ["<="] = true, [">"] = true,
  [">="] = true }

-- The operator of a comparison here, taken.
local function comparing(self)
  local token = self:token()
  if token.type == "op" and comparisons[token.value] then
    self.at = self.at + 1
    return token.value
  end
  if self:take("name", "in") then return "in" end
  local after = self.tokens[self.at + 1]
  if self:is_name "not" and after.type == "name" and after.value == "in" then
    self.at = self.at + 2
    return "not in"
  end
end

function Parser:comparison()
  local line = self:token().line
  local first, rest = self:sum(), {}
  while true do
    local op = comparing(self)
    if not op then break end
    rest[#rest + 1] = { op = op, self:sum() }
  end
  if #rest == 0 then return first end
  return node("compare", line, { first, rest = rest })
end

-- Left-associative operators of signs.
local function signs(ops, below)
  return function(self)
    local left = self[below](self)
    while self:token().type == "op" and ops[self:token().value] do
      local token = self:take "op"
      left = node("binary", token.line, { left, self[below](self), op = token.value })
    end
    return left
  end
end

Parser.sum = signs({ ["+"] = true, ["-"] = true }, "concat")
Parser.product = signs({ ["*"] = true, ["/"] = true, ["//"] = true, ["%"] = true }, "power")
Parser.power = signs({ ["**"] = true }, "unary")

function Parser:concat()
  local line = self:token().line
  local parts = { self:product() }
  while self:take("op", "~") do parts[#parts + 1] = self:product() end
  return #parts == 1 and parts[1] or node("concat", line, parts)
end

function Parser:unary(without_filters)
  local token = self:take("op", "-") or self:take("op", "+")
  local result
  if token then
    result = node("sign", token.line, { self:deeper(self.unary, true), op = token.value })
  else
    result = self:primary()
  end
  result = self:postfix(result)
  return without_filters and result or self:filtered(result)
end

-- ---- what stands at the bottom ---------------------------------------------

local constants = { ["true"] = true, ["True"] = true, ["false"] = false, ["False"] = false,
  none = value.none, None = value.none }

function Parser:primary()
  local token = self:token()
  self.at = self.at + 1
  local kind = token.type
  if kind == "name" then
    local constant = constants[token.value]
    if constant ~= nil then return node("const", token.line, { value = constant }) end
    if self.names then self.names[token.value] = true end
    return node("name", token.line, { name = token.value })
  elseif kind == "string" then
    local parts = { token.value }
    while self:is "string" do parts[#parts + 1] = self:take("string").value end
    return node("const", token.line, { value = table.concat(parts) })
  elseif kind == "integer" or kind == "float" then
    return node("const", token.line, { value = token.value })
  elseif kind == "op" then
    if token.value == "(" then
      local inner = self:tuple { brackets = true }
      self:expect("op", ")")
      return inner
    elseif token.value == "[" then
      return node("list", token.line, self:sequence "]")
    elseif token.value == "{" then
      return self:dict(token.line)
    end
  end
  fail.at(token.line, "an expression wanted, got %s", show(token))
end

-- Expressions up to a closing bracket, which is taken.
function Parser:sequence(close)
  local items = {}
  while not self:is_op(close) do
    if #items > 0 then
      self:expect("op", ",")
      if self:is_op(close) then break end
    end
    items[#items + 1] = self:expression()
  end
  self:expect("op", close)
  return items
end

function Parser:dict(line)
  local pairs_of = {}
  while not self:is_op "}" do
    if #pairs_of > 0 then
      self:expect("op", ",")
      if self:is_op "}" then break end
    end
    local key = self:expression()
    self:expect("op", ":")
    pairs_of[#pairs_of + 1] = { key, self:expression() }
  end
  self:expect("op", "}")
  return node("dict", line, pairs_of)
end

-- Where a list without brackets ends.
local function at_tuple_end(self, stop)
  return self:is "variable_end" or self:is "block_end" or self:is_op ")"
    or stop and self:is_name(stop)
end

---@class mrt.template.TupleOptions
---@field brackets boolean?           () is one
---@field stop string?                a name that ends it
---@field without_condition boolean?  `if` belongs to the statement
---@field item fun(self): table       reads one; default an expression

--- Read an expression, or several with commas between them, which are a tuple.
---@param o mrt.template.TupleOptions
function Parser:tuple(o)
  local line, items, is_tuple = self:token().line, {}, false
  while not at_tuple_end(self, o.stop) do
    items[#items + 1] = o.item and o.item(self) or self:expression(o.without_condition)
    if not self:take("op", ",") then break end
    is_tuple = true
  end
  if is_tuple or #items == 0 and o.brackets then return node("tuple", line, items) end
  if #items == 0 then self:refuse("an expression wanted, got %s", show(self:token())) end
  return items[1]
end
