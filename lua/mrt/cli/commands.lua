--- commands.lua -- which commands there are, and which one was meant
---
--- SPDX-License-Identifier: MIT

local closest = require "mrt.util.closest"

local commands = {}

--- The names of all commands, sorted.
---@return string[]
function commands.list()
  local core = require "mrt.core"
  local folder = package.searchpath("mrt.cli.command.help", package.path):match "^(.*)/"
  local names = {}
  for _, file in ipairs(core.list_folder(folder) or {}) do
    names[#names + 1] = file:match "^(%l+)%.lua$"
  end
  table.sort(names)
  return names
end

--- What a command takes; nil: there is no such command.
---@param name string
---@return mrt.Arguments?
function commands.find(name)
  for _, one in ipairs(commands.list()) do
    if one == name then return require("mrt.cli.command." .. name) end
  end
end

--- What to say of a word that is neither a script nor a command.
---@param word string
---@return string
function commands.meant(word)
  local meant = closest(word, commands.list())
  return meant and ("; did you mean mrt %s?"):format(meant) or ""
end

--- What to say of an option of the program that there is not.
---@param word string
---@return string
function commands.meant_option(word)
  local name = word:match "^[^=]+"
  local meant = #name > 2 and closest(name, { "--help", "--version", "--policy" })
  return meant and ("; did you mean %s?"):format(meant) or ""
end

return commands
