-- master_spec.lua -- weights in bf16 whose updates are those of weights in f32
local mrt = require "mrt"
local core = require "mrt.core"

local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy

-- The bits of tensors in f32, or of the halves of such.
local function bits(t)
  local list = {}
  for u in t:bytes():gmatch "...." do list[#list + 1] = ("<I4"):unpack(u) end
  return list
end
local function joined(p, high, low)
  local list, ps, hs, ls = {}, p:bytes(), high:bytes(), low:bytes()
  for i = 1, #hs do
    local rest = ("<i2"):unpack(ls:sub(i, i) .. hs:sub(i, i))
    list[i] = (("<I2"):unpack(ps, 2 * i - 1) << 16) + rest
  end
  return list
end

local function variable(x) return mrt.variable(mrt.eval(x)) end
local function like(x, dtype) return variable(mrt.zeros(x:size(), { dtype = dtype })) end

describe("master weights", function()
  it("take the steps of weights in f32, to the bit", function()
    for seed = 1, 6 do
      mrt.seed(seed)
      math.randomseed(seed)
      local n = ({ 1, 7, 513, 1037, 4096, 10000 })[seed]
      local start = mrt.eval(mrt.randn(n):to "bf16")
      local w, p = variable(start:to "f32"), variable(start)
      local wide = { w, like(w, "f32"), like(w, "f32") }
      local split = { p, like(w, "f32"), like(w, "f32"), like(w, "u8"), like(w, "u8") }
      local o = { weight_decay = 0.1, coupled = seed % 2 == 0 }
      for t = 1, 8 do
        local g = mrt.eval((mrt.randn(n) * 10.0 ^ math.random(-6, 2))
          :to(seed % 3 == 0 and "bf16" or "f32"))
        local more = { g, t * 1.0, 10.0 ^ math.random(-6, -2), 0.5 }
        core.update("adamw", { w, wide[2], wide[3], table.unpack(more) }, o)
        core.update("adamw_master", table.move(more, 1, 4, 6, { table.unpack(split) }), o)
        mrt.eval(w, p)
        local a, b = bits(w), joined(p, split[4], split[5])
        for i = 1, n do
          assert(a[i] == b[i], ("element %d of %d, step %d: %08x, %08x wanted")
            :format(i, n, t, b[i], a[i]))
        end
        assert.equal(wide[2]:bytes(), split[2]:bytes())
        assert.equal(wide[3]:bytes(), split[3]:bytes())
      end
    end
  end)

  it("are what is stored, whatever the rest was; and nothing finite becomes a NaN", function()
    local values, rests = { 0, -0.0, 1, -2.5, 1 / 0, -1 / 0, 0 / 0, 3.3895e38, 1e-40 }, {}
    local p, high, low = {}, {}, {}
    for _, x in ipairs(values) do
      for _, rest in ipairs { 0, 1, -1, 32767, -32768 } do
        p[#p + 1], rests[#rests + 1] = x, rest
        local l, h = ("<i2"):pack(rest):byte(1, 2)
        high[#high + 1], low[#low + 1] = h, l
      end
    end
    local var = variable(mrt.tensor(p):to "bf16")
    local before = mrt.eval(var:to "f32"):totable()
    local list = { var, like(var, "f32"), like(var, "f32"),
      variable(mrt.tensor(high, { dtype = "u8" })), variable(mrt.tensor(low, { dtype = "u8" })) }
    local none = mrt.eval(mrt.zeros(#p)) -- so the step changes nothing
    core.update("adamw_master", { list[1], list[2], list[3], list[4], list[5], none, 1.0, 0.1 }, {})
    local after = mrt.eval(var:to "f32"):totable()
    for i, x in ipairs(before) do
      local at = ("%g with rest %d: %g"):format(x, rests[i], after[i])
      if x ~= x or math.abs(x) == 1 / 0 and rests[i] >= 0 then -- inf - 0 inf, as in f32
        assert(after[i] ~= after[i], at)
      else -- with a rest below 0 an infinity is a finite weight that rounds so
        assert(after[i] == x, at)
      end
    end
  end)

  local function gpt(given, options)
    mrt.seed(5)
    local model = nn.GPT { vocab = 32, dim = 32, layers = 2, heads = 2, context = 8 }
    local opt = optim[given.kind or "adamw"](model:parameters(), given.optimizer)
    options.precision = policy.precision[given.precision or "bf16_pure"]()
    local step = mrt.compile(function(x, y)
      local loss = nn.cross_entropy(model(x), y)
      opt:step(mrt.grad(loss, opt:parameters()), { clip = 1 })
      return loss
    end, options)
    return { model = model, opt = opt, step = step }
  end
  local x = mrt.eval(mrt.arange(32):reshape(4, 8):to "i64")
  local function run(t, steps)
    local losses = {}
    for i = 1, steps do losses[i] = t.step(x, x):item() end
    return losses
  end
  local function outcome(t)
    local list = {}
    for _, p in ipairs(t.model:parameters()) do list[#list + 1] = p:bytes() end
    for _, name in ipairs { "1.high", "1.low", "3.m", "3.v", "3.high" } do
      list[#list + 1] = t.opt:state()[name]:bytes()
    end
    return table.concat(list)
  end

  it("train as weights in f32 do, where bf16 alone loses small steps", function()
    local small = { lr = 1e-5 }
    local function after(precision, master)
      local t = gpt({ precision = precision,
        optimizer = { lr = small.lr, master = master } }, {})
      return run(t, 200)[200]
    end
    local wide = after "bf16"
    assert.near(wide, after("bf16_pure", true), 0.01)
  end)

  it("store what they say, and only where weights are in bf16", function()
    for _, kind in ipairs { "adam", "adamw" } do
      local t = gpt({ kind = kind, optimizer = { master = true } }, {})
      run(t, 2)
      for _, p in ipairs(t.model:parameters()) do assert.equal("bf16", p:get_dtype()) end
      local n = t.model:parameters()[1]:numel()
      assert.equal("u8[32,32]", t.opt:state()["1.high"]:type())
      assert.equal(10 * n, t.opt:state_bytes({ t.model:parameters()[1] }, { master = true }))
      local count = 0
      for _, s in ipairs(t.step:plan(x, x):steps()) do
        if s.op == "adamw_master" then count = count + 1 end
      end
      assert.equal(#t.model:parameters(), count)
    end
    local p = mrt.parameter(mrt.zeros(3, { dtype = "f64" }))
    assert.is_nil(optim.adamw({ p }, { master = true }):state()["1.high"])
    local q = { mrt.parameter(mrt.zeros(3)) }
    for _, o in ipairs { { state = "8bit" }, { lazy = true } } do
      o.master = true
      assert.has_error(function() optim.adamw(q, o) end)
    end
  end)

  it("have the same bits however the step is planned", function()
    local function bits_of(options, state)
      local t = gpt({ optimizer = { master = true, state = state } }, options)
      run(t, 5)
      return outcome(t), t.step:plan(x, x).peak
    end
    for _, state in ipairs { "f32", "bf16" } do
      local wanted, peak = bits_of({}, state)
      assert.equal(wanted, bits_of({ checkpoint = policy.checkpoint.all() }, state))
      assert.equal(wanted, bits_of({ share = false, inplace = false }, state))
      assert.equal(wanted, bits_of({ swap = policy.swap.optimizer() }, state))
      assert.equal(wanted, bits_of({ memory = peak * 9 // 10 }, state))
    end
  end)

  it("go on from a snapshot", function()
    local whole = gpt({ optimizer = { master = true } }, {})
    run(whole, 3)
    local part = gpt({ optimizer = { master = true } }, {})
    run(part, 1) -- so that its weights are in bf16
    for i, p in ipairs(part.model:parameters()) do p:assign(whole.model:parameters()[i]) end
    part.opt:load_state(whole.opt:state())
    run(whole, 3)
    run(part, 3)
    assert.equal(outcome(whole), outcome(part))
  end)
end)
