-- Collectives beside the computation: gathers begin before their weights are read,
-- reductions go on while the backward pass does.

local mrt = require "mrt"

-- A GPT on ranks: `policy` is Lua code of its sharding, `change` of what is to change
-- of `o`, the options of compile, and `how`; `body` uses all that.
local program = [[
  local mrt, comm = ...
  local core = require "mrt.core"
  local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy
  local how = { layers = 2, dim = 32, clip = 1.0, rows = 3, steps = 3, ranks = nil }
  local o = {}
  %s
  if how.ranks then
    core.communicator.alone(how.rank or 0, how.ranks)
    comm = mrt.communicator.create()
  end
  local alive = {}
  local function make(sharding, memory)
    mrt.seed(7)
    local model = nn.GPT { vocab = 40, context = 8, layers = how.layers, heads = 2,
      dim = how.dim }
    local opt = optim.adamw(model:parameters(), { lr = 0.01 })
    alive[#alive + 1] = model
    o.shard, o.memory = sharding, memory
    return mrt.compile(function(x, y)
      local loss = model:loss(x, y)
      opt:step(mrt.grad(loss, model:parameters()), { clip = how.clip })
      return loss
    end, o), model
  end
  local data = mrt.randint(0, 40, { comm.size * how.rows, 9 })
  local own = data:slice(1, comm.rank * how.rows + 1, (comm.rank + 1) * how.rows)
  local x, y = own:slice(2, 1, 8) + 0, own:slice(2, 2, 9) + 0
  local function words(model)
    local list = {}
    for _, p in ipairs(model:parameters()) do
      local at = mrt.arange(p:numel(), { dtype = "f64" }):reshape(p:size())
      list[#list + 1] = ("%%a"):format((p:to "f64" * at):sum():item())
    end
    return table.concat(list, " ")
  end
  %s
]]

local function run(n, change, body)
  local results, failures = mrt.communicator.ranks(n, program:format(change, body),
    { timeout = 60 })
  return results, failures
end

local function done(n, change, body)
  local results, failures = run(n, change, body)
  assert(not failures, failures and select(2, next(failures)))
  return results[1]
end

describe("collectives beside the computation", function()
  describe("change no bit", function()
    local body = [[
      local list = {}
      for _, prefetch in ipairs { 0, 1, 3 } do
        local step, model = make(policy.shard.%s)
        for _ = 1, how.steps do step(x, y):item() end
        list[#list + 1] = words(model)
      end
      assert(list[1] == list[2] and list[1] == list[3], "other bits")
      return list[1]
    ]]
    local stages = { "ddp { bucket = 0, prefetch = prefetch }",
      "zero(2, { bucket = 0, prefetch = prefetch })",
      "fsdp { bucket = 0, prefetch = prefetch }" }

    it("in any stage #long", function()
      local ddp = done(2, "", body:format(stages[1]))
      for i = 2, 3 do assert.equal(ddp, done(2, "", body:format(stages[i]))) end
    end)

    it("of micro-batches, nor of what goes in bf16 #long", function()
      done(2, "how.clip = nil; o.accumulate = 3", body:format(stages[3]))
      done(3, "o.precision = policy.precision.bf16()", body:format("fsdp { bucket = 0, "
        .. "gather = 'bf16', reduce = 'bf16', retain = true, prefetch = prefetch }"))
    end)
  end)

  it("take what the plan says", function()
    done(2, "", [[
      local step = make(policy.shard.fsdp { bucket = 0, prefetch = 2 })
      step(x, y):item()
      collectgarbage() collectgarbage()
      local plan, before = step:plan(x, y), mrt.memory()
      assert(plan.peak == plan.persistent + plan.transient + plan.outputs)
      step(x, y):item()
      assert(mrt.memory().peak == before.peak, "more than planned")
      return true
    ]])
  end)

  -- Plans for one of several ranks, none of which is here.
  it("keep the peak, the budget and the order", function()
    local body = [==[
      local kinds = { allgather = true, reduce_scatter = true, allreduce = true }
      -- The collectives in order, how many begin ahead, most gathers under way.
      local function look(plan)
        local steps, operands = plan:steps(), plan:operands()
        local met, ends, ahead, most, gathers = {}, {}, 0, 0, 0
        for i = #steps, 1, -1 do
          local s, about = steps[i], operands[i]
          if s.op == "arrive" then
            ends[about.reads[1]], ahead = true, ahead + 1
          elseif kinds[s.op] then
            met[#met + 1] = s.op .. s.file .. s.line
          end
        end
        local under_way = {}
        for i, s in ipairs(steps) do
          local about = operands[i]
          if s.op == "allgather" and ends[about.writes[1]] then
            under_way[about.writes[1]], gathers = true, gathers + 1
          elseif s.op == "arrive" and under_way[about.reads[1]] then
            under_way[about.reads[1]], gathers = nil, gathers - 1
          end
          most = math.max(most, gathers)
        end
        return table.concat(met, " "), ahead, most
      end
      local sum = 0
      for stage = 1, 3 do
        how.layers, how.dim = 1 + stage % 3, 160 - 32 * stage
        local function plan(prefetch, memory)
          return make(policy.shard.zero(stage, { bucket = 0, prefetch = prefetch }),
            memory):plan(x, y)
        end
        local plain = plan(0)
        local order = look(plain)
        for prefetch = 1, 3, 2 do
          local p = plan(prefetch)
          local met, ahead, most = look(p)
          assert(p.peak <= plain.peak, ("peak %d, %d before"):format(p.peak, plain.peak))
          assert(met == order, "another order")
          assert(most <= prefetch, ("%d under way, %d wanted"):format(most, prefetch))
          sum = sum + ahead
        end
        if stage == 3 then
          local budget = plain.peak + plain.transient // 8
          local within, without = plan(2, budget), plan(0, budget)
          assert(within.peak <= budget)
          assert(within.seconds <= without.seconds, "slower")
          local _, ahead = look(within)
          sum = sum + ahead
        end
      end
      assert(sum > 5, ("%d ahead"):format(sum)) -- fewer on a slower processor
      return true
    ]==]
    done(1, "how.ranks = 4", body)
  end)

  it("tell of a rank that gives up", function()
    local _, failures = run(2, "", [[
      local step = make(policy.shard.fsdp { bucket = 0, prefetch = 1 })
      step(x, y):item()
      if comm.rank == 1 then error "enough" end
      local ok, e = pcall(step, x, y)
      assert(not ok and tostring(e):find "allgather %(.-:%d+%), run 2: rank 1", tostring(e))
      ok, e = pcall(step, x, y)
      assert(not ok and tostring(e):find "rank 1", tostring(e))
      return true
    ]])
    assert.is_nil(failures[1], failures[1])
    assert.matches("enough", failures[2])
  end)

  -- `body` makes y of what is gathered or reduced from `rows`, and updates.
  local function with_a_bad_index(body)
    local results, failures = mrt.communicator.ranks(2, ([[
      local mrt, comm = ...
      local op, said = require "mrt.core".op, {}
      local how = { comm = comm.number, lazy = true, op = "sum" }
      local rows = mrt.variable(mrt.randn(4096, 64))
      local square = mrt.variable(mrt.ones(64, 64))
      local count = mrt.variable(mrt.zeros(1))
      local step = mrt.compile(function(ids) %s end,
        { memory = "1GiB", shard = mrt.policy.shard.ddp { prefetch = 1 } })
      local function bits() return rows:bytes() .. square:bytes() .. count:bytes() end
      local good = mrt.tensor({ 1, 2 }, { dtype = "i32" })
      step(good):bytes()
      local before, ahead = bits(), false
      for _, s in ipairs(step:plan(good):steps()) do ahead = ahead or s.op == "arrive" end
      assert(ahead, "nothing is ahead")
      local own = comm.rank == 1 and mrt.tensor({ 1, 99999 }, { dtype = "i32" }) or good
      local ok, e = pcall(function() return step(own):bytes() end)
      pcall(comm.barrier, comm)
      return tostring(ok) .. tostring(e) .. tostring(bits() == before)
    ]]):format(body), { timeout = 20 })
    assert(not failures, failures and select(2, next(failures)))
    return results
  end

  it("let no update pass an index check", function()
    local said = with_a_bad_index [[
      local y = op.allreduce(rows, how):index_select(1, ids)
      count:assign(count + 1)
      square:assign(square:matmul(square) / 64)
      return y
    ]]
    assert.matches("^falseranks.*index 99999, 0 to 4095 wanted.*true$", said[2])
  end)

  it("change nothing on any rank when one has a bad index", function()
    local said = with_a_bad_index [[
      how.op = nil
      local nothing = (square:matmul(square):sum() * 0):to "i32" -- what is done meanwhile
      local y = op.allgather(rows, how):index_select(1, ids + nothing)
        :matmul(op.allgather(square, how):t())
      local grads = mrt.grad(y:sum(), { rows, square })
      rows:assign(rows - grads[1])
      square:assign(square - grads[2])
      return y
    ]]
    assert.matches("^falseranks.*rank 1.*true$", said[1])
    assert.matches("^falseranks.*index 99999, 0 to 8191 wanted.*true$", said[2])
  end)

  it("end on all ranks when one has broken a step off, even if it goes on", function()
    for _, stage in ipairs { "ddp()", "zero(3)" } do
      local results, failures = mrt.communicator.ranks(2, ([[
        local mrt, comm = ...
        local optim = mrt.optim
        local e = mrt.nn.Embedding(8, 16)
        local opt = optim.sgd(e:parameters(), { lr = 0.1 })
        local step = mrt.compile(function(ids)
          local loss = (e(ids) ^ 2):mean()
          opt:step(mrt.grad(loss, e:parameters()))
          return loss
        end, { shard = mrt.policy.shard.%s })
        local said = {}
        for i = 1, 3 do
          local id = comm.rank == 1 and i == 2 and 99 or i
          local ok, e = pcall(function() return step(mrt.tensor({ id, 1 }, "i64")):item() end)
          said[i] = ok and "went" or tostring(e)
        end
        return table.concat(said, "\n")]]):format(stage), { timeout = 60 })
      assert(not failures, failures and select(2, next(failures)))
      assert.matches("^went\n[^\n]*rank 1 ended: embedding[^\n]*index 99, 0 to 7 wanted",
        results[1])
      assert.matches("^went\n[^\n]*index 99, 0 to 7 wanted", results[2])
      for _, said in ipairs(results) do assert.not_matches("went$", said) end
    end
  end)

  it("are counted", function()
    for _, n in ipairs { "-1", "1.5", "'all'" } do
      local ok, message = pcall(mrt.policy.shard.fsdp, { prefetch = load("return " .. n)() })
      assert.is_false(ok)
      assert.matches("option 'prefetch': a count of gathers wanted", tostring(message))
    end
  end)
end)
