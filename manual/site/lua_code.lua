--- lua_code.lua -- Lua code as HTML, its words marked
---
--- SPDX-License-Identifier: MIT

local M = {}

local keywords = {}
for word in ([[and break do else elseif end false for function goto if in local nil not or
  repeat return then true until while]]):gmatch "%a+" do
  keywords[word] = true
end

local entities = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }

--- Make text safe in HTML.
---@param text string
---@return string
function M.escape(text) return (text:gsub('[&<>"]', entities)) end

local function mark(kind, text) return ('<b class="%s">%s</b>'):format(kind, M.escape(text)) end

-- {pattern, what its text becomes}, the first that fits wins.
local rules = {
  { "^%-%-%[(=*)%[.-%]%1%]", "c" }, { "^%-%-[^\n]*", "c" },
  { "^%[(=*)%[.-%]%1%]", "s" }, { '^"[^"\n]*"', "s" }, { "^'[^'\n]*'", "s" },
  { "^0[xX]%x+", "n" }, { "^%d[%w.]*", "n" }, { "^[%a_][%w_]*", "w" }, { "^%s+", "" },
}

local function word(text)
  return keywords[text] and mark("k", text) or M.escape(text)
end

--- Mark comments, strings, numbers and keywords.
---@param code string
---@return string
function M.html(code)
  local out, at = {}, 1
  while at <= #code do
    local from, past, kind
    for _, rule in ipairs(rules) do
      from, past = code:find(rule[1], at)
      kind = rule[2]
      if from then break end
    end
    if not from then past, kind = at, "" end
    local text = code:sub(at, past)
    out[#out + 1] = kind == "w" and word(text) or kind == "" and M.escape(text) or mark(kind, text)
    at = past + 1
  end
  return table.concat(out)
end

return M
