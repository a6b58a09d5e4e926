--- communicator_spec.lua -- collectives: called, in graphs, in steps, on 1 to 4 ranks
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local random_graph = require "support.random_graph"
local shared = require "support.ranks"
local communicator = mrt.communicator

-- What every rank's code finds: mrt, comm, and a generator of its own.
local head = [[
  local mrt, comm = ...
  local nn, optim = mrt.nn, mrt.optim
  local function numbers(n, seed)
    local state, list = (seed * 7919 + comm.rank * 104729) % 2147483646 + 1, {}
    for i = 1, n do
      state = state * 48271 % 2147483647
      list[i] = state / 2147483647 * 2 - 1
    end
    return list
  end
  local function show(list) return table.concat(list, " ") end
  local function caught(f, ...)
    local ok, err = pcall(f, ...)
    return ok and "no error" or tostring(err.code) .. ": " .. tostring(err)
  end
]]

-- The results of all ranks, which must not fail.
local function ranks(n, code, timeout)
  local results, failures = communicator.ranks(n, head .. code, { timeout = timeout or 60 })
  assert(not failures, failures and table.concat({ select(2, next(failures)) }, "; "))
  return results
end

local function on_all(n, wanted, code)
  for rank, got in ipairs(ranks(n, code)) do
    assert.equal(wanted, got, ("rank %d of %d"):format(rank - 1, n))
  end
end

