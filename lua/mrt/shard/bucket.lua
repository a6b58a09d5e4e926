--- bucket.lua -- parameters that travel together
---
---     | p1 ....| p2 ..| p3 ........|......|     size: a multiple of 256 * ranks
---     | piece 0      | piece 1     | ...        piece r is on rank r
---
--- Every parameter begins at a multiple of 256 elements, and so does every piece:
--- what is computed block by block (norms, state in 8 bits) has the same blocks
--- whoever has them.  What lies between is 0 and stays so.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

local op = core.op

---@class mrt.Bucket
---@field params mrt.Tensor[]
---@field stage integer        0 to 3
---@field ranks mrt.Communicator
---@field settings mrt.ShardOptions
---@field offsets integer[]    where each begins, in elements from 0
---@field size integer         elements of all pieces
---@field piece integer        elements of one
---@field serial integer       they are counted
---@field spread {piece: mrt.Tensor, variables: mrt.Tensor[], unit: integer?, fill: number?}[]
---  what lies in pieces: the parameters, state of optimizers
---@field variable mrt.Tensor? of stages from 1 on: this rank's piece
---@field begins (mrt.Tensor|false)[]? ditto, before the first step: what rank 0's
---  parameters begin as, on other ranks anything of their types; false: as they are
local Bucket = {}
Bucket.__index = Bucket

-- By variable in pieces: {piece, first, ranks}, this rank's variable and where the
-- numbers begin, counted over all ranks.
Bucket.places = setmetatable({}, { __mode = "k" })

-- By variable that is cut over ranks (mesh/tensor.lua): its piece, which may lie in a
-- bucket itself.
---@type table<mrt.Tensor, mrt.Piece>
Bucket.cuts = setmetatable({}, { __mode = "k" })

-- By such a piece, the variable.
---@type table<mrt.Tensor, mrt.Tensor>
Bucket.wholes = setmetatable({}, { __mode = "kv" })

-- Of these, by piece: those of experts' matrices, which ranks with other experts have not.
---@type table<mrt.Tensor, true>
Bucket.of_experts = setmetatable({}, { __mode = "k" })

-- While plans are made that nobody runs (shard/suppose.lua): the pieces so far.
---@type {piece: mrt.Tensor, variables: mrt.Tensor[], bucket: mrt.Bucket}[]?
Bucket.supposed = nil

-- By serial number: those whose parameters somebody still holds.
Bucket.live = setmetatable({}, { __mode = "v" })

Bucket.BLOCK = 256
local BLOCK <const> = Bucket.BLOCK

local serial = 0

local function round_up(n, k) return (n + k - 1) // k * k end

--- Lay parameters out one behind the other.
---@param params mrt.Tensor[]
---@param stage integer
---@param ranks mrt.Communicator
---@param settings mrt.ShardOptions
---@return mrt.Bucket
function Bucket.new(params, stage, ranks, settings)
  serial = serial + 1
  local self = setmetatable({ params = params, stage = stage, ranks = ranks,
    settings = settings, offsets = {}, size = 0, serial = serial, spread = {} }, Bucket)
  for i, p in ipairs(params) do
    self.offsets[i] = self.size
    self.size = self.size + round_up(p:numel(), BLOCK)
  end
  self.size = round_up(math.max(self.size, 1), BLOCK * ranks.size)
  self.piece = self.size // ranks.size
  Bucket.live[serial] = self
  return self
end

--- What it is called in reports.
---@param suffix? string
---@return string
function Bucket:name(suffix)
  local first = self.params[1]:get_name() or "parameters"
  local more = #self.params > 1 and (" and %d more"):format(#self.params - 1) or ""
  return first .. (suffix or "") .. more
end

local function full(count, value, dtype)
  return op.full { shape = { count }, value = value, dtype = dtype }
end

--- Elements from..to - 1 of a vector, counted from 0; there may be none.
---@param x mrt.Tensor
---@param from integer
---@param to integer
---@return mrt.Tensor
function Bucket.slice(x, from, to)
  return from < to and op.slice(x, 1, from + 1, to) or full(0, 0, x:get_dtype())
end

