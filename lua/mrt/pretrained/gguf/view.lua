--- view.lua -- a GGUF file under the names and in the shapes of transformers
---
--- Experts, which are one tensor in GGUF, are read one by one.
---
--- SPDX-License-Identifier: MIT

local change = require "mrt.pretrained.gguf.change"
local names = require "mrt.pretrained.gguf.names"
local rope = require "mrt.pretrained.gguf.rope"

---@class mrt.pretrained.gguf.View  has what an mrt.File has
---@field names string[]
local View = {}
View.__index = View

function View:info(name) return self.infos[name] end

function View:read(name)
  local at = self.places[name]
  local x, message, code
  if at.expert then
    x, message, code = self.file.source:rows(at.index, { at.expert })
    if x then x = x:reshape(self.infos[name].shape) end
  else
    x, message, code = self.file:read(at.name)
  end
  if not x then return nil, message, code end
  return change.from(x, at.entry, self.row, self.sizes)
end

local kinds = { Q4_0 = "q4_0", Q8_0 = "q8_0" }

--- The kind of codes that a tensor is kept in, of those that a model can keep; nil: another, or
--- its numbers have to be moved within their rows.
---@param name string
---@return string? kind
function View:kind_of(name)
  local at, info = self.places[name], self.infos[name]
  if at.expert or at.entry.turn or #info.shape ~= 2 then return nil end
  return kinds[info.stored]
end

--- Codes and scales of a tensor, as nn.QuantizedLinear has them: u8, f16.
---@param name string  one that has a kind
---@return mrt.Tensor? codes
---@return mrt.Tensor|string scales_or_message
---@return string? code
function View:codes(name)
  local at = self.places[name]
  local codes, scales, code = self.file.source:codes(at.index)
  if not codes then return nil, scales, code end
  return change.from(codes, at.entry, self.row, self.sizes),
    change.from(scales, at.entry, self.row, self.sizes)
end

function View:close() self.file:close() end
View.__close = View.close

local function add(self, name, info, at)
  self.names[#self.names + 1] = name
  self.places[name] = at
  self.infos[name] = info
end

local function add_experts(self, theirs, info, at, index)
  for e = 0, info.shape[1] - 1 do
    local shape = { table.unpack(info.shape, 2) }
    add(self, (theirs:gsub("%*", e)),
      { name = theirs, dtype = info.dtype, stored = info.stored, shape = shape },
      { name = at.name, entry = at.entry, expert = e, index = index })
  end
end

--- Look at a file so.
---@param file mrt.File
---@param row table    of archs.lua
---@param sizes {heads: integer, kv_heads: integer}
---@return mrt.pretrained.gguf.View
return function(file, row, sizes)
  local self = setmetatable({ file = file, row = row, sizes = sizes, names = {}, infos = {},
    places = {} }, View)
  for i, name in ipairs(file.names) do
    local info = file:info(name)
    local theirs, entry = names.from(row.names, name)
    if theirs and theirs:find("*", 1, true) and #info.shape == 3 then
      add_experts(self, theirs, info, { name = name, entry = entry }, i)
    elseif theirs then
      local shape = change.shape(entry, info.shape)
      add(self, theirs, { name = theirs, dtype = info.dtype, stored = info.stored, shape = shape },
        { name = name, entry = entry, index = i })
    elseif not rope.tensors[name] then
      add(self, name, info, { name = name, entry = {}, index = i })
    end
  end
  return self
end
