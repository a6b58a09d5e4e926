-- experts_spec.lua -- layers of experts written by hand, on ranks that share the experts
--
-- SPDX-License-Identifier: MIT

local ranks = require "support.ranks"

-- Rows `x` of this rank, expert by expert; matrices U [E,D,H], V [E,H,D], a vector b [H].
local layers = {
  plain = "return gm(gm(h, U):gelu(), V)",
  bias = "return gm((gm(h, U) + b):sigmoid(), V):exp()", -- not 0 of a row of no expert
  mean = "local z = gm(h, U) return gm(z - z:mean(1, true), V)", -- of this rank's rows
  total = "return gm(gm(h, U), V) * gm(h, U):sum()",
  mixed = "local z = gm(h, U) return gm(z:matmul(z:transpose(1, 2):matmul(z)):tanh(), V)",
  fused = "local z = gm(h, U) return gm(z:slice(2, 1, 4):silu() * z:slice(2, 5, 8), "
    .. "V:slice(2, 1, 4)) + gm(h, U):slice(2, 1, D)",
  twice = "local z = gm(h, U) return gm(gm(gm(z, V):tanh(), U), V) + h",
}

-- Three steps; `o` is of mrt.compile.  A rank tells what it got and, with "wire", what
-- moved.
local code = [[
  local N, E, D, H, seed, cover, dtype, o = 12, 4, 6, 8, %d, %q, %q, %s
  mrt.seed(seed)
  local all, ids = mrt.eval(mrt.randn(2 * N, D)), mrt.eval(mrt.randint(0, E - 1, { 2 * N }))
  local function own(v) -- of one rank: all
    local n = 2 * N // comm.size
    return mrt.eval(v:slice(1, comm.rank * n + 1, (comm.rank + 1) * n) + 0)
  end
  local U = mrt.variable(mrt.eval(mrt.randn(E, D, H) * 0.5), "experts.up")
  local V = mrt.variable(mrt.eval(mrt.randn(E, H, D) * 0.5), "experts.down")
  local b = mrt.variable(mrt.eval(mrt.randn(H)), "bias")
  local params = { U, V, b }
  local opt = optim.adamw(params, { lr = 1e-2 })
  local function layer(x, ids)
    local of, order = ids:sort()
    local counts, h = ids:bincount { size = E }, x:embedding(order)
    if cover == "less" then counts = counts - counts:gt(1):to "i64" end
    if cover == "none" then counts = counts * 0 end
    counts = counts:to(dtype)
    local function gm(y, w) return y:grouped_matmul(w, counts) end
    %s
  end
  local step = mrt.compile(function(x, ids)
    local y = layer(x, ids)
    local loss = (y:tanh() - 0.3 * b:sum()):square():mean() + 1e-2 * U:square():sum()
    opt:step(mrt.grad(loss, params), { clip = 1 })
    return loss, y
  end, o)
  local x, own_ids, words, y = own(all), own(ids), {}, nil
  local plan, before = step:plan(x, own_ids), 0
  for i = 1, 3 do
    before = mrt.communicator.sent()
    local loss, made = step(x, own_ids)
    if i == 1 then y = made end
    words[i] = loss:item()
  end
  local moved = mrt.communicator.sent() - before
]]

