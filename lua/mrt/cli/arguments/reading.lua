--- reading.lua -- the words of a command line, read by what was declared
---
--- SPDX-License-Identifier: MIT

local closest = require "mrt.util.closest"
local values = require "mrt.cli.arguments.values"

local reading = {}

-- What messages call an option or place.
local function name_of(one)
  return one.names[#one.names] or (one.words[#one.words]:gsub("[%[%]%.]", ""))
end

-- Where in the words we are, and what there is so far.
local Reading = {}
Reading.__index = Reading

function Reading:fail(text, ...)
  self.problem = self.problem or text:format(...)
  return false
end

-- The next word, if it can be a value.
function Reading:value()
  local word = self.words[self.at]
  if not word or self.parser.by_name[word] or word:find "^%-%-." then return nil end
  self.at = self.at + 1
  return word
end

-- One word as a value of `one`.
function Reading:convert(one, word)
  local what = name_of(one)
  if word == "" then return self:fail("%s wants a value", what) end
  local value, problem = values.read(one, word)
  if value == nil then return self:fail("%s: %s", what, problem) end
  return true, value
end

-- "2 GiB" without quotes comes as two words.
function Reading:join_unit(list)
  local unit = self.words[self.at] or ""
  if list[1] and list[1]:find "^[%d.]+$" and unit:find "^[kKMGT]i?B$" then
    list[1], self.at = list[1] .. unit, self.at + 1
  end
end

-- The words of an option's value; false: they are not there.
function Reading:words_of(one, joined)
  local list = { joined }
  local wanted = one.several and math.huge or #one.words
  while #list < wanted do
    local word = self:value()
    if not word then break end
    list[#list + 1] = word
  end
  if one.kind == "bytes" then self:join_unit(list) end
  if #list > 0 and (one.several or #list == wanted) then return list end
  if wanted == 1 or one.several then return self:fail("%s wants a value", name_of(one)) end
  return self:fail("%s wants %d values", name_of(one), wanted)
end

function Reading:set(one, value)
  local o, field = self.result, one.field
  if not one.many then
    o[field] = value
  else
    self.begun = self.begun or {}
    if not self.begun[field] then o[field], self.begun[field] = {}, true end
    table.insert(o[field], value)
  end
  return true
end

function Reading:option(one, joined)
  if one.kind == "flag" then
    if joined then return self:fail("%s takes no value", name_of(one)) end
    return self:set(one, true)
  end
  local list = self:words_of(one, joined)
  if not list then return false end
  for i, word in ipairs(list) do
    local ok, value = self:convert(one, word)
    if not ok then return false end
    list[i] = value
  end
  local single = #one.words == 1 and not one.several
  if single then return self:set(one, list[1]) end
  return self:set(one, list)
end

-- A word that begins with a dash.
function Reading:dash(word)
  local by_name = self.parser.by_name
  local name, joined = word:match "^(%-%-[^=]+)=(.*)$"
  if not name and by_name[word] == nil and by_name[word:sub(1, 2)] and word:find "^%-[^-]" then
    name, joined = word:sub(1, 2), word:sub(3) -- -n3
  end
  name = name or word
  local one = by_name[name]
  if one then return self:option(one, joined) end
  local meant = closest(name, by_name)
  return self:fail("no option '%s'%s", name, meant and "; did you mean " .. meant .. "?" or "")
end

-- A word at its place.
function Reading:place(word)
  local one = self.parser.places[self.taken + 1]
  if not one then return self:fail("'%s' is one word too many", word) end
  local ok, value = self:convert(one, word)
  if not ok then return false end
  if not one.several then
    self.taken = self.taken + 1
    self.result[one.field] = value
  else
    local list = self.result[one.field] or {}
    self.result[one.field] = list
    list[#list + 1] = value
  end
  return true
end

-- The next word; false: there are no more that are ours.
function Reading:next()
  local word = self.words[self.at]
  local dashed = word and not self.ended and word:find "^%-." ~= nil
  if not word or self.parser.script and not dashed then return false end
  self.at = self.at + 1
  if dashed and word == "--" then
    self.ended = true
    return true
  end
  if dashed then return self:dash(word) end
  return self:place(word)
end

-- ---- what is missing -----------------------------------------------------------

function Reading:check_places()
  for _, one in ipairs(self.parser.places) do
    if self.result[one.field] == nil and not one.optional then
      return self:fail(one.what and "%s wanted: %s" or "%s wanted", name_of(one), one.what)
    end
  end
end

function Reading:check_options()
  local o = self.result
  for _, one in ipairs(self.parser.options) do
    if one.required and o[one.field] == nil then
      self:fail("%s %s wanted: %s", name_of(one), table.concat(one.words, " "), one.what)
    end
    if o[one.field] == nil then o[one.field] = values.default(one) end
  end
end

function Reading:check()
  local parser, o = self.parser, self.result
  if parser.script then
    o.rest = table.move(self.words, self.at, #self.words, 1, {})
    local alone = parser.alone and parser.alone(o)
    if #o.rest == 0 and not alone then self:fail("%s wanted", parser.script:match "^%S+") end
  end
  self:check_places()
  self:check_options()
  if not self.problem and parser.check then self.problem = parser.check(o) end
end

--- Read all words.
---@param parser mrt.Arguments
---@param words string[]
---@return table? options
---@return string? problem
function reading.all(parser, words)
  local self = setmetatable({ parser = parser, words = words, at = 1, taken = 0, result = {} },
    Reading)
  while self:next() do end -- luacheck: ignore
  if self.result.help then return self.result end
  if not self.problem then self:check() end
  if self.problem then return nil, self.problem end
  return self.result
end

return reading
