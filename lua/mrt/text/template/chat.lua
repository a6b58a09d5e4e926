--- chat.lua -- messages through a chat template, and where the assistant speaks
---
--- SPDX-License-Identifier: MIT

local value = require "mrt.text.template.value"

local chat = {}

local none = value.none

---@class mrt.ChatMessage: {role: string, content: string|table|nil}  content: text, or
---  parts as {type = "text", text = "..."}; tool_calls, name ... as the template reads them

---@class mrt.ChatValues: {[string]: any}  what the template reads beside the messages
---@field tools? table[]                  functions as JSON schemas
---@field documents? table[]
---@field add_generation_prompt? boolean  end with the beginning of an answer
---@field bos_token? string
---@field eos_token? string

-- A copy of a map, with the order of its names, and more.
local function with(map, more)
  local copy = {}
  for name, v in pairs(map) do copy[name] = v end
  for name, v in pairs(more) do copy[name] = v end
  return setmetatable(copy, getmetatable(map))
end

-- What a model thought goes by three names: templates read the first or the second.
local function with_reasoning(message)
  if type(message) ~= "table" then return message end
  for _, name in ipairs { "reasoning_content", "thinking", "reasoning" } do
    local thought = message[name]
    if thought ~= nil and thought ~= none then
      local thinking = message.thinking == nil and thought or message.thinking
      return with(message, { reasoning_content = thought, thinking = thinking })
    end
  end
  return message
end

--- Everything that chat templates expect: no tools and no documents are None.
---@param messages mrt.ChatMessage[]
---@param values? mrt.ChatValues
---@return mrt.TemplateValues
function chat.values(messages, values)
  local list = {}
  for i, message in ipairs(messages) do list[i] = with_reasoning(message) end
  local all = { tools = none, documents = none, add_generation_prompt = false }
  for name, v in pairs(values or {}) do all[name] = v end
  all.messages = list
  return all
end

--- Write a conversation.
---
--- Returns nil: as `template:render`.
---@param template mrt.Template
---@param messages mrt.ChatMessage[]
---@param values? mrt.ChatValues
---@return string? text
---@return string? message
---@return string? code
function chat.render(template, messages, values)
  return template:render(chat.values(messages, values))
end

-- ---- where the assistant speaks --------------------------------------------

-- Bytes that two texts begin with alike, whole characters.
local function common(a, b)
  local low, high = 0, math.min(#a, #b)
  while low < high do
    local middle = (low + high + 1) // 2
    if a:sub(1, middle) == b:sub(1, middle) then low = middle else high = middle - 1 end
  end
  while low > 0 and (b:byte(low + 1) or 0) & 0xc0 == 0x80 do low = low - 1 end
  return low
end

-- The same, but not into a tag, <...> or [...], of which only the beginning is alike.
local function common_tags(a, b)
  local n = common(a, b)
  if n == #a or n == #b then return n end
  local open = a:sub(1, n):match "()[<%[][^<>%[%]]*$"
  return open and open - 1 or n
end

local MARK = "\u{e000}\u{e001}\u{e000}"

-- The messages with the mark behind the text of number i.
local function marked(messages, i)
  local list = table.move(messages, 1, #messages, 1, {})
  list[i] = with(list[i], { content = list[i].content .. MARK })
  return list
end

-- The last byte of message i in a text that writes it otherwise than where it is the last
-- of the conversation: its content ends where the mark comes to stand, and what follows it
-- there follows it here as far as both are alike.
local function end_by_mark(write, messages, i, text)
  if type(messages[i].content) ~= "string" then return nil end
  local list = marked(messages, i)
  local whole, alone = write(list, #list, false), write(list, i, false)
  local at = whole and whole:find(MARK, 1, true)
  local last = alone and alone:find(MARK, 1, true)
  if not at or not last or whole:sub(1, at - 1) ~= text:sub(1, at - 1) then return nil end
  return at - 1 + common_tags(alone:sub(last + #MARK), text:sub(at))
end

local function span_of(write, messages, i, text)
  local before, message = write(messages, i - 1, true)
  if not before then return nil, message end
  local first = common_tags(before, text) + 1
  local upto, why = write(messages, i, false)
  if not upto then return nil, why end
  local last = common(upto, text) == #upto and #upto or end_by_mark(write, messages, i, text)
  local sure = first > #before
  if not sure then
    local asked = write(messages, i - 1, false)
    sure = asked and common(asked, text) == #asked
  end
  if not last or last < first - 1 or not sure then
    return nil, ("where message %d is in the text cannot be told: the template writes it "
      .. "otherwise when others follow; it needs {%% generation %%}"):format(i)
  end
  return { first, last }
end

local function spans_by_prefixes(template, messages, values)
  local function write(list, n, prompt)
    local all = chat.values(table.move(list, 1, n, 1, {}), values)
    all.add_generation_prompt = prompt
    return template:render(all)
  end
  local text, message = write(messages, #messages, false)
  if not text then return nil, message, "data" end
  local spans = {}
  for i, one in ipairs(messages) do
    if one.role == "assistant" then
      local span, why = span_of(write, messages, i, text)
      if not span then return nil, why, "data" end
      if span[2] >= span[1] then spans[#spans + 1] = span end
    end
  end
  return text, spans
end

--- Write a conversation, and say which bytes of the text the assistant speaks: those to
--- train on where completions alone are learned.  By the template's {% generation %}
--- blocks; without them by writing the conversation up to each answer, with the beginning
--- of an answer, and up to its end.
---
---     local text, spans = assert(mrt.text.chat_spans(template, messages, { bos_token = "<s>" }))
---     print(text:sub(spans[1][1], spans[1][2]))
---
--- Returns nil: as `template:render`; the answers cannot be told from the rest.
---@param template mrt.Template
---@param messages mrt.ChatMessage[]
---@param values? mrt.ChatValues
---@return string? text
---@return integer[][]|string spans  {first byte, last byte} each, in order; or the message
---@return string? code
function chat.spans(template, messages, values)
  if template.marks_generation then
    local text, spans, code = template:render_spans(chat.values(messages, values))
    if text or code ~= "lost" then return text, spans, code end
  end
  return spans_by_prefixes(template, messages, values)
end

return chat
