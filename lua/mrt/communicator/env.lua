--- env.lua -- which rank of how many this process is and where they meet, by its
--- environment
---
--- The explicit names come first (`mrt launch` and torchrun set them, and a Kubernetes
--- job can), then those of Open MPI, of MPICH and others that speak PMI, and of Slurm.
--- The first source that says anything is taken, and must then say all; a later source
--- that says otherwise is a mistake that is told rather than guessed about.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

local ranks = {}

-- rank, size, local rank, local size.  `loose`: set for single processes as well
-- (Slurm sets SLURM_PROCID in every batch job), so it does not contradict others.
local sources = {
  { "the environment", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE" },
  { "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE" },
  { "PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS" },
  { "Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE",
    loose = true },
}

local function fail(text, ...) core.fail("value", "communicator", text:format(...)) end

-- The count that a variable names; nil when it is not set.
local function count_of(getenv, name)
  local text = getenv(name)
  if text == nil then return nil end
  local n = math.tointeger(tonumber(text))
  if not n or n < 0 then fail("%s is '%s', a count wanted", name, text) end
  return n
end

local function read(getenv, names)
  local rank, size = count_of(getenv, names[2]), count_of(getenv, names[3])
  if not rank and not size then return nil end
  if not rank or not size then
    if names.loose then return nil end
    local set, missing = names[2], names[3]
    if not rank then set, missing = missing, set end
    fail("%s is set (%s), but not %s", set, getenv(set), missing)
  elseif rank >= size then
    fail("%s is %d, below %s = %d wanted", names[2], rank, names[3], size)
  end
  local here, all = count_of(getenv, names[4]), count_of(getenv, names[5])
  if here and all and here >= all then
    fail("%s is %d, below %s = %d wanted", names[4], here, names[5], all)
  end
  return { rank = rank, size = size, local_rank = here, local_size = all,
    source = names[1], names = names }
end

local function compare(found, other)
  if other.names.loose or (other.rank == found.rank and other.size == found.size) then
    return
  end
  fail("%s says rank %d of %d (%s, %s), %s says rank %d of %d (%s, %s): one of them is "
    .. "left from another run", found.source, found.rank, found.size, found.names[2],
    found.names[3], other.source, other.rank, other.size, other.names[2], other.names[3])
end

-- A launcher that ranks can begin MPI with; nil: none.
local function launcher_of(by, getenv)
  if by["Open MPI"] then return "mpirun of Open MPI" end
  local slurm = by.Slurm ~= nil
  if by.PMI then return slurm and "srun with PMI2" or "mpiexec of MPICH's kind" end
  local pmix = getenv "PMIX_RANK" and getenv "PMIX_NAMESPACE"
  return pmix and (slurm and "srun with PMIx" or "a launcher with PMIx") or nil
end

-- On how many hosts the ranks are: 1, 2 for several, nil where nobody says.  Slurm's
-- tasks per node are what was asked for, so its count of nodes comes first.
local function hosts_of(found, by, getenv)
  local nodes = by.Slurm and (count_of(getenv, "SLURM_STEP_NUM_NODES")
    or count_of(getenv, "SLURM_NNODES"))
  if nodes then return nodes > 1 and 2 or 1 end
  if not found.local_size then return nil end
  return found.local_size < found.size and 2 or 1
end

---@class mrt.Rank
---@field rank integer         from 0
---@field size integer         ranks in all
---@field local_rank? integer  among those of this host
---@field local_size? integer
---@field source string        who says so
---@field slurm boolean        Slurm says the same
---@field launcher? string     who started it and has MPI, in words
---@field hosts? integer       1; 2: several; nil: nobody says

--- Find this process's rank.
---
--- Raises (value): a variable that is no count; a rank not below its size; one of a
--- pair without the other; two sources that disagree.
---@param getenv? fun(name: string): string?  default os.getenv
---@return mrt.Rank?  nil: nobody says anything, so it is alone
function ranks.find(getenv)
  getenv = getenv or os.getenv
  local found
  local by = {} -- those who say the same
  for _, names in ipairs(sources) do
    local one = read(getenv, names)
    if one and found then compare(found, one) end
    found = found or one
    if one and one.rank == found.rank and one.size == found.size then by[names[1]] = one end
  end
  if not found then return nil end
  found.slurm = by.Slurm ~= nil
  found.launcher, found.hosts = launcher_of(by, getenv), hosts_of(found, by, getenv)
  return found
end

-- A port that jobs rarely have in common.
local function port_of(job)
  local sum = 0
  for i = 1, #job do sum = (sum * 31 + job:byte(i)) % 20000 end
  return 10000 + sum
end

-- The first of Slurm's list of hosts: "a01-x" of "a[01-03,7]-x,b2".
local function first_host(list)
  local front, number, rest = list:match "^([^,%[]*)%[(%d+)[^%]]*%]([^,%[]*)"
  return front and front .. number .. rest or list:match "^[^,%[]+"
end

--- Where rank 0 is, by MASTER_ADDR or Slurm; nil: nobody says.
---@param found mrt.Rank
---@param getenv? fun(name: string): string?  default os.getenv
---@return string?
function ranks.address(found, getenv)
  getenv = getenv or os.getenv
  local given = getenv "MASTER_ADDR"
  if given or not found.slurm then return given end
  return first_host(getenv "SLURM_STEP_NODELIST" or getenv "SLURM_JOB_NODELIST" or "")
end

-- Networks that only their owners are in: of this host, of a site, of one link.
local PRIVATE <const> = { "^127%.", "^10%.", "^192%.168%.", "^169%.254%.", "^::1$",
  "^[fF][cCdD]%x%x:", "^[fF][eE][89aAbB]%x:" }

--- Whether an address in figures is one that the whole Internet may reach.  Names are
--- not looked up.
---@param address string
---@return boolean
function ranks.is_public(address)
  for _, pattern in ipairs(PRIVATE) do
    if address:find(pattern) then return false end
  end
  local first, second = address:match "^(%d+)%.(%d+)%.%d+%.%d+$"
  first, second = tonumber(first), tonumber(second)
  local shared = first == 172 and second // 16 == 1 or first == 100 and second // 64 == 1
  return first ~= nil and not shared or address:find("^%x*:[%x:.]*$") ~= nil
end

-- What tells this run from others; nil: nothing is known.
local function job_of(found, getenv)
  if found.source == "Open MPI" then
    return getenv "OMPI_MCA_orte_precondition_transports" or getenv "PMIX_NAMESPACE"
  end
  local job = found.source ~= "the environment" and found.slurm and getenv "SLURM_JOB_ID"
  return job and job .. "." .. (getenv "SLURM_STEP_ID" or "") or nil
end

-- Where a user's secret is.
local function secret_path(getenv)
  local config = getenv "XDG_CONFIG_HOME"
  if config and config ~= "" then return config .. "/mrt-secret" end
  return (getenv "HOME" or "") .. "/.mrt-secret"
end

-- What only the ranks of this run know: MRT_RUN, as `mrt launch` makes it; what
-- mpirun gives its ranks; else the user's own secret, and which job it is.  A job's
-- number alone is known to all.
local function token_of(source, job, getenv, secret)
  local given = getenv "MRT_RUN"
  if given and given ~= "" then return given end
  if source == "Open MPI" and getenv "OMPI_MCA_orte_precondition_transports" then
    return job
  end
  local path = getenv "MRT_RUN_FILE" or secret_path(getenv)
  local own, why = secret(path)
  if not own then
    core.fail("value", "communicator", ("ranks need a secret that they share: %s; or set "
      .. "MRT_RUN to the same random text for each"):format(why))
  end
  return (own .. " " .. (getenv "TORCHELASTIC_RUN_ID" or job or "")):sub(1, 63)
end

local function port_where(job, getenv)
  local given = count_of(getenv, "MASTER_PORT")
  if given and getenv "TORCHELASTIC_USE_AGENT_STORE" == "True" then
    return port_of(tostring(given)) -- torchrun itself listens at that one
  end
  return given or job and port_of(job) or 29500
end

---@class mrt.Meeting
---@field address string    of rank 0
---@field port integer
---@field token string      what tells this run from others

--- Find where the ranks meet: MASTER_ADDR and MASTER_PORT, else what their launcher
--- knows.  Ranks of mpirun on several hosts have no address but MPI itself.
---
--- Without a token of their own ranks use a secret of their user: the file that
--- MRT_RUN_FILE names, else ~/.mrt-secret (or in XDG_CONFIG_HOME), made with the first
--- run and for its owner's eyes only.  Hosts without a common home set MRT_RUN.
---
--- Raises (value): MASTER_PORT is no count; others may read that file.
---@param found mrt.Rank
---@param getenv? fun(name: string): string?  default os.getenv
---@param secret? fun(path: string): string?, string?  default core.secret
---@return mrt.Meeting
function ranks.meeting(found, getenv, secret)
  getenv = getenv or os.getenv
  local job = job_of(found, getenv)
  return { address = ranks.address(found, getenv) or "127.0.0.1", port = port_where(job, getenv),
    token = token_of(found.source, job, getenv, secret or core.secret) }
end

return ranks
