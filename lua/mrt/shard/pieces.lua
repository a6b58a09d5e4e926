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
-- where they are equal.  Of one that is cut, elements of its piece.
local function held(v)
  v = Bucket.cuts[v] and Bucket.cuts[v].own or v
  local place = Bucket.places[v]
  if not place then return 0, v:numel(), { piece = v }, 0 end
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
    if Bucket.places[v] or Bucket.cuts[v] then parts[name] = v else whole[name] = v end
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
    local cut = Bucket.cuts[v]
    about[name] = { from = from, to = to, shape = v:get_shape(), dtype = v:get_dtype(),
      cut = cut and { outer = cut.outer, rank = cut.comm.rank, size = cut.comm.size } }
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

-- Is a variable of so many elements cut so?
local function is_cut(cut, all)
  return type(cut) == "table" and is_count(cut.outer) and is_count(cut.rank)
    and is_count(cut.size) and cut.rank < cut.size and cut.outer > 0 and all > 0
    and cut.outer <= all and cut.size <= all // cut.outer and all % (cut.outer * cut.size) == 0
end

-- The elements that its file counts: of a variable that is cut, those of one piece.
local function elements_of(own)
  local all = type(own) == "table" and count_of(own.shape)
  if not all or own.cut == nil then return all end
  return is_cut(own.cut, all) and all // own.cut.size or nil
end

-- Does the file hold what it says of a variable?
local function is_held(f, name, own)
  local all = elements_of(own)
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
-- `piece`: of that piece of a variable that is cut.
local function runs_of(self, name, from, to, piece)
  local runs, at, order = {}, from, {}
  for i, about in ipairs(self.about) do
    local own = about[name]
    if own and (not own.cut or own.cut.rank == piece) then order[#order + 1] = i end
  end
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
---@param piece integer?  of that piece of a variable that is cut, from 0
---@return mrt.Tensor
function Pieces:read(name, from, to, piece)
  local list = {}
  local runs, at = runs_of(self, name, from, to, piece)
  if at < to then core.fail("data", "load", missing(self, name, at)) end
  for i, run in ipairs(runs) do list[i] = read(run, name) end
  if #list == 0 then
    return op.full { shape = { 0 }, value = 0, dtype = self:list()[name].dtype }
  end
  return #list == 1 and list[1] or op.cat(list, 1)
end

-- What is to be read of a variable: {from, to, piece}, one or, where all pieces of one
-- that is cut are, several.
local function wanted(self, name, v)
  local own = self:list()[name]
  if own.cut then
    local list = {}
    for r = 1, own.cut.size do list[r] = { 0, elements_of(own), r - 1 } end
    return list
  elseif v and Bucket.places[v] then
    local from, to = held(v)
    return { { from, to } }
  end
  return { { 0, elements_of(own) } }
end

-- Look whether a variable is there, and as it was written.
local function verify(self, name, v)
  for _, part in ipairs(wanted(self, name, v)) do
    local runs, at = runs_of(self, name, table.unpack(part))
    if at < part[2] and same_shape(self:list()[name].shape, v and v:get_shape() or {}) then
      return nil, self.files[1].path .. ": " .. missing(self, name, at)
    end
    for _, run in ipairs(runs) do
      local done, message = run.file:verify(name)
      if not done then return nil, message end
    end
  end
  return true
end

--- Compare what will be read of variables with its checksums, and look whether it is
--- all there.
---@param variables table<string, mrt.Tensor>
---@return true?
---@return string? message
function Pieces:verify(variables)
  for name in pairs(self:list()) do
    local done, message = verify(self, name, variables[name])
    if not done then return nil, message end
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
  local cut, list = self:list()[name].cut, {}
  if not cut then return op.reshape(self:read(name, 0, v:numel()), v:get_shape()) end
  local n, outer = cut.size, cut.outer
  for r = 1, n do list[r] = self:read(name, 0, v:numel() // n, r - 1) end
  local all = op.reshape(op.cat(list, 1), { n, outer, v:numel() // (n * outer) })
  return op.reshape(op.permute(all, { 2, 1, 3 }), v:get_shape())
end

-- Variables that are cut, here or in the files, by way of all of each, one at a time;
-- returns the others.
local function load_cuts(self, parts, whole)
  local others = {}
  for name, v in pairs(parts) do
    local stored = self:list()[name]
    if Bucket.cuts[v] or stored and stored.cut and not whole[name] then
      local value = whole[name] or self:whole(name, v)
      core.assign(v, value)
      value:free()
    else
      others[name] = v
    end
  end
  return others
end

--- Set what this rank holds of variables in pieces.
---@param parts table<string, mrt.Tensor>
---@param whole table<string, mrt.Tensor>  of those that no file has in pieces
function Pieces:load(parts, whole)
  local by_piece, order = {}, {}
  for name, v in pairs(load_cuts(self, parts, whole)) do
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
