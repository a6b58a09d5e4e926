--- parser.lua -- reads statements: a template as a tree
---
--- SPDX-License-Identifier: MIT

local fail = require "mrt.text.template.fail"
local lexer = require "mrt.text.template.lexer"
local Parser = require "mrt.text.template.tokens"
require "mrt.text.template.expression"
require "mrt.text.template.postfix"

local parser = {}
local node = Parser.node

-- Statements by their first name.
local statements = {}

-- ---- assignment ------------------------------------------------------------

local reserved = { ["true"] = true, ["false"] = true, none = true, True = true, False = true,
  None = true }

local function target_name(self)
  local token = self:expect "name"
  if reserved[token.value] then fail.at(token.line, "can't assign to '%s'", token.value) end
  return token
end

local target

-- One target: a name, name.attribute of a namespace, or several in brackets.
local function one_target(self, with_attribute)
  if self:take("op", "(") then
    local inner = self:deeper(target, nil, with_attribute)
    self:expect("op", ")")
    return inner
  end
  local token = target_name(self)
  if with_attribute and self:take("op", ".") then
    if self.names then self.names[token.value] = true end
    return node("target_attribute", token.line,
      { name = token.value, attribute = self:expect("name").value })
  end
  return node("target_name", token.line, { name = token.value })
end

-- What is assigned to: one, or several with commas.
target = function(self, stop, with_attribute)
  local function item() return one_target(self, with_attribute) end
  local result = self:tuple { stop = stop, item = item }
  if result.kind == "tuple" then result.kind = "target_tuple" end
  return result
end

function statements.set(self, line)
  local to = target(self, nil, true)
  if self:take("op", "=") then
    return node("set", line, { to, self:tuple {} })
  end
  local filter = self:filter(node("captured", line, {}))
  local body = self:body({ endset = true }, { closed = true })
  return node("set_block", line, { to, filter, body = body })
end

-- ---- branches and loops ----------------------------------------------------

