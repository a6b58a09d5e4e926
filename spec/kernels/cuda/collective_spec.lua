-- collective_spec.lua -- collectives of values on CUDA devices, by two processes
--
-- Once through the host and once by NCCL, which on the emulated device is
-- emulated too; of GPUs there must be three for it (MRT_SPEC_GPUS).  What goes
-- through the host shares one.
local program = require "support.program"
local files = require "support.files"
local ranks = require "support.ranks"

local library = os.getenv "MRT_CUDA"
if not library then
  describe("collectives on a CUDA device", function()
    pending "MRT_CUDA names no plug-in"
  end)
  return
end

local gpus = tonumber(os.getenv "MRT_SPEC_GPUS") or 1
local ways = { "off" }
if library:find("emulated", 1, true) then
  ways[2] = library
elseif gpus > 2 then
  ways[2] = "libnccl.so.2"
end

-- What every rank's script begins with.
local head = [[
local mrt = require "mrt"
local nn, optim = mrt.nn, mrt.optim
local comm = mrt.communicator.create { timeout = TIMEOUT }
local rank, size = comm.rank, comm.size
local cuda = "cuda:" .. rank % GPUS
mrt.device(cuda)
-- A device so slow that collectives are worth beginning ahead.
local function slow()
  mrt.device.ready() -- or its first plan would take the measured one
  require "mrt.core".set_device { launch = 1e-9, bandwidth = 1e9, cache_bandwidth = 1e9 }
end
local function caught(f, ...)
  local ok, err = pcall(f, ...)
  return ok and "no error" or tostring(err.code) .. ": " .. tostring(err)
end
]]

-- Status, output and seconds of the script on `n` ranks.
local function launch(n, way, text, timeout, options, before)
  local path = files.temporary((head .. text):gsub("TIMEOUT", timeout or 60)
    :gsub("GPUS", way == "off" and 1 or gpus))
  local began = os.time()
  local line = "%s MRT_EMULATE_TELL=1 MRT_NCCL='%s' '%s' launch -n %d %s '%s'"
  local code, out = program.shell(line:format(before or "", way, program.path, n, options or "",
    path))
  return code, out, os.time() - began
end

local function has(out, text) assert.truthy(out:find(text, 1, true), out) end

