--- option_names.lua -- the options that a table being typed may have
---
---     optim.adamw(params, { w      nn.GPT { vocab = 65, c      x:softmax { d
---
--- The function before the table is found without a call (chain.lua), its options in the
--- reference: fields of the classes that its parameters name, and its operator's.
---
--- SPDX-License-Identifier: MIT

local chain = require "mrt.cli.repl.chain"

local closes = { ["}"] = "{", [")"] = "(", ["]"] = "[" }
local opens = { ["{"] = true, ["("] = true, ["["] = true }

-- The innermost bracket that is open behind word `at`.
local function innermost(words, at)
  local depth = 0
  for i = at, 1, -1 do
    local text = words[i].kind == "mark" and words[i].text
    if closes[text] then depth = depth + 1 end
    if opens[text] then
      if depth == 0 then return i end
      depth = depth - 1
    end
  end
end

-- The last word of the function that is called with the table that word `brace` opens.
local function callee(words, brace)
  local before = words[brace - 1]
  if not before then return nil end
  if before.kind == "name" then return brace - 1 end
  if before.text ~= "(" and before.text ~= "," then return nil end
  local call = innermost(words, brace - 1)
  if call and words[call].text == "(" and words[call - 1] and words[call - 1].kind == "name" then
    return call - 1
  end
end

-- Option names of an entry of the reference, as keys.
local function options_of(reference, entry)
  local names = {}
  local shape = require "mrt.reference.shape".of(reference.index(), entry)
  for _, section in ipairs(shape.sections) do
    for _, row in ipairs(section.entry and section.rows or {}) do
      local name = row.name:match "^[%a_][%w_]*"
      if name then names[name] = true end
    end
  end
  for _, option in ipairs(entry.operator and entry.operator.options or {}) do
    names[option.name] = true
  end
  return names
end

local function described(value)
  local reference = require "mrt.reference"
  local entry = reference.find(value)
  return entry and options_of(reference, entry) or {}
end

--- Options that may be named at word `at`, the last before what is being typed.
---@param words mrt.repl.Word[]
---@param at integer
---@param scope mrt.repl.Chunks
---@return table<string, boolean>  names as keys
return function(words, at, scope)
  local last = words[at] and words[at].text
  if last ~= "{" and last ~= "," and last ~= ";" then return {} end
  local brace = innermost(words, at)
  local f = brace and words[brace].text == "{" and callee(words, brace)
  local known, value = false, nil
  if f then known, value = chain.value(words, f, scope) end
  if not known or type(value) == "string" then return {} end
  local ok, names = pcall(described, value)
  return ok and names or {}
end
