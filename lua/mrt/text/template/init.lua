--- mrt.text.template -- chat templates: the part of Jinja that published models use
---
---     local template = assert(mrt.text.template "{% for m in messages %}...{% endfor %}")
---     local text = assert(template:render { messages = { { role = "user", content = "Hi" } } })
---
--- The text becomes tokens (lexer.lua), a tree (expression.lua, parser.lua), and is done
--- (evaluate.lua, statement.lua) with Python's values (value.lua), filters and methods.
--- A template sees what it is given and nothing else, and what it may take is bounded.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local fail = require "mrt.text.template.fail"
local globals = require "mrt.text.template.globals"
local options = require "mrt.util.options"
local parser = require "mrt.text.template.parser"
local runs = require "mrt.text.template.run"
local statement = require "mrt.text.template.statement"
local value = require "mrt.text.template.value"

local LONGEST = 1048576

---@class mrt.Template
---@field source string
---@field marks_generation boolean  it has {% generation %}
local Template = {}
Template.__index = Template

---@class mrt.TemplateLimits
---@field steps? integer  expressions, statements and items of a rendering; 10,000,000
---@field bytes? integer  of all strings and lists that it makes, added up; 268,435,456
---@field depth? integer  macros within macros, values within values; 100

-- The scope of the outermost statements: the functions, then what is given.
local function scope_of(values)
  local given = statement.inner(globals)
  for name, v in pairs(values) do
    if type(name) ~= "string" then fail.here("values are by name, got %s", tostring(name)) end
    given[name] = value.from(v, name)
  end
  return statement.inner(given)
end

-- Render; the run has the text and where it is the model's.
local function render(self, values, o, spans)
  local run = runs.new(self.limits)
  run.now, run.spans = o.now, spans
  local text, message = fail.catch(function() return run.line end, function()
    local scope = scope_of(values)
    statement.perform(run, self.body, scope)
    return table.concat(run.out, "", 1, run.out.n)
  end)
  return text, message, run
end

local render_options = { now = options.none }

---@class mrt.TemplateValues: {[string]: any}  strings, numbers, booleans, lists, and maps by
---  name, whose order is that of `__jsonorder` in their metatables (as
---  `mrt.text.json` gives it), else that of the names; `mrt.text.none` is None

--- Write the text.
---
--- Returns nil: the template calls raise_exception, uses what is undefined, asks for what
--- is not understood, or for more than its limits; a value that templates cannot have.
--- The message has the line.
---
---     template:render { messages = messages }
---
--- Raises: an option that there is not; what the template refuses is a message.
---@param values? mrt.TemplateValues
---@param o? {now: integer?}  now: seconds since 1970 for strftime_now
---@return string? text
---@return string? message
---@return string? code  "data"
function Template:render(values, o)
  o = options.read("render", o, render_options)
  local text, message = render(self, values or {}, o)
  if not text then return nil, message, "data" end
  return text
end

--- As `render`, and where the text is what the model is to write, by {% generation %}.
---
--- Returns nil: as `render`; code "lost": one of them is inside a macro or a block that is
--- set, where its place in the text is not known.
---
---     local text, spans = template:render_spans { messages = messages }
---
--- Raises: an option that there is not; what the template refuses is a message.
---@param values? mrt.TemplateValues
---@param o? {now: integer?}
---@return string? text
---@return integer[][]|string spans  {first byte, last byte} each; or the message
---@return string? code
function Template:render_spans(values, o)
  o = options.read("render_spans", o, render_options)
  local spans = {}
  local text, message, run = render(self, values or {}, o, spans)
  if not text then return nil, message, "data" end
  if run.lost_spans then
    return nil, "{% generation %} is inside a macro or a block that is set", "lost"
  end
  return text, spans
end

local template_options = { steps = runs.limits.steps, bytes = runs.limits.bytes,
  depth = runs.limits.depth }

--- Read a template.
---
--- Returns nil: it is no template, or has what is not understood; the message says what,
--- and in which line.
--- Raises: the source is no string, or unknown limits.
---@param source string  at most 1 MiB of UTF-8
---@param limits? mrt.TemplateLimits
---@return mrt.Template? template
---@return string? message
---@return string? code  "data"
return function(source, limits)
  if type(source) ~= "string" then
    core.fail("value", "template", "a string wanted, got " .. options.show(source))
  end
  limits = options.read("template", limits, template_options)
  if #source > LONGEST then
    return nil, ("the template has %d bytes, at most %d are read"):format(#source, LONGEST), "data"
  end
  if not utf8.len(source) then return nil, "the template is no UTF-8", "data" end
  local body, message = fail.catch(nil, parser.parse, source)
  if not body then return nil, message, "data" end
  return setmetatable({ source = source, body = body, limits = limits,
    marks_generation = source:find "{%%[-+]?%s*generation%s*[-+]?%%}" ~= nil }, Template)
end
