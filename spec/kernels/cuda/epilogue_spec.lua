-- epilogue_spec.lua -- products that compute the GELU of their sums, or the sums of
-- what they read
--
-- On the CPU, which only does so where its description says it; and on cuda:0,
-- if MRT_CUDA names the plug-in, which always does.
local mrt = require "mrt"
local core = require "mrt.core"
local files = require "support.files"
local program = require "support.program"

local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy
local sizes = { vocab = 11, dim = 16, layers = 2, heads = 2, context = 8 }

local function trainer(options)
  mrt.seed(3)
  local model = nn.GPT(sizes)
  local params = model:parameters()
  local opt = optim.adamw(params, { lr = 1e-2, weight_decay = 0.1 })
  return mrt.compile(function(tokens, targets)
    local loss = nn.cross_entropy(model(tokens), targets)
    opt:step(mrt.grad(loss, params))
    return loss
  end, options), params
end

local function batch(i)
  mrt.seed(100 + i)
  local ids = mrt.randint(0, sizes.vocab, 3, sizes.context + 1)
  return mrt.eval(ids:slice(2, 1, sizes.context):copy()),
    mrt.eval(ids:slice(2, 2, sizes.context + 1):copy())
end

-- Losses of some steps, and all bytes of the parameters after them.
local function train(options)
  local step, params = trainer(options)
  local losses, bytes = {}, {}
  for i = 1, 3 do losses[i] = step(batch(i)):item() end
  for i, p in ipairs(params) do bytes[i] = p:bytes() end
  return losses, table.concat(bytes), step
end

-- How often each operator, alone or in a chain, is in a plan.
local function count(plan)
  local found = {}
  for line in plan:graph():gmatch "[^\n]+" do
    for name in (line:match "= ([%w_+]+)%(" or ""):gmatch "[%w_]+" do
      found[name] = (found[name] or 0) + 1
    end
  end
  return found
end

local function precisions(name)
  return name == "bf16" and policy.precision.bf16() or policy.precision.f32()
end

local function close(a, b, tolerance)
  for i, x in ipairs(a) do
    assert(math.abs(x - b[i]) <= tolerance * math.abs(b[i]), ("loss %d is %.9g, %.9g wanted")
      :format(i, x, b[i]))
  end
end

local function say(epilogues)
  local d = mrt.device.current() -- chosen, so that no plan chooses another
  d.epilogues = epilogues
  core.set_device(d)
end

