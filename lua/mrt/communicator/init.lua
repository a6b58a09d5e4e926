--- mrt.communicator -- ranks that compute together
---
---     local comm = mrt.communicator.create()
---     local total = comm:allreduce({ 1, 2, 3 })       -- arrays give arrays
---     local mean = comm:allreduce(gradient, { op = "mean" })  -- tensors tensors
---
--- A script is the same on one rank and on many: with one rank every collective
--- is the identity.  Ranks count from 0, as everywhere in this field.
---
--- All ranks of a communicator call the same collectives in the same order.
--- Outside mrt.compile one runs when it is called; inside it becomes a node of the
--- plan, which is run whether somebody reads it or not.  A rank that dies, stalls
--- or calls something else is an error of code "rank" on all the others, never a
--- hang.  Profiling a step runs it: all ranks must do that together too.
---
--- Gradients are of the sum of what all ranks compute, so they meet the other
--- ranks again: all must differentiate alike.
---
--- - allreduce by sum or mean: the same allreduce of the gradients
--- - allgather: reduce_scatter by sum
--- - reduce_scatter by sum: allgather (by mean: divided by the number of ranks)
--- - all_to_all: all_to_all
--- - broadcast: the sum goes to the root, 0 to the others
--- - shift by k: shift by -k
--- - max, min, prod, send, recv: none
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local engine = require "mrt.communicator.engine"
local figures = require "mrt.device.figures"
local options = require "mrt.util.options"
local ranks = require "mrt.communicator.env"

---@class mrt.communicator
local communicator = {}

--- `rank` counts from 0; `local_rank` among the ranks of this host, which is the number
--- of this one's GPU: `mrt.device("cuda:" .. comm.local_rank)`.
---@class mrt.Communicator
---@field rank integer        of this process or thread: 0 to size - 1
---@field local_rank? integer  nil where the launcher does not tell
---@field size integer        how many ranks there are
---@field transport string    what carries the bytes: "self", "threads", ...
---@field why? string          of ranks that a launcher started: why that (engine.lua)
---@field timeout number      seconds that another rank is waited for
---@field package number integer  in the core
local Communicator = {}
local meta = { __index = Communicator, __name = "mrt.Communicator",
  __fields = { Communicator } }

function meta.__tostring(comm)
  return ("communicator: rank %d of %d (%s)"):format(comm.rank, comm.size,
    comm.transport)
end

-- What a launcher says is of the process, whichever part of its ranks is asked.
local function local_rank_of(comm)
  local alone = comm.transport == "self" or comm.transport == "threads"
  local found = not alone and ranks.find()
  if found and found.size > 1 then return found.local_rank end
  return comm.rank
end

local last = -1 -- number that there has been: they count from 0

local function wrap(number)
  local comm = { number = number }
  last = math.max(last, number)
  comm.rank, comm.size, comm.transport, comm.timeout = core.communicator.info(number)
  comm.local_rank = local_rank_of(comm)
  return setmetatable(comm, meta)
end

local function check(who, comm)
  if getmetatable(comm) == meta then return end
  core.fail("value", who, ("a communicator wanted in front, got %s")
    :format(options.show(comm)))
end

local function outside(who)
  if core.tracing() then
    core.fail("state", who, "it runs when called, which cannot be inside mrt.compile")
  end
end

-- ---- arrays ----------------------------------------------------------------

local function all_integers(list)
  for i = 1, #list do
    local x = list[i]
    if type(x) == "table" and not all_integers(x)
      or type(x) ~= "table" and math.type(x) ~= "integer" then return false end
  end
  return true
end

-- Numbers of a plain array travel as f64.
local function to_tensor(who, a)
  if core.is_tensor(a) then return a end
  if type(a) ~= "table" then
    core.fail("value", who, ("a tensor or an array of numbers wanted, got %s")
      :format(options.show(a)))
  end
  if core.tracing() then
    core.fail("value", who, "a tensor wanted inside mrt.compile, got an array")
  end
  return core.tensor(a, "f64")
end

