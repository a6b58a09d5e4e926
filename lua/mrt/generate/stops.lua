--- stops.lua -- end a text before one of some strings, which may come in pieces
---
--- SPDX-License-Identifier: MIT

---@class mrt.generate.Stops
---@field list string[]
---@field held string   what may be the beginning of one
local Stops = {}
Stops.__index = Stops

---@param list string[]
---@return mrt.generate.Stops
function Stops.new(list) return setmetatable({ list = list, held = "" }, Stops) end

-- Where the first of them begins.
local function first_of(text, list)
  local first
  for _, stop in ipairs(list) do
    local at = text:find(stop, 1, true)
    if at and (not first or at < first) then first = at end
  end
  return first
end

-- How many of the last bytes may be the beginning of one.
local function begun(text, list)
  local most = 0
  for _, stop in ipairs(list) do
    for n = math.min(#stop - 1, #text), most + 1, -1 do
      if text:sub(-n) == stop:sub(1, n) then
        most = n
        break
      end
    end
  end
  return most
end

--- Add text: what of it is certain, and whether a stop has come.
---@param text string
---@return string certain
---@return boolean stopped
function Stops:push(text)
  text = self.held .. text
  local first = first_of(text, self.list)
  if first then
    self.held = ""
    return text:sub(1, first - 1), true
  end
  local n = begun(text, self.list)
  self.held = text:sub(#text - n + 1)
  return text:sub(1, #text - n), false
end

--- What was held back: no more comes.
---@return string
function Stops:finish()
  local text = self.held
  self.held = ""
  return text
end

return Stops