--- One value for each parameter as one vector of all pieces; nil counts as `fill`,
--- and so does what lies between.
---@param values table<integer, mrt.Tensor>
---@param dtype mrt.DType
---@param unit? integer  elements of a parameter that one of the values stands for
---@param fill? number   default 0
---@return mrt.Tensor
function Bucket:flatten(values, dtype, unit, fill)
  unit, fill = unit or 1, fill or 0
  local list, at = {}, 0
  local function pad(to)
    if to > at then list[#list + 1] = full(to - at, fill, dtype) end
    at = to
  end
  for i, offset in ipairs(self.offsets) do
    if values[i] then
      pad(offset // unit)
      list[#list + 1] = op.reshape(values[i], { values[i]:numel() })
      at = at + values[i]:numel()
    end
  end
  pad(self.size // unit)
  return #list == 1 and list[1] or op.cat(list, 1)
end

--- This rank's piece of a vector of all pieces.
---@param whole mrt.Tensor
---@return mrt.Tensor
function Bucket:own(whole)
  local n = whole:numel() // self.ranks.size
  return op.slice(whole, 1, self.ranks.rank * n + 1, (self.ranks.rank + 1) * n)
end

--- A parameter's share of a vector of all pieces, in its shape.
---@param whole mrt.Tensor
---@param i integer
---@return mrt.Tensor
function Bucket:view(whole, i)
  local p, first = self.params[i], self.offsets[i]
  return op.reshape(Bucket.slice(whole, first, first + p:numel()), p:get_shape())
end

--- All pieces, one behind the other, for whoever reads them.
---@param piece mrt.Tensor
---@param reshard_after_forward boolean?  they are gathered once more for the
---  backward pass
---@return mrt.Tensor
function Bucket:gather(piece, reshard_after_forward)
  return op.allgather(piece, { comm = self.ranks.number, lazy = true,
    reshard_after_forward = reshard_after_forward or false })
end

--- Put variables that are like the parameters, one for each, into pieces: they stay
--- what they are for who reads or assigns them.
---@param variables mrt.Tensor[]
---@param unit? integer  as of flatten
---@param fill? number
---@param suffix? string  of the name
---@return mrt.Tensor variable  this rank's piece
function Bucket:shard(variables, unit, fill, suffix)
  local begins, dtype = {}, variables[1]:get_dtype()
  for i, v in ipairs(variables) do begins[i] = core.begins(v) end
  local piece = core.variable(self:own(self:flatten(begins, dtype, unit, fill)),
    self:name(suffix))
  local put = Bucket.supposed and core.suppose_shard or core.shard
  local one = { piece = piece, variables = variables, unit = unit, fill = fill,
    bucket = self }
  table.insert(self.spread, one)
  if Bucket.supposed then table.insert(Bucket.supposed, one) end
  for i, v in ipairs(variables) do
    local first = self.offsets[i] // (unit or 1)
    put(v, piece, self.ranks.number, first, self.stage == 3)
    Bucket.places[v] = { piece = piece, first = first, ranks = self.ranks }
  end
  return piece
end

-- ---- weights in a narrow dtype, and what stays between steps ------------------

local function wide(x, like)
  return x:get_dtype() == like:get_dtype() and x or op.cast(x, like:get_dtype())
end

-- The weights as they are read: all of them, or of stage 3 this rank's piece.
local function narrowed(self, part_of)
  local dtype = self.settings.gather
  if self.stage > 0 then return op.cast(part_of(self.variable), dtype) end
  local values = {}
  for i, p in ipairs(self.params) do values[i] = op.cast(part_of(p), dtype) end
  return self:flatten(values, dtype)
end

local function newest_weights(self)
  local newest = narrowed(self, core.current)
  return (self.stage == 1 or self.stage == 2) and self:gather(newest) or newest
end

-- How often what the weights are narrowed from has been written.
local function written(self)
  if self.variable then return core.writes(self.variable) end
  local n = 0
  for _, p in ipairs(self.params) do n = n + core.writes(p) end
  return n
end

--- Make the variables that stay: weights in the dtype in which they are read, and
--- gradients, whole or in pieces as the stage has them.
function Bucket:retain()
  local o = self.settings
  local first = narrowed(self, function(x) return x end)
  if self.stage == 1 or self.stage == 2 then first = self:gather(first) end
  self.weights = core.variable(first, self:name ".narrow")
  self.seen = written(self)
  self.gradient = core.variable(full(self.stage < 2 and self.size or self.piece, 0,
    o.reduce or self.params[1]:get_dtype()), self:name ".gradient")
end

-- How often the pieces have been written, `all`, and each parameter, which counts
-- these too.
local function writes_of(self)
  local out = { all = core.writes(self.variable) }
  for i, p in ipairs(self.params) do out[i] = core.writes(p) end
  return out
end

-- Parameters that have been assigned since do not begin as rank 0's.  Returns whether
-- nothing else has been written.
local function leave_assigned(self)
  local now, sum = writes_of(self), 0
  local all = now.all - self.born.all
  for i in ipairs(self.params) do
    local own = now[i] - self.born[i] - all
    if own > 0 then self.begins[i] = false end
    sum = sum + own
  end
  return sum == all
end

--- Put the parameters into pieces, which begin as those of rank 0 (broadcast).
function Bucket:shard_params()
  local begins = {}
  for i, p in ipairs(self.params) do
    begins[i] = self.ranks.rank == 0 and op.reshape(core.begins(p), p:get_shape())
      or op.full { shape = p:get_shape(), value = 0, dtype = p:get_dtype() }
  end
  self.variable = self:shard(self.params)
  self.begins, self.born = begins, writes_of(self)
end

-- The value of the first of those ranks that have the same pieces.
local function among_replicas(self, x)
  local comm = self.settings.replicas
  return comm and op.broadcast(x, { comm = comm.number, root = 0 }) or x
end

--- Have the parameters begin as those of rank 0: one by one, in their places, so that
--- no rank needs more than one of them whole.  Not those in pieces that have been
--- written meanwhile.
function Bucket:broadcast()
  local begins = self.begins or self.stage == 0 and self.params
  if not begins then return end
  local untouched = not self.begins or leave_assigned(self)
  self.begins = nil
  if not untouched then return end
  local o = { comm = self.ranks.number, root = 0 }
  for i, p in ipairs(self.params) do
    if begins[i] then
      local value = op.broadcast(among_replicas(self, begins[i]), o)
      core.assign(p, value)
      value:free()
      if self.stage > 0 then begins[i]:free() end
    end
  end
end

--- A parameter in pieces has been written by all ranks, though not assigned: it does
--- not begin as rank 0's.
---@param p mrt.Tensor
function Bucket:wrote(p)
  if not self.begins then return end
  leave_assigned(self)
  for i, q in ipairs(self.params) do
    if q == p then self.begins[i] = false end
  end
  self.born = writes_of(self)
end

--- Before a step: retained weights are those of parameters that have been written by
--- others since the last one.
function Bucket:refresh()
  if written(self) ~= self.seen then
    local newest = newest_weights(self)
    core.assign(self.weights, newest)
    newest:free()
  end
  self.seen = nil
end

--- A step has run to its end, and kept the weights.
function Bucket:refreshed() self.seen = written(self) end

--- In a trace: parameters read as what is gathered in a narrow dtype, on which their
--- gradient depends and not on themselves.
---@return mrt.Tensor[] readings
function Bucket:read_narrow()
  local whole, readings = self.weights, {}
  if not whole and self.stage == 0 then
    for i, p in ipairs(self.params) do
      readings[i] = wide(op.cast(op.detach(p), self.settings.gather), p)
      core.trace_read(p, readings[i])
    end
    return readings
  end
  whole = whole or narrowed(self, function(x) return x end)
  if self.stage == 3 or not self.weights then
    whole = self:gather(whole, self.stage == 3)
  end
  for i, p in ipairs(self.params) do
    readings[i] = wide(self:view(whole, i), p)
    core.trace_read(p, readings[i])
  end
  return readings
end

--- Whether gradients of micro-batches are reduced before they are added up.
---@return boolean
function Bucket:reduces_each() return self.settings.reduce_each == "micro-batch" end

--- Whether all micro-batches of a step read weights that are gathered before them.
---@return boolean
function Bucket:gathers_once()
  return (self.stage == 1 or self.stage == 2) and not self.weights
end

--- In a trace of micro-batches: parameters read as a variable, which they share and
--- which has been gathered before.
---@param parts table  of accumulate.trace
---@return mrt.Tensor[] readings
function Bucket:read_once(parts)
  local dtype, readings = self.settings.gather or self.params[1]:get_dtype(), {}
  self.gathered = self.gathered or setmetatable({}, { __mode = "v" }) -- entries keep it
  local whole = self.gathered[dtype]
  if not whole then
    whole = core.variable(full(self.size, 0, dtype), self:name ".gathered")
    self.gathered[dtype] = whole
  end
  parts.first[whole] = function()
    core.assign(whole, self:gather(wide(core.current(self.variable), whole)))
  end
  for i, p in ipairs(self.params) do
    readings[i] = wide(self:view(whole, i), p)
    core.trace_read(p, readings[i])
  end
  return readings
end

--- In a trace: what parameters read as, where that is not themselves.
---@param parts table?  of accumulate.trace: there is something to gather for all of them
---@return mrt.Tensor[]? readings
function Bucket:read_otherwise(parts)
  if parts and self:gathers_once() then return self:read_once(parts) end
  return self.settings.gather and self:read_narrow() or nil
end

--- In a trace: what is retained of the weights is that of the newest ones.
function Bucket:keep_weights() core.assign(self.weights, newest_weights(self)) end

--- In a trace: a gradient, by way of the variable that retains it.
---@param g mrt.Tensor
---@return mrt.Tensor
function Bucket:keep_gradient(g)
  if not self.gradient then return g end
  core.assign(self.gradient, wide(g, self.gradient))
  return wide(core.current(self.gradient), g)
end

return Bucket