local function whole(x)
  if type(x) == "number" then return math.tointeger(x) or x end
  for i = 1, #x do x[i] = whole(x[i]) end
  return x
end

-- An array comes back as one; of integers, integers where they are some.
local function like(a, y)
  if core.is_tensor(a) then return y end
  local list = y:totable()
  return all_integers(a) and whole(list) or list
end

-- ---- collectives -----------------------------------------------------------

-- A rank alone stands for the option that names one.
local function peer(o, name)
  return type(o) == "number" and { [name] = o } or o
end

-- A method: its name, what its options are, how they are called in the core.
local function collective(name, known)
  local alone = known.root and "root" or known.by and "by"
  Communicator[name] = function(comm, a, o)
    check(name, comm)
    local given = options.read(name, alone and peer(o, alone) or o, known)
    given.comm = comm.number
    return like(a, core.op[name](to_tensor(name, a), given))
  end
end

---@alias mrt.Numbers mrt.Tensor|number[]  an array gives an array
---@alias mrt.ReduceOptions {op: "sum"|"mean"|"max"|"min"|"prod"?}  default "sum"

---@class mrt.Communicator
---@field allreduce fun(self, a: mrt.Numbers, options?: mrt.ReduceOptions): mrt.Numbers
---  what all ranks' `a` give together, on every rank.  Rounded once, in the order
---  of the ranks; 16-bit floats are added up in f32
---@field reduce_scatter fun(self, a: mrt.Numbers, options?: mrt.ReduceOptions): mrt.Numbers
---  the same, but each rank gets its own of `size` pieces of the first dimension,
---  which must be a multiple of `size`
---@field allgather fun(self, a: mrt.Numbers): mrt.Numbers
---  all ranks' `a`, one behind the other along the first dimension
---@field all_to_all fun(self, a: mrt.Numbers): mrt.Numbers
---  of `size` pieces of the first dimension, which must be a multiple of `size`, each
---  rank gets one: piece r of all ranks' `a` on rank r, one behind the other
---@field broadcast fun(self, a: mrt.Numbers, options?: integer|{root: integer?}): mrt.Numbers
---  `a` of the root, by default rank 0; what the others give tells shape and dtype
---@field shift fun(self, a: mrt.Numbers, options?: integer|{by: integer?}): mrt.Numbers
---  `a` of the rank `by` before this one, by default 1, in a circle: all give and get at once
collective("allreduce", { op = "sum" })
collective("reduce_scatter", { op = "sum" })
collective("allgather", {})
collective("all_to_all", {})
collective("broadcast", { root = options.of("integer", 0) })
collective("shift", { by = options.of("integer", 1) })

--- Give `a` to another rank, which calls recv.
---
---     mrt.communicator.ranks(2, [[
---       local mrt, world = ...
---       if world.rank == 0 then
---         world:send({ 1, 2 }, { to = 1 })
---         return "sent"
---       end
---       return #world:recv({ 0, 0 }, { from = 0 })
---     ]])[2]  --> 2
---
--- Shapes: any shape.
--- Raises: a rank that there is not; one that is gone.
---@param a mrt.Tensor|number[]
---@param o integer|{to: integer}  the rank
function Communicator.send(comm, a, o)
  check("send", comm)
  local to = options.read("send", peer(o, "to") or {}, { to = options.want "integer" }).to
  core.op.send(to_tensor("send", a), { to = to, comm = comm.number })
end

--- Get what another rank sends.
---
---     mrt.communicator.ranks(2, [[
---       local mrt, world = ...
---       if world.rank == 0 then
---         world:send({ 1, 2 }, { to = 1 })
---         return "sent"
---       end
---       return #world:recv({ 0, 0 }, { from = 0 })
---     ]])[2]  --> 2
---
--- Raises: a rank that there is not; one that is gone.
---@param like_this mrt.Tensor|number[]  of the shape and dtype that come; its
---  numbers are not read.  An array gives an array
---@param o integer|{from: integer}  the rank
---@return mrt.Tensor|number[]
function Communicator.recv(comm, like_this, o)
  check("recv", comm)
  local from = options.read("recv", peer(o, "from") or {}, { from = options.want "integer" }).from
  local x = to_tensor("recv", like_this)
  return like(like_this, core.op.recv { from = from, shape = x:get_shape(),
    dtype = x:get_dtype(), comm = comm.number })
