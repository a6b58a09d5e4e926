-- messages_spec.lua -- ranks that share no memory: sockets, MPI, two hosts, a cut network
local core = require "mrt.core"
local files = require "support.files"
local program = require "support.program"

local function script(text)
  return files.temporary("local mrt = require 'mrt'\n" .. text)
end

local function has(out, text) assert.truthy(out:find(text, 1, true), out) end

local function found(command)
  return (program.shell("command -v " .. command)) == 0
end

-- A digest of what collectives give, printed with the transport and the bytes sent.
local sums = [[
  local comm = mrt.communicator.create { algorithm = os.getenv "ALGORITHM", timeout = 20 }
  mrt.seed(comm.rank)
  local x, digest = mrt.randn(6 << 16), 0
  local before = comm:sent()
  local all = mrt.eval(comm:allreduce(x))
  local sent = comm:sent() - before
  local pieces = comm:allgather(comm:reduce_scatter(mrt.randn(5 * comm.size, 1000)))
  local root = comm:broadcast(mrt.randn(70000), { root = comm.size - 1 })
  local part = comm:split(comm.rank % 2)
  local few = part:allreduce { comm.rank }
  local half = comm:allreduce(mrt.randn(999):cast "bf16")
  for _, t in ipairs { all, pieces, root, half } do
    for five in t:bytes():gmatch "....." do
      digest = (digest * 31 + five:byte(2)) & 0xffffff
    end
  end
  comm:barrier()
  io.write(("%d: %s %d, %d, %g of the whole\n"):format(comm.rank, comm.transport, digest,
    few[1], sent / (24 << 16)))]]

