--- embed.lua -- data and programs within a page
---
--- What users name may say anything: of data no character can end the element it
--- stands in, and programs put it into the page as text only.
---
--- SPDX-License-Identifier: MIT

local json = require "mrt.util.json"

local embed = {}

local escapes = { ["<"] = "\\u003c", [">"] = "\\u003e", ["&"] = "\\u0026" }

--- Data that the page's program finds by its id.
---@param id string
---@param value any
---@return string
function embed.data(id, value)
  local text = json.encode(value, { lossy = true }):gsub("[<>&]", escapes)
  return ('<script type="application/json" id="%s">%s</script>'):format(id, text)
end

--- Programs, in one scope; those of a list within it have one of their own.
---@param ... string|string[]  names of files in script/
---@return string
function embed.script(...)
  local out = {}
  local function add(name) out[#out + 1] = require("mrt.plan.report.script." .. name) end
  for _, item in ipairs { ... } do
    if type(item) == "table" then
      out[#out + 1] = "{\n"
      for _, name in ipairs(item) do add(name) end
      out[#out + 1] = "}\n"
    else
      add(item)
    end
  end
  return ("<script>\n\"use strict\"\n{\n%s}\n</script>"):format(table.concat(out))
end

---@class mrt.report.Pool
---@field list string[]
---@field seen table<string, integer>
local Pool = {}
Pool.__index = Pool

--- Texts that are said once, and then by number, from 0.
---@return mrt.report.Pool
function embed.pool()
  return setmetatable({ list = json.array {}, seen = {} }, Pool)
end

--- The number of a text.
---@param text string
---@return integer
function Pool:of(text)
  if not self.seen[text] then
    self.list[#self.list + 1] = text
    self.seen[text] = #self.list - 1
  end
  return self.seen[text]
end

return embed
