--- tokens.lua -- what every part of the parser does: look at tokens, make nodes, refuse
---
--- expression.lua, postfix.lua and parser.lua add the rest to this one table.
---
--- SPDX-License-Identifier: MIT

local fail = require "mrt.text.template.fail"

---@class mrt.template.Node
---@field kind string   evaluate.lua and statement.lua have a function for each
---@field line integer

---@class mrt.template.Parser
---@field tokens mrt.template.Token[]
---@field at integer
local Parser = {}
Parser.__index = Parser

local DEEPEST, LONGEST = 100, 1000

-- ---- tokens ----------------------------------------------------------------

function Parser:token() return self.tokens[self.at] end

function Parser:is(kind, text)
  local token = self.tokens[self.at]
  return token.type == kind and (text == nil or token.value == text)
end

function Parser:is_op(text) return self:is("op", text) end
function Parser:is_name(text) return self:is("name", text) end

function Parser:take(kind, text)
  if not self:is(kind, text) then return nil end
  self.at = self.at + 1
  return self.tokens[self.at - 1]
end

local shown = { eof = "the end of the template", block_end = "%}", variable_end = "}}",
  block_begin = "{%", variable_begin = "{{", data = "text" }

-- A token as messages show it.
function Parser.show(token)
  return shown[token.type] or "'" .. tostring(token.value) .. "'"
end

function Parser:refuse(text, ...) fail.at(self:token().line, text, ...) end

function Parser:expect(kind, text)
  local token = self:take(kind, text)
  if token then return token end
  local wanted = text and "'" .. text .. "'" or shown[kind] or "a " .. kind
  self:refuse("%s wanted, got %s", wanted, Parser.show(self:token()))
end

-- A node.  Chains, a.b.c or a + b + c, nest without brackets: they are bounded too.
local function node(kind, line, fields)
  local deepest = 0
  for i = 1, #fields do deepest = math.max(deepest, fields[i].deep or 0) end
  if deepest >= LONGEST then fail.at(line, "a chain of more than %d operations", LONGEST) end
  fields.kind, fields.line, fields.deep = kind, line, deepest + 1
  return fields
end
Parser.node = node

-- Depth of the source: what calls itself passes here.
function Parser:deeper(f, ...)
  self.depth = self.depth + 1
  if self.depth > DEEPEST then self:refuse("it nests deeper than %d", DEEPEST) end
  local result = f(self, ...)
  self.depth = self.depth - 1
  return result
end

return Parser
