--- rows.lua -- rows of arrays that stay in their files
---
---     local images = assert(data.idx "train-images-idx3-ubyte.gz")
---     print(images:type(), #images)                -- u8[60000,28,28]  60000
---     local x = images:read{0, 5, 7}               -- u8[3,28,28]
---
--- Rows stay in the file until they are read, from the disk or from the
--- system's cache; what is packed is unpacked when it is opened.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"

---@class mrt.data.Rows
---@field dtype mrt.DType
---@field shape integer[]
local Rows = {}
Rows.__index = Rows

local rows = {}

function rows.is(value) return getmetatable(value) == Rows end

--- What a file gave, or an error: in a loop over mini-batches nobody looks at
--- messages, and a file that vanishes there is no everyday matter.
---@param tensor mrt.Tensor?
---@param message string?
---@param code string?
---@return mrt.Tensor
function rows.present(tensor, message, code)
  if not tensor then core.fail(code, "read", message) end
  return tensor
end

---@return integer
function Rows:__len() return self.shape[1] end

--- Return the shape, or one size of it, as of a tensor.
---
---     rows:size(1)
---
--- Raises: a dimension that rows do not have.
---@param dim? integer
function Rows:size(dim)
  if not dim then return table.move(self.shape, 1, #self.shape, 1, {}) end
  return self.shape[dim]
end

--- Return dtype and shape as text, as of tensors.
---
---     rows:type()
---@return string
function Rows:type()
  return ("%s[%s]"):format(self.dtype, table.concat(self.shape, ","))
end
Rows.__tostring = function(self) return "rows of " .. self:type() end

-- Which part row `index` is in, and where there.
local function find(self, index)
  if math.type(index) == "integer" and index >= 0 then
    for _, part in ipairs(self.parts) do
      if index < part.count then return part, index end
      index = index - part.count
    end
  end
  core.fail("value", "read", ("there is no row %s of %d"):format(tostring(index),
    self.shape[1]))
end

-- Rows by part: part -> {their places there}, {their places here}.
local function by_part(self, indices)
  local wanted = {}
  for i, index in ipairs(indices) do
    local part, place = find(self, index)
    local list = wanted[part] or { places = {}, at = {} }
    wanted[part] = list
    list.places[#list.places + 1] = place
    list.at[#list.at + 1] = i
  end
  return wanted
end

--- Read some rows, counted from 0, as a new tensor `[#indices, ...]`.
---
---     rows:read { 0, 5 }
---
--- Shapes: `[indices,...]`.
--- Raises: a row that there is not.
---@param indices integer[]
---@return mrt.Tensor? tensor
---@return string? message
---@return string? code
function Rows:read(indices)
  if #self.parts == 1 then
    return self.parts[1].source:rows(self.parts[1].array, indices)
  end
  local pieces = {}
  for part, list in pairs(by_part(self, indices)) do
    local t, message, code = part.source:rows(part.array, list.places)
    if not t then return nil, message, code end
    local bytes = t:bytes()
    local width = #bytes // #list.at
    for k, i in ipairs(list.at) do
      pieces[i] = bytes:sub((k - 1) * width + 1, k * width)
    end
  end
  local shape = self:size()
  shape[1] = #indices
  return mrt.from_bytes(table.concat(pieces), self.dtype, shape)
end

--- Begin to read rows in the background that `read` will be asked for with the
--- same indices; does not wait.
---@param indices integer[]
---@nodoc
function Rows:expect(indices)
  if #self.parts == 1 then
    return self.parts[1].source:expect(self.parts[1].array, indices)
  end
  for part, list in pairs(by_part(self, indices)) do
    part.source:expect(part.array, list.places)
  end
end

--- Read all rows.
---
---     rows:tensor()
---
--- Shapes: `[rows,...]`.
---@return mrt.Tensor? tensor
---@return string? message
---@return string? code
function Rows:tensor()
  local parts = {}
  for i, part in ipairs(self.parts) do
    local t, message, code = part.source:read(part.array)
    if not t then return nil, message, code end
    parts[i] = t
  end
  return #parts == 1 and parts[1] or mrt.cat(parts, 1)
end

local function same_rows(a, b)
  if a.dtype ~= b.dtype or #a.shape ~= #b.shape then return false end
  for d = 2, #a.shape do
    if a.shape[d] ~= b.shape[d] then return false end
  end
  return true
end

-- The i-th arrays of files, one behind the other.
local function join(files, i)
  local first = files[1]:get(i)
  local self = { parts = {}, dtype = first.dtype, shape = first.shape }
  local count = 0
  for k, source in ipairs(files) do
    local info = source:get(i)
    if not info.dtype or #info.shape == 0 then
      return nil, ("%s of type %s has no rows"):format(info.name, info.stored), "data"
    elseif not same_rows(first, info) then
      return nil, ("file %d: other rows than in file 1"):format(k), "data"
    end
    self.parts[k] = { source = source, array = i, count = info.shape[1] }
    count = count + info.shape[1]
  end
  self.shape[1] = count
  return setmetatable(self, Rows)
end

--- Open files of one format and return their arrays, each joined over the
--- files.
---@param who string
---@param paths string|string[]
---@param format string
---@return mrt.data.Rows? ...
function rows.open(who, paths, format)
  if type(paths) == "string" then paths = { paths } end
  if type(paths) ~= "table" or #paths == 0 then
    core.fail("value", who, "a path, or a list of them, wanted")
  end
  local files, arrays = {}, {}
  for i = 1, #paths do
    local path = paths[i]
    if type(path) ~= "string" then
      core.fail("value", who, ("path %d: a string wanted, got a %s"):format(i, type(path)))
    end
    local source, message, code = core.open_source(path, format)
    if not source then return nil, message, code end
    files[i] = source
  end
  for i = 1, files[1]:count() do
    local array, message, code = join(files, i)
    if not array then return nil, message, code end
    arrays[i] = array
  end
  return table.unpack(arrays)
end

return rows
