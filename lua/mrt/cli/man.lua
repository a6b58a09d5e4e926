--- man.lua -- the page of the program for `man mrt`
---
---     mrt -e 'io.write(require "mrt.cli.man"())' > mrt.1
---
--- It says what `mrt --help`, the help of each command and `mrt help environment` say.
---
--- SPDX-License-Identifier: MIT

local commands = require "mrt.cli.commands"
local page = require "mrt.cli.arguments.help"

-- Text in which troff finds no request of its own.
local function plain(text)
  text = text:gsub("\\", "\\e"):gsub("%-", "\\-")
  return (text:gsub("\n[.']", function(two) return "\n\\&" .. two:sub(2) end)
    :gsub("^[.']", "\\&%0"))
end

local function term(out, head, text)
  out[#out + 1] = ".TP"
  out[#out + 1] = ".B " .. plain(head)
  out[#out + 1] = plain((text or ""):gsub("%s*\n%s*", " "))
end

local function command(out, name)
  local parser = commands.find(name)
  out[#out + 1] = ".SS mrt " .. plain(name)
  out[#out + 1] = plain(parser.about)
  for _, list in ipairs { parser.places or {}, parser.options or {} } do
    for _, one in ipairs(list) do
      if one.what then term(out, page.of(one)) end
    end
  end
end

--- The page, as troff reads it.
---@return string
return function()
  local help = require "mrt.cli.command.help"
  local version = require "mrt.core".info().version
  local out = { ('.TH MRT 1 "" "mrt %s" "mrt"'):format(version), ".SH NAME",
    "mrt \\- a training runtime scripted in Lua: memory planned to the byte", ".SH SYNOPSIS",
    ".B mrt", "[options] [script.lua or COMMAND] [arguments]", ".SH DESCRIPTION",
    plain("Runs Lua scripts that train models: before the first step it says to the byte how much "
      .. "memory the step takes, and takes exactly that. Given a budget it recomputes, or swaps, "
      .. "until the step fits. Without a script it is a prompt."),
    ".SH OPTIONS" }
  for _, row in ipairs(help.program.options) do term(out, row[1], row[2]) end
  out[#out + 1] = ".SH COMMANDS"
  for _, name in ipairs(commands.list()) do command(out, name) end
  out[#out + 1] = ".SH ENVIRONMENT"
  for _, group in ipairs(require "mrt.cli.environment") do
    for _, row in ipairs(group[2]) do
      if row[2] then term(out, row[1], row[2]) end
    end
  end
  out[#out + 1] = ".SH EXIT STATUS"
  out[#out + 1] = plain(help.program.status)
  out[#out + 1] = ".SH SEE ALSO"
  out[#out + 1] = plain "mrt help NAME says what is written of any name of the library."
  return table.concat(out, "\n") .. "\n"
end
