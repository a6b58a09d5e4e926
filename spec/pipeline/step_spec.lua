-- step_spec.lua -- steps in stages: the bits of one rank, the bytes of the plan
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local ranks = require "support.ranks"

-- What all cases share: data, models, a step with options `o`, a run of it.
local head = [=[
  local x, y
  local function data(kind)
    mrt.seed(2)
    if kind == "mlp" or kind == "skips" then
      x, y = mrt.eval(mrt.randn(8, 12), mrt.randn(8, 4))
    else
      x, y = mrt.eval(mrt.randint(0, 31, 8, 8), mrt.randint(0, 31, 8, 8))
    end
  end
  local models = {}
  function models.mlp(dropout)
    return nn.Sequential(nn.Linear(12, 20), nn.Tanh(), nn.Linear(20, 24), nn.GELU(),
      nn.Dropout(dropout), nn.Linear(24, 24), nn.LayerNorm(24), nn.Linear(24, 20), nn.ReLU(),
      nn.Linear(20, 16), nn.Tanh(), nn.Linear(16, 16), nn.SiLU(), nn.Linear(16, 16), nn.Tanh(),
      nn.Linear(16, 4))
  end
  function models.gpt(dropout) -- whose embedding is its head too
    return nn.GPT { vocab = 31, dim = 24, layers = 4, heads = 2, context = 8, dropout = dropout }
  end
  function models.untied(dropout) -- of whose gradients none is a sum over stages
    return nn.GPT { vocab = 31, dim = 24, layers = 4, heads = 2, context = 8, dropout = dropout,
      tie = false }
  end
  -- Layers that read what some before them have made, of which some add to the loss: what
  -- goes on where it is cut are several values, and some of them go through parts.
  local Skips = nn.Module "Skips"
  function Skips:init(dropout, seed)
    local random = require "support.random_graph".generator(seed * 7919 + 13)
    self.first, self.last, self.layers, self.norms = nn.Linear(12, 16), nn.Linear(16, 4), {}, {}
    self.drop = nn.Dropout(dropout)
    local reads, kinds = {}, {}
    for i = 1, 7 + random(4) do
      reads[i], kinds[i] = { i }, random(5)
      self.layers[i] = nn.Linear(16, 16, { bias = random(2) == 1 })
      self.norms[i] = kinds[i] == 2 and nn.LayerNorm(16) or nn.Identity()
      for _ = 1, random(3) - 1 do table.insert(reads[i], random(i)) end
    end
    self.how = function() return reads, kinds end
  end
  function Skips:forward(a)
    local reads, kinds = self.how()
    local made, aside = { self.first(a) }, nil
    for i, layer in ipairs(self.layers) do
      local sum = made[i]
      for k = 2, #reads[i] do
        local other = made[reads[i][k]]
        if kinds[i] == 1 then sum = sum * other:sigmoid() else sum = sum + other end
      end
      if kinds[i] == 2 then sum = self.norms[i](sum) end
      local out = self.drop(layer(sum):tanh())
      if kinds[i] >= 4 then out = out + made[i] end
      if kinds[i] == 5 then aside = (out * out):mean() + (aside or 0) end
      made[i + 1] = out
    end
    return self.last(made[#made]), aside, made[2]
  end
  function models.skips(dropout, seed) return Skips(dropout, seed or 1) end
  -- And what has a row for each row of the batch: of the last layer, of an early one, or ids.
  local function loss_of(model, kind, a, b, rows)
    if kind:find "gpt" or kind == "untied" then
      if not rows then return model:loss(a, b) end
      local logits = model(a)
      return nn.cross_entropy(logits, b), rows == "ids" and logits:argmax(-1) or logits
    end
    local out, aside, early = model(a)
    local loss = (out - b):square():mean() + (aside or 0) * 0.01
    return loss, rows == "ids" and out:argmax(2) or rows == "early" and early or out
  end
  local function prepare(kind, o, how)
    how = how or {}
    mrt.seed(1)
    local model = models[kind](how.dropout or 0, how.seed)
    local params = model:parameters()
    local opt = optim[how.optimizer or "adamw"](params, { lr = 1e-2, master = how.master })
    mrt.seed(3) -- random numbers follow from when a function is traced
    local step = mrt.compile(function(a, b)
      local loss, rows = loss_of(model, kind, a, b, how.rows)
      opt:step(mrt.grad(loss, params), { clip = how.clip or nil })
      return loss, how.rows and rows or nil
    end, o)
    return step, params, opt
  end
  local function bits(t) return ("%a"):format(t:item()) end
  -- A mean of all numbers, each with a weight of its own: no operator, which takes memory.
  local function mean_of(list)
    local sum, n = 0, 0
    local function add(x)
      if type(x) == "table" then
        for _, part in ipairs(x) do add(part) end
      else
        sum, n = sum + x * (n * 7919 % 13 + 1), n + 1
      end
    end
    add(list)
    return (" %a"):format(sum / n / 13)
  end
  local function losses(step, n)
    local out = {}
    for i = 1, n do
      local loss, rows = step(x, y)
      out[i] = bits(loss)
      loss:free()
      if rows then
        out[i] = out[i] .. mean_of(rows:totable())
        rows:free()
      end
    end
    return table.concat(out, " ")
  end
  local function weights(params)
    local out = {}
    for i, p in ipairs(params) do
      local x = p:to "f64"
      out[i] = bits((x * mrt.arange(p:numel()):to "f64":reshape(p.shape)):sum())
    end
    return table.concat(out, " ")
  end
]=]

local function run(p, code) return ranks.run(p, head .. code) end

-- Whether all numbers of two lines agree to `tolerance`.
local function near(a, b, tolerance)
  local next_b = b:gmatch "%S+"
  for number in a:gmatch "%S+" do
    local u, v = tonumber(number), tonumber((next_b()))
    if math.abs(u - v) > tolerance * math.max(1, math.abs(u)) then return false end
  end
  return true
end

describe("a step in stages", function()
  -- schedules, stages, recomputing, precision, loss scale, dropout, clipping: drawn
  local random = [[
    local random_graph = require "support.random_graph"
    local seed = %d
    local random = random_graph.generator(seed * 6151 + 77)
    local function pick(list) return list[random(#list)] or nil end
    local kind, p = pick { "mlp", "gpt", "skips", "skips" }, comm.size
    local schedule = pick { "gpipe", "1f1b", "zero_bubble", "interleaved", "own" }
    local how = { dropout = pick { 0, 0.1 }, clip = pick { false, 0.5 },
      optimizer = pick { "adamw", "sgd", "lion" }, seed = seed }
    local narrow = pick { "f32", "bf16", "f16", "pure" }
    if seed %% 5 == 4 then narrow = seed %% 2 == 0 and "fp8" or "delayed" end
    local o = { accumulate = pick { 4, 8 }, precision = ({ bf16 = policy.precision.bf16(),
      fp8 = policy.precision.fp8(),
      delayed = policy.precision.fp8 { scaling = "delayed", history = 3 },
      f16 = policy.precision.f16 { loss_scale = "dynamic" },
      pure = policy.precision.bf16_pure() })[narrow] }
    how.master = how.optimizer == "adamw" and narrow == "pure" and seed %% 2 == 0 or nil
    local pipe = { schedule = schedule, recompute = pick { true, false } }
    if schedule == "own" then -- backwards come last first
      pipe.schedule = function(stages, m)
        local out = {}
        for s = 1, stages do
          out[s] = {}
          for i = 1, m do out[s][i], out[s][2 * m + 1 - i] = { "F", i }, { "B", i } end
        end
        return out
      end
    end
    local swap = pick { false, false, policy.swap.optimizer { least = 1 },
      policy.swap.all { least = 1 } }
    local share = pick { false, 0.9, 0.6, 0.3, 0.1 } -- of what may be less
    how.rows = pick { false, false, "last", "early", "ids" }
    -- of a parameter that several stages read none has the gradient of a micro-batch
    o.gradient_noise = kind ~= "gpt" and pick { false, false, true } or nil
    o.compress = pick { false, false, false, "int8", "f8", "nf4",
      function(value) return not value.refused and value.bytes > 300 and "int8" or nil end } or nil
    data(kind)
    local one, params = prepare(kind, o, how)
    local expected, trained = losses(one, 4), weights(params)
    local noise = o.gradient_noise and one:gradient_noise()
    one, params = nil, nil
    collectgarbage() collectgarbage()

    o.pipeline, o.swap = pipe, swap
    local words = ("seed %%d, %%s, %%s, stage %%d of %%d, %%s %%s %%s %%s %%s, "
      .. "budget %%s%%s, rows %%s%%s, compress %%s"):format(seed, kind, schedule, comm.rank + 1, p,
      how.dropout, how.clip, how.optimizer, narrow, pipe.recompute, share,
      o.swap and " swapped" or "", how.rows,
      noise and ", noise" or "", type(o.compress) == "function" and "some" or o.compress)
    local unbounded
    if share then
      local step = prepare(kind, o, how)
      local info = step:plan(x, y)
      unbounded = losses(step, 4)
      o.memory = math.floor(info.peak - (1 - share) * (info.pipeline.held + info.transient))
      local ok, err = pcall(function() return prepare(kind, o, how):plan(x, y) end)
      assert(ok or err.code == "budget", tostring(err))
      if not ok then o.memory = assert(err.needed, err.message) end -- which will do
      ok, err = pcall(function() return prepare(kind, o, how):plan(x, y) end)
      assert(ok, words .. tostring(err))
    end
    collectgarbage() collectgarbage()
    local before = mrt.memory().now
    local step, own = prepare(kind, o, how)
    local plan = step:plan(x, y)
    assert(not share or plan.peak <= o.memory)
    mrt.memory { reset = true }
    local first = losses(step, 2)
    local sent = comm:sent()
    first = first .. " " .. losses(step, 1)
    sent = comm:sent() - sent
    collectgarbage()
    local taken = mrt.memory().peak - before - (plan.inputs - x:nbytes() - y:nbytes())
    local got = first .. " " .. losses(step, 1)
    assert(not share or got == unbounded, words .. "\n" .. got .. "\n" .. tostring(unbounded))
    assert(taken == plan.peak, ("%%s: %%d bytes taken, %%d planned"):format(words, taken,
      plan.peak))
    -- allreduces of lengths are counted by formula in the plan, not as they are sent
    local lengths = 16 * plan.collectives
    assert(math.abs(sent - plan.wire) <= lengths * p,
      ("%%s: %%d bytes sent, %%g planned"):format(words, sent, plan.wire))
    for name, wanted in pairs(noise or {}) do
      local own, most = step:gradient_noise()[name] or 0, narrow == "f32" and 1e-3 or 0.1
      assert(name == "scale" or math.abs(own - wanted) <= most * math.max(1, math.abs(wanted)),
        ("%%s: %%s %%g, not %%g"):format(words, name, own, wanted))
    end
    mrt.pipeline.collect(step)
    -- other sums: of a parameter of two stages, of lengths over stages, of micro-batches in
    -- another order; and what one rank rounds to a narrow dtype may not be where it is cut
    local same = narrow == "f32" and schedule ~= "own" and kind ~= "gpt" and not how.clip
    return table.concat({ expected, got, trained, weights(own), tostring(same), words }, "\n")
  ]]

  for _, p in ipairs { 2, 4 } do
    it(("takes what it has planned, and has the numbers of one rank: %d stages"):format(p),
      function()
        for seed = 1, tonumber(os.getenv "MRT_SPEC_GRAPHS") or 10 do
          for _, text in ipairs(run(p, random:format(seed))) do
            local expected, got, w, own, same, words = text:match(
              "^(.-)\n(.-)\n(.-)\n(.-)\n(.-)\n(.*)$")
            if same == "true" then
              assert.equal(expected, got, words)
              assert.equal(w, own, words)
            else
              local eight = words:match " fp8 " or words:match " delayed "
              assert.is_true(near(expected, got, words:match "f32" and 1e-5 or eight and 0.15
                or 2e-2),
                words .. "\n" .. expected .. "\n" .. got)
            end
          end
        end
      end)
  end

  it("has the bits of one rank, whatever the schedule, on 1 to 4 stages", function()
    for _, p in ipairs { 1, 2, 3, 4 } do
      local code = [[
        data "gpt"
        local expected = losses(prepare("untied", { accumulate = 4 }, { dropout = 0.1 }), 3)
        for _, schedule in ipairs { "gpipe", "1f1b", "zero_bubble" } do
          for _, again in ipairs { false, true } do
            local step = prepare("untied", { accumulate = 4, pipeline = { schedule = schedule,
              recompute = again } }, { dropout = 0.1 })
            assert(losses(step, 3) == expected, schedule .. tostring(again))
          end
        end
        return true
      ]]
      for _, same in ipairs(run(p, code)) do assert.is_true(same) end
    end
  end)

  it("has replicas and pieces of each stage, in the bytes of its plan", function()
    local code = [[
      local pipe, same = comm:split(comm.rank // 2), comm:split(comm.rank % 2)
      data "gpt"
      local a, b = x, y
      local how = { dropout = 0.1, clip = 1.0 }
      local expected = losses(prepare("gpt", { accumulate = 4 }, how), 3)
      local function part(t)
        return mrt.eval(t:slice(1, same.rank * 4 + 1, same.rank * 4 + 4) + 0)
      end
      x, y = part(a), part(b)
      local first
      for _, kind in ipairs { "replicas", "ddp", "zero1", "zero2", "zero3", "fsdp" } do
        local stage = math.tointeger(tonumber(kind:match "%d"))
        local o = { accumulate = 2, pipeline = { comm = pipe, schedule = "SCHEDULE",
          replicas = kind == "replicas" and same or nil } }
        if stage then o.shard = policy.shard.zero(stage, { comm = same })
        elseif kind ~= "replicas" then o.shard = policy.shard[kind] { comm = same } end
        collectgarbage() collectgarbage()
        local before = mrt.memory().now
        local step = prepare("gpt", o, how)
        local plan = step:plan(x, y)
        mrt.memory { reset = true }
        local out = {}
        for i = 1, 3 do
          local loss = step(x, y)
          out[i] = loss:item()
          loss:free()
        end
        local taken = mrt.memory().peak - before - (plan.inputs - x:nbytes() - y:nbytes())
        assert(taken == plan.peak, ("%s: %d bytes taken, %d planned"):format(kind, taken,
          plan.peak))
        out = same:allreduce(out, { op = "mean" })
        first = first or table.concat(out, " ")
        assert(kind == "replicas" or table.concat(out, " ") == first, kind)
      end
      return expected .. "\n" .. first
    ]]
    for _, schedule in ipairs { "1f1b", "zero_bubble" } do
      for _, text in ipairs(run(4, (code:gsub("SCHEDULE", schedule)))) do
        local expected, got = text:match "^(.-)\n(.*)$"
        assert.is_true(near(expected, got, 1e-5), text)
      end
    end
  end)

  it("gives the first stage what the others have, for who saves it: that of one rank", function()
    local folder = require "support.files".folder()
    local code = [[
      data "gpt"
      local stages = comm.size > 1 and { pipeline = { schedule = "1f1b" } } or {}
      stages.accumulate = 4
      mrt.seed(1)
      local model = nn.GPT { vocab = 31, dim = 24, layers = 4, heads = 2, context = 8,
        dropout = 0.1, tie = false }
      local params = model:parameters()
      local opt = optim.adamw(params, { lr = 1e-2 })
      local step = mrt.compile(function(a, b)
        local loss = model:loss(a, b)
        opt:step(mrt.grad(loss, params))
        return loss
      end, stages)
      local before = losses(step, 2)
      local saved, states = {}, { step = step:state(), model = model:state(), opt = opt:state() }
      for part, state in pairs(states) do
        for name, value in pairs(state) do
          if mrt.is_tensor(value) then saved[part .. name] = mrt.eval(value:to "f32" * 1) end
        end
      end
      if comm.rank == 0 then assert(mrt.save("FOLDER/" .. comm.size .. ".safetensors", saved)) end
      return before .. losses(step, 1)
    ]]
    local first
    for _, p in ipairs { 1, 2, 4 } do
      for _, text in ipairs(run(p, (code:gsub("FOLDER", folder)))) do
        first = first or text
        assert.equal(first, text)
      end
    end
    local one = assert(mrt.load(folder .. "/1.safetensors"))
    local count = 0
    for _, p in ipairs { 2, 4 } do
      for name, x in pairs(assert(mrt.load(folder .. "/" .. p .. ".safetensors"))) do
        assert.same(one[name]:totable(), x:totable(), name)
        count = count + 1
      end
    end
    assert.is_true(count > 100)
  end)

  it("is weighted by the tokens that count, where some do not", function()
    local same = run(2, [[
      data "gpt"
      y = mrt.eval(mrt.where(y:lt(10), y * 0 - 100, y))
      local function train(o)
        mrt.seed(1)
        local model = nn.GPT { vocab = 31, dim = 24, layers = 4, heads = 2, context = 8,
          tie = false }
        local params = model:parameters()
        local opt = optim.adamw(params, { lr = 1e-2 })
        return losses(mrt.compile(function(a, b)
          local loss = nn.cross_entropy(model(a), b, { ignore_index = -100 })
          opt:step(mrt.grad(loss, params, o.told and { denominator = b:ge(0):sum() } or nil))
          return loss
        end, { accumulate = o.accumulate, pipeline = o.pipeline }), 3)
      end
      return train { accumulate = 4 } == train { accumulate = 4, pipeline = {} }
        and train { accumulate = 4, told = true }
          == train { accumulate = 4, pipeline = {}, told = true }
    ]])
    assert.same({ true, true }, same)
  end)

  it("is measured, phase by phase, and goes on with the same bits", function()
    local code = [[
      data "untied"
      local expected = losses(prepare("untied", { accumulate = 4, pipeline = {} },
        { rows = "last", clip = 1 }), 3)
      local step = prepare("untied", { accumulate = 4, pipeline = {} },
        { rows = "last", clip = 1 })
      local first = losses(step, 1)
      local profile = step:profile(x, y)
      assert(profile.total > 0 and profile.runs >= 9, profile.runs) -- F and B of each, and last
      local kinds = {}
      for _, row in ipairs(profile:by_operator()) do kinds[row.name] = row.count end
      assert(kinds.attention == 8 and kinds.attention_grad == 8) -- two blocks of four
      return first .. " " .. losses(step, 2) == expected
    ]]
    assert.same({ true, true }, run(2, code))
  end)

  it("begins parts with the modules that it is told", function()
    local code = [[
      data "gpt"
      local expected = losses(prepare("gpt", { accumulate = 4 }), 2)
      local step = prepare("gpt", { accumulate = 4, pipeline = { begins = { "blocks.4" } } })
      local plan, own = step:plan(x, y), {}
      for _, v in ipairs(plan:values()) do
        if v.role == "weight" and v.name then own[#own + 1] = v.name:match "^blocks%.%d" end
      end
      assert(losses(step, 2) == expected)
      table.sort(own)
      return own[1] .. own[#own]
    ]]
    local own = run(2, code)
    assert.same({ "blocks.1blocks.3", "blocks.4blocks.4" }, own)
  end)

  it("holds what its schedule says, and all of it in fewer bytes with 1F1B", function()
    local code = [[
      data "mlp"
      local out = {}
      for i, schedule in ipairs { "gpipe", "1f1b" } do
        local plan = prepare("mlp", { accumulate = 8, pipeline = { schedule = schedule } })
          :plan(x, y)
        assert(plan.pipeline.stage == comm.rank + 1 and plan.pipeline.stages == 4)
        assert(math.abs(plan.pipeline.bubble - 3 / 11) < 1e-12)
        out[i] = plan.pipeline
      end
      assert(out[1].in_flight == 8 and out[2].in_flight == 4 - comm.rank)
      -- what F saves, for each in flight, is most of what is held
      for i = 1, 2 do
        local saved = out[i].phases[1].saved
        assert(out[i].held >= out[i].in_flight * saved)
        assert(out[i].held <= out[i].in_flight * saved + 4096, out[i].held)
      end
      assert(out[2].held < out[1].held)
      return true
    ]]
    for _, good in ipairs(run(4, code)) do assert.is_true(good) end
  end)

  it("is planned for each stage where there is none", function()
    local nn, optim = mrt.nn, mrt.optim
    local model = nn.GPT { vocab = 31, dim = 24, layers = 4, heads = 2, context = 8 }
    local params = model:parameters()
    local opt = optim.adamw(params)
    local step = mrt.compile(function(a, b)
      local loss = model:loss(a, b)
      opt:step(mrt.grad(loss, params), { clip = 1 })
      return loss
    end, { accumulate = 4, pipeline = { schedule = "1f1b" } })
    local x, y = mrt.randint(0, 31, 8, 8), mrt.randint(0, 31, 8, 8)
    local all = mrt.pipeline.plan(step, 4, x, y)
    local weights = 0
    for s, plan in ipairs(all.plans) do
      assert.equal(s, plan.pipeline.stage)
      for _, v in ipairs(plan:values()) do
        if v.role == "weight" then weights = weights + v.bytes end
      end
    end
    local once = 0
    for _, p in ipairs(params) do once = once + (p:nbytes() + 63) // 64 * 64 end
    local tied = (31 * 24 * 4 + 63) // 64 * 64
    assert.equal(once + tied, weights) -- the embedding is the first's and the last's
    assert.is_true(all.simulation.bubble > 0.2 and all.simulation.bubble < 0.6)
    assert.equal(4, all.simulation.in_flight[1])
  end)
end)

describe("a step in stages is refused", function()
  local function refused(p, options, text)
    local code = head .. ([[
      data "mlp"
      local ok, err = pcall(function() return prepare("mlp", %s)(x, y) end)
      assert(not ok)
      return err.message
    ]]):format(options)
    for _, message in ipairs((mrt.communicator.ranks(p, "local mrt, comm = ... local nn, optim, "
      .. "policy = mrt.nn, mrt.optim, mrt.policy " .. code, { timeout = 20 }))) do
      assert.matches(text, message, 1, true)
    end
  end

  it("before it runs, with what is wanted", function()
    refused(2, "{ pipeline = {} }", "the number of micro-batches wanted, 2 or more, got nil")
    refused(2, "{ accumulate = 3, pipeline = {} }",
      "a batch of 8 rows in 3 micro-batches, a multiple of 3 wanted")
    refused(2, "{ accumulate = 4, pipeline = { stages = 3 } }", "3 stages on 2 ranks")
    refused(2, "{ accumulate = 4, pipeline = { schedule = 'fast' } }", "schedule \"fast\"")
    refused(2, "{ accumulate = 4, pipeline = { schedule = 'gpipe', chunks = 2 } }", "2 chunks")
    refused(2, "{ accumulate = 4, pipeline = { schedule = 'interleaved', chunks = 8 } }",
      "16 parts of the layers wanted, one for each stage and chunk; there are places for 9")
    refused(3, "{ accumulate = 4, pipeline = { schedule = 'interleaved' } }",
      "4 micro-batches on 3 stages, a multiple of 3 wanted")
    refused(2, "{ accumulate = 4, pipeline = { depth = 2 } }", "no option 'depth'")
    refused(2, "{ accumulate = 4, pipeline = { begins = { 'blocks' } } }", "a module 'blocks'")
    refused(2, "{ accumulate = 4, pipeline = { begins = {} } }", "0 modules to begin parts with")
    refused(2, "{ accumulate = 4, pipeline = { begins = { 3 } } }", "the path of a module wanted")
    refused(2, [[{ accumulate = 4, pipeline = { schedule = function(p, m)
      local s = mrt.pipeline.one_f_one_b(p, m)
      s[2][1], s[2][2] = s[2][2], s[2][1]
      return s
    end } }]], "stage 2, position 1: B of micro-batch 1 waits for F of stage 2, at position 2")
  end)

  it("where stages do not agree, or one reads what another has: all are told", function()
    local function told(body, text)
      local said = run(2, [[ data "mlp" local ok, err = pcall(function() ]] .. body
        .. [[ end) return not ok and err.message or "well" ]])
      for _, message in ipairs(said) do assert.matches(text, message, 1, true) end
    end
    told([[ prepare("mlp", { accumulate = 4, pipeline = { schedule = comm.rank == 0 and "gpipe"
      or "1f1b" } })(x, y) ]], "the schedule with the sum")
    told([[
      local model = models.mlp(0)
      local params = model:parameters()
      local opt = optim.sgd(params, { lr = 0.1 })
      mrt.compile(function(a, b)
        local loss = loss_of(model, "mlp", a, b)
        local grads = mrt.grad(loss, params)
        opt:step(grads)
        return loss, grads[1]:sum()
      end, { accumulate = 4, pipeline = {} })(x, y) ]],
      "stage 2 reads the gradient of 'layers.1.weight', which another stage has")
    told([[
      local model = models.mlp(0)
      local params = model:parameters()
      mrt.compile(function(a, b)
        local out = model(a)
        local loss = (out - b):square():mean()
        local early = model.layers[1](a)
        mrt.grad(loss, params)
        return loss, early:sum(2) + out:sum(2)
      end, { accumulate = 4, pipeline = {} })(x, y) ]],
      "of part 1 of the layers is read for part 2 of 2, too")
  end)

  it("when a stage dies: the others are told who, in time", function()
    local results, failures = mrt.communicator.ranks(4, "local mrt, comm = ... local nn, optim, "
      .. "policy = mrt.nn, mrt.optim, mrt.policy " .. head .. [[
        data "mlp"
        local step = prepare("mlp", { accumulate = 4, pipeline = {} })
        step(x, y)
        if comm.rank == 2 then error("out of the window") end
        local ok, err = pcall(function() for _ = 1, 3 do step(x, y) end end)
        return ok and "well" or err.message
      ]], { timeout = 10 })
    assert.matches("out of the window", failures[3])
    for _, r in ipairs { 1, 2, 4 } do assert.matches("rank 2 ended.*window", results[r]) end
  end)
end)
