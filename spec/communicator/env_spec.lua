-- env_spec.lua -- which rank a process is, by its environment
local ranks = require "mrt.communicator.env"

local function find(environment)
  return ranks.find(function(name) return environment[name] end)
end

describe("the environment's rank", function()
  it("is none when nobody says anything", function()
    assert.is_nil(find {})
    assert.is_nil(find { MASTER_ADDR = "host", LOCAL_RANK = "1" })
    assert.is_nil(find { SLURM_NTASKS = "4" }) -- a batch script, not a task
  end)

  it("is that of the first who knows", function()
    local cases = {
      { "the environment", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE" },
      { "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE" },
      { "PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS" },
      { "Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE" },
    }
    for _, c in ipairs(cases) do
      local found = find { [c[2]] = "3", [c[3]] = "8", [c[4]] = "1", [c[5]] = "2" }
      assert.same({ c[1], 3, 8, 1, 2 }, { found.source, found.rank, found.size,
        found.local_rank, found.local_size })
    end
    local both = find { RANK = "1", WORLD_SIZE = "2", OMPI_COMM_WORLD_RANK = "1",
      OMPI_COMM_WORLD_SIZE = "2", SLURM_PROCID = "0", SLURM_NTASKS = "1" }
    assert.equal("the environment", both.source)
  end)

  it("is refused when it makes no sense", function()
    local function refused(text, environment)
      assert.error_matches(function() find(environment) end, text)
    end
    refused("RANK is 'one', a count wanted", { RANK = "one", WORLD_SIZE = "2" })
    refused("WORLD_SIZE is '%-1'", { RANK = "0", WORLD_SIZE = "-1" })
    refused("RANK is 2, below WORLD_SIZE = 2 wanted", { RANK = "2", WORLD_SIZE = "2" })
    refused("RANK is set %(1%), but not WORLD_SIZE", { RANK = "1" })
    refused("PMI_SIZE is set %(4%), but not PMI_RANK", { PMI_SIZE = "4" })
    refused("LOCAL_RANK is 3, below LOCAL_WORLD_SIZE = 2", { RANK = "3", WORLD_SIZE = "4",
      LOCAL_RANK = "3", LOCAL_WORLD_SIZE = "2" })
    refused("rank 0 of 2 .* Open MPI says rank 1 of 4", { RANK = "0", WORLD_SIZE = "2",
      OMPI_COMM_WORLD_RANK = "1", OMPI_COMM_WORLD_SIZE = "4" })
  end)
end)

describe("the environment's meeting", function()
  local function meeting(environment)
    local function getenv(name) return environment[name] end
    return ranks.meeting(ranks.find(getenv), getenv, function(path)
      if path == "theirs" then return nil, "theirs: others may read it" end
      return path == "/home/.mrt-secret" and "mine" or "own"
    end)
  end

  it("is at MASTER_ADDR and MASTER_PORT, of the run that is named", function()
    assert.same({ address = "h", port = 7, token = "x" }, meeting { RANK = "0",
      WORLD_SIZE = "2", MASTER_ADDR = "h", MASTER_PORT = "7", MRT_RUN = "x" })
    assert.same({ address = "127.0.0.1", port = 29500, token = "own " },
      meeting { RANK = "0", WORLD_SIZE = "2" })
    assert.error_matches(function()
      meeting { RANK = "0", WORLD_SIZE = "2", MASTER_PORT = "word" }
    end, "MASTER_PORT is 'word', a count wanted")
  end)

  it("has a secret, which no job's number is", function()
    local function token(environment)
      environment.RANK, environment.WORLD_SIZE = "0", "2"
      return meeting(environment).token
    end
    assert.equal("mine ", token { HOME = "/home" })
    assert.equal("own ", token { HOME = "/home", XDG_CONFIG_HOME = "/config" })
    assert.equal("own ", token { HOME = "/home", MRT_RUN_FILE = "/file", MRT_RUN = "" })
    assert.equal(63, #token { TORCHELASTIC_RUN_ID = ("x"):rep(100) })
    assert.error_matches(function() token { MRT_RUN_FILE = "theirs" } end,
      "share: theirs: others may read it; or set MRT_RUN")
    assert.equal("abc", meeting { OMPI_COMM_WORLD_RANK = "0", OMPI_COMM_WORLD_SIZE = "2",
      OMPI_COMM_WORLD_LOCAL_RANK = "0", OMPI_COMM_WORLD_LOCAL_SIZE = "2",
      OMPI_MCA_orte_precondition_transports = "abc" }.token)
  end)

  it("is beside torchrun's own port", function()
    local m = meeting { RANK = "0", WORLD_SIZE = "2", MASTER_ADDR = "h", MASTER_PORT = "45499",
      TORCHELASTIC_USE_AGENT_STORE = "True", TORCHELASTIC_RUN_ID = "id" }
    assert.is_true(m.port ~= 45499 and m.port >= 10000 and m.port < 30000)
    assert.same({ "h", "own id" }, { m.address, m.token })
  end)

  it("is known to launchers that set no address", function()
    assert.equal("own 77", meeting { OMPI_COMM_WORLD_RANK = "0", OMPI_COMM_WORLD_SIZE = "4",
      PMIX_NAMESPACE = "77" }.token)
    local function slurm(list)
      return meeting { SLURM_PROCID = "0", SLURM_NTASKS = "2", SLURM_JOB_ID = "12",
        SLURM_JOB_NODELIST = list }
    end
    assert.equal("a01", slurm "a[01-03,7],b2" .address)
    assert.equal("gpu-1", slurm "gpu-1,gpu-2" .address)
    assert.equal("a01-ib", slurm "a[01-03,7]-ib,b2" .address)
    assert.equal("127.0.0.1", slurm(nil).address)
    assert.is_true(slurm "a".port ~= 29500)
    local step = meeting { PMI_RANK = "0", PMI_SIZE = "2", SLURM_PROCID = "0", SLURM_NTASKS = "2",
      SLURM_JOB_ID = "12", SLURM_STEP_ID = "3", SLURM_JOB_NODELIST = "a[1-4]",
      SLURM_STEP_NODELIST = "a[3-4]" }
    assert.same({ "a3", "own 12.3" }, { step.address, step.token })
  end)

  it("is public where the whole Internet may come", function()
    for _, address in ipairs { "8.8.8.8", "172.32.0.1", "172.15.0.1", "100.128.0.1",
      "11.0.0.1", "192.169.1.1", "2001:db8::1", "::ffff:8.8.8.8" } do
      assert.is_true(ranks.is_public(address), address)
    end
    for _, address in ipairs { "127.0.0.1", "10.1.2.3", "172.16.0.1", "172.31.9.9",
      "192.168.0.7", "169.254.1.1", "100.64.0.1", "::1", "fe80::1", "fd00::2", "node-01",
      "localhost", "cafe.example.org", "" } do
      assert.is_false(ranks.is_public(address), address)
    end
  end)
end)