for _, way in ipairs(ways) do
  local name = way == "off" and "through the host" or "by NCCL"

  describe("collectives on a CUDA device, " .. name, function()
    it("give what the CPU gives, in steps that are replayed", function()
      local code, out = launch(2, way, [[
        local function values(dtype, i, ...)
          mrt.seed(10 * i + rank)
          if dtype == "bool" then return mrt.randn(...):gt(0) end
          if dtype:find "^f8" then return mrt.randn(...):to(dtype) end
          if dtype == "u8" then return (mrt.randn(...) * 0 + 3 + rank):to(dtype) end
          return (mrt.randn(...) * 8):to(dtype)
        end
        local cases = {}
        local function case(dtype, what, f) cases[#cases + 1] = { dtype, what, f } end
        for _, dtype in ipairs { "f32", "f64", "f16", "bf16", "i32", "i64", "u8", "bool",
          "f8_e4m3" } do
          local reduced = dtype == "bool" and { "max", "min" }
            or dtype == "f8_e4m3" and {} or { "sum", "mean", "max", "min", "prod" }
          for _, op in ipairs(reduced) do
            if op ~= "mean" or dtype:find "f" then
              local how = { op = op }
              case(dtype, "allreduce " .. op, function(x) return comm:allreduce(x, how) end)
              case(dtype, "scatter " .. op, function(x) return comm:reduce_scatter(x, how) end)
            end
          end
          case(dtype, "allgather", function(x) return comm:allgather(x) end)
          case(dtype, "broadcast", function(x) return comm:broadcast(x, { root = 1 }) end)
          case(dtype, "all_to_all", function(x) return comm:all_to_all(x) end)
          case(dtype, "shift", function(x) return comm:shift(x) end)
        end
        local bad = {}
        for _, c in ipairs(cases) do
          local dtype, what, f = table.unpack(c)
          for _, rows in ipairs { 2, 6 } do
            local step = mrt.compile(f)
            for i = 1, 3 do
              mrt.device "cpu"
              local x = mrt.eval(values(dtype, i, rows, rows == 2 and 7 or 501))
              local wanted = f(x):bytes()
              mrt.device(cuda)
              if step(x:to(cuda)):bytes() ~= wanted then
                bad[#bad + 1] = ("%s %s run %d"):format(what, dtype, i)
              end
            end
          end
        end
        print(#cases .. " cases", #bad .. " bad", table.concat(bad, ", "))]])
      assert.equal(0, code, out)
      for r = 0, 1 do has(out, ("[%d] 104 cases\t0 bad"):format(r)) end
    end)

    it("move values between two ranks, and of three in parts", function()
      local code, out = launch(3, way, [[
        local ring = mrt.compile(function(x)
          if rank == 0 then comm:send(x, { to = 1 }) end
          local y = comm:recv(x, { from = (rank + 2) % 3 })
          if rank > 0 then comm:send(x, { to = (rank + 1) % 3 }) end
          return y
        end)
        local got = {}
        for i = 1, 3 do got[i] = ring(mrt.tensor { rank + 10.5 * i, i }):totable()[1] end
        print("ring", table.concat(got, " "))
        local part = comm:split(rank == 1 and 1 or 0)
        local sum = mrt.compile(function(x) return part:allreduce(x) end)
        print("part", sum(mrt.tensor { rank + 1.0 }):item(), sum(mrt.tensor { 1.0 }):item())
        -- another device's, the host's own, and queued ones keep their order
        local queued = sum(mrt.tensor { 2.0 })
        part:barrier()
        mrt.device "cpu"
        local here = part:allreduce(mrt.ones(2)):totable()[1]
        print("mixed", here, queued:item())]])
      assert.equal(0, code, out)
      for r = 0, 2 do
        local from = (r + 2) % 3
        has(out, ("[%d] ring\t%.1f %.1f %.1f"):format(r, from + 10.5, from + 21, from + 31.5))
      end
      has(out, "[0] part\t4.0\t2.0")
      has(out, "[1] part\t2.0\t1.0")
      has(out, "[1] mixed\t1.0\t2.0")
      has(out, "[2] mixed\t2.0\t4.0")
    end)

    it("train as on the CPU", function()
      local code, out = launch(2, way, [[
        local function train(device)
          mrt.device(device)
          mrt.seed(4)
          local options = nil
        ]] .. ranks.step .. [[
          local list = {}
          for i = 1, 6 do
            mrt.seed(20 * i + rank)
            list[i] = step(mrt.randn(6, 8), mrt.randn(6, 4)):item()
          end
          for _, w in ipairs(p) do
            for _, v in ipairs(w:reshape(-1):totable()) do list[#list + 1] = v end
          end
          return list
        end
        local here, there, worst = train "cpu", train(cuda), 0
        for i, v in ipairs(here) do worst = math.max(worst, math.abs(v - there[i])) end
        local both = comm:allgather(there)
        local apart = 0
        for i = 1, #there do apart = math.max(apart, math.abs(both[i] - both[#there + i])) end
        print(worst < 1e-5 and "close" or worst, "apart", apart)]])
      assert.equal(0, code, out)
      for r = 0, 1 do has(out, ("[%d] close\tapart\t0"):format(r)) end
      if way == library then assert.matches("calls, [1-9]%d* in groups", out) end
    end)

    local sharded = [[
      mrt.seed(4)
      slow()
      local model = nn.Sequential(nn.Linear(16, 1024), nn.Tanh(), nn.Linear(1024, 1024),
        nn.Tanh(), nn.Linear(1024, 16))
      local p = model:parameters()
      local opt = optim.sgd(p, { lr = 1e-2 })
      local step = mrt.compile(function(a)
        local loss = (model(a) ^ 2):mean()
        opt:step(mrt.grad(loss, p))
        return loss
      end, { shard = mrt.policy.shard.fsdp { bucket = 0, prefetch = prefetch } })
    ]]

    it("begin ahead beside the step, with the same bits", function()
      local code, out = launch(2, way, [[
        local function train(prefetch)
          ]] .. sharded .. [[
          local bits, ahead = {}, 0
          for i = 1, 4 do
            mrt.seed(20 * i + rank)
            bits[i] = step(mrt.randn(4, 16)):bytes()
          end
          for _, s in ipairs(step:plan(mrt.randn(4, 16)):steps()) do
            if s.op == "arrive" then ahead = ahead + 1 end
          end
          for _, w in ipairs(p) do bits[#bits + 1] = w:bytes() end
          return table.concat(bits), ahead
        end
        local plain, none = train(0)
        local bits, ahead = train(2)
        print(bits == plain and "same bits", none, ahead > 3)]])
      assert.equal(0, code, out)
      for r = 0, 1 do has(out, ("[%d] same bits\t0\ttrue"):format(r)) end
      if way ~= library then return end
      -- Two communicators, each in one stream, without groups; some memory is known.
      local _, streams = out:gsub("calls, 0 in groups, in 1 streams, ", "")
      assert.equal(4, streams, out)
      local _, known = out:gsub("streams, [1-9]%d* blocks", "")
      assert.equal(2, known, out)
    end)

    it("do not mind what another rank lets begin ahead", function()
      local code, out, seconds = launch(2, way, [[
        local function train(prefetch, rows)
          ]] .. sharded .. [[
          local bits = {}
          for i = 1, 4 do
            mrt.seed(20 * i + rank)
            bits[i] = step(mrt.randn(rows, 16)):bytes()
          end
          for _, w in ipairs(p) do bits[#bits + 1] = w:bytes() end
          return table.concat(bits)
        end
        local plain = train(0, 4)
        print(train(rank, 4) == plain and "same bits")
        -- Another batch on each.
        local rows = 4 + 60 * rank
        print(train(2, rows) == train(0, rows) and "same bits too")]])
      assert.equal(0, code, out)
      for r = 0, 1 do
        has(out, ("[%d] same bits\n"):format(r))
        has(out, ("[%d] same bits too"):format(r))
      end
      assert.is_true(seconds < 50, seconds .. " s")
    end)

    it("that began ahead are over when a run breaks off", function()
      local code, out = launch(2, way, [[
        slow()
        local op = require "mrt.core".op
        local part = comm:split(0)
        local function made(part)
          return mrt.compile(function(x, w)
            local first = w:matmul(w):matmul(w):sum()
            local mean = op.reduce_scatter(x * first,
              { comm = comm.number, op = "mean", lazy = true }):sum()
            local own = (w[1] * first):sum()
            return mean + (part and part:allreduce(own) or own)
          end, { shard = mrt.policy.shard.fsdp { prefetch = 2 } })
        end
        local x, w = mrt.ones(1 << 14), mrt.ones(256, 256) * 2^-10
        local stops = made(part)
        local order = {}
        for _, s in ipairs(stops:plan(x, w):steps()) do order[#order + 1] = s.op end
        print("order", table.concat(order, " "))
        part:close()
        for i = 1, 2 do print("run", i, caught(stops, x, w)) end
        stops = nil
        collectgarbage()
        local step = made()
        for i = 1, 3 do print("value", i, step(x, w):item()) end]])
      assert.equal(0, code, out)
      for r = 0, 1 do
        assert.matches(("%%[%d%%] order[^\n]* reduce_scatter [^\n]*allreduce arrive")
          :format(r), out)
        for i = 1, 2 do
          assert.matches(("%%[%d%%] run\t%d\tstate: [^\n]*closed"):format(r, i), out)
        end
        for i = 1, 3 do has(out, ("[%d] value\t%d\t32769.0"):format(r, i)) end
      end
    end)

    it("that began ahead end when a rank dies", function()
      local code, out, seconds = launch(3, way, [[
        local prefetch = 2
        ]] .. sharded .. [[
        local x = mrt.randn(4, 16)
        for i = 1, 3 do step(x):totable() end
        if rank == 1 then os.execute "kill -9 $PPID" end
        print("first", caught(function() return step(x):totable() end))
        print("then", caught(function() return step(x):totable() end))
        os.exit(4)]], 60, "--grace 10")
      assert.is_true(code ~= 0)
      for _, r in ipairs { 0, 2 } do
        assert.matches(("%%[%d%%] first\trank: [^\n]*rank 1 [^\n]*died"):format(r), out)
        assert.matches(("%%[%d%%] then\trank: [^\n]*rank 1"):format(r), out)
      end
      assert.is_true(seconds < 50, seconds .. " s")
    end)

    it("end when a rank dies between steps, and nothing is updated", function()
      local code, out, seconds = launch(3, way, [[
        local w = mrt.variable(mrt.zeros(4))
        local step = mrt.compile(function(x)
          local g = comm:allreduce(x)
          w:assign(w + g)
          return g
        end)
        for i = 1, 3 do step(mrt.ones(4)):totable() end
        if rank == 1 then os.execute "kill -9 $PPID" end
        local first = caught(function() return step(mrt.ones(4)):totable() end)
        print("first", first)
        print("then", caught(function() return step(mrt.ones(4)):totable() end))
        print("left", caught(function() print("w", w:totable()[1]) end))
        os.exit(4)]], 60, "--grace 10")
      assert.is_true(code ~= 0)
      for _, r in ipairs { 0, 2 } do
        assert.matches(("%%[%d%%] first\trank: [^\n]*allreduce[^\n]*rank 1 [^\n]*died")
          :format(r), out)
        assert.matches(("%%[%d%%] then\trank: [^\n]*rank 1"):format(r), out)
        has(out, ("[%d] w\t9.0"):format(r))
      end
      assert.is_true(seconds < 50, seconds .. " s")
    end)

    it("end at once when a rank dies before the first", function()
      local code, out, seconds = launch(3, way, [[
        -- Where NCCL has started, and waits for the others in its first call.
        comm:allreduce(mrt.ones(4), { op = "max" }):totable()
        if rank == 1 then os.execute "kill -9 $PPID" end
        print("first", caught(function() return comm:allreduce(mrt.ones(4)):totable() end))
        os.exit(4)]], 60, "--grace 10")
      assert.is_true(code ~= 0)
      for _, r in ipairs { 0, 2 } do
        assert.matches(("%%[%d%%] first\trank: [^\n]*rank 1 [^\n]*died"):format(r), out)
      end
      assert.is_true(seconds < 30, seconds .. " s")
    end)

    it("end when a rank stands still", function()
      local code, out, seconds = launch(2, way, [[
        local step = mrt.compile(function(x) return comm:allreduce(x) end)
        for i = 1, 3 do step(mrt.ones(4)):totable() end
        if rank == 1 then os.execute "kill -STOP $PPID" end
        print(caught(function() return step(mrt.ones(4)):totable() end))
        os.exit(4)]], 2, "--grace 1")
      assert.is_true(code ~= 0)
      assert.matches("%[0%] rank: [^\n]*rank 1[^\n]* 2 s", out)
      assert.is_true(seconds < 25, seconds .. " s")
    end)

    it("say on both ranks what they do not agree on", function()
      local _, out = launch(2, way, [[
        local n = rank == 0 and 3 or 4
        print(caught(function() return comm:allreduce(mrt.ones(n)):totable() end))]], 3,
        "--grace 5")
      for r = 0, 1 do
        local line = out:match(("%%[%d%%] (rank:[^\n]*)"):format(r))
        assert.is_string(line, out)
        assert.truthy(line:find("allreduce sum f32[3]", 1, true)
          or line:find("allreduce sum f32[4]", 1, true), out)
      end
    end)

    it("fail when their communicator is closed, alone too", function()
      local code, out = launch(2, way, [[
        local part = comm:split(0)
        local step = mrt.compile(function(x) return part:allreduce(x) end)
        for i = 1, 3 do step(mrt.ones(2)):totable() end
        part:close()
        print(caught(step, mrt.ones(2)))
        local alone = comm:split(rank)
        local same = mrt.compile(function(x) return alone:allreduce(x * 2) end)
        for i = 1, 3 do print("alone", same(mrt.ones(2) * i):totable()[2]) end]])
      assert.equal(0, code, out)
      for r = 0, 1 do
        assert.matches(("%%[%d%%] state: [^\n]*closed"):format(r), out)
        has(out, ("[%d] alone\t6.0"):format(r))
      end
    end)
  end)
end

-- A step whose results, 0 1 3 6 .. each time twice the run, tell what was updated.
local counting = [[
  local w = mrt.variable(mrt.zeros(4))
  local step = mrt.compile(function(x)
    local g = comm:allreduce(x)
    w:assign(w + g)
    return w[1] * 1
  end)
]]

describe("NCCL, emulated", function()
  if ways[2] ~= library then return pending "not the emulated device" end

  for _, at in ipairs { "begin", "inside", "end", "instantiate" } do
    it("has recordings given up by all ranks where one cannot make them: " .. at, function()
      local code, out = launch(2, library, counting .. [[
        for i = 1, 9 do print("run", i, step(mrt.ones(4)):item()) end]], 20, nil,
        "MRT_EMULATE_COUNT=1 MRT_EMULATE_CAPTURE=" .. at .. "@1")
      assert.equal(0, code, out)
      for r = 0, 1 do
        for i = 1, 9 do has(out, ("[%d] run\t%d\t%.1f"):format(r, i, 2 * i)) end
      end
      assert.is_nil(out:find("cudaGraphLaunch", 1, true), out)
      local _, told = out:gsub("cannot be recorded as one launch", "")
      assert.equal(2, told, out)
    end)
  end

  it("has recordings made again by all where one has lost its own", function()
    local code, out = launch(2, library, counting .. [[
      -- A plan's result, which moves when that runs again, is a constant of another.
      local own = mrt.compile(function(x) return x * 2 end)
      local first = own(mrt.zeros(4))
      local both = mrt.compile(function(x) return comm:allreduce(x + first) end)
      local bad = 0
      for i = 1, 20 do
        if step(mrt.ones(4)):item() ~= 2 * i then bad = bad + 1 end
        if both(mrt.ones(4) * i):totable()[1] ~= 2 * i then bad = bad + 1 end
        if rank == 1 and (i == 2 or i == 5 or i == 9) then own(mrt.ones(4)):totable() end
      end
      print("bad", bad)]], 20, nil, "MRT_EMULATE_COUNT=1")
    assert.equal(0, code, out)
    for r = 0, 1 do has(out, ("[%d] bad\t0"):format(r)) end
    has(out, "cudaGraphLaunch")
  end)

  it("computes for one rank alone, where that is asked for", function()
    local text = counting .. [[
      for i = 1, 4 do print("run", i, step(mrt.ones(4)):item()) end]]
    local plain, own = {}, {}
    for before, list in pairs { [""] = plain, ["MRT_NCCL_SELF=1"] = own } do
      local code, out = launch(1, library, text, nil, nil, before)
      assert.equal(0, code, out)
      for i = 1, 4 do has(out, ("run\t%d\t%.1f"):format(i, i)) end
      list.calls = out:match "emulated NCCL: (%d+) calls"
    end
    assert.is_nil(plain.calls)
    assert.equal("2", own.calls)
  end)

  it("lets go before the device does, however long that takes", function()
    local code, out = launch(2, library, counting .. [[
      for i = 1, 3 do step(mrt.ones(4)):item() end
      comm:close()]], nil, nil, "MRT_EMULATE_DESTROY=2.5")
    assert.equal(0, code, out)
    assert.is_nil(out:find("while CUDA goes", 1, true), out)
    has(out, "emulated NCCL: 2 calls")
  end)

  it("keeps the order of launches, unless the user says otherwise", function()
    local text = counting .. [[print(step(mrt.ones(4)):item())]]
    local _, out = launch(2, library, text)
    has(out, "implicit order 1, mixing 0")
    _, out = launch(2, library, text, nil, nil,
      "NCCL_LAUNCH_ORDER_IMPLICIT=0 NCCL_GRAPH_MIXING_SUPPORT=1")
    has(out, "implicit order 0, mixing 1")
  end)
end)

describe("ranks that are threads", function()
  it("are refused by a CUDA device", function()
    local out = program.script([[
      local mrt = require "mrt"
      local _, failures = mrt.communicator.ranks(2, [=[
        local mrt, comm = ...
        mrt.device "cuda:0"
        return comm:allreduce(mrt.ones(2)):totable()[1]
      ]=], { timeout = 5 })
      print(failures[1])]])
    has(out, "compute on the CPU, not on cuda:0; start processes (mrt launch)")
  end)
end)
