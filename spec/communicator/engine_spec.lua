-- engine_spec.lua -- which engine is chosen, by what there is
local engine = require "mrt.communicator.engine"
local ranks = require "mrt.communicator.env"

local OPEN <const>, MPICH <const> = "Open MPI v4.1.4", "MPICH Version: 4.0.2"

local mpirun = { OMPI_COMM_WORLD_RANK = "0", OMPI_COMM_WORLD_SIZE = "4",
  OMPI_COMM_WORLD_LOCAL_RANK = "0", OMPI_COMM_WORLD_LOCAL_SIZE = "2" }
local hydra = { PMI_RANK = "0", PMI_SIZE = "4", MPI_LOCALRANKID = "0", MPI_LOCALNRANKS = "2" }
local srun = { SLURM_PROCID = "0", SLURM_NTASKS = "4", SLURM_LOCALID = "0",
  SLURM_STEP_NUM_NODES = "2", SLURM_STEP_NODELIST = "n[1-2]" }
local pmix = { PMIX_RANK = "0", PMIX_NAMESPACE = "slurm.pmix.1.0" }

-- The choice in these environments together; an empty text takes a variable out.
local function choose(mpi, ...)
  local environment = {}
  for _, t in ipairs { ... } do
    for name, value in pairs(t) do environment[name] = value ~= "" and value or nil end
  end
  local function getenv(name) return environment[name] end
  return engine.choose(ranks.find(getenv), getenv, function()
    if mpi then return mpi end
    return nil, "no MPI plug-in: not found"
  end)
end

describe("the engine between hosts", function()
  it("is MPI where a launcher that has it started the ranks", function()
    for _, case in ipairs { { OPEN, mpirun }, { MPICH, hydra }, { OPEN, srun, pmix },
      { MPICH, srun, { PMI_RANK = "0", PMI_SIZE = "4" } } } do
      local choice = choose(table.unpack(case))
      assert.equal("mpi", choice.transport)
      assert.matches("started the ranks: " .. case[1], choice.why)
    end
  end)

  it("is MPI too where nobody says how many are on a host", function()
    local silent = { OMPI_COMM_WORLD_LOCAL_RANK = "", OMPI_COMM_WORLD_LOCAL_SIZE = "" }
    assert.equal("mpi", choose(OPEN, mpirun, silent).transport)
    assert.equal("mpi", choose(MPICH, { PMI_RANK = "0", PMI_SIZE = "4" }).transport)
  end)

  it("does not matter on one host", function()
    assert.equal("", choose(OPEN, mpirun, { OMPI_COMM_WORLD_LOCAL_SIZE = "4" }).transport)
    assert.equal("", choose(OPEN, srun, pmix, { SLURM_STEP_NUM_NODES = "1" }).transport)
  end)

  it("is our own where neither launcher nor MPI is there, which it says", function()
    local plain = choose(OPEN, { RANK = "0", WORLD_SIZE = "4", MASTER_ADDR = "h" })
    assert.same({ "", "no launcher that has MPI started the ranks" },
      { plain.transport, plain.why })
    assert.matches("no launcher", choose(OPEN, srun).why) -- srun alone
    local without = choose(nil, srun, pmix)
    assert.equal("", without.transport)
    assert.matches("srun with PMIx started the ranks, but .* no MPI plug%-in: not found",
      without.why)
    local other = choose(MPICH, mpirun, { MASTER_ADDR = "h" })
    assert.equal("", other.transport)
    assert.matches("for another, MPICH Version: 4.0.2 %(MRT_MPI names one built for Open MPI%)",
      other.why)
    assert.matches("for another, Open MPI", choose(OPEN, hydra, { MASTER_ADDR = "h" }).why)
    local pmi2 = choose(OPEN, srun, { PMI_RANK = "0", PMI_SIZE = "4" })
    assert.equal("", pmi2.transport)
    assert.matches("srun with PMI2 .* start by srun %-%-mpi=pmix", pmi2.why)
  end)

  it("is to be had, or an address", function()
    for _, case in ipairs { { nil, mpirun, text = "no MPI plug%-in: not found" },
      { OPEN, hydra, text = "for another, Open MPI" } } do
      assert.error_matches(function() choose(case[1], case[2]) end,
        case.text .. ".*set MASTER_ADDR to rank 0's host")
    end
  end)

  it("has another to go on by where there is an address", function()
    assert.is_nil(choose(OPEN, mpirun).or_else)
    assert.matches("takes each of them for alone", choose(OPEN, srun, pmix).or_else)
  end)

  it("is what MRT_TRANSPORT says", function()
    local choice = choose(nil, mpirun, { MRT_TRANSPORT = "sockets" })
    assert.same({ "sockets", true }, { choice.transport, choice.named })
  end)
end)
