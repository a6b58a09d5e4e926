-- process_spec.lua -- ranks that are processes: they meet, add up, fail together
local files = require "support.files"
local program = require "support.program"

local function script(text)
  return files.temporary("local mrt = require 'mrt'\n"
    .. "local rank = tonumber(os.getenv 'RANK')\n" .. text)
end

-- Status, output and seconds of the script under `mrt launch`.
local function launch(n, text, options, before)
  local path, began = script(text), os.time()
  local code, out = program.shell(("%s '%s' launch -n %d %s %s"):format(before or "",
    program.path, n, options or "", path))
  return code, out, os.time() - began
end

local function has(out, text) assert.truthy(out:find(text, 1, true), out) end

describe("ranks that are processes", function()
  it("add up, and hold the same bits", function()
    local code, out = launch(3, [[
      local comm = mrt.communicator.create()
      assert(comm == comm and comm.rank == rank and comm.size == 3)
      local total = comm:allreduce { 1, 2, rank }
      print(table.concat(total, " "), comm.transport)
      mrt.seed(rank)
      local sum = comm:allreduce(mrt.randn(1 << 17))
      local all = comm:allgather(comm:reduce_scatter(mrt.randn(3, 1000)))
      local digest = 0
      for _, t in ipairs { sum, all } do
        for five in t:bytes():gmatch "....." do
          digest = (digest * 31 + five:byte(2)) & 0xffffff
        end
      end
      print("digest", digest)]])
    assert.equal(0, code, out)
    local seen, count = {}, 0
    for digest in out:gmatch "digest%s+(%d+)" do seen[digest], count = true, count + 1 end
    assert.equal(3, count)
    assert.is_nil(next(seen, next(seen)))
    for r = 0, 2 do has(out, ("[%d] 3 6 3\tshared"):format(r)) end
  end)

  it("train as one does on the whole batch, bit for bit the same on every rank", function()
    local code, out = launch(2, [[
      local nn, comm = mrt.nn, mrt.communicator.create()
      local function train(parts, part)
        mrt.seed(1)
        local model = nn.Linear(5, 3)
        local params = model:parameters()
        local opt = mrt.optim.adamw(params, { lr = 0.01 })
        local step = mrt.compile(function(x, y)
          local loss = nn.mse_loss(model(x), y)
          local g = mrt.grad(loss, params)
          for i, d in ipairs(g) do g[i] = parts > 1 and comm:allreduce(d, { op = "mean" }) or d end
          opt:step(g)
          return loss
        end)
        mrt.seed(2)
        for _ = 1, 5 do
          local x, y = mrt.randn(8, 5), mrt.randn(8, 3)
          local n = 8 // parts
          step(x:slice(1, part * n + 1, (part + 1) * n), y:slice(1, part * n + 1, (part + 1) * n))
        end
        return model.weight
      end
      local ours, whole = train(2, rank), train(1, 0)
      local both = comm:allgather(ours):reshape(2, 3, 5)
      print("apart", (both:slice(1, 1, 1) - both:slice(1, 2, 2)):abs():amax():item())
      assert((ours - whole):abs():amax():item() < 1e-6)]])
    assert.equal(0, code, out)
    has(out, "[0] apart\t0.0")
    has(out, "[1] apart\t0.0")
  end)

  it("end when one dies, naming it, in little time", function()
    local code, out, seconds = launch(3, [[
      local comm = mrt.communicator.create()
      comm:barrier()
      if rank == 1 then os.execute "kill -9 $PPID" end
      print(pcall(comm.allreduce, comm, { 1 }))
      os.exit(4)]])
    assert.is_true(code ~= 0)
    for _, r in ipairs { 0, 2 } do
      assert.matches(("%%[%d%%] false[^\n]*rank 1"):format(r), out)
    end
    assert.is_true(seconds < 20, seconds .. " s")
  end)

  it("say what one asks for that the others do not", function()
    local _, out = launch(2, [[
      local comm = mrt.communicator.create()
      print(select(2, pcall(function()
        return rank == 0 and comm:allreduce(mrt.ones(3)) or comm:allreduce(mrt.ones(4))
      end)))]])
    for r = 0, 1 do
      local line = out:match(("%%[%d%%] ([^\n]*)"):format(r))
      has(line, "allreduce sum f32[3]")
      has(line, "allreduce sum f32[4]")
    end
  end)

  it("wait for one that is late as long as they are told", function()
    local code, out, seconds = launch(2, [[
      local comm = mrt.communicator.create { timeout = 2 }
      if rank == 1 then os.execute "kill -STOP $PPID" end
      print(pcall(comm.barrier, comm))
      os.exit(5)]], "--grace 0")
    assert.equal(5, code)
    assert.matches("%[0%] false[^\n]*rank 1[^\n]*within 2 s", out)
    assert.is_true(seconds < 20)
  end)

  it("say what is wrong with where they are to meet", function()
    local create = "print(pcall(mrt.communicator.create, { timeout = %d }))"
    local function alone(environment)
      local path = script(create:format(1))
      local _, out = program.shell(("MRT_RUN=spec %s '%s' %s"):format(environment,
        program.path, path))
      return out
    end
    has(alone "RANK=1 WORLD_SIZE=2 MASTER_PORT=1", "found no rank 0 at 127.0.0.1:1")
    has(alone "RANK=0 WORLD_SIZE=2 MASTER_PORT=99999", "MASTER_PORT is 99999, 1 to 65535 wanted")
    has(alone "RANK=0 WORLD_SIZE=2 MASTER_PORT=word", "MASTER_PORT is 'word'")
    has(alone "RANK=2 WORLD_SIZE=2", "RANK is 2, below WORLD_SIZE = 2 wanted")
    local port = require "mrt.core".free_port()
    has(alone(("RANK=0 WORLD_SIZE=3 MASTER_PORT=%d"):format(port)),
      ("2 of 3 ranks did not come to 127.0.0.1:%d within 1 s: 1, 2"):format(port))
    -- another run's rank 0 has the port
    local path = script(create:format(60))
    local _, out = program.shell(([[export WORLD_SIZE=2 MASTER_PORT=%d
      RANK=0 MRT_RUN=a '%s' %s >/dev/null & first=$!
      until grep -q ':%04X 00000000:0000 0A' /proc/net/tcp || ! kill -0 $first; do
        sleep 0.05
      done
      RANK=0 MRT_RUN=b '%s' %s; RANK=1 MRT_RUN=b '%s' %s; kill $first]]):format(port,
      program.path, path, port, program.path, path, program.path, path))
    has(out, "cannot listen at 127.0.0.1:" .. port)
    has(out, "does not take rank 1")
    _, out = program.shell(([[export MRT_RUN=spec MASTER_PORT=%d
      WORLD_SIZE=3 RANK=0 '%s' %s & WORLD_SIZE=2 RANK=1 '%s' %s; wait]])
      :format(port, program.path, path, program.path, path))
    assert.equal(2, select(2, out:gsub("expects 2 ranks, rank 0 expects 3", "")), out)
  end)
end)
