--- save.lua -- reports into files
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

local save = {}

--- Which report a path asks for: the module's name.
---@param path string
---@param formats table<string, string>  ending -> module
---@param wanted? string                 a module's name, whatever the ending
---@return string
function save.format(path, formats, wanted)
  if type(path) ~= "string" then
    core.fail("value", "save", ("a path wanted, got %s"):format(type(path)))
  end
  if wanted ~= nil then
    for _, name in pairs(formats) do if name == wanted then return name end end
    core.fail("value", "save", ("no format '%s'"):format(tostring(wanted)))
  end
  local best, endings = "", {}
  for ending in pairs(formats) do
    endings[#endings + 1] = ending
    if path:sub(-#ending) == ending and #ending > #best then best = ending end
  end
  table.sort(endings)
  if best == "" then
    core.fail("value", "save", ("'%s' ends in none of %s")
      :format(path, table.concat(endings, ", ")))
  end
  return formats[best]
end

--- Write a file, which appears whole or not at all.
---@param path string
---@param text string
---@return true? done
---@return string? message  what the world has against it
function save.write(path, text) return core.write_file(path, text) end

return save
