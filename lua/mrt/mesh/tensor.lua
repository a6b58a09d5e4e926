--- tensor.lua -- weights cut over ranks that compute each product together, and
--- experts' matrices over ranks with rows of their own
---
--- Which weights, and along which dimension, the core finds when their gradient is first
--- asked for (core/rewrite/partition_choose.c); they become variables whose elements lie
--- in pieces on the ranks, and the trace is made again.  The program stays what it is: a
--- pass of the planner computes by pieces what reads them (partition.c).
---
--- Two transforms.  The outer one hands optimizers the pieces; what lies between, data
--- parallel ranks and micro-batches, sees pieces as the parameters; the inner one asks
--- the core for gradients of the whole.
---
--- Shoeybi et al., Megatron-LM, 2019 (arXiv:1909.08053); Xu et al., GSPMD, 2021
--- (arXiv:2105.04663).
---
--- SPDX-License-Identifier: MIT

local Bucket = require "mrt.shard.bucket"
local core = require "mrt.core"
local group = require "mrt.shard.group"
local owners = require "mrt.optim.owners"
local param_dtype = require "mrt.compile.param_dtype"
local retrace = require "mrt.compile.retrace"

local op = core.op

local tensor = {}

local BLOCK <const> = 256 -- elements that random bits are drawn for at once

local weak = { __mode = "k" }

---@class mrt.Piece
---@field whole mrt.Tensor  the parameter
---@field own mrt.Tensor    this rank's piece, a vector
---@field outer integer     elements before the pieces
---@field comm mrt.Communicator
---@field number integer    in the order in which pieces were made, the same on all ranks
---@field experts boolean?  of ranks with rows of their own

local piece_of = setmetatable({}, weak) -- by parameter
local whole_of = setmetatable({}, weak) -- by piece: the same
local made = 0                          -- pieces, so far
local behind = setmetatable({}, weak)   -- by gradient: {piece, own}

-- ---- pieces -------------------------------------------------------------------

-- What this rank has of a whole value, as a vector.
local function own(piece, x)
  local part = op.own_piece(x, { outer = piece.outer, rank = piece.comm.rank,
    size = piece.comm.size, comm = piece.comm.number })
  return op.reshape(part, { part:numel() })
end

