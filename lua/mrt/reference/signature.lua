--- signature.lua -- how something is called, as parts: parameters, results
---
--- SPDX-License-Identifier: MIT

local types = require "mrt.reference.type"

---@class mrt.reference.Signature
---@field params mrt.reference.Part[]
---@field returns mrt.reference.Part[]

local M = {}

-- What stands between the brackets of "fun(a: T, b?: U): V".
local function read_params(list)
  local out, at = {}, 1
  while true do
    local name, optional, past = list:match("^%s*([%w_.]+)(%??)()", at)
    if not name then return out end
    local kind, colon = "any", list:match("^%s*:%s*()", past)
    if colon then
      kind = types.split(list:sub(colon))
      past = colon + #kind
    end
    out[#out + 1] = { name = name, optional = optional == "?", type = kind, text = "" }
    at = list:match("^%s*,()", past) or #list + 1
  end
end

local function read_returns(rest)
  local out = {}
  while rest:find "%S" do
    local kind, tail = types.split(rest)
    out[#out + 1] = { type = kind, text = "" }
    rest = tail:match "^%s*,%s*(.*)$" or ""
  end
  return out
end

--- Read the type of a function.
---@param text string  "fun(a: T, b?: U): V"
---@return mrt.reference.Signature?
function M.read(text)
  local list, past = text:match "^fun(%b())()"
  return list and { params = read_params(list:sub(2, -2)),
    returns = read_returns(text:match("^%s*:%s*(.*)$", past) or "") }
end

-- The parameters of the code: the comment says the types of those that it names.
local function of_code(entry)
  local said, out = {}, {}
  local params = entry.comment and entry.comment.params or {}
  for _, p in ipairs(params) do said[p.name] = p end
  local named = #params > 0
  for _, name in ipairs(entry.params or {}) do
    if not said[name] and named and name == "..." then break end
    out[#out + 1] = said[name] or { name = name, optional = true, type = "any", text = "" }
  end
  return out
end

local none = { params = {}, returns = {}, overloads = {} }

--- How an entry is called: by its own parameters first, then by its overloads.
---@param entry mrt.reference.Entry
---@return mrt.reference.Signature[]
function M.all(entry)
  local c, list = entry.comment or none, {}
  if entry.params and (entry.params[1] or not c.overloads[1]) then
    local params = of_code(entry)
    list[1] = { params = #c.params > #params and c.params or params, returns = c.returns }
  elseif c.params[1] then
    list[1] = { params = c.params, returns = c.returns }
  end
  for _, text in ipairs(c.overloads) do list[#list + 1] = M.read(text) end
  return list
end

local function shown(p)
  return p.name .. (p.optional and p.name ~= "..." and "?" or "") .. ": " .. p.type
end

--- A signature as the type of a function.
---@param signature mrt.reference.Signature
---@return string  "fun(a: T, b?: U): V"
function M.text(signature)
  local params, returns = {}, {}
  for i, p in ipairs(signature.params) do params[i] = shown(p) end
  for i, r in ipairs(signature.returns) do returns[i] = r.type end
  return ("fun(%s)%s"):format(table.concat(params, ", "),
    returns[1] and ": " .. table.concat(returns, ", ") or "")
end

return M
