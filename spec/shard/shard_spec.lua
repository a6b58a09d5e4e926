-- One script on one rank or many: data parallel, ZeRO, FSDP.

local files = require "support.files"
local ranks = require "support.ranks"

-- A small GPT of one layer on `n` ranks, three steps: {loss, weights} as text, per policy.
-- `change` is Lua code that may change `o`, the options of compile, and `how`.
local function run(n, policy, change)
  return ranks.alike(n, ([[
    local o = { shard = %s }
    local how = { optimizer = "adamw", settings = { lr = 0.01 }, clip = 1.0, batch = 12,
      dropout = 0, steps = 3, layers = 1 }
    %s
    mrt.seed(7 + (how.seeds or 0) * comm.rank)
    local model = nn.GPT { vocab = 40, context = 8, layers = how.layers, heads = 2, dim = 32,
      dropout = how.dropout }
    local opt = optim[how.optimizer](optim.groups(model, { weight_decay = 0.1 }),
      how.settings)
    local ema = how.ema and optim.ema(model:parameters(), { decay = 0.5 })
    if how.prune then mrt.prune.magnitude(model, { share = 0.5 }) end
    local step = mrt.compile(function(x, y)
      local loss = model:loss(x, y)
      opt:step(mrt.grad(loss, model:parameters()), { clip = how.clip })
      if ema then ema:update() end
      return loss
    end, o)
    mrt.seed(9)
    local data = mrt.randint(0, 40, { how.batch * how.steps, 9 })
    local rows = how.batch // comm.size
    local losses = {}
    for i = 1, how.steps do
      local first = (i - 1) * how.batch + comm.rank * rows + 1
      local own = data:slice(1, first, first + rows - 1)
      local loss = step(own:slice(2, 1, 8), own:slice(2, 2, 9))
      losses[i] = comm:allreduce(loss, { op = "mean" }):item()
    end
    local words = {}
    for i, loss in ipairs(losses) do words[i] = ("%%a"):format(loss) end
    for _, p in ipairs(model:parameters()) do
      words[#words + 1] = ("%%a"):format((p:to "f64" * p:to "f64"):sum():item())
    end
    local bits = {}
    for _, p in ipairs(model:parameters()) do
      bits[#bits + 1] = ("%%a"):format((p:to "f64" * mrt.arange(p:numel(), { dtype = "f64" })
        :reshape(p:size())):sum():item())
    end
    return table.concat(words, " ") .. "\n" .. table.concat(bits, " ")
  ]]):format(policy, change or ""))
end

