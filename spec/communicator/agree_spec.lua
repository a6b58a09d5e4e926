-- agree_spec.lua -- ranks compare their plans before the first step
local communicator = require "mrt".communicator
local files = require "support.files"
local program = require "support.program"

-- What each of n ranks says that runs `code`.
local function ranks(n, code, timeout)
  local results, failures = communicator.ranks(n, [[
    local mrt, comm = ...
    local function caught(f, ...) return tostring(select(2, pcall(f, ...))) end
  ]] .. code, { timeout = timeout or 60 })
  assert(not failures, failures and select(2, next(failures)))
  return results
end

local function all_have(results, text)
  for _, said in ipairs(results) do assert.truthy(said:find(text, 1, true), said) end
end

describe("ranks", function()
  it("end before a step whose collectives differ, saying where, and can go on", function()
    local results = ranks(3, [[
      local w = mrt.variable(mrt.zeros(4))
      local step = mrt.compile(function(x)
        w:assign(w + comm:allreduce(x))
        local y = comm:allreduce(x * 2)
        return comm.rank < 2 and comm:allreduce(y, { op = "max" }) or comm:allgather(y)
      end, { name = "the step" })
      local said = caught(step, mrt.ones(4))
      return said .. tostring(w:sum():item()) .. comm:allreduce({ 1 })[1] ]])
    all_have(results, "the step: the ranks plan different collectives; the 3rd is on rank 0 "
      .. "allreduce max f32[4] (ranks:7), on rank 2 allgather f32[4] (ranks:7)")
    all_have(results, "0.03")
  end)

  it("say what one has too many, another root, another shape", function()
    local function differ(text, code)
      all_have(ranks(2, ([[
        return caught(mrt.compile(function(x) x = comm:broadcast(x) %s end), mrt.ones(4))
      ]]):format(code)), text)
    end
    differ("the 2nd is on rank 0 allreduce sum f32[4] (ranks:3), on rank 1 none, after 1",
      "return comm.rank == 0 and comm:allreduce(x) or x")
    differ("rank 0 broadcast root 0 f32[4] (ranks:3), on rank 1 broadcast root 1 f32[4]",
      "return comm:broadcast(x, { root = comm.rank })")
    differ("rank 0 allreduce mean f32[1,4] (ranks:3), on rank 1 allreduce mean f32[2,2]",
      "return comm:allreduce(x:reshape(1 + comm.rank, -1), { op = 'mean' })")
  end)

  it("may plan anew alone, as long as they call the same", function()
    assert.same({ "8 9 8", "8 9 8" }, ranks(2, [[
      local f = mrt.compile(function(x) return comm:allreduce(x:sum()) end)
      local out = {}
      for i, n in ipairs { 4, comm.rank == 0 and 4 or 5, 4 } do
        out[i] = math.tointeger(f(mrt.ones(n)):item())
      end
      return table.concat(out, " ")]]))
  end)

  it("of several communicators compare what each of them carries", function()
    local code = [[
      local half = comm:split(comm.rank // 2)
      return caught(mrt.compile(function(x)
        local y = half:allreduce(x) + comm:allreduce(x)
        if comm.rank == 3 then y = half:allreduce(y) end
        return y
      end), mrt.ones(2))]]
    local results = ranks(4, code, 0.5)
    assert.equal(results[1], results[2])
    all_have({ results[3], results[4] }, "the 2nd is on rank 0 none, after 1, on rank 1 allreduce")
  end)

  it("count the buckets of each communicator by themselves", function()
    local results, failures = communicator.ranks(4, [[
      local mrt, comm = ...
      local nn, optim = mrt.nn, mrt.optim
      local function train(ranks, layers)
        mrt.seed(1)
        local list = {}
        for i = 1, layers do list[i] = nn.Linear(64, 64, { bias = false }) end
        local model = nn.Sequential(table.unpack(list))
        local opt = optim.sgd(model:parameters(), { lr = 0.1 })
        return mrt.compile(function(x)
          local loss = (model(x) ^ 2):mean()
          opt:step(mrt.grad(loss, model:parameters()))
          return loss
        end, { shard = mrt.policy.shard.zero(1, { bucket = 0, comm = ranks }) })(
          mrt.ones(2, 64)):item()
      end
      train(comm:split(comm.rank // 2), comm.rank // 2 + 1)
      return train(comm, 2)]], { timeout = 60 })
    assert.is_nil(failures, failures and select(2, next(failures)))
    assert.equal(results[1], results[4])
  end)

  it("say which parameters they gather in another order", function()
    local code = [[
      local nn, shard = mrt.nn, mrt.policy.shard
      mrt.seed(1)
      local both = nn.Sequential(nn.Linear(256, 8, { bias = false }),
        nn.Linear(256, 8, { bias = false }))
      local p = both:parameters()
      local opt = mrt.optim.sgd(p, { lr = 0.1 })
      mrt.compile(function(x)
        local loss = (x:matmul(p[1]:t()):square() + x:matmul(p[2]:t())):sum()
        opt:step(mrt.grad(loss, p))
      end, { shard = shard.fsdp { bucket = 0 } })(mrt.ones(1, 256))
      local first = WHO and 2 or 1
      local read = mrt.compile(function(x)
        local y = x:matmul(p[first]:t()):square()
        return y:matmul(x:matmul(p[3 - first]:t()):t())
      end, { name = "the reading", order = "program", shard = shard.fsdp { bucket = 0 } })
      return caught(read, mrt.ones(1, 256)) ]]
    local results = ranks(2, (code:gsub("WHO", "comm.rank == 1")))
    all_have(results, "on rank 0 allgather f32[1024] of bucket 1 (layers.1.weight)")
    all_have(results, "on rank 1 allgather f32[1024] of bucket 2 (layers.2.weight)")
    all_have(ranks(2, (code:gsub("WHO", "true"))), "f32[1,1]")
  end)

  it("of two communicators that all ranks have compare in which order they are used", function()
    local code = [[
      local other, pair = comm:split(0), comm:split(comm.rank == 2 and 1 or 0)
      local step = mrt.compile(function(x)
        local a, b
        if comm.rank == %s then b = other:allreduce(x, { op = "max" }) end
        a = comm:allreduce(x)
        if comm.rank ~= %s then b = other:allreduce(x, { op = "max" }) end
        return a + b + pair:allreduce(x):sum()
      end, { name = "the step" })
      local ok, said = pcall(step, mrt.ones(2))
      return tostring(ok and said:totable()[1] or said) ]]
    all_have(ranks(3, code:format(1, 1)), "the step: the ranks plan different collectives; "
      .. "the 1st is on rank 0 allreduce sum f32[2] (ranks:7), on rank 1 allreduce sum f32[2], "
      .. "after one of another communicator (ranks:7)")
    local same = ranks(3, code:format(9, 9))
    assert.same({ "8.0", "8.0", "6.0" }, same)
  end)

  it("say that they run different scripts, but only then", function()
    local function both(first, second)
      local paths = {}
      for i, code in ipairs { first, second } do
        paths[i] = files.temporary(([[
          local mrt = require "mrt"
          local comm = mrt.communicator.create { timeout = 10 }
          print("got", pcall(mrt.compile(function(x) return %s end), mrt.ones(2)))]]):format(code))
      end
      local _, out = program.shell(([[export MRT_RUN=spec WORLD_SIZE=2 MASTER_PORT=%d
        RANK=0 '%s' %s & RANK=1 '%s' %s; wait]]):format(require "mrt.core".free_port(),
        program.path, paths[1], program.path, paths[2]))
      return out
    end
    local _, same = both("comm:allreduce(x)", "1 + comm:allreduce(x)"):gsub("got\ttrue", "")
    assert.equal(2, same)
    local _, told = both("comm:allreduce(x)", "comm:broadcast(x)"):gsub(
      "the ranks plan different collectives, of different scripts; the 1st is on rank 0 allreduce "
      .. "sum f32%[2%]", "")
    assert.equal(2, told)
  end)

  it("are told when one has no such plan", function()
    all_have(ranks(2, [[
      local x = mrt.ones(2)
      local step = mrt.compile(function(y) return comm:allreduce(y) end)
      return caught(comm.rank == 0 and function() return step(x) end
        or function() return comm:allreduce(x) end)]]),
      "rank 0 asks for the first run of a plan (ranks:4), rank 1 for allreduce sum f32[2]")
  end)
end)
