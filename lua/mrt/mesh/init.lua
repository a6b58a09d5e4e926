--- mesh -- ranks as a grid: what each of its dimensions shares
---
---     mrt.compile(fn, { mesh = { data = 2, tensor = 4 } })
---
--- The product of the dimensions is the number of ranks.  Neighbours in a grid are ranks
--- that follow one another: `tensor` is innermost, since its ranks talk most and should
--- share a host, then `expert`, `shard`, `data`; the stages of a pipeline are furthest apart.
---
--- SPDX-License-Identifier: MIT

local communicator = require "mrt.communicator"
local core = require "mrt.core"
local options = require "mrt.util.options"

local op = core.op

local mesh = {}

---@class mrt.MeshOptions
---@field data? integer    ranks with rows of their own, which have all weights
---@field shard? integer   ranks with rows of their own, among which weights, gradients
---  and state lie in pieces (ZeRO 3; with the option `shard`, as that says)
---@field tensor? integer  ranks with the same rows, which compute each product together
---@field sequence? boolean  of these: activations between products lie in pieces too
---  (default true)
---@field context? integer  ranks with the same rows, each of which computes a part of the
---  sequence, the second dimension of inputs
---@field ring? boolean  of these: keys and values go round the ranks, block by block, where
---  attention reads them; false: they are gathered (default true)
---@field expert? integer  ranks with rows of their own, which have all weights but the
---  experts' (of grouped_matmul, as mrt.nn.decoder has it): each has some of the experts,
---  and gets all ranks' rows for them
---@field capacity? number  of `expert`: a rank gives each other at most so many times an
---  even share of its rows, and drops those beyond: 1.25.  By default there is room for all
---@field pipeline? integer  stages of the layers (the option `pipeline` says more)
---@field comm? mrt.Communicator  of all its ranks; by default all that there are
---@field cut? fun(p: mrt.ShardParameter): integer|string|false|nil  how `tensor` cuts a
---  weight: along this dimension, counted from 1; false: not at all; nil: as is found best

-- Innermost first.
local dimensions <const> = { "tensor", "context", "expert", "shard", "data", "pipeline" }

--- The dimensions that there are, innermost first.
---@type string[]
mesh.dimensions = dimensions

---@class mrt.Mesh
---@field size table<string, integer>  of each dimension
---@field ranks integer  the product
---@field sequence boolean
---@field capacity number?
---@field ring boolean
---@field cut function?
---@field given mrt.Communicator?
---@field comm table<string, mrt.Communicator>  by dimension, once ranks have met
---@field all mrt.Communicator?  ditto
---@field package shared mrt.ShardOptions?  of ranks with rows of their own
local Mesh = {}
Mesh.__index = Mesh

local function refuse(text, ...)
  core.fail("value", "compile", "option 'mesh': " .. text:format(...))
end

local function size_of(given, name)
  local n = given[name]
  if n == nil then return 1 end
  if math.type(n) ~= "integer" or n < 1 or n >= 1 << 31 then
    refuse("%s = %s, a count of ranks wanted", name, options.show(n))
  end
  return n
end

local known <const> = { sequence = "boolean", ring = "boolean", cut = "function", comm = "table",
  capacity = "number" }

local function check_names(given)
  for key, value in pairs(given) do
    local fits = known[key] == nil or type(value) == known[key]
    for _, name in ipairs(dimensions) do if key == name then goto next end end
    if not known[key] then
      refuse("there is no dimension '%s'; there is %s", tostring(key),
        table.concat(dimensions, ", "))
    end
    if not fits then refuse("%s: a %s wanted, got %s", key, known[key], options.show(value)) end
    ::next::
  end
  if given.comm and (getmetatable(given.comm) or {}).__name ~= "mrt.Communicator" then
    refuse("comm: a communicator wanted, got %s", options.show(given.comm))
  end
end

local function check_capacity(n)
  if n == nil or n > 0 and n < math.huge then return end
  refuse("capacity = %s, how many times an even share of the rows wanted", n)
end