-- All of it, in the shape of the parameter, for whoever reads it.
local function whole(piece, x)
  local n, outer = piece.comm.size, piece.outer
  local all = op.allgather(x, { comm = piece.comm.number, lazy = true })
  all = op.reshape(all, { n, outer, all:numel() // (n * outer) })
  return op.reshape(op.permute(all, { 2, 1, 3 }), piece.whole:get_shape())
end

-- What a variable begins as: what it does on rank 0.
local function begins(v, comm, foreign)
  local x = op.reshape(core.begins(v), v:get_shape())
  if foreign or comm.transport == "self" then return x end -- nobody computes it, or is there
  return op.broadcast(x, { comm = comm.number, root = 0 })
end

-- Make the elements of a variable those of pieces.
local function cut(v, outer, comm, name, foreign, experts)
  made = made + 1
  local piece = { whole = v, outer = outer, comm = comm, number = made, experts = experts }
  piece.own = core.variable(own(piece, begins(v, comm, foreign)), name)
  -- It begins now: else all of `v`, which it is made of, stays until the first step.
  if not foreign and comm.transport ~= "self" then core.eval { piece.own } end
  core.cut(v, piece.own, comm.number, outer, experts or false)
  Bucket.cuts[v], Bucket.wholes[piece.own] = piece, v
  return piece
end

-- ---- which ---------------------------------------------------------------------

local function along(p, dim, n)
  if math.type(dim) ~= "integer" or dim < 1 or dim > p:dim() then
    core.fail("value", "mesh", ("cut answered %s for '%s' %s, one of its dimensions wanted")
      :format(tostring(dim), p:get_name() or "?", p:type()))
  end
  local shape, outer = p:get_shape(), 1
  if shape[dim] % n ~= 0 then
    core.fail("value", "mesh", ("dimension %d of '%s' %s does not divide by tensor = %d")
      :format(dim, p:get_name() or "?", p:type(), n))
  end
  for d = 1, dim - 1 do outer = outer * shape[d] end
  return outer
end

-- What a user's function says instead of what was found.
local function chosen(mesh, params, outers)
  if not mesh.cut then return outers end
  for i, p in ipairs(params) do
    local dim = mesh.cut(group.describe(p, i))
    if dim == false then outers[i] = 0
    elseif dim ~= nil then outers[i] = along(p, dim, mesh.size.tensor) end
  end
  return outers
end

-- Parameters that nobody has looked at yet.  What lies in a bucket's pieces another
-- function has found not worth cutting.
local function unsettled(self, params)
  local list = {}
  for _, p in ipairs(params) do
    local known = self.settled[p] or piece_of[p] or Bucket.places[p]
    if core.is_variable(p) and not known then list[#list + 1] = p end
  end
  return list
end

-- Raise where a function `cut` says something else than on rank 0: some ranks would go on
-- alone, each with all of a weight.
local function check_alike(new, outers, comm)
  if not comm or comm.transport == "self" then return end
  local mine = ("<i8"):rep(#new):pack(table.unpack(outers))
  local first = core.communicator.bytes(comm.number, "broadcast", 0,
    comm.rank == 0 and mine or #mine)
  for i, p in ipairs(mine == first and {} or new) do
    if ("<i8"):unpack(first, 8 * i - 7) ~= outers[i] then
      local said = ("cut answers for '%s' %s are not those of rank 0")
        :format(p:get_name() or "?", p:type())
      pcall(core.communicator.abort, comm.number, said) -- who waits is told
      core.fail("rank", "mesh", said)
    end
  end
end

-- May a weight be cut so, as its optimizer keeps state?  Where that is in blocks, pieces
-- are whole blocks.
local function fits_state(p, outer, n)
  local optimizer = owners.of(p)
  if not optimizer or optimizer:whole(p) then return true end
  for _, v in pairs(optimizer:state_of(p)) do
    local blocks = v:numel() ~= p:numel()
    if blocks and p:numel() % (outer * n * BLOCK) ~= 0 then return false end
  end
  return true
end

-- A weight is cut.  Of another stage's nothing is computed.
local function settle_cut(p, outer, comm, foreign, experts)
  local piece, optimizer = cut(p, outer, comm, p:get_name(), foreign, experts), owners.of(p)
  piece_of[p], whole_of[piece.own] = piece, piece
  Bucket.of_experts[piece.own] = experts
  if not optimizer then return end
  owners.set(optimizer, { piece.own })
  optimizer:stand_in(piece.own, p)
end

-- What every rank of a group has is alike on all of them.
local function settle_alike(p, comm)
  if comm and comm.transport ~= "self" then core.assign(p, begins(p, comm)) end
end

-- `experts`: which are matrices of experts; `foreign`: by parameter, those that other
-- stages have.
local function settle(self, new, outers, experts, foreign, dtype)
  local comm, context = self.mesh.comm.tensor, self.mesh.comm.context
  check_alike(new, outers, comm)
  for i, p in ipairs(new) do
    self.settled[p] = true
    if dtype and p:get_dtype() == "f32" then param_dtype.convert(p, dtype) end
    if not foreign[p] then settle_alike(p, context) end
    local outer = outers[i] or 0
    if experts[i] and fits_state(p, 1, self.mesh.size.expert) then
      if not foreign[p] then settle_alike(p, comm) end
      settle_cut(p, 1, self.mesh.comm.expert, foreign[p], true)
    elseif outer > 0 and fits_state(p, outer, comm.size) then settle_cut(p, outer, comm, foreign[p])
    elseif not foreign[p] then settle_alike(p, comm) end
  end
  param_dtype.changed()
end

local function has_experts(params)
  for _, p in ipairs(params) do
    if piece_of[p] and piece_of[p].experts then return true end
  end
  return false
end

local function place(self, ys, params)
  local new, mesh = unsettled(self, params), self.mesh
  mesh.has_experts = mesh.has_experts or has_experts(params)
  if #new == 0 then return end
  local among = mesh.size.expert
  local experts = among > 1 and core.experts_to_cut(ys[1], new, among) or {}
  local outers = mesh.size.tensor > 1 and chosen(mesh, new, core.weights_to_cut(ys[1], new,
    mesh.size.tensor, mesh.sequence)) or {}
  local weights, stages, foreign = self.trace.options.weights, self.trace.stages, {}
  for _, p in ipairs(stages and new or {}) do foreign[p] = stages:is_foreign(p) end
  local dtype = weights and weights.dtype
  retrace.request(function() settle(self, new, outers, experts, foreign, dtype) end)
end

-- ---- the outer transform ---------------------------------------------------------

---@class mrt.TensorTransform: mrt.Transform
local Outer = { name = "tensor parallel" }
Outer.__index = Outer

function Outer:prepare()
  if self.mesh then self.mesh:meet() end
end

local function hand(piece, x)
  local g = whole(piece, x)
  behind[g] = { piece = piece, own = x }
  return g
end

-- The pieces instead of what is cut, and what is.
local function inner_of(xs)
  local inner, pieces = {}, {}
  for i, x in ipairs(xs) do
    pieces[i] = piece_of[x] or false
    inner[i] = piece_of[x] and piece_of[x].own or x
  end
  return inner, pieces
end

function Outer:grad(next, ys, xs, o)
  local comm = self.mesh and self.mesh.comm
  if comm and (comm.tensor or comm.context or comm.expert) then place(self, ys, xs) end
  local inner, pieces = inner_of(xs)
  local dx = next(ys, inner, o)
  for i, piece in ipairs(pieces) do
    if piece and dx[i] then dx[i] = hand(piece, dx[i]) end
  end
  return dx
end

function Outer:map(next, grads, f)
  local inner = {}
  for i, g in ipairs(grads) do inner[i] = behind[g] and behind[g].own or g end
  local out = next(inner, f)
  for i, g in ipairs(grads) do
    if behind[g] then out[i] = hand(behind[g].piece, out[i]) end
  end
  return out
end

local function squares_of(next, list)
  local sum = next(list)
  if sum then return sum end
  for _, g in ipairs(list) do
    local wide = op.cast(g, "f64")
    local own_sum = op.sum(op.mul(wide, wide))
    sum = sum and op.add(sum, own_sum) or own_sum
  end
  return sum
end

-- Of pieces the ranks' sums together; other gradients are the same on all of them.
function Outer:squares(next, grads)
  local pieces, others, comms, sum = {}, {}, {}, nil
  for _, g in ipairs(grads) do
    local comm = behind[g] and behind[g].piece.comm
    if not comm then others[#others + 1] = g
    elseif pieces[comm] then table.insert(pieces[comm], behind[g].own)
    else comms[#comms + 1], pieces[comm] = comm, { behind[g].own } end
  end
  if not comms[1] then return next(grads) end
  for _, comm in ipairs(comms) do
    local part = op.allreduce(squares_of(next, pieces[comm]), { comm = comm.number, op = "sum" })
    sum = sum and op.add(sum, part) or part
  end
  return #others > 0 and op.add(sum, squares_of(next, others)) or sum
end

-- The state of a piece: the pieces of the parameter's.  Ranks meet for each: in the order
-- of names, for that of a table is each process's own.
local function new_state(optimizer, piece)
  local whole_state, names, state = optimizer:state_of(piece.whole), {}, {}
  for name in pairs(whole_state) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local v = whole_state[name]
    state[name] = cut(v, piece.outer, piece.comm, v:get_name(), nil, piece.experts).own
  end
  return state
end

local function in_pieces(optimizer, p) return piece_of[p] and not optimizer:whole(p) end

-- Before their first update pieces get their state, which a trace cannot make: all at
-- once, for each request is a trace more.
local function prepare(optimizer, params)
  local new = {}
  for _, p in ipairs(params) do
    local piece = in_pieces(optimizer, p) and piece_of[p]
    if piece and not optimizer:state_of(piece.own) then new[#new + 1] = piece end
  end
  if #new == 0 then return end
  retrace.request(function()
    for _, piece in ipairs(new) do
      optimizer:stand_in(piece.own, piece.whole, new_state(optimizer, piece))
    end
  end)
end

-- An update of a piece: of the state, of random bits, and of what is read from then on.
local function describe(self, optimizer, unit, piece)
  local blocks = (unit.p:numel() + BLOCK - 1) // BLOCK
  unit.first, unit.offset = piece.whole, piece.comm.rank * blocks * BLOCK
  unit.state = optimizer:state_of(piece.own)
  self.updated[piece] = true
end

function Outer:units(next, optimizer, params, grads)
  local ps, gs, pieces = {}, {}, {}
  prepare(optimizer, params)
  for k, p in ipairs(params) do
    local piece, a = piece_of[p], behind[grads[k]]
    ps[k], gs[k] = p, grads[k]
    if in_pieces(optimizer, p) then
      ps[k], gs[k], pieces[#pieces + 1] = piece.own, a and a.own or own(piece, grads[k]), piece
    end
  end
  local units = next(optimizer, ps, gs)
  for _, unit in ipairs(units) do
    if whole_of[unit.p] then describe(self, optimizer, unit, whole_of[unit.p]) end
  end
  self:read_newest(units, pieces)
  return units
end

-- Once all pieces are updated, by themselves or in buckets, the whole reads as they are.
function Outer:read_newest(units, pieces)
  local last = units[#units]
  local done = last and last.done
  if not last or #pieces == 0 then return end
  function last.done()
    if done then done() end
    for _, piece in ipairs(pieces) do
      core.trace_read(piece.whole, whole(piece, core.current(piece.own)))
      self.updated[piece] = true
    end
  end
end

function Outer:begin(trace)
  self.updated = {}
  local comm = self.mesh and self.mesh.comm
  if comm and comm.expert then
    trace.options.experts, trace.options.capacity = comm.expert.number + 1, self.mesh.capacity
  end
  if not comm or not (comm.tensor or comm.context) then return end
  trace.options.context = comm.context and comm.context.number + 1
  if trace.options.prefetch == nil then
    trace.options.prefetch, trace.options.spare = 1, true
  end
end

-- What was assigned to the whole goes into the pieces: in one order on all ranks, which
-- that of a table is not.
function Outer:finish()
  local list = {}
  for p, piece in pairs(piece_of) do
    -- one that is collected is in the table until the next collection
    local here = not core.is_closed(p) and not self.updated[piece]
    if here and core.id(core.current(p)) ~= core.id(p) then
      list[#list + 1] = piece
    end
  end
  table.sort(list, function(a, b) return a.number < b.number end)
  for _, piece in ipairs(list) do
    core.assign(piece.own, own(piece, core.current(piece.whole)))
  end
end

-- ---- the inner transform -----------------------------------------------------------

---@class mrt.PiecesTransform: mrt.Transform
local Inner = { name = "pieces of weights" }
Inner.__index = Inner

-- Of ranks with rows of their own, the mean.
local function reduced(piece, x)
  local n = piece.whole:size(1)
  local part = op.reduce_scatter(op.reshape(x, { n, x:numel() // n }),
    { comm = piece.comm.number, op = "mean", lazy = true })
  return op.reshape(part, { part:numel() })
end

-- Of a pipeline each stage has its own summand of a gradient: pieces of these, added up.
local function own_summands(piece, x)
  local name, inputs = core.maker(x)
  if name ~= "add" then return piece.experts and reduced(piece, x) or own(piece, x) end
  return op.add(own_summands(piece, inputs[1]), own_summands(piece, inputs[2]))
end

local function own_of(self, piece, x)
  if self.trace.stages then return own_summands(piece, x) end
  return piece.experts and reduced(piece, x) or own(piece, x)
end

-- What is asked of pieces is asked of the whole; these may read as something else.
local function of_wholes(self, xs, asked, take)
  local any, inner = false, {}
  for i, x in ipairs(xs) do
    local piece = whole_of[asked[i]]
    inner[i], any = piece and piece.whole or x, any or piece ~= nil
  end
  local dx = take(inner)
  for i = 1, any and #xs or 0 do
    local piece = whole_of[asked[i]]
    if piece and dx[i] then dx[i] = own_of(self, piece, dx[i]) end
  end
  return dx
end

function Inner:grad(next, ys, xs, o)
  return of_wholes(self, xs, xs, function(inner) return next(ys, inner, o) end)
end

function Inner:derive(next, y, xs, apart, asked, ...)
  local more = table.pack(...)
  return of_wholes(self, xs, asked, function(inner)
    return next(y, inner, apart, inner, table.unpack(more, 1, more.n))
  end)
end

--- Make the outer transform of a compiled function from its option `mesh`.
---@param mesh mrt.Mesh?
---@return mrt.TensorTransform
function tensor.outer(mesh)
  return setmetatable({ mesh = mesh, settled = setmetatable({}, weak) }, Outer)
end

--- The inner one.
---@return mrt.PiecesTransform
function tensor.inner() return setmetatable({}, Inner) end

return tensor