end

--- Return when all ranks have called it; not inside mrt.compile.
---
---     world:barrier()
---
--- Raises: a rank that is gone.
function Communicator.barrier(comm)
  check("barrier", comm)
  outside "barrier"
  core.communicator.bytes(comm.number, "barrier", 0, 0)
end

-- ---- making ----------------------------------------------------------------

--- Make communicators of some of the ranks each.  All ranks call it.
---
---     local pair = world:split(world.rank // 2)
---
--- Raises: a color that is no integer.
---@param color integer  ranks of one color are together; negative: in none
---@param key? integer   they are ordered by it, then by rank; default: rank
---@return mrt.Communicator?
function Communicator.split(comm, color, key)
  check("split", comm)
  outside "split"
  key = key == nil and comm.rank or key
  local function small(n) return math.type(n) == "integer" and n < 1 << 31 and n >= -1 << 31 end
  if not small(color) or not small(key) then
    core.fail("value", "split", ("color and key: integers of 32 bits wanted, got %s and %s")
      :format(options.show(color), options.show(key)))
  end
  local part = core.communicator.split(comm.number, color, key)
  return part and wrap(part)
end

--- Return the bytes that this rank has given to others so far.
---
---     world:sent()
---
--- Raises: a communicator that is closed.
---@return integer
function Communicator.sent(comm)
  check("sent", comm)
  return (select(5, core.communicator.info(comm.number)))
end

--- Close it: what needs it raises from then on.  Else it lives as long as mrt.
---
---     world:close()
function Communicator.close(comm)
  check("close", comm)
  core.communicator.close(comm.number)
end

-- What the core wants to know of the meeting; nil: this one is alone.
local function meeting(o)
  local found = ranks.find()
  if not found or found.size == 1 then return nil end
  local place = ranks.meeting(found)
  place.rank, place.size, place.timeout, place.algorithm =
    found.rank, found.size, o.timeout, o.algorithm
  return place, engine.choose(found)
end

-- Once for a run, where others may listen.
local function warn_of_listeners(place)
  if place.rank ~= 0 or not ranks.is_public(place.address) then return end
  warn(("mrt: ranks meet at %s, a public address: what they exchange is not encrypted; "
    .. "meet in a private network, or through a tunnel (MASTER_ADDR)"):format(place.address))
end

-- A process that ends by os.exit says so to the others.
local function tell_of_exits(comm)
  local exit = os.exit
  ---@diagnostic disable-next-line: duplicate-set-field
  os.exit = function(code, close) -- luacheck: ignore 122
    local at = debug.getinfo(2, "Sl")
    if code == nil or code == true or code == 0 then
      pcall(core.communicator.close, comm.number)
    else
      pcall(core.communicator.abort, comm.number, ("%s:%d: os.exit(%s)")
        :format(at.short_src, at.currentline, tostring(code)))
    end
    exit(code, close)
  end
end

local function note_script()
  local name = arg and arg[0]
  local text = type(name) == "string" and core.read_file(name) -- not a pipe, read by now
  if text then core.communicator.script(text) end
end

local met = false -- the others
local why -- by that engine

local function met_again()
  local comm = wrap(core.communicator.world())
  comm.why = why
  return comm
end

--- A communicator of `size` ranks of which none is there but this one: for plans.  What
--- runs on it raises.
---
---     local eight = mrt.communicator.supposed(8)
---@param size integer
---@param rank? integer  from 0; default 0
---@return mrt.Communicator
function communicator.supposed(size, rank)
  rank = rank == nil and 0 or rank
  if math.type(size) ~= "integer" or size < 1 or size >= 1 << 31 then
    core.fail("value", "supposed", ("a count of ranks wanted, got %s"):format(options.show(size)))
  end
  if math.type(rank) ~= "integer" or rank < 0 or rank >= size then
    core.fail("value", "supposed", ("rank %s, 0 to %d wanted"):format(options.show(rank), size - 1))
  end
  return wrap(core.communicator.supposed(rank, size))
end

--- Return the bytes that this rank has given to others so far, by all communicators that are
--- not closed.
---
---     mrt.communicator.sent()
---@return integer
function communicator.sent()
  local sum = 0
  for number = 0, last do
    local open, _, _, _, _, sent = pcall(core.communicator.info, number)
    sum = sum + (open and sent or 0)
  end
  return sum
end

--- Return the communicator of all ranks: of this one alone, unless a launcher
--- (`mrt launch`, torchrun, mpirun, srun: see env.lua) has started several.  The
--- first call meets them at MASTER_ADDR:MASTER_PORT; from then on all of them plan with
--- the figures of rank 0's device.  Ranks of one host share memory.
--- Those of several exchange messages: over MPI if mpirun, or srun with PMIx or PMI2, has
--- started them and their MPI is here, else over TCP, which is told once; engine.lua has
--- the whole rule.  The environment's MRT_TRANSPORT ("shared", "sockets", "mpi") says
--- otherwise.
---
--- By messages a reduction is "pairwise": each rank adds up its slice in the order of
--- the ranks, with the same bits as in shared memory; or it goes round the "ring", where
--- each rank talks to two others only, and 16-bit floats are rounded at each of them.
--- Both give 2(p-1)/p of the bytes away per rank.
---
--- Raises: rank: somebody did not come in time, or does not fit, by name.
---
---     local world = mrt.communicator.create()
---@param o? {timeout: number?, algorithm: "pairwise"|"ring"?}  timeout: seconds that a
---  rank is waited for; default 30
---@return mrt.Communicator
function communicator.create(o)
  local given = options.read("communicator", o, { timeout = 30, algorithm = "pairwise" })
  if not (given.timeout > 0) then
    core.fail("value", "communicator", ("timeout: %s seconds, more than 0 wanted")
      :format(given.timeout))
  end
  if given.algorithm ~= "pairwise" and given.algorithm ~= "ring" then
    core.fail("value", "communicator", ("algorithm: '%s', pairwise or ring wanted")
      :format(given.algorithm))
  end
  if met then return met_again() end
  local place, choice = meeting(given)
  if place then
    warn_of_listeners(place)
    why = engine.join(place, choice)
  end
  local comm = wrap(core.communicator.world())
  if comm.size == 1 then return comm end
  met, comm.why = true, why
  if place then
    engine.tell(comm, choice)
    tell_of_exits(comm)
    note_script()
  end
  figures.share()
  return comm
end

--- Try ranks: run Lua code on `n` of them, threads of this process with a Lua
--- state of their own each.  The code is called with mrt and the communicator.
---
---     mrt.communicator.ranks(2, [[
---       local mrt, comm = ...
---       return table.concat(comm:allreduce { comm.rank, 1 }, " ")
---     ]])[2]  --> 1 2
---
--- Raises: n below 1; what a rank raises.
---@param n integer     1 to 64
---@param code string   returns a string, number or boolean
---@param o? {timeout: number?}  seconds that a rank is waited for; default 30
---@return table results   of rank 0, 1, ... at 1, 2, ...; nil: failed
---@return table<integer, string>? failures  what those say that have failed
function communicator.ranks(n, code, o)
  if math.type(n) ~= "integer" or type(code) ~= "string" then
    core.fail("value", "ranks", ("a number of ranks and Lua code wanted, got %s and %s")
      :format(options.show(n), options.show(code)))
  end
  local timeout = options.read("ranks", o, { timeout = 30 }).timeout
  local results, failures = core.ranks(n, code, timeout)
  return results, next(failures) and failures or nil
end

for _, t in ipairs { communicator, Communicator } do
  for name, f in pairs(t) do t[name] = core.front(f, nil, name) end
end

return communicator