local function specs(name)
  setup(function()
    mrt.device(name)
    if name == "cpu" then say(true) end
  end)
  teardown(function()
    core.set_device()
    mrt.device "cpu"
  end)

  it("computes them in a GPT's step, in f32 and bf16, and learns as without", function()
    for dtype, tolerance in pairs { f32 = 2e-5, bf16 = 2e-3 } do
      local losses, _, step = train { precision = precisions(dtype) }
      local plan = step:plan(batch(1))
      local found = count(plan)
      assert.equal(sizes.layers, found.linear_gelu, dtype)
      assert.equal(sizes.layers, found.matmul_gelu_grad, dtype)
      -- of the four linears of a layer, whether dy is bf16 or f32 and rounded to it;
      -- what is left are the sums of the loss and of the positions' gradients
      assert.equal(dtype == "bf16" and 4 * sizes.layers or nil, found.matmul_sums)
      if dtype == "bf16" then assert.equal(2, found.sum) end
      assert.is_nil(found.gelu)
      assert.is_nil(found.gelu_grad)
      local passes = {}
      for _, pass in ipairs(plan.passes) do passes[pass.name] = pass.nodes end
      assert.is_true(passes.fuse_epilogue < passes.dce or dtype ~= "f32")
      local plain, _, other = train { precision = precisions(dtype), fuse_epilogue = false }
      found = count(other:plan(batch(1)))
      assert.equal(sizes.layers, found.gelu)
      assert.is_nil(found.linear_gelu or found.matmul_gelu_grad or found.matmul_sums)
      close(losses, plain, tolerance)
    end
  end)

  it("has the same bits kept, computed again, swapped, unshared, or in a budget", function()
    for _, dtype in ipairs(name == "cpu" and { "f32", "bf16" } or { "bf16" }) do
      local _, wanted, step = train { precision = precisions(dtype) }
      local plan = step:plan(batch(1))
      local ways = {
        { share = false, inplace = false, fuse = false },
        { checkpoint = policy.checkpoint.all() },
        { checkpoint = policy.checkpoint.swap(), swap = policy.swap.optimizer() },
        { memory = plan.peak + plan.device.overhead - 2000 },
      }
      if name == "cpu" then -- each makes more kernels, which a device compiles
        ways[#ways + 1] = { order = "program" }
        ways[#ways + 1] = { checkpoint = policy.checkpoint.every(1) }
      end
      for i, options in ipairs(ways) do
        options.precision = precisions(dtype)
        local _, bytes, other = train(options)
        assert(bytes == wanted, ("%s, way %d: other bits"):format(dtype, i))
        assert.is_true(count(other:plan(batch(1))).linear_gelu >= sizes.layers)
      end
    end
  end)

  -- The plan of f of an input, weights and a bias.
  local function planned(f, options)
    return mrt.compile(f, options):plan(mrt.randn(6, 8), mrt.randn(16, 8), mrt.randn(16))
  end
  local tanh = { approximate = "tanh" }

  it("leaves alone what others read, what is no GELU by tanh, f64", function()
    local alone = planned(function(x, w, b) return x:linear(w, b):gelu(tanh) end)
    assert.matches("\n?%%%d+ f32%[6,16%] = linear_gelu", alone:graph()) -- one result
    assert.is_nil(count(alone).gelu)
    local leave = {
      function(x, w, b) return x:linear(w, b):gelu() end,
      function(x, w, b)
        local y = x:linear(w, b)
        return y:gelu(tanh), y
      end,
      function(x, w, b)
        local y = x:linear(w, b)
        return y:gelu(tanh) + y:sum()
      end,
      function(x, w, b) return x:linear(w, b):reshape(-1):gelu(tanh) end,
      function(x, w, b) return x:to "f64":linear(w:to "f64", b:to "f64"):gelu(tanh) end,
    }
    for i, f in ipairs(leave) do
      assert(not count(planned(f)).linear_gelu, "function " .. i)
    end
  end)

  it("leaves alone what is evaluated line by line", function()
    local x, w, b = mrt.randn(6, 8), mrt.randn(16, 8), mrt.randn(16)
    mrt.eval { x, w, b }
    local together = mrt.eval(x:linear(w, b):gelu(tanh)):bytes()
    assert.equal(together, mrt.eval(mrt.eval(x:linear(w, b)):gelu(tanh)):bytes())
  end)

  it("rounds an f32 bias to a narrow result's dtype, no other", function()
    local function casts(dtype, fuse_epilogue)
      local plan = planned(function(x, w, b) return x:linear(w, b):exp():linear(w:t()) end,
        { precision = function() return dtype end, fuse_epilogue = fuse_epilogue, fuse = false })
      local _, n = plan:graph():gsub(dtype .. "%[16%] = cast", "")
      return n
    end
    assert.equal(1, casts "bf16")
    assert.equal(1, casts "f16")
    assert.equal(0, casts("bf16", false))
    assert.equal(0, casts "f32")
  end)

  it("sums for a bias what its weight's gradient reads, as a sum alone does", function()
    local function gradients(kind, size, fuse_epilogue)
      mrt.seed(5)
      local dtype = kind == "bf16_pure" and "bf16" or "f32"
      local w = mrt.parameter(mrt.randn(size, 96):to(dtype), "w")
      local v = mrt.parameter(mrt.randn(8, size):to(dtype), "v")
      local b = mrt.parameter(mrt.randn(size):to "bf16":to(dtype), "b") -- rounded or not
      local step = mrt.compile(function(x)
        local y = x:linear(w, b):linear(v)
        return table.unpack(mrt.grad(y:tanh():sum(), { w, b }))
      end, { precision = policy.precision[kind](), fuse_epilogue = fuse_epilogue })
      local x = mrt.eval(mrt.randn(4, 40, 96))
      local dw, db = step(x)
      return count(step:plan(x)), dw:to "f32", db:to "f32"
    end
    for _, kind in ipairs { "bf16", "bf16_pure" } do
      for _, size in ipairs { 80, 9 } do -- a device's library is asked, or takes it not
        local found, dw, db = gradients(kind, size)
        local plain, wanted_dw, wanted_db = gradients(kind, size, false)
        assert.equal(1, found.matmul_sums)
        assert.is_nil(plain.matmul_sums)
        for _, pair in ipairs { { dw, wanted_dw }, { db, wanted_db } } do
          local most = pair[2]:abs():max():item()
          assert.is_true(most > 0.1)
          assert.is_true((pair[1] - pair[2]):abs():max():item()
            <= (kind == "bf16" and 1e-5 or 2 ^ -8) * most)
        end
      end
    end
  end)

  -- Gradients of a linear, whose dy, u + v, is made in f32 by the backward pass: numbers
  -- a bit above 1, most of which bf16 has not.
  local function of_rounded(precision, fuse_epilogue)
    mrt.seed(6)
    local w = mrt.parameter(mrt.randn(80, 96), "w")
    local b = mrt.parameter(mrt.randn(80), "b")
    local x, u = mrt.eval(mrt.randn(160, 96)), mrt.eval(mrt.rand(160, 80) * 0.01)
    local v = mrt.ones(160, 80)
    local step = mrt.compile(function(p, q)
      local y = x:linear(w, b)
      return table.unpack(mrt.grad((y * p + y * q):sum(), { w, b }))
    end, { precision = precision, fuse_epilogue = fuse_epilogue })
    local dw, db = step(u, v)
    return count(step:plan(u, v)), db, mrt.eval(u + v), dw
  end

  it("sums the f32 dy that a policy rounds for its product, rounded", function()
    local function most(a, b) return (a - b):abs():max():item() end
    for _, p in ipairs { policy.precision.bf16(), policy.precision.f16 { loss_scale = false } } do
      local dtype, unit = p.keep, p.keep == "bf16" and 2 ^ -8 or 2 ^ -11
      local found, db, dy, dw = of_rounded(p)
      local plain, wide, _, wanted_dw = of_rounded(p, false)
      assert.equal(1, found.matmul_sums)
      assert.is_nil(plain.matmul_sums)
      assert.is_true(most(db, dy:to(dtype):to "f32":sum(1)) <= 160 * 1e-6)
      assert.is_true(most(wide, dy:sum(1)) <= 160 * 1e-6)
      assert.is_true(most(db, wide) > 0.01 * 160 * unit) -- another number, as it shall be,
      assert.is_true(most(db, wide) <= 160 * unit) -- by half a unit of each term at most
      assert.is_true(most(dw, wanted_dw) <= 1e-4 * wanted_dw:abs():max():item())
    end
  end)

  it("sums f32 terms where nothing narrows, in f8, and where dy is no gradient", function()
    for _, p in ipairs { policy.precision.f32(), policy.precision.fp8() } do
      assert.is_nil(of_rounded(p).matmul_sums)
    end
    assert.is_nil(of_rounded().matmul_sums)
    local given = mrt.eval(mrt.randn(6, 8))
    local line = mrt.custom { -- rounds dy for a product by its own casts
      forward = function(w, b) return given:linear(w, b) end,
      backward = function(dy) return dy:to "bf16":t():matmul(given), dy:sum(1) end,
    }
    local function rounds(u, w, b)
      local y = line(w, b)
      return table.unpack(mrt.grad((y * y):sum() + u:sum() * 0, { w, b }))
    end
    assert.is_nil(count(planned(rounds)).matmul_sums)
    local function own(x, w) -- a sum beside a product, both of the script's own
      local y = x:exp()
      return y:t():matmul(w:slice(1, 1, 6)), y:sum(1)
    end
    local found = count(planned(own, { precision = policy.precision.bf16() }))
    assert.equal(1, found.sum)
    assert.is_nil(found.matmul_sums)
  end)

  it("leaves a product alone whose result others read", function()
    local function slope(also)
      return function(x, w, b)
        local y = x:linear(w, b)
        local dh = x:matmul(w:t())
        return core.op.gelu_grad(y, dh, tanh), also and dh or nil
      end
    end
    assert.equal(1, count(planned(slope(false))).matmul_gelu_grad)
    assert.is_nil(count(planned(slope(true))).matmul_gelu_grad)
    assert.is_nil(count(planned(slope(false), { fuse_epilogue = false })).matmul_gelu_grad)
  end)
end

describe("a CPU said to have epilogues", function() specs "cpu" end)

describe("a CPU", function()
  it("has none otherwise", function()
    assert.is_false(core.device().epilogues)
    local step = trainer()
    assert.is_nil(count(step:plan(batch(1))).linear_gelu)
  end)
end)

-- The emulated library tells of its epilogues: BIAS is 4, GELU_AUX_BIAS 164, DGELU
-- 192, BGRADB 512.  Of a GPT's step none is left to a kernel that comes after.
local function asks_the_library()
  local path = files.temporary [[
    local mrt = require "mrt"
    mrt.device "cuda:0"
    local model = mrt.nn.GPT { vocab = 64, dim = 128, layers = 2, heads = 2, context = 64 }
    local step = mrt.compile(function(tokens)
      local loss = mrt.nn.cross_entropy(model(tokens), tokens)
      return loss, table.unpack(mrt.grad(loss, model:parameters()))
    end, { precision = mrt.policy.precision.bf16() })
    mrt.eval { step(mrt.randint(0, 64, 3, 64)) }
  ]]
  local _, out = program.shell(
    ("MRT_CUDA_LT=first MRT_EMULATE_PRODUCTS=1 MRT_EMULATE_COUNT=1 '%s' '%s' 2>&1")
      :format(program.path, path))
  local asked = {}
  for epilogue in out:gmatch "epilogue (%d+)\n" do
    asked[epilogue] = (asked[epilogue] or 0) + 1
  end
  assert.are.same({ ["1"] = 9, ["4"] = 6, ["164"] = 2, ["192"] = 2, ["512"] = 8 }, asked, out)
  assert.falsy(out:find("finish", 1, true), out)
  assert.falsy(out:find("plainly", 1, true), out)
end

-- Of 8-bit factors: the bias in the dtype of the result, or bf16 beside f32; GELU, but not
-- with what it is taken of.  The rest is left to a kernel that comes after.
local function asks_for_eight_bits()
  local path = files.temporary [[
    local mrt = require "mrt"
    local op = require "mrt.core".op
    mrt.device "cuda:0"
    local function f8(...) return mrt.eval(mrt.randn(...):to "f8_e4m3") end
    local x, w = f8(128, 256), f8(192, 256)
    local function bias(dtype) return mrt.eval(mrt.randn(192):to(dtype)) end
    local function say(what, ...)
      io.stderr:write(what, "\n")
      mrt.eval { ... }
    end
    say("bf16", op.linear(x, w, bias "bf16", {}))
    say("f16", op.linear(x, w, bias "f16", {}))
    say("gelu", (op.linear_gelu(x, w, bias "bf16", { keep = false })))
    say("f32", op.linear(x, w, bias "f32", {}))
    say("keep", op.linear_gelu(x, w, bias "bf16", { keep = true }))
    say "end"
  ]]
  local _, out = program.shell(
    ("MRT_CUDA_LT=first MRT_EMULATE_PRODUCTS=1 MRT_EMULATE_COUNT=1 '%s' '%s' 2>&1")
      :format(program.path, path))
  local asked = {}
  for what, rest in out:gmatch "(%w+)\n([^\n]*epilogue [^\n]*)\n" do
    asked[what] = rest:match "epilogue (%d+)"
  end
  assert.are.same({ bf16 = "4", f16 = "4", gelu = "36", f32 = "1", keep = "1" }, asked, out)
  assert.falsy(out:find("plainly", 1, true), out)
end

describe("a CUDA device", function()
  if os.getenv "MRT_CUDA" then
    specs "cuda:0"
    if os.getenv "MRT_CUDA":find "emulated" then
      it("asks cuBLASLt for them", asks_the_library)
      it("asks for those that it has of 8 bits", asks_for_eight_bits)
    end
  else
    pending "MRT_CUDA names no plug-in"
  end
end)