-- The lines of the ranks, in order.
local function lines_of(out)
  local lines = {}
  for line in out:gmatch "%d: %a+ %d+, %d+, [^\n]+ of the whole" do lines[#lines + 1] = line end
  table.sort(lines)
  return lines
end

-- Ranks of a world, each with its own words before the program.
local function world(n, path, before, port)
  local text = "export MRT_RUN=spec MASTER_ADDR=127.0.0.1 MASTER_PORT="
    .. (port or core.free_port())
  for r = 0, n - 1 do
    text = text .. ("\nRANK=%d WORLD_SIZE=%d %s '%s' %s 2>&1 &"):format(r, n, before(r),
      program.path, path)
  end
  return select(2, program.shell(text .. "\nwait"))
end

-- Of ranks that share memory, by how many there are.
local shared = {}
local function lines_shared(n)
  if not shared[n] then
    local _, out = program.run(("launch -n %d --no-prefix %s"):format(n, script(sums)))
    shared[n] = lines_of(out)
    assert.equal(n, #shared[n], out)
  end
  return shared[n]
end

-- The same lines, but for what carries them.
local function same(n, out, transport)
  local lines = lines_of(out)
  assert.equal(n, #lines, out)
  for r, line in ipairs(lines) do
    has(line, (": %s "):format(transport))
    has(line, ("%g of the whole"):format(2 * (n - 1) / n))
    assert.equal(lines_shared(n)[r]:match "shared (%d+, %d+)", line:match "%a+ (%d+, %d+)")
  end
end

describe("#process ranks that exchange messages", function()
  it("have the bits of those that share memory", function()
    local path = script(sums)
    for n = 2, 3 do
      same(n, world(n, path, function() return "MRT_TRANSPORT=sockets" end), "sockets")
    end
  end)

  it("go round the ring and give away as many bytes", function()
    local lines = lines_of(world(3, script(sums), function()
      return "ALGORITHM=ring MRT_TRANSPORT=sockets"
    end))
    local digest = lines[1]:match "sockets (%d+)"
    for _, line in ipairs(lines) do
      has(line, ("sockets %s,"):format(digest))
      has(line, "1.33333 of the whole")
    end
  end)

  it("do so where they are on several hosts", function()
    same(3, world(3, script(sums), function(r) return "MRT_HOST=h" .. r // 2 end), "sockets")
  end)

  it("end when one dies, naming it and its host", function()
    local path = script [[
      local comm = mrt.communicator.create()
      comm:barrier()
      if comm.rank == 1 then os.execute "kill -9 $PPID" end
      print(comm.rank, pcall(comm.allreduce, comm, { 1 }))]]
    local began = os.time()
    local out = world(3, path, function(r) return "MRT_HOST=h" .. r end)
    for _, r in ipairs { 0, 2 } do
      assert.matches(r .. "\tfalse[^\n]*rank 1 %(pid %d+ on h1%) is gone", out)
    end
    assert.is_true(os.time() - began < 20)
  end)

  it("say what does not fit", function()
    local path = script "print(pcall(mrt.communicator.create, { timeout = 5 }))"
    has(world(2, path, function() return "MRT_TRANSPORT=pigeon" end),
      "MRT_TRANSPORT is 'pigeon': shared, sockets or mpi wanted")
    has(world(2, path, function(r) return r == 0 and "MRT_TRANSPORT=sockets" or "" end),
      "rank 0 has MRT_TRANSPORT 'sockets', rank 1 ''")
    has(world(2, path, function(r) return "MRT_TRANSPORT=shared MRT_HOST=h" .. r end),
      "rank 0 is on h0, rank 1 on h1: they cannot share memory")
    has(world(2, script(sums), function(r)
      return "MRT_TRANSPORT=sockets ALGORITHM=" .. (r == 0 and "ring" or "pairwise")
    end), "rank 0 has the algorithm 'ring', rank 1 'pairwise'")
    assert.matches("algorithm: 'star', pairwise or ring wanted", select(2,
      pcall(require "mrt.communicator".create, { algorithm = "star" })))
    has(world(2, path, function() return "MRT_TRANSPORT=mpi MRT_MPI=/no/such.so" end),
      "no MPI plug-in: /no/such.so")
  end)
end)

-- ---- MPI ------------------------------------------------------------------------

local plugin = program.path:match "^(.*/)" .. "lib/libmrt_mpi.so"
local mpirun = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
  .. "OMPI_MCA_rmaps_base_oversubscribe=1 timeout -k 1 60 mpirun "
local no_mpi = not found "mpirun" and "there is no mpirun"
  or not io.open(plugin) and "the MPI plug-in is not built"

describe("#process ranks of mpirun", function()
  if no_mpi then return pending(no_mpi) end

  it("share memory on one host, and meet without an address", function()
    local _, out = program.shell(("%s -n 2 '%s' %s"):format(mpirun, program.path, script(sums)))
    local lines = lines_of(out)
    assert.equal(2, #lines, out)
    for _, line in ipairs(lines) do has(line, ": shared ") end
  end)

  it("have the same bits over MPI", function()
    local path = script(sums)
    for n = 2, 3 do
      local code, out = program.shell(("MRT_TRANSPORT=mpi %s -n %d '%s' %s"):format(mpirun, n,
        program.path, path))
      assert.equal(0, code, out)
      same(n, out, "mpi")
    end
  end)

  it("say so when MPI takes each for alone", function()
    local _, out = program.shell(("MRT_TRANSPORT=mpi '%s' launch -n 2 %s"):format(program.path,
      script "mrt.communicator.create()"))
    has(out, "MPI says rank 0 of 1, the environment rank 1 of 2")
  end)

  it("of srun, whom MPI takes for alone each, go on without it, which is told", function()
    local out = world(2, script(sums), function(r) -- two that begin at once, in a folder each
      return ("OMPI_MCA_orte_tmpdir_base=$(mktemp -d) OMPI_MCA_pmix=isolated PMIX_RANK=%d "
        .. "PMIX_NAMESPACE=x SLURM_PROCID=%d SLURM_NTASKS=2 SLURM_STEP_NUM_NODES=2 MRT_HOST=h%d")
        :format(r, r, r)
    end)
    same(2, out, "sockets")
    local _, told = out:gsub("by mrt's own TCP mesh [^\n]*srun with PMIx started the ranks, but "
      .. "Open MPI [^\n]* takes each of them for alone", "")
    assert.equal(1, told, out)
  end)

  it("compare what they ask for, and wait for one that stands still no longer than told",
    function()
      local _, out = program.shell(("MRT_TRANSPORT=mpi %s -n 2 '%s' %s"):format(mpirun,
        program.path, script [[
          local comm = mrt.communicator.create()
          local ok, why = pcall(comm.allreduce, comm, comm.rank == 0 and { 1 } or { 1, 2 })
          io.stdout:write(comm.rank, " ", tostring(why), "\n")]]))
      for r = 0, 1 do
        assert.matches(r .. " [^\n]*allreduce sum f64%[1%][^\n]*allreduce sum f64%[2%]", out)
      end
      _, out = program.shell(("MRT_TRANSPORT=mpi %s -n 2 '%s' %s"):format(mpirun,
        program.path, script [[
          local comm = mrt.communicator.create { timeout = 2 }
          comm:barrier()
          if comm.rank == 1 then os.execute "kill -STOP $PPID" end
          print(pcall(comm.allreduce, comm, { 1 }))
          io.stdout:flush()
          os.exit(1)]]))
      assert.matches("rank 1 %(pid %d+ on [^)]+%) did not come to[^\n]*within 2 s", out)
    end)
end)

-- ---- two hosts, as network namespaces ---------------------------------------------

-- Names end in this process's number, so that two runs do not meet.  nsenter wants no
-- mounts of its own, as `ip netns exec` does: a container may refuse them.
local here = io.open "/proc/self/stat":read "n"
local a, b = "mrta" .. here, "mrtb" .. here
-- The network between them is there when each refuses the other a connection.
local up = ([[
  reach() {
    for i in $(seq 100); do
      nsenter --net=/run/netns/$1 timeout 1 bash -c "</dev/tcp/$2/1" 2>&1 | grep -q refused && break
      sleep 0.1
    done
  }
  for n in %s %s; do nsenter --net=/run/netns/$n ip link set v0 up; done
  reach %s 10.77.0.2; reach %s 10.77.0.1]]):format(a, b, a, b)
local made = program.shell(([[
  command -v ip >/dev/null || exit 1
  set -e
  for n in %s %s; do ip netns add $n; nsenter --net=/run/netns/$n ip link set lo up; done
  ip link add v0 netns %s type veth peer name v0 netns %s
  nsenter --net=/run/netns/%s ip addr add 10.77.0.1/24 dev v0
  nsenter --net=/run/netns/%s ip addr add 10.77.0.2/24 dev v0
  ]] .. up):format(a, b, a, b, a, b)) == 0

local function clean()
  program.shell(([[for n in %s %s; do
    ip netns pids $n | xargs -r kill -9; ip netns del $n; done]]):format(a, b))
end

describe("#process two hosts", function()
  if not made then
    clean()
    return pending "network namespaces cannot be made here"
  end
  teardown(clean)

  -- Sums for ever; what ends it is written to a file, as the network may be cut.
  local function endless(output)
    return script(([[
      local comm = mrt.communicator.create { timeout = 2 }
      local x, ok, why = mrt.eval(mrt.randn(1 << 18)), true
      repeat
        ok, why = pcall(function() mrt.eval(comm:allreduce(x)) end)
        local file = io.open("%s" .. comm.rank, "w")
        file:write(ok and "sums" or os.time() .. " " .. why)
        file:close()
      until not ok
      os.exit(1)]]):format(output))
  end

  -- Runs the command, cuts the network once both have added up, waits for the end.
  local function cut(command, output)
    local _, out = program.shell(([[
      exec 2>&1
      %s &
      for i in $(seq 300); do [ -s %s0 ] && [ -s %s1 ] && break; sleep 0.1; done
      sleep 0.5; date +%%s; nsenter --net=/run/netns/%s ip link set v0 down
      for i in $(seq 100); do
        grep -q rank %s0 && grep -q rank %s1 && break; sleep 0.1
      done
      for n in %s %s; do ip netns pids $n | xargs -r kill -9; done
      wait
      ]]):format(command, output, output, a, output, output, a, b) .. up)
    local began = tonumber(out:match "^(%d+)\n" or out:match "\n(%d+)\n")
    for r = 0, 1 do
      local file = assert(io.open(output .. r), out)
      local ended, text = file:read "n", file:read "a"
      file:close()
      assert.matches(("rank %d %%(pid %%d+ on host[ab]%%) did not [^\n]*within 2 s"):format(1 - r),
        text)
      assert.is_true(ended - began < 10)
    end
  end

  -- The two ranks by hand, over sockets.
  local function by_hand(path)
    local text = "{ export MRT_RUN=spec WORLD_SIZE=2 MASTER_ADDR=10.77.0.1; "
    for r, n in ipairs { a, b } do
      text = text .. ("RANK=%d MRT_HOST=host%s timeout -k 1 60 "
        .. "nsenter --net=/run/netns/%s '%s' %s & ")
        :format(r - 1, n:sub(4, 4), n, program.path, path)
    end
    return text .. "wait; }"
  end

  -- By mpirun on the first, which reaches the second by an agent.
  local function by_mpirun(path, agent)
    files.write(agent, ("#!/bin/sh\nshift\nexec nsenter --net=/run/netns/%s unshare -u "
      .. "sh -c \"hostname hostb; $*\"\n"):format(b))
    return ("chmod +x %s; nsenter --net=/run/netns/%s unshare -u sh -c 'hostname hosta; %s -mca "
      .. "plm_rsh_agent %s -host 10.77.0.1,10.77.0.2 -n 2 \"$(realpath %s)\" %s'")
      :format(agent, a, mpirun, agent, program.path, path)
  end

  it("add up over sockets, and end when the network is cut", function()
    local _, out = program.shell(by_hand(script(sums)))
    local lines = lines_of(out)
    assert.equal(2, #lines, out)
    has(lines[1], ": sockets ")
    local output = files.name()
    cut(by_hand(endless(output)), output)
  end)

  it("add up over MPI, and end when the network is cut", function()
    if no_mpi then return pending(no_mpi) end
    local agent, output = files.name(), files.name()
    local _, out = program.shell(by_mpirun(script(sums), agent))
    local lines = lines_of(out)
    assert.equal(2, #lines, out)
    has(lines[1], ": mpi ")
    cut(by_mpirun(endless(output), agent), output)
  end)
end)