statements["if"] = function(self, line)
  local branches, otherwise = {}, nil
  local test = self:tuple { without_condition = true }
  self.branches = self.branches + 1
  while true do
    local body, stop = self:body { ["elif"] = true, ["else"] = true, ["endif"] = true }
    branches[#branches + 1] = { test, body = body }
    if stop == "elif" then
      test = self:tuple { without_condition = true }
    else
      if stop == "else" then otherwise = self:body { endif = true } end
      self.branches = self.branches - 1
      return node("if", line, { branches = branches, otherwise = otherwise })
    end
  end
end

statements["for"] = function(self, line)
  local to = target(self, "in", false)
  self:expect("name", "in")
  local over = self:tuple { without_condition = true, stop = "recursive" }
  local test = self:take("name", "if") and self:expression() or nil
  if self:is_name "recursive" then self:refuse "recursive loops are not understood" end
  local body, stop = self:body({ ["else"] = true, ["endfor"] = true }, { loop = true })
  local otherwise = stop == "else" and self:body { endfor = true } or nil
  return node("for", line, { to, over, test = test, body = body, otherwise = otherwise })
end

local function leaves_loop(kind)
  return function(self, line)
    if not self.in_loop then fail.at(line, "'%s' outside a loop", kind) end
    return node(kind, line, {})
  end
end

statements["break"], statements["continue"] = leaves_loop "break", leaves_loop "continue"

-- ---- macros ----------------------------------------------------------------

local function parameters(self)
  local list, has_default = {}, false
  self:expect("op", "(")
  while not self:is_op ")" do
    local name = target_name(self).value
    local default = self:take("op", "=") and self:expression() or nil
    if has_default and not default then
      self:refuse("'%s' without a default behind one with a default", name)
    end
    has_default = default ~= nil
    list[#list + 1] = { name = name, default = default }
    if not self:take("op", ",") then break end
  end
  self:expect("op", ")")
  return list
end

-- The body of a macro or a call, and which of the special names it uses.
local function macro_body(self, kind, line, fields, stop)
  local outer = self.names
  self.names = {}
  fields.body = self:body({ [stop] = true }, { closed = true })
  local given = {}
  for _, parameter in ipairs(fields.parameters) do given[parameter.name] = true end
  for _, special in ipairs { "caller", "kwargs", "varargs" } do
    fields[special] = self.names[special] and not given[special]
  end
  for name in pairs(outer and self.names or {}) do outer[name] = true end
  self.names = outer
  return node(kind, line, fields)
end

function statements.macro(self, line)
  local name = target_name(self).value
  return macro_body(self, "macro", line, { name = name, parameters = parameters(self) },
    "endmacro")
end

function statements.call(self, line)
  local list = self:is_op "(" and parameters(self) or {}
  local called = self:expression()
  if called.kind ~= "call" then fail.at(line, "a call wanted behind 'call'") end
  return macro_body(self, "call_block", line, { called, name = "caller", parameters = list },
    "endcall")
end

-- ---- blocks ----------------------------------------------------------------

function statements.filter(self, line)
  local filter = self:filter(node("captured", line, {}), true)
  return node("filter_block", line, { filter,
    body = self:body({ endfilter = true }, { closed = true }) })
end

function statements.generation(self, line)
  return node("generation", line, { body = self:body({ endgeneration = true },
    { closed = true }) })
end

statements["with"] = function(self, line)
  local sets = {}
  while not self:is "block_end" do
    if #sets > 0 then self:expect("op", ",") end
    local to = one_target(self)
    self:expect("op", "=")
    sets[#sets + 1] = { to, self:expression() }
  end
  return node("with", line, { sets = sets, body = self:body { endwith = true } })
end

function statements.print(self, line)
  local parts = {}
  while not self:is "block_end" do
    if #parts > 0 then self:expect("op", ",") end
    parts[#parts + 1] = node("print", line, { self:expression() })
  end
  return node("block", line, { body = parts })
end

local foreign = { block = true, extends = true, include = true, import = true, from = true,
  autoescape = true, ["do"] = true, trans = true, debug = true }

local function statement(self)
  local token = self:expect "name"
  local read = statements[token.value]
  if read then return self:deeper(read, token.line) end
  if foreign[token.value] then
    fail.at(token.line, "the statement '%s' is not understood", token.value)
  end
  fail.at(token.line, "unexpected statement '%s'", token.value)
end

-- Statements and text up to one of the names in `stops` (nil: the end of the template).
local function read_body(self, stops, line)
  local list = {}
  while true do
    local token = self:token()
    self.at = self.at + 1
    if token.type == "data" then
      list[#list + 1] = node("text", token.line, { text = token.value })
    elseif token.type == "variable_begin" then
      list[#list + 1] = node("print", token.line, { self:tuple {} })
      self:expect "variable_end"
    elseif token.type == "block_begin" then
      local name = self:token()
      if stops and name.type == "name" and stops[name.value] then
        self.at = self.at + 1
        return list, name.value
      end
      list[#list + 1] = statement(self)
      self:expect "block_end"
    elseif not stops then
      return list
    else
      local wanted = {}
      for stop in pairs(stops) do wanted[#wanted + 1] = stop end
      table.sort(wanted)
      fail.at(line, "it is not closed: %s wanted", table.concat(wanted, " or "))
    end
  end
end

--- Read the body of a statement, and the name that ends it.
---@param stops table<string, boolean>
---@param o? {loop: boolean?, closed: boolean?}  a loop's; one that a loop is not left from
---@return mrt.template.Node[] body
---@return string stop
function Parser:body(stops, o)
  local line = self:token().line
  self:take("op", ":")
  self:expect "block_end"
  local outer = self.in_loop
  if o then self.in_loop = o.loop or false end
  local body, stop = read_body(self, stops, line)
  self.in_loop = outer
  return body, stop
end

--- Read a template.
---
--- Raises (fail.lua): what is no template, or not understood, with its line.
---@param source string  UTF-8
---@return mrt.template.Node[]
function parser.parse(source)
  local self = setmetatable({ tokens = lexer.tokens(source), at = 1, depth = 0,
    branches = 0, in_loop = false }, Parser)
  return (read_body(self, nil, 1))
end

return parser
