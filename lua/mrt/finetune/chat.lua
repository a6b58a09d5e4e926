--- chat.lua -- messages as the model sees them, and what of that the assistant says
---
--- A template may mark it ({% generation %}).  Of others it is found by writing the
--- messages up to one of the assistant's, with what asks for it, and then with it: what has
--- come to the text is what the model is to say, the end of its turn included.  Where a
--- template writes the beginning of a conversation otherwise when it goes on (as those
--- that leave earlier thoughts out), nothing can be found so, and the line is refused.
---
--- SPDX-License-Identifier: MIT

local chat = {}

local function refuse(message) error({ message = message }, 0) end

local function written(tokenizer, messages, o)
  local text, message = tokenizer:chat(messages, o)
  return text or refuse(message)
end

local function first(messages, n) return table.move(messages, 1, n, 1, {}) end

-- Where message `i` of the assistant stands.
local function span_of(tokenizer, messages, i, whole, tools)
  local asked = written(tokenizer, first(messages, i - 1),
    { generation_prompt = true, tools = tools })
  local said = i == #messages and whole or written(tokenizer, first(messages, i),
    { tools = tools })
  if said:sub(1, #asked) ~= asked then
    asked = written(tokenizer, first(messages, i - 1), { tools = tools })
  end
  if said:sub(1, #asked) ~= asked or whole:sub(1, #said) ~= said then
    refuse(("message %d: the template writes it otherwise within the conversation than at its end; "
      .. "{%% generation %%} in it would say what is learned"):format(i))
  end
  return #said > #asked and { #asked + 1, #said } or nil
end

--- Write messages, and say which bytes the assistant is to write.
---
--- Raises, with a message: no template, or one that does not take these messages.
---@param tokenizer table
---@param messages {role: string, content: string}[]
---@param tools table[]?
---@return string text
---@return integer[][] spans  {first byte, last byte}, in order
function chat.spans(tokenizer, messages, tools)
  if tokenizer.chat_spans then
    local text, spans = tokenizer:chat_spans(messages, { tools = tools })
    if text then return text, spans end
    if spans then refuse(spans) end
  end
  local whole, spans = written(tokenizer, messages, { tools = tools }), {}
  for i, message in ipairs(messages) do
    if message.role == "assistant" then
      spans[#spans + 1] = span_of(tokenizer, messages, i, whole, tools)
    end
  end
  return whole, spans
end

return chat
