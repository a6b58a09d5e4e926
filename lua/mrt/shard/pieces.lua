--- pieces.lua -- variables in pieces, in files: one for each rank
---
--- A rank writes what it holds of every variable as a vector, and in the metadata
--- where that begins.  Any number of ranks reads what it needs of them, so a run can
--- go on with more ranks or fewer, and no rank needs the memory for all.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local Bucket = require "mrt.shard.bucket"
local dkjson = require "dkjson"
local file = require "mrt.io.file"
local shard = require "mrt.shard"

local op = core.op

local pieces = {}

-- Elements from..to - 1 of variable `v` that this rank holds, counted from 0; none
-- where they are equal.
local function held(v)
  local place = Bucket.places[v]
  local n = place.piece:numel()
  local begin, all = place.ranks.rank * n - place.first, v:numel()
  local function within(x) return math.min(math.max(x, 0), all) end
  return within(begin), within(begin + n), place, begin
end

--- Part variables: those that are whole here, and those in pieces.
---@param variables table<string, mrt.Tensor>
---@return table<string, mrt.Tensor> whole
---@return table<string, mrt.Tensor>? parts  nil: there are none
function pieces.split(variables)
  local whole, parts = {}, {}
  for name, v in pairs(variables) do
    if Bucket.places[v] then parts[name] = v else whole[name] = v end
  end
  return whole, next(parts) and parts or nil
end

--- Write what this rank holds.
---@param path string
---@param parts table<string, mrt.Tensor>
---@param token string  of this snapshot, the same in all its files
---@return true? done
---@return string? message
function pieces.save(path, parts, token)
  local tensors, about = {}, {}
  for name, v in pairs(parts) do
    local from, to, place, begin = held(v)
    if from < to then
      tensors[name] = op.slice(place.piece, 1, from - begin + 1, to - begin)
    end
    about[name] = { from = from, to = to, shape = v:get_shape(), dtype = v:get_dtype() }
  end
  return file.save(path, tensors, { ["mrt.pieces"] = dkjson.encode(about),
    token = token })
end

---@class mrt.Pieces
---@field files mrt.File[]
---@field about table<string, table>[]  of each file
local Pieces = {}
Pieces.__index = Pieces

function Pieces:close() for _, f in ipairs(self.files) do f:close() end end
Pieces.__close = Pieces.close

--- Open the files of all ranks.
---@param paths string[]
---@param token string?  of the snapshot
---@return mrt.Pieces?
---@return string? message
function pieces.open(paths, token)
  local self = setmetatable({ files = {}, about = {} }, Pieces)
  for i, path in ipairs(paths) do
    local f, message = file.open(path)
    local about = f and dkjson.decode(f.metadata["mrt.pieces"] or "")
    self.files[i], self.about[i] = f, about
    if type(about) ~= "table" or f.metadata.token ~= token then
      self:close()
      return nil, message or path .. ": no pieces of variables, or of another snapshot"
    end
  end
  return self
end

--- Names, with the shape and dtype of each.
---@return table<string, {shape: integer[], dtype: mrt.DType}>
function Pieces:list() return self.about[1] or {} end

-- Elements from..to - 1 of an array.
local function read(f, name, from, to)
  local i = f.index[name]
  local x, message = f.source:rows(i, { from }, to - from)
  if not x then core.fail("data", "load", message) end
  return op.reshape(x, { to - from })
end

--- Elements from..to - 1 of a variable, counted from 0, as a vector.
---
--- Raises: data: the files do not have them all.
---@param name string
---@param from integer
---@param to integer
---@return mrt.Tensor
function Pieces:read(name, from, to)
  local list, at, order = {}, from, {}
  for i, about in ipairs(self.about) do if about[name] then order[#order + 1] = i end end
  table.sort(order, function(a, b)
    return self.about[a][name].from < self.about[b][name].from
  end)
  for _, i in ipairs(order) do
    local f, own = self.files[i], self.about[i][name]
    local last = math.min(own.to, to)
    if own.from <= at and at < last then
      list[#list + 1] = read(f, name, at - own.from, last - own.from)
      at = last
    end
  end
  if at < to then
    core.fail("data", "load", ("'%s': element %d is in none of %d files")
      :format(name, at, #self.files))
  end
  if #list == 0 then
    return op.full { shape = { 0 }, value = 0, dtype = self:list()[name].dtype }
  end
  return #list == 1 and list[1] or op.cat(list, 1)
end

local function same_shape(a, b)
  if #a ~= #b then return false end
  for i, n in ipairs(a) do if n ~= b[i] then return false end end
  return true
end

--- Raise unless a variable is what the files have under its name.
---@param name string
---@param v mrt.Tensor
function Pieces:check(name, v)
  local own = self:list()[name]
  if not own then core.fail("value", "load", ("'%s' is missing"):format(name)) end
  if own.dtype ~= v:get_dtype() or not same_shape(own.shape, v:get_shape()) then
    core.fail("shape", "load", ("'%s' is %s[%s], wanted %s"):format(name, own.dtype,
      table.concat(own.shape, ","), v:type()))
  end
end

--- A variable's numbers, whole.
---@param name string
---@param v mrt.Tensor
---@return mrt.Tensor
function Pieces:whole(name, v)
  return op.reshape(self:read(name, 0, v:numel()), v:get_shape())
end

--- Set what this rank holds of variables in pieces.
---@param parts table<string, mrt.Tensor>
---@param whole table<string, mrt.Tensor>  of those that no file has in pieces
function Pieces:load(parts, whole)
  local by_piece, order = {}, {}
  for name, v in pairs(parts) do
    local piece = Bucket.places[v].piece
    if not by_piece[piece] then by_piece[piece], order[#order + 1] = {}, piece end
    table.insert(by_piece[piece], { name, v })
  end
  for _, piece in ipairs(order) do
    local list, at, made = by_piece[piece], 0, {}
    table.sort(list, function(a, b)
      return Bucket.places[a[2]].first < Bucket.places[b[2]].first
    end)
    local n = piece:numel()
    local function keep(to) -- what lies between
      if to > at then made[#made + 1] = op.slice(piece, 1, at + 1, to) end
      at = to
    end
    for _, entry in ipairs(list) do
      local name, v = entry[1], entry[2]
      local from, to, _, begin = held(v)
      if from < to then
        keep(from - begin)
        made[#made + 1] = whole[name]
          and op.slice(op.reshape(whole[name], { v:numel() }), 1, from + 1, to)
          or self:read(name, from, to)
        at = to - begin
      end
    end
    keep(n)
    core.assign(piece, #made == 1 and made[1] or op.cat(made, 1))
  end
  local list = {}
  for _, v in pairs(parts) do list[#list + 1] = v end
  shard.wrote(list)
end

return pieces
