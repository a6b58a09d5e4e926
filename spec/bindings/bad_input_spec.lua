--- bad_input_spec.lua -- whatever a program passes, it gets an error and goes on
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local failure = require "support.failure"
local bits = require "support.bits"
local program = require "support.program"
local training = require "support.training"
local nn, optim = mrt.nn, mrt.optim

describe("an error", function()
  local x, ids, v = mrt.ones(2, 3), mrt.arange(3), mrt.variable(mrt.ones(2), "v")
  local huge = 1 << 62
  local wrong = {
    { "shape", "matmul: f32%[2,3%] against f32%[2,3%]", function() return x:matmul(x) end },
    { "shape", "add: f32%[2,3%] against f32%[4%]", function() return x + mrt.ones(4) end },
    { "value", "sum: dim 0", function() return x:sum(0) end },
    { "value", "softmax: dim 3 of f32%[2,3%]", function() return x:softmax(3) end },
    { "value", "reshape: %-1 is given twice", function() return x:reshape(-1, -1) end },
    { "dtype", "embedding: input 2 is f32", function() return x:embedding(x) end },
    { "dtype", "bitwise_and: .* bool wanted", function() return x:bitwise_and(x) end },
    { "shape", "full: dimension 1 is %-1, negative", function() return mrt.zeros(-1) end },
    { "shape", "full: the size in bytes overflows", function() return mrt.zeros(huge) end },
    { "shape", "expand: the size", function() return mrt.ones(1, 1):expand(huge, 4) end },
    { "value", "arange: from 0 to 1e%+300", function() return mrt.arange(0, 1e300) end },
    { "shape", "cat: the size", function()
      local b = mrt.zeros(1 << 59)
      return mrt.cat { b, b, b, b, b, b, b, b }
    end },
    { "value", "ragged table", function() return mrt.tensor { { 1, 2 }, { 3 } } end },
    { "shape", "more than 8 deep", function()
      local t = {}
      t[1] = t
      return mrt.tensor(t)
    end },
    { "shape", "from_bytes: 3 bytes", function() return mrt.from_bytes("abc", "f32", { 1 }) end },
    { "value", "assign: this tensor is no variable", function() x:assign(1) end },
    { "shape", "assign: f32%[2%] against f32%[2,3%]", function() v:assign(x) end },
    { "dtype", "assign: when is f32%[2,3%]", function() v:assign(1, { when = x }) end },
    { "gradient", "grad: output 1 is f32%[2,3%], a scalar", function() mrt.grad(x, x) end },
    { "gradient", "does not lead to any output", function() mrt.grad(v:sum(), x) end },
    { "dtype", "grad: output 1 is i64", function() mrt.grad(ids:sum(), ids) end },
    { "value", "a table of options wanted", function() mrt.grad(x:sum(), x, 3) end },
    { "value", "compile: a table of options", function() mrt.compile(print, 3) end },
    { "value", "seed: an integer wanted, got 'x'", function() mrt.seed "x" end },
    { "value", "variable: the name is f32%[2%]", function() mrt.variable(x, v) end },
    { "value", "update: no updating operator 'nope'", function() mrt.update("nope", {}) end },
    { "value", "option 'fuse': a boolean", function() mrt.compile(print, { fuse = 1 }) end },
    { "value", "a table of options wanted", function() nn.Linear(2, 3, 4) end },
    { "value", "keep", function() return x:sum { keep = true } end },
    { "out of memory", "4503599627370496 bytes", function() mrt.eval(mrt.zeros(1 << 50)) end },
  }

  it("has a code, a message, and the line of the program", function()
    for _, case in ipairs(wrong) do
      local code, pattern, f = table.unpack(case)
      local err, here = failure(f), debug.getinfo(f, "S")
      assert.equal(code, err.code, tostring(err))
      assert.matches(pattern, err.message)
      local line = tonumber(err.position:match "^.*bad_input_spec.lua:(%d+)$")
      assert(line >= here.linedefined and line <= here.lastlinedefined, err.position)
      assert.equal(1, tostring(err):find(err.position, 1, true))
    end
    assert.is_false(core.tracing())
    assert.same({ 1, 1 }, v:totable())
  end)

  it("is its text in a finalizer, for Lua's warning, and an object where it is caught", function()
    local shown = program.script [[
      local mrt = require "mrt"
      setmetatable({}, { __gc = function()
        local _, err = pcall(mrt.ones, -1)
        io.stderr:write(err.code, "\n")
        mrt.ones(2, 3):matmul(mrt.ones(2, 3))
      end })
      collectgarbage()]]
    assert.matches("^shape\n.*error in __gc %(.-:5: matmul: f32%[2,3%] against f32%[2,3%]", shown)
  end)

  it("comes from every method of a closed tensor", function()
    local closed = mrt.ones(2, 2)
    closed:free()
    assert.equal("tensor is closed", failure(closed.exp, closed).message)
    for name, method in pairs(core.methods) do
      if name ~= "free" then
        local err = failure(method, closed, 1)
        assert.equal("string", type(err.code), name) -- "state", or what else is missing
        pcall(method, mrt.ones(2, 2), closed)
      end
    end
    assert.equal("grad: tensor is closed", failure(mrt.grad, closed, v).message)
    assert.equal("eval: tensor is closed", failure(mrt.eval, closed).message)
    assert.equal("variable: tensor is closed", failure(mrt.variable, closed).message)
    assert.equal("tensor is closed", failure(mrt.compile(print), closed).message)
    assert.equal("assign: tensor is closed", failure(v.assign, v, closed).message)
  end)
end)