--- Read a mesh in a word, "tensor=8,data=2".
---@param word string
---@return mrt.MeshOptions?
---@return string? problem
function mesh.parse(word)
  local given = {}
  for part in (word .. ","):gmatch "([^,]*)," do
    local name, n = part:match "^%s*(%w+)%s*=%s*(%d+)%s*$"
    if not name or given[name] or not math.tointeger(tonumber(n)) then
      return nil, ("'%s', tensor=8,data=2 wanted (%s)"):format(word,
        table.concat(dimensions, ", "))
    end
    given[name] = math.tointeger(tonumber(n))
  end
  local ok, problem = pcall(mesh.read, given)
  if not ok then return nil, problem.message:gsub("^compile: ", "") end
  return given
end

--- Read the option `mesh` of mrt.compile; nil for nil.
---
--- Raises: a dimension that there is not, or no count of ranks.
---@param given mrt.MeshOptions?
---@return mrt.Mesh?
function mesh.read(given)
  if given == nil then return nil end
  if type(given) ~= "table" then refuse("a table wanted, got %s", options.show(given)) end
  check_names(given)
  check_capacity(given.capacity)
  local self = setmetatable({ size = {}, ranks = 1, comm = {},
    sequence = given.sequence ~= false, ring = given.ring ~= false, cut = given.cut,
    given = given.comm, capacity = given.capacity }, Mesh)
  for _, name in ipairs(dimensions) do
    self.size[name] = size_of(given, name)
    if self.ranks > (1 << 31) // self.size[name] then refuse("too many ranks") end
    self.ranks = self.ranks * self.size[name]
  end
  return self
end

