--- stream.lua -- ids decoded one by one
---
--- A token may be part of a character, and what a token's text is may depend on those beside it
--- (a space that the first one of a text does not have).  So the last few tokens are decoded
--- together, from one on that is not only spaces, and what they add to the text is given once it
--- ends with a whole character.
---
--- SPDX-License-Identifier: MIT

---@class mrt.text.Stream
---@field core userdata
---@field ids integer[]  those whose text is not certain, and some before them
---@field given integer  how many of `ids` have been given
---@field text string    what those are decoded to
local Stream = {}
Stream.__index = Stream

-- Tokens that wait at most for their character to end.
local most_waiting <const> = 64

-- Does it end within a character, or with what stands for half of one?
local function is_open(text)
  if text:sub(-3) == "\u{fffd}" then return true end
  local start = utf8.offset(text, -1)
  if not start then return #text > 0 end
  return #text > 0 and not utf8.len(text, start)
end

-- The last ids that have something else than spaces in their text, and do not begin within a
-- character; and their text.
local function keep(core, ids)
  local kept, text = {}, ""
  for from = #ids, math.max(1, #ids - most_waiting), -1 do
    kept = table.move(ids, from, #ids, 1, {})
    text = core:decode(kept, false)
    if text:find "[^ ]" and not text:find("\u{fffd}", 1, true) then break end
  end
  return kept, text
end

--- Take one more id; return the text that is certain now, maybe "".
---
--- Raises: there is no such id.
---
---     io.write(stream:push(id))
---@param id integer
---@return string
function Stream:push(id)
  if self.skip_special and self.core:special(id) then return "" end
  local ids = self.ids
  ids[#ids + 1] = id
  local text = self.core:decode(ids, false)
  if is_open(text) and #ids - self.given < most_waiting then return "" end
  local more = text:sub(#self.text + 1)
  self.ids, self.text = keep(self.core, ids)
  self.given = #self.ids
  return more
end

--- Return what is left: the text of tokens that end within a character.
---
---     io.write(stream:finish())
---@return string
function Stream:finish()
  local text = self.core:decode(self.ids, false)
  local more = text:sub(#self.text + 1)
  self.ids, self.given, self.text = {}, 0, ""
  return more
end

---@param core userdata
---@param skip_special boolean
---@return mrt.text.Stream
return function(core, skip_special)
  return setmetatable({ core = core, skip_special = skip_special, ids = {}, given = 0,
    text = "" }, Stream)
end
