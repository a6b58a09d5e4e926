--- lines.lua -- the lines of a file, one after the other, none longer than fits in memory
---
--- SPDX-License-Identifier: MIT

local lines = {}

local PIECE <const> = 1 << 18 -- bytes read at a time

--- The longest line that is read.
lines.MOST = 64 << 20 -- bytes

---@class mrt.finetune.Lines
---@field file file*
---@field most integer
---@field piece string   what has been read, from `from` on not given away yet
---@field from integer
local Lines = {}
Lines.__index = Lines

-- The next part of a line; whether the line ends with it.  nil: the file has ended.
function Lines:part()
  if self.from > #self.piece then
    self.piece, self.from = self.file:read(PIECE) or "", 1
    if self.piece == "" then return nil end
  end
  local from, at = self.from, self.piece:find("\n", self.from, true)
  self.from = (at or #self.piece) + 1
  return self.piece:sub(from, (at or 0) - 1), at ~= nil
end

-- A line without its end; nil: there are no more; false: it is too long.  The rest of
-- such a one is read and forgotten.
function Lines:next()
  local parts, bytes = {}, 0
  repeat
    local part, ends = self:part()
    bytes = bytes + #(part or "")
    parts = bytes <= self.most and parts or {}
    parts[#parts + 1] = part
  until not part or ends
  if bytes > self.most then return false end
  return parts[1] and (table.concat(parts):gsub("\r$", ""))
end

--- What some editors begin a file of UTF-8 with.
lines.MARK = "\xEF\xBB\xBF"

--- Iterate over the lines of an open file: number, and text, or false where the line is
--- longer than `most`.  A byte order mark is no part of the first.
---@param file file*
---@param most? integer   bytes; default lines.MOST
---@return fun(): integer?, string|false|nil
function lines.of(file, most)
  local number = 0
  local self = setmetatable({ file = file, most = most or lines.MOST, piece = "", from = 1 },
    Lines)
  return function()
    local text = self:next()
    if text == nil then return nil end
    number = number + 1
    if number == 1 and text and text:sub(1, #lines.MARK) == lines.MARK then
      text = text:sub(#lines.MARK + 1)
    end
    return number, text
  end
end

return lines
