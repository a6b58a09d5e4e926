-- update_spec.lua -- updates that one launch makes: as many as there is
-- room for, with the bits of single ones
--
-- MRT_CUDA names the plug-in.
local mrt = require "mrt"
local core = require "mrt.core"
local files = require "support.files"
local program = require "support.program"

local optim = mrt.optim
local library = os.getenv "MRT_CUDA"

if not library then
  describe("updates on a CUDA device", function()
    pending "MRT_CUDA names no plug-in"
  end)
  return
end

-- What a script says, and how often each kernel ran.
local function launches(script)
  local path = files.temporary(script)
  local _, out = program.shell(("MRT_EMULATE_COUNT=1 '%s' '%s'"):format(program.path, path))
  local count = {}
  for n, name in out:gmatch "emulated device: (%d+) ([%w_]+)" do
    count[name] = (count[name] or 0) + tonumber(n)
  end
  return count, out
end

local sizes = { 5003, 1, 256, 0, 3, 30001, 257, 4096, 31, 8192 }
local wide, mixed, half = { "f32" }, { "f32", "bf16", "f32", "f64" }, { "bf16" }

-- Parameters of many sizes after three steps, the second of which is not to be
-- done, as bytes; their averages and the optimizer's state.
local function updated(make, dtypes, stepwise)
  mrt.device "cpu"
  mrt.seed(5)
  local params, grads, groups = {}, {}, { { params = {} }, { params = {}, weight_decay = 0.3 } }
  for i, n in ipairs(sizes) do
    local dtype = dtypes[i % #dtypes + 1]
    params[i] = mrt.parameter(mrt.randn(n):to(dtype):to "cuda:0", "p" .. i)
    grads[i] = mrt.eval(mrt.randn(n):to(dtype)):to "cuda:0"
    table.insert(groups[i % 2 + 1].params, params[i])
  end
  mrt.device "cuda:0"
  mrt.seed(9)
  local opt = make(groups)
  local order = {}
  for i, p in ipairs(opt:parameters()) do
    for k, q in ipairs(params) do
      if p == q then order[i] = k end
    end
  end
  local ema = optim.ema(params, { decay = 0.9 })
  local step = mrt.compile(function(good)
    local list = {}
    for i, k in ipairs(order) do list[i] = grads[k] * 1 end
    opt:step(list, { clip = dtypes == wide and 1 or nil, when = good })
    ema:update()
  end, { nan = stepwise and "trap" or nil }) -- that looks at each node
  local yes, no = mrt.eval(mrt.ones(1):sum():gt(0)), mrt.eval(mrt.ones(1):sum():lt(0))
  for i = 1, 3 do
    step(i == 2 and no or yes)
  end
  local all = opt:state()
  for i, p in ipairs(params) do
    all["p" .. i], all["average" .. i] = p, ema.averages[i]
  end
  for name, t in pairs(all) do all[name] = t:bytes() end
  return all
end

-- Variables after two updates from a place on, as bytes.
local function placed(device, name, dtypes, options)
  mrt.device "cpu"
  mrt.seed(5)
  local list = {}
  for i, dtype in ipairs(dtypes) do
    local size = dtype == "u8" and 200 or 0.1
    list[i] = mrt.variable((mrt.rand(1300) * size):to(dtype):to(device), "v" .. i)
  end
  local written, g = #list, mrt.eval(mrt.randn(1300)):to(device)
  mrt.device(device)
  mrt.seed(9)
  local step = mrt.compile(function()
    local inputs = table.move(list, 1, written, 1, { [written + 1] = g })
    if name:match "^adamw" then inputs[#inputs + 1] = mrt.full({}, 3) end
    inputs[#inputs + 1] = mrt.full({}, 0.01)
    core.update(name, inputs, options)
  end)
  for _ = 1, 2 do step() end
  local out = {}
  for i, v in ipairs(list) do out[i] = v:bytes() end
  return table.concat(out)
end

describe("updates on a CUDA device", function()
  after_each(function()
    mrt.device "cpu"
  end)

  for name, make in pairs {
    adamw = function(p) return optim.adamw(p, { lr = 0.01 }) end,
    ["adamw, state in bf16"] = function(p) return optim.adamw(p, { lr = 0.01, state = "bf16" }) end,
    ["adamw, master weights"] = function(p) return optim.adamw(p, { lr = 0.01, master = true }) end,
    ["adam, master weights, state in bf16"] = function(p)
      return optim.adam(p, { lr = 0.01, master = true, state = "bf16" })
    end,
    ["adamw, state in 8 bits"] = function(p)
      return optim.adamw(p, { lr = 0.01, state = "8bit" })
    end,
    sgd = function(p) return optim.sgd(p, { lr = 0.05, momentum = 0.9, nesterov = true }) end,
    rmsprop = function(p) return optim.rmsprop(p, { lr = 0.01 }) end,
    lion = function(p) return optim.lion(p, { lr = 0.001, state = "8bit" }) end,
  } do
    it("have the bits of single launches: " .. name, function()
      for _, dtypes in ipairs { wide, mixed, half } do
        local wanted = updated(make, dtypes, true)
        for which, bytes in pairs(updated(make, dtypes, false)) do
          assert.is_true(bytes == wanted[which], which)
        end
      end
    end)
  end

  it("draw by place, with the processor's bits", function()
    for _, place in ipairs { 0, 256, 512, 1 << 33 } do
      local o = { stochastic = true, draw = 77, place = place }
      for name, dtypes in pairs { adamw = { "bf16", "f32", "bf16" }, lion = { "bf16", "f32" },
        adamw_master = { "bf16", "bf16", "bf16", "u8", "u8" } } do
        assert.is_true(placed("cpu", name, dtypes, o) == placed("cuda:0", name, dtypes, o),
          ("%s at %d"):format(name, place))
      end
    end
  end)

  it("are a launch where clipping lets them be, others where a variable is shared", function()
    if not library:find "emulated" then return pending "not the emulated device" end
    local count, out = launches [[
      local mrt = require "mrt"
      mrt.device "cuda:0"
      local model = mrt.nn.GPT { vocab = 11, dim = 16, layers = 6, heads = 2, context = 8 }
      local params = model:parameters()
      local opt = mrt.optim.adamw(params, { weight_decay = 0.1 })
      local ids = mrt.eval(mrt.randint(0, 11, 3, 8))
      local step = mrt.compile(function(x)
        opt:step(mrt.grad(mrt.nn.cross_entropy(model(x), x), params), { clip = 1 })
      end)
      for i = 1, 5 do step(ids) end
      assert(#params > 61 and #params <= 122)
      print(opt.t:item())
    ]]
    assert.truthy(out:find("5.0", 1, true), out)
    assert.are.equal(2 * 5, count.update_packs)

    count, out = launches [[
      local mrt = require "mrt"
      mrt.device "cuda:0"
      local list = {}
      for i = 1, 3 do list[i] = mrt.variable(mrt.full({ 7 }, i)) end
      local core, one = require "mrt.core", mrt.full({}, 0.5)
      local function move(a, b) core.update("average", { list[a], list[b], one }) end
      local step = mrt.compile(function()
        move(1, 3)
        move(2, 3) -- with the one before
        move(3, 1) -- reads and writes what they do
        move(3, 2)
        move(1, 2) -- with the one before
      end)
      for i = 1, 2 do step() end
      print(list[1]:sum():item(), list[2]:sum():item(), list[3]:sum():item())
    ]]
    local wanted = { 1, 2, 3 }
    for _ = 1, 2 do
      for _, m in ipairs { { 1, 3 }, { 2, 3 }, { 3, 1 }, { 3, 2 }, { 1, 2 } } do
        wanted[m[1]] = wanted[m[1]] + 0.5 * (wanted[m[2]] - wanted[m[1]])
      end
    end
    local text = ("%.4f %.4f %.4f"):format(7 * wanted[1], 7 * wanted[2], 7 * wanted[3])
    assert.truthy(text == ("%.4f %.4f %.4f"):format(out:match "([%d.]+)%s+([%d.]+)%s+([%d.]+)"),
      text .. " wanted: " .. out)
    assert.are.equal(2 * 3, count.update_packs)
  end)

  it("wait for later ones where nothing makes them, in memory that is there", function()
    if not library:find "emulated" then return pending "not the emulated device" end
    local script = [[
      local mrt = require "mrt"
      mrt.device "cuda:0"
      mrt.seed(3)
      local model = mrt.nn.GPT { vocab = 32, dim = 32, layers = 4, heads = 2, context = 16 }
      local params = model:parameters()
      local opt = mrt.optim.adamw(params, { weight_decay = 0.1 })
      local ids = mrt.eval(mrt.randint(0, 32, 4, 16))
      local step = mrt.compile(function(x)
        local loss = mrt.nn.cross_entropy(model(x), x)
        opt:step(mrt.grad(loss, params))
        return loss
      end, { order = ORDER })
      for i = 1, 3 do step(ids) end
      local plan, sums = step:plan(ids), {}
      for i, p in ipairs(params) do sums[i] = ("%a"):format(p:sum():item()) end
      print("parameters", #params, "bits", table.concat(sums, " ") .. "; ")
      print("peak", plan.peak - plan.lower_bound)
    ]]
    local _, as_written = launches((script:gsub("ORDER", '"program"')))
    local joined, out = launches((script:gsub("ORDER", "nil")))
    local bits = out:match "bits%s+(.-);"
    assert.truthy(bits and out:find("peak%s+0"), out)
    assert.are.equal(as_written:match "bits%s+(.-);", bits)
    assert.is_true(joined.update_packs <= 3 * 2, joined.update_packs)
  end)

  it("do nothing in a step that met a bad index, or all that is to be done", function()
    mrt.device "cuda:0"
    local params = {}
    for i = 1, 70 do params[i] = mrt.parameter(mrt.ones(5, 3), "p" .. i) end
    local opt = optim.adamw(params, { lr = 0.1 })
    local step = mrt.compile(function(ids)
      local loss = 0
      for _, p in ipairs(params) do loss = loss + (p:embedding(ids) * p:sum()):sum() end
      opt:step(mrt.grad(loss, params), { clip = 1 })
      return loss
    end)
    local good = mrt.tensor({ 1, 4 }, { dtype = "i64" })
    local bad = mrt.tensor({ 1, 5 }, { dtype = "i64" })
    local function state()
      local all = {}
      for i, p in ipairs(params) do all[i] = p:bytes() end
      for i = 2, #all do assert.is_true(all[i] == all[1], i) end
      return all[1]
    end
    local first = state()
    step(good):item()
    local before = state()
    assert.are_not.equal(first, before)
    local ok, err = pcall(function() return step(bad):item() end)
    assert.is_false(ok)
    assert.truthy(tostring(err):find("0 to 4 wanted", 1, true), tostring(err))
    assert.are.equal(before, state())
    step(good):item()
    assert.are_not.equal(before, state())
  end)
end)
