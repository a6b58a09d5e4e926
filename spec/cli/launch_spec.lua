-- launch_spec.lua -- `mrt launch`: ranks started, read, ended together
local files = require "support.files"
local program = require "support.program"

-- A script for the ranks, by name.
local function script(text)
  return files.temporary("local rank, attempt = tonumber(os.getenv 'RANK'), "
    .. "os.getenv 'MRT_RESTART'\n" .. text)
end

-- Status and output of `mrt launch`; how long it took, in whole seconds.
local function launch(options, text, more)
  local began = os.time()
  local code, out = program.run(("launch %s %s %s"):format(options, script(text), more or ""))
  return code, out, os.time() - began
end

local function sorted(text)
  local lines = {}
  for line in text:gmatch "[^\n]+" do lines[#lines + 1] = line end
  table.sort(lines)
  return lines
end

describe("mrt launch", function()
  it("starts ranks that know who they are, and shows whole lines", function()
    local code, out = launch("-n 3", [[
      io.write("rank ", rank, " of ", os.getenv "WORLD_SIZE", " local ",
        os.getenv "LOCAL_RANK", "/", os.getenv "LOCAL_WORLD_SIZE", " ", ..., "\n")
      io.write "the end"]], "word")
    assert.equal(0, code)
    assert.same({ "[0] rank 0 of 3 local 0/3 word", "[0] the end",
      "[1] rank 1 of 3 local 1/3 word", "[1] the end",
      "[2] rank 2 of 3 local 2/3 word", "[2] the end" }, sorted(out))
    assert.equal("plain\n", select(2, launch("-n 1 --no-prefix", "print 'plain'")))
  end)

  it("starts those of one host of several, which meet the others", function()
    local path = script [[
      local world = require("mrt").communicator.create { timeout = 20 }
      io.write(rank, " ", world.local_rank, " ", world:allreduce({ rank })[1], " ",
        world.transport, "\n")]]
    local function node(k)
      return ("MRT_HOST=h%d '%s' launch -n 2 --nodes 2 --node %d %s"):format(k, program.path, k,
        path)
    end
    local port = require "mrt.core".free_port()
    local code, out = program.shell(("exec 2>&1; export MRT_RUN=spec MASTER_ADDR=127.0.0.1 "
      .. "MASTER_PORT=%d; %s & %s && wait $!"):format(port, node(0), node(1)))
    assert.equal(0, code, out)
    assert.same({ "[0] 0 0 6 sockets", "[1] 1 1 6 sockets", "[2] 2 0 6 sockets",
      "[3] 3 1 6 sockets" }, sorted((out:gsub("[^\n]*mrt: ranks on several[^\n]*\n", ""))))
    for options, text in pairs { ["--node 1"] = "--node 1, but --nodes is 1",
      ["--nodes 2 --node 2"] = "--node 2, 0 to 1 wanted",
      ["--nodes 2"] = "--nodes wants MASTER_ADDR",
      ["--nodes 2 --restarts 1"] = "--nodes wants MASTER_ADDR" } do
      code, out = launch(options, "")
      assert.equal(1, code)
      assert.truthy(out:find("mrt launch: " .. text, 1, true), out)
    end
  end)

  it("tells each its number on this host, in parts of the ranks too", function()
    local code, out = launch("-n 3 --no-prefix", [[
      local world = require("mrt").communicator.create()
      print(world.local_rank, world:split(world.rank // 2).local_rank)]])
    assert.equal(0, code, out)
    assert.same({ "0\t0", "1\t1", "2\t2" }, sorted(out))
  end)

  it("has rank 0, and no other, hold the port that all are told", function()
    local code, out = launch("-n 2", [[
      local fd = os.getenv "MRT_LISTENER"
      local port, held = ("0100007F:%04X "):format(os.getenv "MASTER_PORT"), false
      for line in io.lines "/proc/self/net/tcp" do
        held = held or line:find(port, 1, true) and line:find " 0A " ~= nil
      end
      if rank == 0 then print(held, tonumber(fd) ~= nil) else print(fd == "") end
      require("mrt").communicator.create():barrier()]])
    assert.equal(0, code, out)
    assert.same({ "[0] true\ttrue", "[1] true" }, sorted(out))
  end)

  it("takes in more than pipes hold, from both outputs", function()
    local code, out = launch("-n 2", [[
      local line = ("x"):rep(99)
      for _ = 1, 3000 do print(line) io.stderr:write(line, "\n") end]])
    assert.equal(0, code)
    assert.equal(12000 * (99 + 5), #out)
  end)

  it("ends the others when one fails, with its status", function()
    local code, out, seconds = launch("-n 3 --grace 0.2", [[
      if rank == 1 then os.exit(7) end
      while true do end]])
    assert.equal(7, code)
    assert.matches("rank 1 %(pid %d+%) ended with status 7", out)
    assert.is_true(seconds < 20)
    code, out = launch("-n 2 --grace 0.2", [[
      if rank == 0 then os.execute("kill -9 $PPID") end
      while true do end]])
    assert.equal(128 + 9, code)
    assert.matches("rank 0 %(pid %d+%) was ended by signal 9", out)
    code, out = launch("-n 2", "error 'broken'")
    assert.equal(1, code)
    assert.matches("%[0%][^\n]*broken", out)
  end)

  it("gives the others time to say what they have to", function()
    local _, out = launch("-n 2 --grace 20", [[
      if rank == 1 then os.exit(3) end
      local ends = os.time() + 2
      while os.time() < ends do end
      print "said"]])
    assert.matches("%[0%] said", out)
  end)

  it("starts all anew as often as it may", function()
    local text = [[
      print("attempt " .. attempt)
      if tonumber(attempt) < 2 and rank == 1 then os.exit(5) end]]
    local code, out = launch("-n 2 --restarts 3 --grace 0", text)
    assert.equal(0, code)
    assert.matches("%[1%] attempt 2", out)
    assert.falsy(out:find("attempt 3", 1, true))
    code, out = launch("-n 2 --restarts 1 --grace 0", text)
    assert.equal(5, code)
    assert.falsy(out:find("attempt 2", 1, true))
  end)

  it("leaves no rank behind when it is killed itself", function()
    local path = script [[
      local pid = io.open "/proc/self/stat":read "n"
      local file = io.open(arg[0] .. rank, "w")
      file:write(pid)
      file:close()
      while true do end]]
    local _, out = program.shell(([['%s' launch -n 2 %s >/dev/null 2>&1 & launcher=$!
      while ! [ -s %s0 ] || ! [ -s %s1 ]; do sleep 0.1; done
      for i in 0 1; do kill -0 $(cat %s$i) && echo lives; done
      kill -9 $launcher
      for i in 0 1; do # gone, or a zombie that nobody has asked for
        for try in $(seq 200); do
          cut -d' ' -f3 /proc/$(cat %s$i)/stat 2>/dev/null | grep -v Z || continue 2
          sleep 0.1
        done >/dev/null
        echo stays
      done]])
      :format(program.path, path, path, path, path, path))
    assert.equal("lives\nlives\n", (out:gsub("[^\n]*Killed[^\n]*\n", "")))
  end)

  it("says what it cannot do", function()
    local function refused(arguments, text, status)
      local code, out = program.run("launch " .. arguments)
      assert.equal(status or 2, code)
      assert.truthy(out:find(text, 1, true), out)
    end
    refused("", "script.lua wanted")
    refused("-n 0 x.lua", "--ranks: '0', a whole number from 1 wanted")
    refused("-n", "--ranks wants a value")
    refused("--restart 2 x.lua", "no option '--restart'; did you mean --restarts?")
    refused("-n 2 no_such_file.lua", "no_such_file.lua", 1)
  end)
end)
