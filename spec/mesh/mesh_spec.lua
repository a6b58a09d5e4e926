-- mesh_spec.lua -- the option `mesh`: what it refuses, what it cuts, what moves
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local ranks = require "support.ranks"

local function refused(options, wanted)
  local ok, problem = pcall(mrt.compile, function(x) return x end, { mesh = options })
  assert.is_false(ok)
  assert(problem.message:find(wanted, 1, true), problem.message)
end

local head = [[
  mrt.seed(3)
  local model = nn.GPT { vocab = 64, dim = 32, layers = 1, heads = 4, context = 8 }
  local params = model:parameters()
  local opt = optim.adamw(params, { lr = 1e-2 })
  local function compiled(mesh, o)
    mesh.comm = comm
    o = o or {}
    o.mesh = mesh
    return mrt.compile(function(x, y)
      local loss = model:loss(x, y)
      opt:step(mrt.grad(loss, params))
      return loss
    end, o)
  end
  local x = mrt.randint(0, 63, { 4, 8 })
]]

describe("a mesh", function()
  it("refuses what is no mesh", function()
    refused(2, "a table wanted")
    refused({ tensors = 2 }, "there is no dimension 'tensors'; there is tensor")
    refused({ tensor = 0 }, "tensor = 0, a count of ranks wanted")
    refused({ data = "two" }, "data = \"two\", a count of ranks wanted")
    refused({ tensor = 1 << 30, data = 4 }, "too many ranks")
    refused({ tensor = 2, sequence = 1 }, "sequence: a boolean wanted")
    refused({ context = 2, ring = 1 }, "ring: a boolean wanted")
    refused({ expert = 2, capacity = 0 }, "capacity = 0, how many times an even share")
    refused({ expert = 2, capacity = "2" }, "capacity: a number wanted")
  end)

  it("refuses other ranks than it has", function()
    local step = mrt.compile(function(x) return x + 1 end, { mesh = { tensor = 3 } })
    local ok, problem = pcall(step, mrt.ones(2))
    assert.is_false(ok)
    assert(problem.message:find("mesh { tensor = 3 } is of 3 ranks, there is 1", 1, true),
      problem.message)
  end)

  it("reads a word", function()
    local mesh = require "mrt.mesh"
    assert.same({ tensor = 8, data = 2 }, mesh.parse "tensor=8,data=2")
    for word, wanted in pairs { ["tensor"] = "'tensor', tensor=8,data=2 wanted",
      ["tensor=8,"] = "wanted", ["cube=2"] = "no dimension 'cube'", ["data=0"] = "data = 0" } do
      local given, problem = mesh.parse(word)
      assert.is_nil(given)
      assert(problem:find(wanted, 1, true), problem)
    end
  end)

  it("gives each rank its share of the weights that are large, and takes what it says", function()
    local code = head .. [[
      local step = compiled { tensor = 4 }
      local plan = step:plan(x, x)
      local whole, state = 0, 0
      for _, p in ipairs(params) do whole = whole + p:nbytes() end
      local loss = step(x, x):item()
      return ("%d %d %.6f"):format(plan.persistent, 3 * whole, loss)
    ]]
    local persistent, whole = ranks.alike(4, code):match "(%d+) (%d+)"
    -- what is not cut: norms, positions, biases that are added to sums
    assert(tonumber(persistent) < 0.32 * tonumber(whole), persistent .. " of " .. whole)
  end)

  it("moves what Megatron's formula says", function()
    local code = head .. [[
      local step = compiled { tensor = 2 }
      local plan = step:plan(x, x)
      step(x, x)
      return ("%d"):format(plan.wire)
    ]]
    local wire = ranks.alike(2, code)
    -- a layer gathers its tokens, and takes sums of them in pieces, twice forward and
    -- twice backward, and half of each goes to the other rank; then gradients of what is
    -- not cut, the embedding and the loss
    local tokens = 4 * 8 * 32 * 4 / 2
    assert(tonumber(wire) >= 8 * tokens and tonumber(wire) < 16 * tokens, wire .. " of " .. tokens)
  end)

  it("holds less where keys go round, and says which sequence it does not divide", function()
    local code = head .. [[
      local function planned(ring, x)
        local plan = compiled { context = 2, ring = ring }:plan(x, x)
        local shifts = 0
        for _, s in ipairs(plan:steps()) do shifts = shifts + (s.op == "shift" and 1 or 0) end
        return plan, shifts
      end
      local round, shifts = planned(true, x)
      local gathered, none = planned(false, x)
      local odd = planned(true, mrt.eval(x:slice(2, 1, 7) + 0))
      return ("%d %d %s %s %s"):format(shifts, none, gathered.peak > round.peak,
        tostring(round.undivided), odd.undivided)
    ]]
    -- one layer: keys and values forward, these and their gradients backward
    assert.equal("6 0 true nil context = 2 does not divide the second dimension of i64[4,7] of "
      .. "input 1, i64[4,7] of input 2: whole on every rank, and what is of it alone",
      ranks.alike(2, code))
  end)

  it("cuts as a function says, or not at all", function()
    local code = head .. [[
      local function persistent(cut)
        local step = compiled { tensor = 2, cut = cut }
        return step:plan(x, x).persistent
      end
      local none = persistent(function() return false end)
      local ok, problem = pcall(persistent, function(p) return p.dim + 1 end)
      return none .. " " .. tostring(problem):match "cut answered[^\n]*"
    ]]
    local text = ranks.alike(2, code)
    assert(text:find("one of its dimensions wanted", 1, true), text)
  end)

  it("ends where ranks would cut otherwise", function()
    local code = head .. [[
      local function cut() return comm.rank == 1 and 1 or false end
      local step = compiled { tensor = 2, cut = cut }
      return tostring(select(2, pcall(step, x, x)))
    ]]
    assert.matches("cut answers for '[%w.]+' f32%S+ are not those of rank 0", ranks.run(2, code)[2])
  end)

  -- A mean over the targets that count, and a decay: sums of which the loss is a function.
  it("trains in micro-batches by a loss of several sums, with weights in pieces twice", function()
    local function trained(n, mesh, stage)
      return ranks.alike(n, head .. ([[
        local mesh, rows = %s, comm.rank // 2 * 2 + 1
        local targets = mrt.where(x:eq(5), -1, x)
        local step = mrt.compile(function(a, b)
          local loss = model:loss(a, b, { ignore_index = -1 })
            + 1e-2 * model.blocks[1].mlp.fc.weight:square():sum()
          opt:step(mrt.grad(loss, params))
          return loss
        end, { mesh = mesh, accumulate = 2, shard = %s })
        if mesh then
          mesh.comm = comm
          x, targets = x:slice(1, rows, rows + 1), targets:slice(1, rows, rows + 1)
        end
        for _ = 1, 3 do step(mrt.eval(x + 0), mrt.eval(targets + 0)) end
        local words = {}
        for i, p in ipairs(params) do words[i] = ("%%.4f"):format(p:abs():sum():item()) end
        return table.concat(words, " ")]]):format(mesh, stage))
    end
    local wanted = trained(1, "nil", "nil")
    for _, stage in ipairs { "nil", "policy.shard.zero(1)", "policy.shard.zero(3)" } do
      local numbers = wanted:gmatch "%S+"
      for word in trained(4, "{ tensor = 2, data = 2 }", stage):gmatch "%S+" do
        assert.near(tonumber(numbers()), tonumber(word), 2e-2, stage)
      end
    end
  end)

  it("ends where ranks that compute together are given other rows", function()
    for _, name in ipairs { "tensor", "context" } do
      local told = ranks.alike(2, head .. ([[
        local step = compiled { %s = 2 }
        local other = mrt.eval(x + comm.rank * mrt.arange(8):eq(3):to "i64") -- a token apart
        local ok, problem = pcall(step, x, other)
        return tostring(ok) .. " " .. tostring(problem.message)]]):format(name))
      assert.matches("^false .*input 2 i64%[4,8%] is not the same on ranks that differ in " .. name,
        told)
    end
  end)

  it("reads weights whole from outside, and takes what is assigned", function()
    local code = head .. [[
      local step = compiled { tensor = 2 }
      step(x, x)
      local w = model.blocks[1].mlp.fc.weight
      local sum = w:sum():item()
      w:assign(mrt.ones(w:size()))
      local ones = w:sum():item()
      local function evaluate(a) return model:loss(a, a) end
      local plain = mrt.compile(evaluate)(x):item()
      return ("%.5f %d %.5f %.5f"):format(sum, ones, plain, evaluate(x):item())
    ]]
    local sum, ones, compiled, plain = ranks.alike(2, code):match "(%S+) (%S+) (%S+) (%S+)"
    assert.equal(tostring(32 * 128), ones)
    assert.equal(plain, compiled)
    assert(tonumber(sum))
  end)

  it("ends with an error on all ranks where a token is none", function()
    local code = head .. [[
      local step = compiled { tensor = 2 }
      step(x, x)
      local bad = x + 64
      local ok, problem = pcall(step, bad, x)
      return tostring(ok) .. " " .. tostring(problem):match "[^\n]*"
    ]]
    local results = ranks.run(2, code)
    for rank = 1, 2 do
      assert(results[rank]:find "^false", results[rank])
      assert(results[rank]:find "embedding.*0 to 63 wanted", results[rank])
    end
  end)

  it("has no whole weights before the first step either", function()
    local code = head .. [[
      collectgarbage() collectgarbage()
      local before = mrt.memory().now
      local plan = compiled { tensor = 4 }:plan(x, x)
      collectgarbage() collectgarbage()
      return ("%d %d"):format(mrt.memory().now - before, plan.persistent)
    ]]
    local taken, persistent = ranks.alike(4, code):match "(%d+) (%d+)"
    assert(tonumber(taken) <= tonumber(persistent), taken .. " of " .. persistent)
  end)

  it("goes on from state that was set before the first step", function()
    local code = head .. [[
      mrt.seed(5)
      local state, names = opt:state(), {}
      for name in pairs(state) do names[#names + 1] = name end
      table.sort(names) -- moments that differ, by name and element
      for _, name in ipairs(names) do
        local v = state[name]
        local scale = name:find "m$" and 0.1 or 1
        if name ~= "t" then v:assign(scale * mrt.rand(v:size()) + scale) end
      end
      local step = compiled { tensor = comm.size }
      step(x, x)
      return ("%.5f"):format(step(x, x):item())
    ]]
    assert.equal(ranks.alike(1, code), ranks.alike(4, code))
  end)
end)
