--- pieces.lua -- variables in pieces, in files: one for each rank
---
--- A rank writes what it holds of every variable as a vector, and in the metadata
--- where that begins.  Any number of ranks reads what it needs of them, so a run can
--- go on with more ranks or fewer, and no rank needs the memory for all.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local Bucket = require "mrt.shard.bucket"
local file = require "mrt.io.file"
local json = require "mrt.util.json"
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
  return file.save(path, tensors, { ["mrt.pieces"] = json.encode(about),
    token = token })
end

---@class mrt.Pieces
---@field files mrt.File[]
---@field about table<string, table>[]  of each file
local Pieces = {}
Pieces.__index = Pieces

function Pieces:close() for _, f in ipairs(self.files) do f:close() end end
Pieces.__close = Pieces.close

local dtypes = core.dtypes()

local function is_count(x) return math.type(x) == "integer" and x >= 0 end

-- The elements of a shape; nil: it is none.
local function count_of(shape)
  if type(shape) ~= "table" then return nil end
  local n = 1
  for i = 1, #shape do
    if not is_count(shape[i]) or n > 0 and shape[i] > math.maxinteger // n then return nil end
    n = n * shape[i]
  end
  return n
end

-- Does the file hold what it says of a variable?
local function is_held(f, name, own)
  local all = type(own) == "table" and count_of(own.shape)
  if not all or not dtypes[own.dtype] or not is_count(own.from) or not is_count(own.to)
    or own.from > own.to or own.to > all then
    return false
  end
  local info = f:info(name)
  if own.from == own.to then return true end
  return info ~= nil and info.dtype == own.dtype and #info.shape == 1
    and info.shape[1] == own.to - own.from
end

-- What a file says of variables; nil: nothing that holds.
local function read_about(f)
  local about = json.decode(f.metadata["mrt.pieces"] or "")
  if type(about) ~= "table" then return nil end
  for name, own in pairs(about) do
    if not is_held(f, name, own) then return nil end
  end
  return about
end

--- Open the files of all ranks.
---@param paths string[]
---@param token string?  of the snapshot
---@param summed boolean  they have checksums
---@return mrt.Pieces?
---@return string? message
function pieces.open(paths, token, summed)
  local self = setmetatable({ files = {}, about = {} }, Pieces)
  for i, path in ipairs(paths) do
    local f, message = file.open(path)
    local about = f and read_about(f)
    self.files[i], self.about[i] = f, about
    if not about or f.metadata.token ~= token or summed and not f.metadata["mrt.crc32"] then
      self:close()
      return nil, message or path .. ": no pieces of variables, or of another snapshot"
    end
  end
  return self
end

--- Names, with the shape and dtype of each.
---@return table<string, {shape: integer[], dtype: mrt.DType}>
function Pieces:list() return self.about[1] or {} end

local function same_shape(a, b)
  if #a ~= #b then return false end
  for i, n in ipairs(a) do if n ~= b[i] then return false end end
  return true
end

-- The runs that elements from..to - 1 are in, {file, first, count}; where they end.
local function runs_of(self, name, from, to)
  local runs, at, order = {}, from, {}
  for i, about in ipairs(self.about) do if about[name] then order[#order + 1] = i end end
  table.sort(order, function(a, b)
    return self.about[a][name].from < self.about[b][name].from
  end)
  for _, i in ipairs(order) do
    local own = self.about[i][name]
    local last = math.min(own.to, to)
    if own.from <= at and at < last then
      runs[#runs + 1] = { file = self.files[i], first = at - own.from, count = last - at }
      at = last
    end
  end
  return runs, at
end

-- The elements of a run, as a vector.
local function read(run, name)
  local f = run.file
  local x, message = f.source:rows(f.index[name], { run.first }, run.count)
  if not x then core.fail("data", "load", message) end
  return op.reshape(x, { run.count })
end

local function missing(self, name, at)
  return ("'%s': element %d is in none of %d files"):format(name, at, #self.files)
end

--- Elements from..to - 1 of a variable, counted from 0, as a vector.
---
--- Raises: data: the files do not have them all.
---@param name string
---@param from integer
---@param to integer
---@return mrt.Tensor
function Pieces:read(name, from, to)
  local list = {}
  local runs, at = runs_of(self, name, from, to)
  if at < to then core.fail("data", "load", missing(self, name, at)) end
  for i, run in ipairs(runs) do list[i] = read(run, name) end
  if #list == 0 then
    return op.full { shape = { 0 }, value = 0, dtype = self:list()[name].dtype }
  end
  return #list == 1 and list[1] or op.cat(list, 1)
end

--- Compare what will be read of variables with its checksums, and look whether it is
--- all there.
---@param variables table<string, mrt.Tensor>
---@return true?
---@return string? message
function Pieces:verify(variables)
  for name in pairs(self:list()) do
    local v = variables[name]
    local from, to = 0, v and v:numel() or 0
    if v and Bucket.places[v] then from, to = held(v) end
    local runs, at = runs_of(self, name, from, to)
    if at < to and same_shape(self:list()[name].shape, v:get_shape()) then
      return nil, self.files[1].path .. ": " .. missing(self, name, at)
    end
    for _, run in ipairs(runs) do
      local done, message = run.file:verify(name)
      if not done then return nil, message end
    end
  end
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
