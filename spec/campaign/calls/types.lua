--- types.lua -- what the library says its functions take
---
--- Reads the LuaCATS comments of lua/mrt and the operators' table.  A function is
--- known by its bare name; where two have one name, either list of types may be
--- drawn.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

local types = { signatures = {}, classes = {}, aliases = {} }

local function add(name, signature)
  local list = types.signatures[name] or {}
  types.signatures[name], list[#list + 1] = list, signature
end

-- The type at the head of a comment: what follows is prose.
local function head(text)
  local depth, quoted, previous = 0, false, ""
  for i = 1, #text do
    local c = text:sub(i, i)
    if c == '"' then
      quoted = not quoted
    elseif not quoted then
      if c:find "[%(%[{<]" then depth = depth + 1 end
      if c:find "[%)%]}>]" then depth = depth - 1 end
      if c == " " and depth <= 0 and not previous:find "[:,|]" then
        return text:sub(1, i - 1)
      end
    end
    if c ~= " " then previous = c end
  end
  return text
end

local function read(text)
  local params, class = {}, nil
  for line in text:gmatch "[^\n]+" do
    local name, optional, kind = line:match "^%-%-%-@param ([%w_%.]+)(%??) (.+)"
    if name then
      params[#params + 1] = { name = name, optional = optional == "?", type = head(kind) }
    elseif line:find "^%-%-%-@class" then
      local own, parent = line:match "^%-%-%-@class ([%w_%.]+)%s*:?%s*([%w_%.]*)"
      class = { parent = parent ~= "" and parent or nil }
      types.classes[own] = class
    elseif line:find "^%-%-%-@field" then
      name, optional, kind = line:match "^%-%-%-@field ([%w_]+)(%??) (.+)"
      if name and class then
        class[#class + 1] = { name = name, optional = optional == "?", type = head(kind) }
      end
    elseif line:find "^%-%-%-@alias" then
      name, kind = line:match "^%-%-%-@alias ([%w_%.]+) (.+)"
      if name then types.aliases[name] = head(kind) end
    elseif not line:find "^%-%-%-" then
      name = line:match "function [%w_%.]-[%.:]?([%w_]+)%s*%("
      if name and #params > 0 then add(name, params) end
      params = {}
      if not line:find "^local" then class = nil end
    end
  end
end

local function walk(folder)
  local names = core.list_folder(folder)
  table.sort(names)
  for _, name in ipairs(names) do
    local path = folder .. "/" .. name
    if name:find "%.lua$" then
      read(core.read_file(path))
    elseif not name:find "%." and name ~= "cli" and name ~= "bench" then
      walk(path)
    end
  end
end

local of_kind = { ints = "integer[]", dim = "dim", dims = "dim|dim[]", index = "dim",
  int = "integer", num = "number", bool = "boolean", dtype = "mrt.DType" }

local function operators()
  for _, o in ipairs(core.operators()) do
    local list, most = {}, o.max_inputs
    if most < 0 then
      list[1] = { name = "list", type = "mrt.Tensor[]" }
    end
    for i = 1, most do
      list[#list + 1] = { name = "x" .. i, type = "mrt.Tensor", optional = i > o.min_inputs }
    end
    for _, option in ipairs(o.options or {}) do
      local kind = of_kind[option.kind] or "string"
      if option.kind == "enum" then
        kind = '"' .. option.words:gsub(" ", '"|"') .. '"'
      end
      list[#list + 1] = { name = option.name, type = kind, optional = not option.required }
    end
    add(o.name, list)
  end
end

walk((package.searchpath("mrt", package.path):match "^(.*)/init%.lua$"))
operators()

return types
