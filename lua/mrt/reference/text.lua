--- text.lua -- an entry of the reference for a terminal
---
--- SPDX-License-Identifier: MIT

local shape = require "mrt.reference.shape"

local M = {}

-- Add a text in lines no longer than `width`, the first after what `lead` is.
local function wrap(out, text, width, lead, indent)
  local line, fresh = lead, true
  for word in text:gmatch "%S+" do
    if not fresh and utf8.len(line) + 1 + utf8.len(word) > width then
      out[#out + 1] = line
      line, fresh = (" "):rep(indent), true
    end
    line = line .. (fresh and "" or " ") .. word
    fresh = false
  end
  out[#out + 1] = (line:gsub("%s+$", ""))
end

local function plain(text) return (text:gsub("`([^`]*)`", "%1")) end

-- Paragraphs are wrapped anew where they are too wide; what is indented or a table
-- stays as it is written.
local function add_text(out, lines, width)
  local widest = 0
  for _, line in ipairs(lines) do widest = math.max(widest, utf8.len(line) or #line) end
  if widest <= width then
    for _, line in ipairs(lines) do out[#out + 1] = plain(line) end
    return
  end
  local paragraph = {}
  local function flush()
    if paragraph[1] then wrap(out, plain(table.concat(paragraph, " ")), width, "", 0) end
    paragraph = {}
  end
  for _, line in ipairs(lines) do
    if not line:find "%S" or line:find "^%s" or line:find "^|" then
      flush()
      out[#out + 1] = plain(line)
    else
      paragraph[#paragraph + 1] = line
    end
  end
  flush()
end

local function add_rows(out, rows, width)
  local longest = 0
  for _, row in ipairs(rows) do
    local length = #row.name + (row.type ~= "" and #row.type + 2 or 0)
    if length <= 28 then longest = math.max(longest, length) end
  end
  for _, row in ipairs(rows) do
    local lead = "  " .. row.name .. (row.name ~= "" and row.type ~= "" and "  " or "") .. row.type
    local indent = longest + 4
    if row.text == "" then
      out[#out + 1] = lead
    elseif #lead + 2 > indent and #lead > 30 then
      out[#out + 1] = lead
      wrap(out, plain(row.text), width, (" "):rep(indent), indent)
    else
      wrap(out, plain(row.text), width, lead .. (" "):rep(math.max(2, indent - #lead)), indent)
    end
  end
end

--- An entry as lines for a terminal.
---@param index mrt.reference.Index
---@param entry mrt.reference.Entry
---@param width? integer  default 80
---@return string
function M.entry(index, entry, width)
  width = width or 80
  local s, out = shape.of(index, entry), {}
  for _, signature in ipairs(s.signatures) do out[#out + 1] = signature end
  if not s.signatures[1] then out[1] = entry.name end
  if entry.also then
    wrap(out, "also " .. table.concat(entry.also, ", "), width, "", 2)
  end
  if s.text[1] then
    out[#out + 1] = ""
    add_text(out, s.text, width)
  end
  for _, section in ipairs(s.sections) do
    out[#out + 1] = ""
    out[#out + 1] = section.title
    add_rows(out, section.rows, width)
  end
  if s.detail then
    out[#out + 1] = ""
    add_text(out, s.detail, width)
  end
  if entry.file then
    out[#out + 1] = ""
    out[#out + 1] = ("mrt/%s:%d"):format(entry.file, entry.line)
  end
  return table.concat(out, "\n")
end

--- Names with the first sentence of each.
---@param entries mrt.reference.Entry[]
---@param width? integer  default 80
---@return string
function M.list(entries, width)
  local rows, out = {}, {}
  for i, entry in ipairs(entries) do
    rows[i] = { name = entry.name, type = "", text = shape.summary(entry) }
  end
  add_rows(out, rows, width or 80)
  return table.concat(out, "\n")
end

return M
