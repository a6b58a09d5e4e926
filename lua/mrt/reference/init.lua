--- mrt.reference -- what is written about every public name, found by name or by value
---
--- The comments of the library's files and the rows of its operators are the reference:
--- `?name` at the prompt, `mrt help NAME`, the manual, the man page and the types for
--- editors all come from here.  Files are read when somebody first asks, in about a
--- fifth of a second.
---
--- SPDX-License-Identifier: MIT

local names = require "mrt.reference.names"
local shape = require "mrt.reference.shape"
local text = require "mrt.reference.text"

local reference = {}

local index

--- The index of all names.
---@return mrt.reference.Index
function reference.index()
  index = index or names.read()
  return index
end

-- Where a name is looked for, in this order: as it is, and below these.
local homes = { "", "mrt.", "Tensor:", "mrt.nn.", "mrt.optim.", "mrt.policy.",
  "mrt.policy.checkpoint.", "mrt.data.", "mrt.train.", "mrt.plan.", "mrt.text." }

-- Entries whose last part is `name`.
local function called(name)
  local list = {}
  for _, entry in ipairs(reference.index().entries) do
    if entry.name:match "[%w_]+$" == name then list[#list + 1] = entry end
  end
  return list
end

local function by_name(topic)
  local known = reference.index().by_name
  local bare = topic:gsub("%(.*$", ""):gsub("^%s+", ""):gsub("%s+$", "")
  local colon = bare:gsub("%.([%w_]+)$", ":%1") -- Module.load_state
  for _, home in ipairs(homes) do
    local found = known[home .. bare] or known[home .. colon]
    if found then return found end
  end
  -- x:sum and model:parameters: what stands before the colon is anyone's.
  local owner, method = bare:match "^(.-):([%w_]+)$"
  if not method then return nil end
  if known["Tensor:" .. method] and #owner < 3 then return known["Tensor:" .. method] end
  for _, entry in ipairs(called(method)) do
    if entry.kind == "method" then return entry end
  end
end

-- A value, or the class that it is an object of.
local function by_value(value)
  local known = reference.index().by_value
  if known[value] then return known[value] end
  local meta = debug.getmetatable(value)
  if type(meta) ~= "table" then return nil end
  if meta.__metatable == "mrt.Tensor" or meta.__name == "mrt.Tensor" then
    return reference.index().by_name.Tensor
  end
  local class = rawget(meta, "__index")
  return type(class) == "table" and known[class] or known[meta]
end

--- Find the entry of this very name, which may lack "mrt.".
---@param name string
---@return mrt.reference.Entry?
function reference.exact(name)
  local known = reference.index().by_name
  return known[name] or known["mrt." .. name]
end

--- Find an entry.
---@param topic any  a name ("mrt.nn.Linear", "nn.Linear", "Linear", "x:sum") or a value
---@return mrt.reference.Entry?
function reference.find(topic)
  if type(topic) ~= "string" then return topic ~= nil and by_value(topic) or nil end
  local found = by_name(topic)
  if found then return found end
  local list = called(topic:match "[%w_]+$" or "")
  return #list == 1 and list[1] or nil
end

-- How well an entry answers a word: by its name, its first sentence, its text.
local function score_of(entry, word, name, body)
  if name:match "[%w_]+$" == word then return 8 end
  if name:find(word, 1, true) then return 4 end
  if shape.summary(entry):lower():find(word, 1, true) then return 2 end
  return body:find(word, 1, true) and 1
end

-- The sum over words; nil where one of them is not there.
local function score(entry, wanted)
  local name, total = entry.name:lower(), 0
  local body = entry.comment and table.concat(entry.comment.text, " "):lower() or ""
  for _, word in ipairs(wanted) do
    local here = score_of(entry, word, name, body)
    if not here then return nil end
    total = total + here
  end
  return total
end

--- Search names and texts for words, all of which must be there.
---@param words string
---@return mrt.reference.Entry[]  those first whose names have them
function reference.search(words)
  local wanted, list, scores, places = {}, {}, {}, {}
  for word in words:lower():gmatch "%S+" do wanted[#wanted + 1] = word end
  for i, entry in ipairs(reference.index().entries) do
    local found = wanted[1] and score(entry, wanted)
    if found then
      list[#list + 1] = entry
      scores[entry], places[entry] = found, i
    end
  end
  table.sort(list, function(a, b)
    if scores[a] ~= scores[b] then return scores[a] > scores[b] end
    return places[a] < places[b]
  end)
  return list
end

--- What is written about a topic.
---@param topic any
---@param width? integer  of the terminal; default 80
---@return string?
function reference.describe(topic, width)
  local entry = reference.find(topic)
  if entry then return text.entry(reference.index(), entry, width) end
  if type(topic) ~= "string" then return nil end
  local list = called(topic:match "[%w_]+$" or "")
  return list[1] and text.list(list, width) or nil
end

--- Names and texts that have these words, a line each.
---@param words string
---@param width? integer
---@return string?
function reference.apropos(words, width)
  local list = reference.search(words)
  if not list[1] then return nil end
  local shown = table.move(list, 1, math.min(#list, 20), 1, {})
  local out = text.list(shown, width)
  if #list > #shown then out = out .. ("\n  and %d more"):format(#list - #shown) end
  return out
end

return reference