describe("a step that fails", function()
  it("on a token out of range names it, changes nothing, and the next one works", function()
    local model = nn.GPT { vocab = 11, dim = 16, layers = 1, heads = 2, context = 8 }
    local opt = optim.adamw(model:parameters(), { lr = 0.1 })
    local step = training.step(model, opt)
    local good, bad = mrt.randint(0, 11, 2, 8), mrt.full({ 2, 8 }, 11, { dtype = "i64" })
    step(good, good)
    local before = bits.trained(model, opt)
    for _, arguments in ipairs { { bad, good }, { good, bad }, { bad - 12, good } } do
      local err = failure(step, table.unpack(arguments))
      assert.equal("data", err.code)
      assert.matches("%(.*lua:%d+%): index %-?%d+, 0 to 10 wanted", err.message)
      assert.equal(before, bits.trained(model, opt))
    end
    step(good, good)
    assert.not_equal(before, bits.trained(model, opt))
  end)

  it("while it is traced leaves nothing behind", function()
    local p, x = mrt.variable(mrt.zeros(3)), mrt.ones(3)
    local leak
    local function trace(how)
      return mrt.compile(function(a)
        leak = a * 2
        p:assign(p + a)
        return how(a)
      end)
    end
    assert.equal("state", failure(trace(tostring), x).code)
    assert.equal("state", failure(trace(function(a) return a:sum():item() end), x).code)
    assert.equal("state", failure(trace(function(a) return trace(print):plan(a) end), x).code)
    assert.equal("mine", failure(trace(function() error "mine" end), x):match "mine")
    assert.matches("yield", coroutine.wrap(function()
      return failure(trace(coroutine.yield), x)
    end)())
    assert.equal("value", failure(trace(function() end), p).code) -- it updates p
    assert.is_false(mrt.tracing())
    assert.same({ 0, 0, 0 }, p:totable())
    for _, use in ipairs { tostring, mrt.eval, mrt.compile(function(a) return a + leak end) } do
      assert.equal("state", failure(use, leak).code)
    end
    trace(function() end)(x)
    assert.same({ 1, 1, 1 }, p:totable())
  end)
end)

-- ---- everything with anything ----------------------------------------------

local function generator(seed)
  local state = seed
  return function(n)
    state = state * 48271 % 2147483647
    return state % n + 1
  end
end

local shapes = { {}, { 0 }, { 1 }, { 3 }, { 2, 3 }, { 0, 3 }, { 2, 3, 4 },
  { 1, 2, 1, 2, 1, 2, 1, 2 } }
local dtypes = { "f32", "f64", "i64", "i32", "u8", "bool", "f16", "bf16",
  "f8_e4m3", "f8_e5m2" }

