--- text -- texts as ids, and messages as texts
---
---     local tok = assert(mrt.text.tokenizer "SmolLM2-135M")
---     tok:encode "Hello, world!"                       -- {9906, 11, 1917, 0}
---     tok:chat({ { role = "user", content = "Hello" } }, { generation_prompt = true })
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local options = require "mrt.util.options"

---@class mrt.text
---@field none table  the null of JSON, and of templates
local text = {}

-- Raises unless there are a template and a list.
local function want(who, template, messages)
  if type(template) ~= "table" or type(template.render) ~= "function" then
    core.fail("value", who, "a template (mrt.text.template) wanted, got "
      .. options.show(template))
  elseif type(messages) ~= "table" then
    core.fail("value", who, "a list of messages wanted, got " .. options.show(messages))
  end
end

--- Open a tokenizer: see `mrt.text.tokenizer`'s own page.
---
---     local tokenizer, message = mrt.text.tokenizer "SmolLM2-135M"
---
--- Raises: an option that there is not; a file's faults are a message.
---@param path string  a folder, or a file
---@param o? mrt.text.TokenizerOptions
---@return mrt.text.Tokenizer? tokenizer
---@return string? message
---@return string? code
function text.tokenizer(path, o) return require "mrt.text.tokenizer".open(path, o) end

--- None of chat templates, null of JSON.
text.none = require "mrt.text.template.value".none

--- Read a chat template.  Returns nil: it is none, or has what is not understood.
---
---     local template = mrt.text.template "{{ messages[0].content }}"
---
--- Raises: what is no text; its faults are a message.
---@param source string
---@param limits? mrt.TemplateLimits
---@return mrt.Template? template
---@return string? message
---@return string? code
function text.template(source, limits) return require "mrt.text.template"(source, limits) end

--- Write a conversation by a chat template.
---
--- Returns nil: as `template:render`.
--- Raises: no template, no list of messages.
---
---     local t = mrt.text.template "{% for m in messages %}{{ m.content }}{% endfor %}"
---     mrt.text.chat(t, { { role = "user", content = "Hello" } })  --> Hello
---@param template mrt.Template
---@param messages mrt.ChatMessage[]
---@param values? mrt.ChatValues
---@return string? text
---@return string? message
---@return string? code
function text.chat(template, messages, values)
  want("chat", template, messages)
  return require "mrt.text.template.chat".render(template, messages, values)
end

--- As `chat`, and the bytes of the text that the assistant speaks.
---
---     local t = mrt.text.template "{% for m in messages %}{{ m.content }}{% endfor %}"
---     local text, spans = mrt.text.chat_spans(t, { { role = "user", content = "Hello" } })
---
--- Raises: what is no template, or no list.
---@param template mrt.Template
---@param messages mrt.ChatMessage[]
---@param values? mrt.ChatValues
---@return string? text
---@return integer[][]|string spans  {first byte, last byte} each; or the message
---@return string? code
function text.chat_spans(template, messages, values)
  want("chat_spans", template, messages)
  return require "mrt.text.template.chat".spans(template, messages, values)
end

--- Read JSON into tables that keep the order of names, which templates write again.
---
---     mrt.text.json("[1, 2]")[2]  --> 2
---
--- Raises: what is no text; its faults are a message.
---@param source string
---@return any value  null is `mrt.text.none`
---@return string? message
---@return string? code
function text.json(source)
  if type(source) ~= "string" then
    core.fail("value", "json", "a string wanted, got " .. options.show(source))
  end
  return require "mrt.text.template.json".read(source)
end

return text
