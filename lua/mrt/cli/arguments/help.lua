--- help.lua -- what --help says of a command
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

local help = {}

local WIDEST <const>, NARROWEST <const> = 96, 40

-- Columns to write in.
local function columns(width)
  width = width or core.terminal_width()
    or tonumber(os.getenv "COLUMNS") or WIDEST
  return math.max(NARROWEST, math.min(width, WIDEST))
end

-- Lines of at most `width` characters; a line of the text that begins with spaces stays as
-- it is.
local function wrap(text, width, lines)
  for given in (text .. "\n"):gmatch "([^\n]*)\n" do
    local line = given:match "^%s" and given or ""
    if line == "" then
      for word in given:gmatch "%S+" do
        if line ~= "" and utf8.len(line .. " " .. word) > width then
          lines[#lines + 1], line = line, ""
        end
        line = line == "" and word or line .. " " .. word
      end
    end
    lines[#lines + 1] = line
  end
  return lines
end

local function show(value)
  if math.type(value) == "float" then return ("%.6g"):format(value) end
  if type(value) == "boolean" then return value and "yes" or "no" end
  return tostring(value)
end

-- What is said of one: its choices and its default, where the words do not say them.
local function said_of(one)
  local parts = { one.what ~= "" and one.what or nil }
  if one.choices then parts[#parts + 1] = table.concat(one.choices, ", ") end
  if one.many then parts[#parts + 1] = "may be given several times" end
  if one.default ~= nil and one.kind ~= "flag" then
    parts[#parts + 1] = "default " .. show(one.default)
  end
  return table.concat(parts, "; ")
end

local function head_of(one)
  local head = table.concat(one.names, ", ")
  if #head > 0 and #one.words > 0 then head = head .. " " end
  return "  " .. head .. table.concat(one.words, " ")
end

--- What an option or a place is called, and what is said of it, in one line each.
---@param one table  of a parser's `options` or `places`
---@return string head
---@return string text
function help.of(one) return (head_of(one):gsub("^ +", "")), said_of(one) end

-- Heads in a column, texts in another; what is too long for its column has its own line.
local function add_rows(lines, rows, width)
  local margin = width < 64 and 6 or 22 -- narrow: texts below their heads
  for _, one in ipairs(rows) do
    if one.what then
      local head, texts = head_of(one), wrap(said_of(one), width - margin, {})
      if #head + 2 > margin then
        lines[#lines + 1], head = head, ""
      end
      for i, text in ipairs(texts) do
        local left = i == 1 and head or ""
        lines[#lines + 1] = (left .. (" "):rep(margin - #left) .. text):gsub("%s+$", "")
      end
    end
  end
end

--- Words and what they are, as help has them.
---@param list string[][]
---@param width integer?
---@return string
function help.rows(list, width)
  local lines, rows = {}, {}
  for i, row in ipairs(list) do rows[i] = { names = {}, words = { row[1] }, what = row[2] } end
  add_rows(lines, rows, columns(width))
  return table.concat(lines, "\n") .. "\n"
end

--- Text in lines.
---@param text string
---@param width integer?
---@return string
function help.text(text, width)
  return table.concat(wrap(text, columns(width), {}), "\n") .. "\n"
end

-- "mrt merge FOLDER ADAPTER --out FOLDER [options]".
local function usage(parser)
  local words = { parser.name }
  for _, one in ipairs(parser.options) do
    if one.required then words[#words + 1] = head_of(one):gsub("^%s+", "") end
  end
  words[#words + 1] = "[options]"
  for _, one in ipairs(parser.places) do words[#words + 1] = one.words[1] end
  words[#words + 1] = parser.script
  return table.concat(words, " ")
end

--- The columns that help is written in.
help.columns = columns

--- The page of a command.
---@param parser mrt.Arguments
---@param width integer?
---@return string
function help.page(parser, width)
  width = columns(width)
  local lines = wrap("usage: " .. usage(parser), width, {})
  wrap(parser.about, width, lines)
  if parser.commands then
    lines[#lines + 1] = ""
    local rows = {}
    for i, one in ipairs(parser.commands) do
      rows[i] = { names = {}, words = { one.word }, what = one.about }
    end
    add_rows(lines, rows, width)
  elseif #parser.places > 0 then
    lines[#lines + 1] = ""
    add_rows(lines, parser.places, width)
  end
  lines[#lines + 1] = ""
  add_rows(lines, parser.options, width)
  local more = type(parser.more) == "function" and parser.more() or parser.more
  if more then
    lines[#lines + 1] = ""
    wrap((more:gsub("\n$", "")), width, lines)
  end
  return table.concat(lines, "\n") .. "\n"
end

return help