function Mesh:__tostring()
  local list = {}
  for _, name in ipairs(dimensions) do
    if self.size[name] > 1 then list[#list + 1] = name .. " = " .. self.size[name] end
  end
  return "mesh { " .. table.concat(list, ", ") .. " }"
end

-- The policy of ranks with rows of their own: that of the option `shard`, or what the
-- dimension says.
local function policy_of(self, given)
  if self.size.data * self.size.shard * self.size.expert == 1 then return nil end
  local shard = require "mrt.policy.shard"
  return given or self.size.shard > 1 and shard.zero(3) or shard.ddp()
end

-- `has_experts`: has a loss shown stacks of matrices that `expert` divides?
local function no_experts(self)
  return self.size.expert > 1 and not self.has_experts and ("expert = %d divides no stack of "
    .. "experts' matrices that grouped_matmul reads: all of them on every rank")
    :format(self.size.expert) or nil
end

--- What to say of what ranks do not share: experts, inputs whose sequence `context` does not
--- divide; nil: there is nothing.
---@param inputs mrt.Tensor[]
---@return string?
function Mesh:undivided(inputs)
  local n, list = self.size.context, {}
  for i, x in ipairs(n > 1 and inputs or {}) do
    if x:dim() > 1 and x:size(2) % n ~= 0 then
      list[#list + 1] = ("%s of input %d"):format(x:type(), i)
    end
  end
  local said = { no_experts(self) }
  if #list > 0 then
    said[#said + 1] = ("context = %d does not divide the second dimension of %s: whole on "
      .. "every rank, and what is of it alone"):format(n, table.concat(list, ", "))
  end
  return said[1] and table.concat(said, "; ")
end

-- Two sums by which an input is known, the second by where its elements stand, and how
-- large they may be that are added up.
local function marks_of(x)
  local wide = op.reshape(op.cast(x, "f64"), { x:numel() })
  local place = op.add(op.remainder(op.arange { start = 0, stop = x:numel(), step = 1,
    dtype = "f64" }, 8191), 1)
  return op.sum(wide), op.sum(op.mul(wide, place)), op.sum(op.mul(op.abs(wide), place))
end

--- Raise where ranks that are to have the same inputs have not: they would compute parts of
--- different batches, and nobody would see.  All ranks call it, with the inputs of a step
--- that they are about to make for the first time.
---@param inputs mrt.Tensor[]
function Mesh:compare(inputs)
  for _, name in ipairs { "tensor", "context" } do
    local comm = self.comm[name]
    for i, x in ipairs(comm and comm.transport ~= "self" and inputs or {}) do
      local sum, placed, size = marks_of(x)
      local mine = op.cat({ op.reshape(sum, { 1 }), op.reshape(placed, { 1 }) }, 1)
      local o = { comm = comm.number, op = "max" }
      local far = op.sub(op.allreduce(mine, o), op.neg(op.allreduce(op.neg(mine), o)))
      if op.amax(far):item() > 1e-9 * size:item() then
        core.fail("rank", "mesh", ("input %d %s is not the same on ranks that differ in %s "
          .. "alone, which compute each batch together: give them the same rows")
          :format(i, x:type(), name))
      end
    end
  end
end

--- The policy by which ranks with rows of their own share, of this mesh; nil: there are
--- none.  Its communicators come when ranks meet.
---@param given mrt.Sharding?  the option `shard`
---@return mrt.Sharding?
function Mesh:sharding(given)
  local policy = policy_of(self, given)
  if not policy then return nil end
  local own = setmetatable({ options = {} }, getmetatable(policy))
  for key, value in pairs(policy) do if key ~= "options" then own[key] = value end end
  for key, value in pairs(policy.options) do own.options[key] = value end
  self.shared = own.options
  return own
end

--- The option `pipeline` of a mesh of several stages, as that is read; of others as it is
--- given.
---@param given mrt.PipelineOptions?
---@return mrt.PipelineOptions?
function Mesh:staged(given)
  if self.size.pipeline == 1 then return given end
  local own = { stages = self.size.pipeline, mesh = self }
  for key, value in pairs(given or {}) do
    if key == "stages" or key == "comm" or key == "replicas" then
      refuse("pipeline = %d, and the option 'pipeline' has %s of its own", self.size.pipeline, key)
    end
    own[key] = value
  end
  return own
end

-- By number of a communicator of a mesh: how many ranks, and how far apart they are.
local members = {}

--- Whom a communicator of a mesh is of: so many ranks, each so far from the next, in the mean
--- where they differ in dimensions that are not next to each other.  nil: of no mesh.
---@param number integer
---@return {size: integer, stride: integer}?
function mesh.members(number) return members[number] end

-- Ranks that differ along these dimensions alone, also where the others are not there, as
-- in plans; nil: there are none.
local function split(self, ...)
  local wanted, stride, rank = {}, 1, self.all.rank
  for _, name in ipairs { ... } do wanted[name] = true end
  local own, n, others, span = 0, 1, 0, 0
  for _, name in ipairs(dimensions) do
    local at = rank // stride % self.size[name]
    if wanted[name] then
      own, n = own + at * n, n * self.size[name]
      span = span + (self.size[name] - 1) * stride
    else
      others = others + at * stride
    end
    stride = stride * self.size[name]
  end
  if n == 1 then return nil end
  local comm = self.all.transport == "self" and communicator.supposed(n, own)
    or self.all:split(others, own)
  members[comm.number] = { size = n, stride = (span + n - 2) // (n - 1) }
  return comm
end

-- Groups of the same mesh over the same ranks are the same for all functions: what one has
-- cut over them the next finds so.  They stay: ranks split together, and none knows what
-- another's collector has left.
local groups = {} -- by number of the communicator of all, mesh and dimensions

local function group(self, ...)
  if self.all.transport == "self" then return split(self, ...) end
  local words = { self.all.number, table.concat({ ... }, " ") }
  for i, name in ipairs(dimensions) do words[i + 2] = self.size[name] end
  local key = table.concat(words, ",")
  if groups[key] == nil then groups[key] = split(self, ...) or false end
  return groups[key] or nil
end

-- Which ranks share what by the policy: all with rows of their own, and of experts'
-- matrices those that have the same.
local function share(self)
  local comm, shared = self.comm, self.shared
  local others = self.size.expert > 1 and group(self, "expert", "data") or comm.data
  shared.comm = comm.shard or others
  shared.replicas = comm.shard and others
  if self.size.expert == 1 then return end
  shared.experts = setmetatable({ comm = comm.shard or comm.data or false,
    replicas = comm.shard and comm.data or false }, { __index = shared })
end

--- Have the ranks meet, which all of them do; once.
---
--- Raises: other ranks than the mesh has.
function Mesh:meet()
  if self.all then return end
  local all = self.given or communicator.create()
  if all.size ~= self.ranks then
    core.fail("rank", "compile", ("%s is of %d ranks, there %s %d"):format(tostring(self),
      self.ranks, all.size == 1 and "is" or "are", all.size))
  end
  self.all = all
  members[all.number] = { size = all.size, stride = 1 }
  for _, name in ipairs(dimensions) do
    self.comm[name] = group(self, name)
  end
  if self.shared then share(self) end
end

return mesh