local tell = [[
  words = comm:allreduce(words, { op = "mean" })
  for _, p in ipairs(params) do words[#words + 1] = p:to "f64":abs():sum():item() end
  moved = comm:allreduce({ moved - plan.wire }, { op = "sum" })[1]
  for i, w in ipairs(words) do words[i] = ("%.17g"):format(w) end
  return ("%d %s"):format(moved, table.concat(words, " "))
]]

local function numbers(text)
  local list = {}
  for w in text:gmatch "%S+" do list[#list + 1] = tonumber(w) or 0 / 0 end
  return list
end

local function compare(wanted, got, about, loose)
  wanted, got = numbers(wanted), numbers(got)
  assert.equal(0, got[1], about .. ": bytes that no plan told")
  for i = 2, #wanted do
    local away = math.abs(wanted[i] - got[i])
    assert(away <= (loose or 2e-5) * math.max(1, math.abs(wanted[i])),
      ("%s: number %d is %s, %s wanted"):format(about, i, got[i], wanted[i]))
  end
end

describe("experts on ranks", function()
  it("train as ranks do that have all of them", function()
    local seed = 0
    for name, body in pairs(layers) do -- in any order
      for _, cover in ipairs { "all", "less" } do
        seed = seed + 1
        local dtype = ({ "i64", "i32", "u8" })[1 + seed % 3]
        local function run(o)
          return ranks.alike(2, code:format(seed, cover, dtype, o, body) .. tell)
        end
        local about = ("%s, counts of %s rows in %s"):format(name, cover, dtype)
        compare(run "{ mesh = { data = 2 } }", run "{ mesh = { expert = 2 } }", about)
      end
    end
  end)

  it("train as one rank does, with weights in bf16 to its digits", function()
    for o, loose in pairs { ["%s"] = 2e-5,
      ["precision = policy.precision.bf16_pure(), %s"] = 0.02 } do
      local function run(n, mesh)
        return ranks.alike(n, code:format(5, "all", "i64", "{" .. o:format(mesh) .. "}",
          layers.fused) .. tell)
      end
      compare(run(1, ""), run(2, "mesh = { expert = 2 }"), o, loose)
    end
  end)

  it("go on from snapshots with other meshes", function()
    local folder = os.tmpname()
    os.remove(folder)
    local function train(n, o, last)
      return ranks.alike(n, ([[
        mrt.seed(3)
        local model = nn.Decoder { vocab = 20, context = 4, layers = 1, heads = 2, dim = 16,
          hidden = 16, experts = { count = 4, top = 2, hidden = 16, normalize = true } }
        local opt = optim.adamw(model:parameters(), { lr = 0.01 })
        local step = mrt.compile(function(x, y)
          local loss = model:loss(x, y)
          opt:step(mrt.grad(loss, model:parameters()), { clip = 1 })
          return loss
        end, { mesh = %s })
        local all = mrt.eval(mrt.randint(0, 19, { 8, 5 }))
        local k = 8 // comm.size
        local x = mrt.eval(all:slice(1, comm.rank * k + 1, comm.rank * k + k):slice(2, 1, 4) + 0)
        local y = mrt.eval(all:slice(1, comm.rank * k + 1, comm.rank * k + k):slice(2, 2, 5) + 0)
        local snapshots = train.snapshots { folder = "%s",
          parts = { model = model, optimizer = opt, step = step } }
        local done, words = assert(snapshots:resume()), { 0 }
        for i = done + 1, %d do
          words[#words + 1] = comm:allreduce({ step(x, y):item() }, { op = "mean" })[1]
          if i %% 2 == 0 then assert(snapshots:save(i)) end
        end
        local state = model:state()
        for _, name in ipairs { "blocks.1.mlp.up", "tokens.weight" } do
          words[#words + 1] = state[name]:to "f64":abs():sum():item()
        end
        return table.concat(words, " ")
      ]]):format(o, folder, last))
    end
    local wanted = train(1, "nil", 8)
    os.execute("rm -rf " .. folder)
    local words, numbers_wanted = {}, numbers(wanted)
    for last, run in ipairs { { 2, "{ expert = 2 }" }, { 1, "nil" }, { 2, "{ data = 2 }" },
      { 2, "{ expert = 2 }" } } do
      local got = numbers(train(run[1], run[2], 2 * last))
      words[#words + 1], words[#words + 2] = got[2], got[3]
      if last == 4 then table.move(got, 4, #got, #words + 1, words) end
    end
    os.execute("rm -rf " .. folder)
    table.insert(words, 1, 0)
    assert.equal(#numbers_wanted, #words)
    compare(wanted, table.concat(words, " "), "resumed", 1e-4)
  end)

  it("drop the rows beyond the room of a rank, and no others", function()
    local told = code:format(7, "all", "i64", "{ mesh = { expert = 2, capacity = 0.5 } }",
      layers.plain) .. [[
      return table.concat(y:abs():sum(2):totable(), " ") .. "|"
        .. table.concat(own_ids:totable(), " ")
    ]]
    local got = ranks.run(2, told)
    local whole = ranks.run(2, (told:gsub(", capacity = 0.5", "")))
    for r = 1, 2 do
      local rows, ids = got[r]:match "(.*)|(.*)"
      local all, seen, dropped = numbers(whole[r]:match "(.*)|"), { 0, 0 }, 0
      ids, rows = numbers(ids), numbers(rows)
      table.sort(ids)
      assert.equal(12, #rows)
      for i, id in ipairs(ids) do -- two experts on each rank, room for 3 of 12 rows
        local rank = 1 + id // 2
        seen[rank] = seen[rank] + 1
        local wanted = seen[rank] <= 3 and all[i] or 0
        assert(all[i] ~= 0 and math.abs(rows[i] - wanted) <= 1e-5 * math.max(1, all[i]),
          ("rank %d, row %d of expert %d is %s"):format(r, i, id, rows[i]))
        if wanted == 0 then dropped = dropped + 1 end
      end
      assert.equal(6, dropped)
    end
  end)

  it("refuse counts that no rows have, on all ranks", function()
    for _, counts in ipairs { "{ 4, -2, 3, 1 }", "{ 4, 4, 3, 1 }" } do
      local results = ranks.run(2, ([[
        local w = mrt.variable(mrt.eval(mrt.randn(4, 6, 6)))
        local x, counts = mrt.eval(mrt.randn(8, 6)), mrt.tensor(%s, "i64")
        local opt = optim.sgd({ w }, { lr = 0.1 })
        local step = mrt.compile(function(a, c)
          local loss = a:grouped_matmul(w, c):square():sum()
          opt:step(mrt.grad(loss, { w }))
          return loss
        end, { mesh = { expert = 2, comm = comm } })
        return tostring(select(2, pcall(step, x, counts)))]]):format(counts))
      for r = 1, 2 do assert.matches("a group of %-1 rows, 0 or more wanted", results[r]) end
    end
  end)
end)

describe("a plan of a mesh", function()
  it("says where there are no experts to share", function()
    local out = require "support.program".script [[
      local mrt = require "mrt"
      require "mrt.core".communicator.alone(0, 4)
      for _, count in ipairs { 6, 4, 4 } do
        local model = mrt.nn.Decoder { vocab = 64, dim = 16, layers = 1, heads = 2, hidden = 32,
          context = 8, experts = { count = count, top = 2 } }
        local step = mrt.compile(function(x, y)
          return mrt.grad(model:loss(x, y), model:parameters())[1]
        end, { mesh = { expert = 4 } })
        local ids = mrt.zeros(4, 8, { dtype = "i32" })
        for _ = 1, 2 do print(step:plan(ids, ids).undivided) end
      end
    ]]
    local said = "expert = 4 divides no stack of experts' matrices that grouped_matmul reads: "
      .. "all of them on every rank\n"
    assert.equal(said .. said .. "nil\nnil\nnil\nnil\n", out)
  end)
end)