local function refused(code, text, f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  assert.equal(code, err.code, tostring(err))
  assert.truthy(tostring(err):find(text, 1, true), tostring(err))
  assert.truthy(tostring(err):find("spec/communicator/communicator_spec.lua:", 1, true),
    tostring(err))
end

describe("a collective", function()
  it("does what its definition says, on plain arrays", function()
    assert.same({ "2 2 4", "2 2 4" }, ranks(2, [[
      return show(comm:allreduce(comm.rank == 0 and { 1, 2, 3 } or { 1, 0, 1 }))]]))
    assert.same({ "2 2", "4 5" }, ranks(2, [[
      return show(comm:reduce_scatter(comm.rank == 0 and { 1, 2, 3, 4 } or { 1, 0, 1, 1 }))]]))
    assert.same({ "1 2 3 4", "1 2 3 4" }, ranks(2, [[
      return show(comm:allgather(comm.rank == 0 and { 1, 2 } or { 3, 4 }))]]))
    assert.same({ "1 5", "2 6" }, ranks(2, [[
      return show(comm:all_to_all(comm.rank == 0 and { 1, 2 } or { 5, 6 }))]]))
    assert.same({ "5 6", "5 6", "5 6" }, ranks(3, [[
      return show(comm:broadcast(comm.rank == 2 and { 5, 6 } or { 0, 0 }, { root = 2 }))]]))
    assert.same({ "2 1", "0 2", "1 0" }, ranks(3, [[
      local one, back = comm:shift { comm.rank }, comm:shift({ comm.rank }, -4)
      return show { one[1], back[1] }]]))
    assert.same({ "2 0", "0 1", "1 2" }, ranks(3, [[
      local from, to = (comm.rank - 1) % 3, (comm.rank + 1) % 3
      if comm.rank % 3 == 0 then comm:send({ 0, 1 }, to) end
      local got = comm:recv({ 0, 0 }, from)
      if comm.rank ~= 0 then comm:send({ comm.rank, (comm.rank + 1) % 3 }, { to = to }) end
      return show(got)]]))
  end)

  it("reduces by sum, mean, max, min and prod", function()
    on_all(3, "6.0 2.0 3.5 0.5 3.75", [[
      local x = ({ 2, 3.5, 0.5 })[comm.rank + 1]
      if comm.rank == 1 then x = 3.5 end
      local out = {}
      for i, op in ipairs { "sum", "mean", "max", "min", "prod" } do
        local a = op == "prod" and ({ 2.5, 1, 1.5 })[comm.rank + 1] or x
        out[i] = comm:allreduce(mrt.tensor { a, 0.25 }, { op = op })[1]:item()
      end
      return show(out)]])
  end)

  it("is the identity on one rank", function()
    local comm = communicator.create()
    assert.same({ 0, 1 }, { comm.rank, comm.size })
    local x = mrt.tensor { { 1.5, 2 }, { 3, 4 } }
    for _, name in ipairs { "allreduce", "reduce_scatter", "allgather", "all_to_all",
      "broadcast", "shift" } do
      assert.equal(x:bytes(), comm[name](comm, x):bytes(), name)
      assert.same({ 1, 2.5 }, comm[name](comm, { 1, 2.5 }), name)
    end
    comm:barrier()
    assert.equal(1, comm:split(0).size)
    assert.is_nil(comm:split(-1))
    assert.equal(0, comm:sent())
  end)

  it("counts what has been given away, by parts of the ranks too, until they are closed", function()
    on_all(4, "true", [[
      local sent = mrt.communicator.sent
      local half = comm:split(comm.rank // 2)
      local before = sent()
      half:allreduce { 1, 2 }
      local by_half = sent() - before
      comm:allreduce { 1, 2 }
      local all = sent() == comm:sent() + half:sent()
      half:close()
      local other = comm:split(comm.rank % 2)
      before = sent()
      other:allreduce { 1, 2 }
      return tostring(by_half > 0 and all and before == comm:sent()
        and sent() - before == by_half)]])
  end)

  it("keeps the shape of nested arrays and the dtype of tensors", function()
    on_all(2, "2 2 6 i32[2,2] u8[2,3]", [[
      local a = comm:allreduce { { 1, 2 }, { 3, 4 } }
      local t = comm:allgather(mrt.tensor({ { 1, 2 } }, { dtype = "i32" }))
      local u = comm:broadcast(mrt.zeros(2, 3, { dtype = "u8" }))
      return show { #a, #a[1], a[2][1], t:type(), u:type() }]])
  end)

  it("scattered and gathered is reduced everywhere, bit for bit", function()
    for n = 2, 4 do
      on_all(n, "true", [[
        local same = true
        for i, dtype in ipairs { "f32", "f64", "bf16", "f16", "i64" } do
          local x = (mrt.tensor(numbers(24 * comm.size, i)) * 100):to(dtype)
          for _, op in ipairs { "sum", "max", "min", "prod" } do
            local all = comm:allreduce(x, { op = op })
            local pieces = comm:reduce_scatter(x, { op = op })
            same = same and pieces.shape[1] == 24
              and comm:allgather(pieces):bytes() == all:bytes()
          end
        end
        return tostring(same)]])
    end
  end)

  it("exchanges pieces of any size, and what was exchanged goes back", function()
    for n = 2, 4 do
      on_all(n, "true", [[
        local same = true
        for _, each in ipairs { 1, 7, 1000, 300000 } do
          local x = (mrt.arange(comm.size * each) + comm.rank * 7e6):to "i64"
          local y, own = comm:all_to_all(x), {}
          for r = 0, comm.size - 1 do
            own[r + 1] = (mrt.arange(each) + comm.rank * each + r * 7e6):to "i64"
          end
          same = same and y:bytes() == mrt.cat(own, 1):bytes()
            and comm:all_to_all(y):bytes() == x:bytes()
        end
        return tostring(same)]])
    end
  end)

  it("sees ranks split by color, ordered by key", function()
    assert.same({ "0 1: 2 0", "0 0: 3 1", "1 2: 2 0", "1 3: 3 1", "nil" }, ranks(5, [[
      local color = comm.rank < 4 and comm.rank % 2 or -1
      local part = comm:split(color, -comm.rank)
      if not part then return "nil" end
      return show { 1 - part.rank, comm.rank == 0 and 1 or comm.rank == 1 and 0 or comm.rank }
        .. ": " .. show(part:allgather { comm.rank })]]))
  end)
end)

describe("the gradient of a collective", function()
  -- Of the sum of all ranks' losses: every element of every rank is moved.
  it("is what finite differences over all ranks give", function()
    for n = 1, 3 do
      on_all(n, "close", [[
        local f = {
          function(x) return comm:allreduce(x) end,
          function(x) return comm:allreduce(x, { op = "mean" }) end,
          function(x) return comm:reduce_scatter(x) end,
          function(x) return comm:reduce_scatter(x, { op = "mean" }) end,
          function(x) return comm:allgather(x) end,
          function(x) return comm:broadcast(x, { root = comm.size - 1 }) end,
          function(x) return comm:all_to_all(x * x):sin() end,
          function(x) return comm:shift(x, { by = 2 }) end,
          function(x) return comm:shift(x * x, -1) + comm:shift(x) end,
          function(x) return comm:allgather(comm:reduce_scatter(x * x)):sin() end,
        }
        local worst = 0
        for k, op in ipairs(f) do
          local rows = comm.size
          local values = numbers(rows * 3, k)
          local function loss(list)
            local x = mrt.tensor(list, { dtype = "f64" }):reshape(rows, 3)
            local y = op(x)
            local w = mrt.tensor(numbers(y:numel(), 100 + k), { dtype = "f64" })
            return ((y * y + y):reshape(-1) * w):sum(), x
          end
          local y, x = loss(values)
          local g = mrt.grad(y, x):reshape(-1):totable()
          for rank = 0, comm.size - 1 do
            for i = 1, #values do
              local sides = {}
              for s, h in ipairs { 1e-5, -1e-5 } do
                local moved = table.move(values, 1, #values, 1, {})
                if comm.rank == rank then moved[i] = moved[i] + h end
                sides[s] = comm:allreduce((loss(moved))):item()
              end
              local wanted = (sides[1] - sides[2]) / 2e-5
              if comm.rank == rank then
                worst = math.max(worst, math.abs(g[i] - wanted) / math.max(1, math.abs(wanted)))
              end
            end
          end
        end
        return worst < 1e-7 and "close" or worst]])
    end
  end)

  it("is a collective too, and can be differentiated again", function()
    on_all(2, 12.0, [[
      local x = mrt.tensor({ comm.rank + 1 }, { dtype = "f64" })
      local y = comm:allreduce(x)
      local gx = mrt.grad((y * y * y):sum(), x) -- 2 * 3 y^2
      return mrt.grad(gx:sum(), x):item() / 6 -- 2 * 12 y, y = 3
    ]])
  end)

  it("is refused where there is none", function()
    local comm = communicator.create()
    local x = mrt.tensor { 1.0, 2 }
    for _, op in ipairs { "max", "min", "prod" } do
      refused("gradient", "allreduce by " .. op .. " has no gradient",
        function() return mrt.grad(comm:allreduce(x, { op = op }):sum(), x) end)
    end
  end)
end)

describe("a compiled step", function()
  -- A step on rows of the batch, as many on each rank.
  local train = [[
    mrt.seed(5)
    local options = OPTIONS
    local x, y = mrt.eval(mrt.randn(24, 8), mrt.randn(24, 4))
    local rows = 24 // comm.size
    x = x:slice(1, comm.rank * rows + 1, (comm.rank + 1) * rows)
    y = y:slice(1, comm.rank * rows + 1, (comm.rank + 1) * rows)
  ]] .. shared.step .. [[
    local out = {}
    for i = 1, 5 do out[i] = step(x, y):item() end
    for _, w in ipairs(p) do out[#out + 1] = w:sum():item() end
    return show(out)
  ]]

  local function close(a, b, tolerance)
    local x, y = {}, {}
    for v in a:gmatch "%S+" do x[#x + 1] = tonumber(v) end
    for v in b:gmatch "%S+" do y[#y + 1] = tonumber(v) end
    assert.equal(#x, #y)
    for i = 1, #x do
      assert.is_true(math.abs(x[i] - y[i]) <= tolerance * math.max(1, math.abs(y[i])),
        a .. "\n" .. b)
    end
  end

  it("on parts of a batch is the step on the whole batch, within rounding", function()
    local alone = ranks(1, (train:gsub("OPTIONS", "{}")))[1]
    for n = 2, 4 do
      if 24 % n == 0 then
        local results = ranks(n, (train:gsub("OPTIONS", "{}")))
        for i = 2, n do assert.equal(results[1], results[i]) end
        close(results[1], alone, 2e-5)
        -- however it is planned
        for _, options in ipairs { "{ checkpoint = function() return 'recompute' end }",
          "{ inplace = false, fuse = false, cse = false }" } do
          assert.equal(results[1], ranks(n, (train:gsub("OPTIONS", options)))[1], options)
        end
        close(ranks(n, (train:gsub("OPTIONS", "{ accumulate = 2 }")))[1], alone, 2e-5)
      end
    end
  end)

  it("trains a parameter in pieces as one that is whole", function()
    local sharded = [[
      mrt.seed(1)
      local rows = 8 // comm.size
      local all = mrt.eval(mrt.randn(8, 8) * 0.3)
      local shard = mrt.parameter(all:slice(1, comm.rank * rows + 1, (comm.rank + 1) * rows))
      local x = mrt.eval(mrt.randn(12, 8))
      local step = mrt.compile(function(a)
        local loss = (a:matmul(comm:allgather(shard)):tanh() - 0.3):square():mean()
        shard:assign(shard - mrt.grad(loss, shard) * (1 / comm.size))
        return loss
      end, OPTIONS)
      local out = {}
      for i = 1, 4 do out[i] = step(x):item() end
      return show(out)]]
    local alone = ranks(1, (sharded:gsub("OPTIONS", "{}")))[1]
    for _, options in ipairs { "{}", "{ accumulate = 3 }" } do
      for _, got in ipairs(ranks(2, (sharded:gsub("OPTIONS", options)))) do
        close(got, alone, 1e-6)
      end
    end
  end)

  it("calls a collective that nobody reads, once, in the order of the program", function()
    assert.same({ "3.0", "none" }, ranks(2, [[
      local x = mrt.tensor { comm.rank + 1.0 }
      local step = mrt.compile(function(a)
        local sum = comm:allreduce(a)
        local max = comm:allreduce(a * 2, { op = "max" })
        comm:allreduce(a, { op = "min" })
        comm:allreduce(a, { op = "min" })
        if comm.rank == 0 then return sum end
        return a
      end)
      local y = step(x)
      return comm.rank == 0 and tostring(y:item()) or "none"]]))
    on_all(2, "allreduce allreduce send recv", [[
      local step = mrt.compile(function(a)
        local m = comm:allreduce(a)
        comm:allreduce(a)
        local there = 1 - comm.rank
        if comm.rank == 0 then comm:send(m, { to = there }) end
        local got = comm:recv(m, { from = there })
        if comm.rank == 1 then comm:send(m, { to = there }) end
        return got
      end)
      local x = mrt.tensor { comm.rank + 1.0 }
      assert(step(x):item() == 3)
      local list = {}
      for _, s in ipairs(step:plan(x):steps()) do
        if s.op ~= "copy" then list[#list + 1] = s.op end
      end
      if comm.rank == 1 then list[3], list[4] = list[4], list[3] end
      return show(list)]])
  end)

  it("gathers again what is to be recomputed, and nothing else", function()
    local code = [[
      mrt.seed(3)
      local shard = mrt.parameter(mrt.randn(64 // comm.size, 64) * 0.1)
      local step = mrt.compile(function(x)
        for i = 1, 3 do
          x = mrt.checkpoint(function(h)
            return h:matmul(comm:allgather(shard * i)):tanh()
          end, x)
        end
        local loss = comm:allreduce((x * x):sum())
        local g = mrt.grad(loss, shard)
        shard:assign(shard - g * 0.01)
        return loss
      end, OPTIONS)
      local x = mrt.eval(mrt.randn(16, 64))
      local out, count = {}, 0
      for i = 1, 3 do out[i] = step(x):item() end
      for _, s in ipairs(step:plan(x):steps()) do
        if s.op == "allgather" and s.recomputed then count = count + 1 end
        assert(s.op == "allgather" or not (s.recomputed and s.op:find "reduce"))
      end
      return show(out) .. ", " .. (count > 0 and "again" or "once")
    ]]
    local again = ranks(2, (code:gsub("OPTIONS", "{}")))
    local once = ranks(2, (code:gsub("mrt.checkpoint%b()", "(%0)")
      :gsub("mrt.checkpoint", "(function(f, h) return f(h) end)"):gsub("OPTIONS", "{}")))
    assert.truthy(again[1]:find ", again$")
    assert.truthy(once[1]:find ", once$")
    assert.equal(again[1]:match "^[^,]*", once[1]:match "^[^,]*")
    assert.equal(again[1], again[2])
  end)
end)

describe("a plan with collectives", function()
  local kinds = { "allreduce", "allgather", "broadcast", "reduce_scatter", "shift", "all_to_all" }

  -- A step of a random program in which every third tensor is met by a
  -- collective, which on one rank is the identity; its bits.
  local function step_of(seed, comm, options)
    mrt.seed(seed)
    local leaves = { mrt.variable(mrt.randn(8, 10)), mrt.variable(mrt.randn(8, 10)) }
    local run = random_graph.program(seed, 6 + seed % 14)
    local random = random_graph.generator(seed)
    local function each(t)
      local kind = kinds[random(12)]
      return comm and kind and t:dim() > 0 and comm[kind](comm, t) or t
    end
    local function fn()
      local out = run(leaves, each)
      local grads = mrt.grad(out[1], leaves, { allow_unused = true })
      for i, w in ipairs(leaves) do w:assign(w - each(grads[i]) * 0.1) end
      return table.unpack(out)
    end
    local step = mrt.compile(fn, options)
    return step, function()
      local bits = {}
      for i, t in ipairs { step() } do bits[i] = t:bytes() end
      return table.concat(bits) .. leaves[1]:bytes() .. leaves[2]:bytes()
    end
  end

  -- The plan's own check wants the order of the program, and each once.
  it("keeps their order and bits, whatever it does to fit", function()
    local comm = communicator.create()
    for seed = 1, 20 do
      local _, plain = step_of(seed)
      local wanted = plain()
      for _, options in ipairs { {}, { checkpoint = function() return "recompute" end } } do
        local _, run = step_of(seed, comm, options)
        assert.equal(wanted, run(), "seed " .. seed)
      end
    end
  end)

  it("keeps them within a budget", function()
    local comm = communicator.create()
    local function step_of_layers(options)
      mrt.seed(9)
      local w = mrt.variable(mrt.randn(32, 32) * 0.2)
      local x = mrt.eval(mrt.randn(64, 32))
      local step = mrt.compile(function()
        local h, total = x, 0
        for i = 1, 5 do
          local all = comm:allgather(w * i)
          h = h + comm:allreduce(h:matmul(all):tanh()) + h:matmul(all:t()):sigmoid()
          total = total + comm:allreduce(h:mean())
        end
        local g = comm:allreduce(mrt.grad(total, w))
        w:assign(w - g * 0.01)
        return total
      end, options)
      return step, function() return step():bytes() .. w:bytes() end
    end
    local free, bits = step_of_layers()
    local wanted, plan = bits(), free:plan()
    for _, share in ipairs { 0.8 } do
      local step, run = step_of_layers { memory = math.floor(plan.peak * share) }
      assert.equal(wanted, run())
      assert.is_true(step:plan().peak <= plan.peak * share)
    end
  end)

  it("names them and their bytes on the wire", function()
    on_all(4, "allreduce 6000.0 allgather 3000.0 reduce_scatter 3000.0", [[
      local step = mrt.compile(function(x)
        return comm:reduce_scatter(comm:allgather(comm:allreduce(x):slice(1, 1, 10)))
      end)
      local x, list = mrt.ones(40, 25), {}
      for _, s in ipairs(step:plan(x):steps()) do
        if s.op ~= "copy" then list[#list + 1] = s.op .. " " .. s.bytes end
      end
      return show(list)]])
  end)
end)

describe("a collective that cannot be done", function()
  it("is an error on every rank that names both sides", function()
    for _, text in ipairs(ranks(2, [[
      return caught(function() return comm:allreduce(mrt.ones(comm.rank + 1)) end)]])) do
      assert.truthy(text:find "^rank: ranks:%d+: allreduce", text)
    end
    for _, text in ipairs(ranks(2, [[
      local x = mrt.ones(2)
      return caught(function()
        return comm.rank == 0 and comm:allreduce(x) or comm:allgather(x)
      end)]])) do
      assert.truthy(text:find "^rank: ", text)
      assert.truthy(text:find "allreduce" and text:find "allgather", text)
    end
  end)

  it("leaves variables as they were before the first update, and torn past it", function()
    local results = ranks(2, [[
      local w = mrt.parameter(mrt.ones(2), "w")
      local early = mrt.compile(function(x)
        local g = comm:allreduce(x)
        w:assign(w - g)
      end)
      local late = mrt.compile(function(x)
        w:assign(w - x)
        return comm:allreduce(w * 1)
      end)
      local x = mrt.ones(2)
      early(x)
      late(x)
      if comm.rank == 1 then
        comm:close()
        return caught(early, x)
      end
      local before = show(w:totable())
      local first, second = caught(early, x), nil
      local between = show(w:totable())
      second = caught(late, x)
      return show { tostring(before == between), first, second, caught(w.totable, w) }]], 0.5)
    assert.truthy(results[2]:find "^state: .*communicator 0 is closed", results[2])
    assert.truthy(results[1]:find "^true rank: .*torn: load a snapshot.*state: .*is torn",
      results[1])
  end)

  it("is refused at its line when it makes no sense", function()
    local comm = communicator.create()
    refused("value", "an array of numbers wanted, got 7", function() return comm:allreduce(7) end)
    refused("value", "no option 'by'", function()
      return comm:allreduce({ 1 }, { by = "sum" })
    end)
    refused("value", "average", function() return comm:allreduce({ 1 }, { op = "average" }) end)
    refused("value", "to is missing", function() return comm:send { 1 } end)
    refused("value", "rank 0 is this rank", function() return comm:send({ 1 }, { to = 0 }) end)
    refused("value", "rank 3, 0 to 0 wanted", function()
      return comm:broadcast({ 1 }, { root = 3 })
    end)
    refused("value", "integers of 32 bits wanted, got 0.5", function() return comm:split(0.5) end)
    refused("value", "a communicator wanted in front", function() return comm.allreduce { 1 } end)
    refused("state", "cannot be inside mrt.compile", function()
      return mrt.compile(function(x)
        comm:barrier()
        return x
      end)(mrt.ones(1))
    end)
    refused("value", "a tensor wanted inside mrt.compile", function()
      return mrt.compile(function(x)
        comm:allreduce { 1 }
        return x
      end)(mrt.ones(1))
    end)
    refused("value", "65 ranks", function() return communicator.ranks(65, "") end)
    refused("value", "ranks:1:", function() return communicator.ranks(1, "1 =") end)
    on_all(2, "true", [[
      local text = caught(comm.reduce_scatter, comm, mrt.ones(5, 2))
      return tostring(text:find("first dimension of f32[5,2] cannot be shared among 2 ranks", 1,
        true) ~= nil)]])
  end)

  it("is one of a closed communicator, which can be made anew alone", function()
    local comm = communicator.create()
    local step = mrt.compile(function(x) return comm:allreduce(x) end)
    assert.equal(2, step(mrt.ones(2)):sum():item())
    comm:close()
    refused("state", "is closed", function() return comm:allreduce { 1 } end)
    refused("state", "is closed", function() return step(mrt.ones(2)):sum():item() end)
    refused("state", "is closed", function() return comm:close() end)
    assert.same({ 3 }, communicator.create():allreduce { 3 })
  end)
end)

describe("a try with ranks", function()
  it("returns results by rank, and what failed", function()
    local results, failures = communicator.ranks(3, [[
      local mrt, comm = ...
      if comm.rank == 1 then error("no luck", 0) end
      if comm.rank == 2 then comm:allreduce { 1 } end
      return comm.rank + 0.5]])
    assert.equal(0.5, results[1])
    assert.equal("no luck", failures[2])
    assert.truthy(failures[3]:find("no luck", 1, true), failures[3])
    assert.same({ 7, 7 }, (communicator.ranks(2, "return 7")))
    assert.truthy(select(2, communicator.ranks(1, "return {}"))[1]:find "returns table")
  end)
end)
