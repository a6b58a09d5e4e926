--- globals.lua -- names that were typed and that nothing has
---
--- Lua gives nil for a global that nobody has set.  Where a chunk of the prompt, or a
--- function typed there, reads one, it is noted, so that the prompt can say so.  Libraries
--- may look for globals as they like, and so may a chunk that tests one (`x or 1`,
--- `if x then`, `x == nil`).
---
--- SPDX-License-Identifier: MIT

local closest = require "mrt.util.closest"
local hints = require "mrt.util.hints"

local globals = {}

local noted, tested = {}, {} -- noted: a list, and a set

--- Note from now on, unless somebody else watches the table of globals.
function globals.watch()
  if getmetatable(_G) ~= nil then return end
  setmetatable(_G, { __index = function(_, name)
    local by = debug.getinfo(2, "S")
    if by and by.source == "=stdin" and type(name) == "string" and not tested[name]
      and not noted[name] then
      noted[name] = true
      noted[#noted + 1] = name
    end
    return nil
  end })
end

local tests = { ["or"] = true, ["and"] = true, ["then"] = true, ["=="] = true, ["~="] = true }

--- Learn which names these words test.
---@param words mrt.repl.Word[]
function globals.learn(words)
  for i, word in ipairs(words) do
    local before, after = words[i - 1], words[i + 1]
    if word.kind == "name" and (after and tests[after.text] or before and before.text == "not")
      and not (before and before.text:find "^[.:]$") then
      tested[word.text] = true
    end
  end
end

--- The names noted since, each once.
---@return string[]
function globals.take()
  local list = table.move(noted, 1, #noted, 1, {})
  noted = {}
  return list
end

-- mrt, where the global of that name still is it.
local function ours()
  local mrt = rawget(_G, "mrt")
  return mrt ~= nil and mrt == package.loaded.mrt and mrt or {}
end

-- Where mrt has this very name: "mrt.nn.Linear".
local function exact(name)
  local mrt = ours()
  for _, part in ipairs { "", "nn", "optim" } do
    local within = part == "" and mrt or rawget(mrt, part) or {}
    local fields = (getmetatable(within) or {}).__fields
    if rawget(within, name) ~= nil or fields and fields[1][name] then
      return ("mrt.%s%s"):format(part == "" and "" or part .. ".", name)
    end
  end
end

--- What a name that there is not may have been meant for.
---@param name string
---@param locals table<string, any>  the locals of the prompt are its keys
---@return string?
function globals.meant(name, locals)
  if hints.globals[name] then return hints.globals[name] end
  local near = exact(name) or closest(name, locals) or closest(name, _G)
  local part = not near and closest(name, ours())
  near = near or part and "mrt." .. part
  return near and ("did you mean %s?"):format(near) or nil
end

return globals