local function some_tensor(random)
  local shape, dtype = shapes[random(#shapes)], dtypes[random(#dtypes)]
  local kind = random(5)
  if kind == 1 then return mrt.variable(mrt.randn(shape)) end
  if kind == 2 then return mrt.randint(0, 3, shape) end
  if kind == 3 then return mrt.ones(shape, { dtype = dtype }) end
  if kind == 4 and #shape > 1 then return mrt.randn(shape):transpose(1, -1) end
  return mrt.eval(mrt.randn(shape))
end

local closed = mrt.ones(2)
closed:free()
local things = { 0, -1, 1, 2, 1.5, 0 / 0, math.huge, 1 << 31, 1 << 62, math.mininteger,
  math.maxinteger, "f32", "", ("x"):rep(600), true, false, print, io.stdout, closed, {},
  { 1, 2 }, { -1 }, { 1 << 62, 1 << 62 }, { "a" }, { 1, 1, 1, 1, 1, 1, 1, 1, 1 }, { closed },
  { { 1 }, { 1, 2 } }, { dim = 1 }, { dim = 1 << 62, keepdim = 3 }, { dtype = "f32" },
  setmetatable({}, { __index = function() error "index" end, __len = function() return -5 end }) }

local function some_thing(random)
  if random(2) == 1 then return some_tensor(random) end
  if random(8) == 1 then return { some_tensor(random), some_tensor(random) } end
  return things[random(#things + 1)]
end

-- Functions of all kinds, in one order.
local function everything()
  local left_out = { root = true, front = true, set_poison = true,
    set_budget = true, set_device = true, available = true,
    make_folders = true, secret = true, save_npy = true, save_npz = true, save_safetensors = true }
  local list = {}
  for place, t in pairs { core = core, op = core.op, methods = core.methods,
    Tensor = core.Tensor, mrt = mrt } do
    for name, f in pairs(t) do
      if type(f) == "function" and not left_out[name] then
        list[#list + 1] = { name = place .. "." .. name, f = f }
      end
    end
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

-- Look at a result, if it is small; differentiate through it.
local function look(y, random)
  if not core.is_tensor(y) or core.is_closed(y) or y:numel() > 100000 then return end
  local ok = pcall(tostring, y)
  if not ok or random(3) > 1 then return end
  local x = some_tensor(random)
  pcall(function() return mrt.grad((y * x):sum(), x):totable() end)
  pcall(y.assign, y, x)
end

-- Is this what an error may be?  One of a plan would be a mistake of ours.
local function is_proper(err)
  return type(err) == "string" or type(err) == "table" and err.code ~= "plan"
end

local function call_something(functions, random, problems)
  local arguments, n = {}, random(5) - 1
  for i = 1, n do arguments[i] = some_thing(random) end
  local call = functions[random(#functions)]
  local results = table.pack(pcall(call.f, table.unpack(arguments, 1, n)))
  if not results[1] and not is_proper(results[2]) then
    problems[#problems + 1] = call.name .. ": " .. tostring(results[2])
  end
  for i = 2, results.n do look(results[i], random) end
end

describe("any function", function()
  it("with any arguments returns or raises, traced or not, and gives all memory back", function()
    collectgarbage "generational"
    collectgarbage()
    local before, functions, random = mrt.memory().now, everything(), generator(7)
    local problems = {}
    for round = 1, 10000 do
      if round % 5 == 0 then
        pcall(mrt.compile(function() call_something(functions, random, problems) end))
      else
        call_something(functions, random, problems)
      end
      assert.is_false(core.tracing())
    end
    assert.same({}, problems)
    collectgarbage "incremental"
    collectgarbage()
    assert.equal(before, mrt.memory().now)
  end)
end)

describe("bad input of plans and devices", function()
  local w = mrt.parameter(mrt.ones(8, 4), "w")
  local x = mrt.ones(6, 8)
  local step = mrt.compile(function(a)
    local loss = (a:matmul(w) ^ 2):mean()
    w:assign(w - mrt.grad(loss, w))
    return loss
  end)

  local function says(text, f, ...)
    local ok, err = pcall(f, ...)
    assert.is_false(ok)
    assert.matches(text, tostring(err))
    assert.matches("^spec/bindings/bad_input_spec.lua:%d+: ", tostring(err))
  end

  it("is told at its line, with what would do", function()
    for _, k in ipairs { 0, -1, 1.5, "2", true } do
      says("a positive integer, a function of the step", function() step:plan_in(k, x) end)
    end
    says("7 micro%-batches of a batch of 6 rows, 1 to 6 wanted",
      function() step:plan_in(7, x) end)
    says("with: a table of options wanted, got nil", function() step:with() end)
    local plan = step:plan(x)
    says("no option 'bugdet' %(options: budget, job%)", function() plan:options { bugdet = 1 } end)
    says("a table of options wanted, got number", function() plan:options(3) end)
    for _, job in ipairs { {}, { steps = 0, limit = "6h" }, { steps = 3, limit = "6 parsecs" },
      { steps = 3, limit = -1 } } do
      says('job: {steps = 20000, limit = "6h"} wanted',
        function() mrt.compile(function() end, { job = job }) end)
    end
    for _, bytes in ipairs { -1, 0, "x", 1e30, 0 / 0, {} } do
      says("device.available: .- is not a number of bytes; 6GiB",
        function() mrt.device.available(bytes) end)
    end
    says("device.use: a table wanted, got nil", function() mrt.device.use() end)
    says("device.find: a name or a path wanted, got nil", function() mrt.device.find() end)
  end)
end)