local function numbers(text)
  local list = {}
  for word in text:match "^[^\n]*":gmatch "%S+" do list[#list + 1] = tonumber(word) end
  return list
end

local function assert_near(wanted, got, tolerance)
  local a, b = numbers(wanted), numbers(got) -- losses and squares
  assert.equal(#a, #b)
  for i, x in ipairs(a) do
    local far = math.abs(x - b[i])
    assert(far <= tolerance * math.max(1, math.abs(x)),
      ("number %d: %.9g and %.9g"):format(i, x, b[i]))
  end
end

local stages = { "policy.shard.zero(1)", "policy.shard.zero(2, {bucket = 0})",
  "policy.shard.zero(3, {bucket = 0})", "policy.shard.fsdp {bucket = '10KiB'}",
  "function(p) return p.index % 4 end" }

-- Stages have the bits of ddp, which is near one rank with the same batch: all of
-- them, or those that say most.
local function compare(n, change, tolerance, all)
  local whole = run(1, "nil", change)
  local ddp = run(n, "policy.shard.ddp()", change)
  assert_near(whole, ddp, tolerance)
  for i, stage in ipairs(stages) do
    if all or i == 3 or i == 5 then
      assert.equal(ddp, run(n, stage, change), stage .. " differs")
    end
  end
end

describe("sharded training", function()
  for n = 2, 4 do
    it(("has the same bits in all stages on %d ranks"):format(n)
      .. (n > 2 and " #long" or ""), function()
      compare(n, "how.layers = 2", 1e-4, true)
    end)
  end

  it("accumulates", function() compare(2, "o.accumulate = 3", 1e-4) end)

  it("draws the masks of the whole batch", function()
    compare(2, "how.dropout = 0.2", 1e-4)
    compare(3, "how.dropout = 0.2; o.accumulate = 2", 1e-4)
  end)

  it("narrows", function() compare(2, "o.precision = policy.precision.bf16()", 0.02) end)

  it("reads and retains narrow weights #long", function()
    local o = ", gather = 'bf16', reduce = 'bf16', bucket = 0"
    local change = "o.precision = policy.precision.bf16()"
    local ddp = run(2, ("policy.shard.ddp { %s }"):format(o:sub(3)), change)
    change = change .. "; o.accumulate = 2"
    local counted = run(2, ("policy.shard.ddp { %s }"):format(o:sub(3)), change)
    assert.equal(counted, run(2, ("policy.shard.zero(1, { %s, retain = true })")
      :format(o:sub(3)), change))
    assert.equal(counted, run(2, ("policy.shard.zero(3, { %s, retain = true })")
      :format(o:sub(3)), change))
    change = "o.precision = policy.precision.bf16()"
    for _, more in ipairs { "", ", retain = true" } do
      assert.equal(ddp, run(2, ("policy.shard.ddp { %s }"):format(o:sub(3) .. more), change))
      for stage = 1, 3 do
        local policy = ("policy.shard.zero(%d, { %s })"):format(stage, o:sub(3) .. more)
        assert.equal(ddp, run(2, policy, change), policy .. " differs")
      end
    end
  end)

  it("scales the loss", function()
    compare(2, "o.precision = policy.precision.f16 { loss_scale = 'dynamic' }", 0.02)
  end)

  it("keeps state in 8 bits #long", function()
    compare(3, "how.settings.state = '8bit'", 0.01)
  end)

  it("has other optimizers, those too that need whole parameters #long", function()
    compare(2, "how.optimizer = 'lion'; how.clip = nil", 1e-4)
    compare(2, "how.optimizer = 'lamb'", 1e-4)
    for _, name in ipairs { "adafactor", "nadam", "rprop" } do
      compare(2, ("how.optimizer = '%s'"):format(name), 1e-4)
    end
  end)

  it("begins with the parameters of rank 0 #long", function()
    local o = "gather = 'bf16', retain = true"
    local alike = run(2, ("policy.shard.ddp { %s }"):format(o))
    for _, policy in ipairs { "ddp {%s}", "zero(1, {%s})", "zero(2, {%s})", "zero(3, {%s})" } do
      assert.equal(alike, run(2, "policy.shard." .. policy:format(o), "how.seeds = 1"))
    end
    alike = run(3, "policy.shard.ddp()", "o.precision = policy.precision.bf16_pure()")
    for _, policy in ipairs { "zero(1)", "fsdp { bucket = '10KiB' }" } do
      assert.equal(alike, run(3, "policy.shard." .. policy,
        "how.seeds = 1; o.precision = policy.precision.bf16_pure()"))
    end
  end)

  it("reads and writes parameters in pieces as if they were whole", function()
    local results = ranks.run(3, [[
      local model = nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 3))
      local opt = optim.sgd(model:parameters(), { lr = 0.5 })
      local step = mrt.compile(function(x)
        local loss = (model(x) ^ 2):mean()
        opt:step(mrt.grad(loss, model:parameters()))
        return loss
      end, { shard = policy.shard.zero(3) })
      local x = mrt.ones { 4, 5 }
      step(x)
      local w = model:parameters()[1]
      local before, twice = w:totable(), w * 2
      step(x)
      local seen = twice:totable() -- pending: of before the step
      for i, row in ipairs(before) do
        for j, v in ipairs(row) do assert(seen[i][j] == 2 * v, "stale") end
      end
      assert(w:totable()[1][1] ~= before[1][1], "a copy from before the step")
      w:assign(mrt.full({ 7, 5 }, comm.size))
      assert((w - 3):abs():sum():item() == 0, "assigned")
      local eval = mrt.compile(function(y) return model(y):sum() end)
      local total, plain = eval(x):item(), model(x):sum():item()
      assert(math.abs(total - plain) < 1e-4 * math.abs(plain), "compiled and not")
      local copy = nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 3))
      local state = {}
      for name, p in pairs(model:state()) do state[name] = p * 1 end
      copy:load_state(state)
      assert(copy(x):sum():item() == plain, "copied")
      for _, p in pairs(state) do mrt.eval(p) end
      model:load_state(state)
      assert(model(x):sum():item() == plain, "loaded")
      return true
    ]])
    assert.same({ true, true, true }, results)
  end)

  it("prunes, averages, recomputes, swaps #long", function()
    compare(2, "how.prune = true; how.ema = true", 1e-4)
    compare(2, "how.layers = 2; o.checkpoint = policy.checkpoint.sqrt(); "
      .. "o.swap = policy.swap.all { least = 1 }", 1e-4)
  end)

  it("stays within a budget", function()
    compare(2, "how.layers = 2; o.memory = '1MiB'", 1e-4)
  end)

  it("writes what is in pieces only where it should", function()
    local results = ranks.run(3, [[
      mrt.seed(4)
      local model = nn.Sequential(nn.Linear(9, 9), nn.Linear(9, 9))
      local params = model:parameters()
      local opt = optim.adamw(params, { lr = 0.1 })
      local o = { shard = policy.shard.zero(2, { gather = "bf16", bucket = 0 }) }
      local function loss(x) return (model(x) ^ 2):mean() end
      local step = mrt.compile(function(x)
        local l = loss(x)
        opt:step(mrt.grad(l, params))
        return l
      end, o)
      local x = mrt.full({ 2, 9 }, 1 + comm.rank)
      step(x)
      -- a function that only differentiates leaves weights as they are
      local before = params[1]:totable()
      mrt.compile(function(y) return mrt.grad(loss(y), params) end, o)(x)
      for r, row in ipairs(before) do
        for c, v in ipairs(row) do assert(params[1]:totable()[r][c] == v, "rounded") end
      end
      -- optimizer state
      local saved = {}
      for _, name in ipairs { "1.m", "1.v", "2.m", "2.v", "3.m", "3.v", "4.m", "4.v", "t" } do
        saved[name] = mrt.eval(opt:state()[name] * 1)
      end
      step(x)
      opt:load_state(saved)
      for _, name in ipairs { "1.m", "1.v", "3.m", "4.v" } do
        assert((opt:state()[name] - saved[name]):abs():sum():item() == 0, "not loaded")
      end
      -- from others in pieces
      local p, q = params[1], params[3]
      p:assign(q)
      assert((p - q):abs():sum():item() == 0, "assigned")
      p:assign(q * 2)
      assert((p - q * 2):abs():sum():item() == 0, "assigned twice")
      -- as arguments
      local reads = mrt.compile(function(w, y)
        opt:step(mrt.grad(loss(y), params))
        return w:sum()
      end, o)
      local ok, why = pcall(reads, p, x)
      assert(not ok and tostring(why):find "which this plan updates", tostring(why))
      local other = mrt.compile(function(y)
        opt:step(mrt.grad(loss(y), params))
      end, { shard = policy.shard.zero(3) })
      ok, why = pcall(other, x)
      assert(not ok and tostring(why):find "is in pieces as stage 2 has it", tostring(why))
      return true
    ]])
    assert.same({ true, true, true }, results)
  end)

  it("forgets models that are gone", function()
    local results = ranks.run(2, [[
      for _ = 1, 4 do
        local model = nn.Linear(4, 4)
        local opt = optim.adam(model:parameters(), {})
        local step = mrt.compile(function(x)
          local loss = (model(x) ^ 2):mean()
          opt:step(mrt.grad(loss, model:parameters()))
          return loss
        end, { shard = policy.shard.zero(2) })
        step(mrt.ones { 2, 4 }):item()
        model, opt, step = nil, nil, nil
        collectgarbage()
      end
      return true
    ]])
    assert.same({ true, true }, results)
  end)

  it("retains weights that are assigned between steps", function()
    local function trained(policy)
      return ranks.run(2, ([[
        mrt.seed(5)
        local model = nn.Sequential(nn.Linear(6, 9), nn.Linear(9, 2))
        local opt = optim.sgd(model:parameters(), { lr = 0.1 })
        local step = mrt.compile(function(x)
          local loss = (model(x) ^ 2):mean()
          opt:step(mrt.grad(loss, model:parameters()))
          return loss
        end, { shard = %s })
        local x, losses = mrt.full({ 3, 6 }, comm.rank + 1), {}
        for i = 1, 4 do
          losses[i] = ("%%a"):format(step(x):item())
          if i %% 2 == 0 then
            for _, p in ipairs(model:parameters()) do p:assign(p * 0.5) end
          end
        end
        return table.concat(losses, " ")
      ]]):format(policy))
    end
    local plain = trained "policy.shard.ddp { gather = 'bf16' }"
    for _, policy in ipairs { "ddp { %s }", "zero(2, { %s })", "zero(3, { %s })" } do
      assert.same(plain, trained("policy.shard."
        .. policy:format "gather = 'bf16', retain = true"))
    end
  end)

  describe("snapshots", function()
    local folder = files.name()

    -- Trains from where the folder's snapshots end, to step `last`, saving each;
    -- returns all variables as text.
    local function train(n, policy, last, plan_first)
      return ranks.alike(n, ([[
        mrt.seed(3)
        local model = nn.GPT { vocab = 20, context = 4, layers = 2, heads = 1, dim = 24 }
        local opt = optim.adamw(model:parameters(), { lr = 0.01, state = "8bit" })
        local step = mrt.compile(function(x, y)
          local loss = model:loss(x, y)
          opt:step(mrt.grad(loss, model:parameters()), { clip = 1 })
          return loss
        end, { shard = %s })
        local x = mrt.full({ 12 // comm.size, 4 }, comm.rank, { dtype = "i64" })
        if %s then step:plan(x, x) end
        local parts = { model = model, optimizer = opt, step = step }
        local snapshots = train.snapshots { folder = "%s", parts = parts }
        local done = assert(snapshots:resume())
        local words = { tostring(done) }
        local function note()
          local state = {}
          for name, part in pairs { model = model:state(), optimizer = opt:state() } do
            for key, v in pairs(part) do state[#state + 1] = { name .. key, v } end
          end
          table.sort(state, function(a, b) return a[1] < b[1] end)
          for _, entry in ipairs(state) do
            local v = entry[2]:to "f64":reshape(-1)
            words[#words + 1] = ("%%a"):format((v * mrt.arange(v:numel(),
              { dtype = "f64" })):sum():item())
          end
        end
        note()
        for i = done + 1, %d do step(x, x) assert(snapshots:save(i)) end
        words[#words + 1] = "\n"
        note()
        return table.concat(words, " ")
      ]]):format(policy, tostring(plan_first), folder, last)):match "^(.-)\n(.*)$"
    end

    after_each(function() os.execute("rm -rf " .. folder) end)

    it("are in pieces, and any number of ranks goes on from them", function()
      local _, whole = train(4, "policy.shard.zero(3, { bucket = 0 })", 3)
      local names = {}
      for name in io.popen("ls " .. folder):lines() do names[#names + 1] = name end
      assert.equal(5 * 3, #names) -- a file, and one of each rank
      for n, policy in ipairs { "nil", "policy.shard.zero(2)", "policy.shard.ddp()",
        "policy.shard.fsdp { bucket = '1KiB' }" } do
        for _, plan_first in ipairs { false, true } do
          assert.equal("3" .. whole, (train(n, policy, 3, plan_first):gsub("%s*$", "")))
        end
      end
    end)

    it("go on with the same bits", function()
      local _, straight = train(2, "policy.shard.zero(2, { bucket = 0 })", 6)
      os.execute("rm -rf " .. folder)
      train(2, "policy.shard.zero(2, { bucket = 0 })", 3)
      for _, plan_first in ipairs { false, true } do
        os.execute(("rm -f %s/step-0000000[456]*"):format(folder))
        local _, again = train(2, "policy.shard.zero(2, { bucket = 0 })", 6, plan_first)
        assert.equal(straight, again)
      end
    end)

    it("that lack a rank's file, or have it damaged, are passed over", function()
      train(2, "policy.shard.zero(1)", 2)
      local piece = folder .. "/step-00000002.rank-1-of-2.safetensors"
      local bytes = files.read(piece)
      for _, at in ipairs { 20, #bytes // 2, #bytes } do -- a bit has turned
        files.write(piece, bytes:sub(1, at - 1) .. string.char(bytes:byte(at) ~ 4)
          .. bytes:sub(at + 1))
        assert.equal("1", train(2, "policy.shard.zero(1)", 1):match "^%d+")
      end
      files.write(piece, bytes)
      assert.equal("2", train(2, "policy.shard.zero(1)", 1):match "^%d+")
      os.remove(piece)
      assert.equal("1", train(2, "policy.shard.zero(1)", 1):match "^%d+")
    end)
  end)
end)

describe("a parameter in pieces", function()
  it("is assigned on all ranks, whoever has a piece of it", function()
    for _, stage in ipairs { "policy.shard.ddp()", "policy.shard.zero(1)",
      "policy.shard.zero(3, { bucket = 0 })" } do
      local results = ranks.run(3, ([[
        local model = nn.Sequential(nn.Linear(40, 30), nn.Tanh(), nn.Linear(30, 8))
        local params = model:parameters()
        local opt = optim.sgd(params, { lr = 0 })
        local x = mrt.ones(2, 40)
        local step = mrt.compile(function(x)
          local loss = model(x):sum()
          opt:step(mrt.grad(loss, params))
          return loss
        end, { shard = %s })
        step(x)
        local read, pending = model(x):sum():item(), params[1] * 2
        for i, p in ipairs(params) do p:assign(p * 0 + i) end
        return ("%%.4f %%s %%.4f"):format(pending:sum():item() / read, step(x):item(),
          model(x):sum():item())
      ]]):format(stage))
      for rank = 1, 3 do assert.equal(results[1], results[rank]) end
      assert.matches(" 1504.0 1504.0000$", results[1]) -- 16 (30 * 3 + 4)
    end
  end)
end)
