--- engine.lua -- which engine carries what ranks exchange, and why: the one place
---
--- From the top, the first that holds:
---
--- - values on GPUs: NCCL, where each rank has a GPU of its own and the same NCCL
---   (kernels/cuda/README.md); the rest of this list is for all others
--- - `MRT_TRANSPORT` names one: that one
--- - all ranks are on one host: memory that they share, read where it lies, which takes
---   0.07 to 0.8 of the time of messages by MPI there (kernels/collectives/README.md)
--- - a launcher that has MPI started them on several hosts, or nobody knows on how many,
---   and the MPI that mrt was built for is here and of the launcher's kind: MPI
--- - else mrt's own mesh of TCP connections, and the log says so
---
--- Whether ranks are on one host they tell each other as they meet (join.c), unless they
--- can meet by MPI alone; then the launcher's variables say it.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local ranks = require "mrt.communicator.env"

local engine = {
  ---@type string?  what serves the ranks of this process, and why; nil: it is alone
  serving = nil,
}

---@class mrt.EngineChoice
---@field transport string  "shared", "sockets", "mpi"; "": shared memory on one host, else sockets
---@field why string        in words, of messages between hosts
---@field named? boolean    by MRT_TRANSPORT
---@field or_else? string   what to join by where MPI takes each rank for alone: there is an
---  address

-- The kind of MPI that a launcher starts: others take each rank for alone, or end it.
local KINDS <const> = { ["mpirun of Open MPI"] = "Open MPI", ["mpiexec of MPICH's kind"] = "MPICH",
  ["srun with PMI2"] = "MPICH" }

-- Why this launcher's ranks cannot use that MPI; nil: they can.
local function misfit(launcher, name, why)
  if not name then return why end
  local kind = KINDS[launcher]
  local open = name:find "^Open MPI" ~= nil
  if kind and (kind == "Open MPI") ~= open then
    local instead = launcher:find "^srun" and "; Open MPI's ranks start by srun --mpi=pmix" or ""
    return ("mrt's plug-in is for another, %s (MRT_MPI names one built for %s%s)"):format(name,
      kind, instead)
  end
end

--- Choose; see the head of this file.
---
--- Raises (value): ranks of several hosts know neither MPI nor an address.
---
---     engine.choose(ranks.find())
---@param found mrt.Rank
---@param getenv? fun(name: string): string?   default os.getenv
---@param library? fun(): string?, string?     the MPI there is, or nil and why not
---@return mrt.EngineChoice
function engine.choose(found, getenv, library)
  getenv, library = getenv or os.getenv, library or core.communicator.mpi
  local named = getenv "MRT_TRANSPORT"
  if named and named ~= "" then
    return { transport = named, why = "MRT_TRANSPORT says so", named = true }
  elseif not found.launcher then
    return { transport = "", why = "no launcher that has MPI started the ranks" }
  elseif found.hosts == 1 then
    return { transport = "", why = "they were all to be on one host" }
  end
  local address = ranks.address(found, getenv)
  local name, why = library()
  local problem = misfit(found.launcher, name, why)
  if not problem then
    return { transport = "mpi", why = ("%s started the ranks: %s"):format(found.launcher, name),
      or_else = address and ("%s started the ranks, but %s takes each of them for alone")
        :format(found.launcher, name) }
  end
  problem = ("%s started the ranks, but there is no MPI for them: %s"):format(found.launcher,
    problem)
  if address then return { transport = "", why = problem } end
  core.fail("value", "communicator", problem .. ("; install %s and build mrt beside it, or set "
    .. "MASTER_ADDR to rank 0's host on all ranks to do without MPI")
    :format(KINDS[found.launcher] or "it"))
end

--- Meet the others by it.
---
--- Raises (rank, value): what the core's join does.
---
---     comm.why = engine.join(place, choice)
---@param place mrt.Meeting   with rank, size, timeout and algorithm
---@param choice mrt.EngineChoice
---@return string why  by what they have met
function engine.join(place, choice)
  place.transport = choice.transport
  local ok, problem = pcall(core.communicator.join, place)
  if ok then return choice.why end
  local alone = tostring(type(problem) == "table" and problem.message or problem)
    :find("MPI takes each for alone", 1, true)
  if not alone or not choice.or_else then error(problem, 0) end
  place.transport = "" -- so it was on all of them
  core.communicator.join(place)
  return choice.or_else
end

--- Note what serves, once for a run; where that is our own mesh and nobody chose it,
--- rank 0 says so.
---
---     engine.tell(comm, choice)
---@param comm mrt.Communicator  of all ranks
---@param choice mrt.EngineChoice
function engine.tell(comm, choice)
  engine.serving = ("%s: %s"):format(comm.transport, comm.why)
  if comm.rank ~= 0 or comm.transport ~= "sockets" or choice.named then return end
  warn(("mrt: ranks on several hosts exchange messages by mrt's own TCP mesh (values on GPUs: by "
    .. "NCCL, where it is): %s"):format(comm.why))
end

--- In a line, for `mrt info`: what would carry what ranks of this process exchange.
---
---     engine.describe()
---@param getenv? fun(name: string): string?
---@param library? fun(): string?, string?
---@return string
function engine.describe(getenv, library)
  local found = ranks.find(getenv)
  if not found or found.size == 1 then return "alone" end
  local choice = engine.choose(found, getenv, library)
  local by = { [""] = "shared memory on one host, else mrt's own TCP mesh",
    sockets = "mrt's own TCP mesh", shared = "shared memory", mpi = "MPI" }
  return ("rank %d of %d (%s), by %s: %s"):format(found.rank, found.size, found.source,
    by[choice.transport] or choice.transport, choice.why)
end

return engine
