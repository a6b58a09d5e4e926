-- attention_spec.lua -- attention by Hopper's warpgroups agrees with the processor's
--
-- MRT_CUDA names the plug-in. The emulated device knows what shared memory, matrix
-- descriptors and waits mean there (emulate_async.cc), and breaks where a kernel does
-- not keep to it.
local mrt = require "mrt"
local program = require "support.program"

local library = os.getenv "MRT_CUDA"
if not library then
  describe("attention by warpgroups", function()
    pending "MRT_CUDA names no plug-in"
  end)
  return
end
local emulated = library:find "emulated" ~= nil

-- o, and the gradients of q, k and v. Where `packed` these are parts of one tensor.
local function step(o, packed)
  return mrt.compile(function(q, k, v, weight)
    local x = { q, k, v }
    if packed then
      local all = mrt.cat({ q, k, v }, 3)
      local first = 1
      for i, t in ipairs(x) do
        x[i] = all:narrow(3, first, t:size(3))
        first = first + t:size(3)
      end
    end
    local y = x[1]:attention(x[2], x[3], o)
    local loss = (y:to "f32" * weight):sum()
    return y, table.unpack(mrt.grad(loss, { q, k, v }))
  end)
end

local function results(device, inputs, o, packed)
  mrt.device(device)
  local here, options = {}, {}
  for i, t in ipairs(inputs) do here[i] = t:to(device) end
  for name, x in pairs(o) do options[name] = mrt.is_tensor(x) and x:to(device) or x end
  local list = { step(options, packed)(table.unpack(here)) }
  for i, t in ipairs(list) do list[i] = t:to("f32"):to "cpu" end
  mrt.device "cpu"
  return list
end

local function same(c)
  local function draw(rows, heads, width)
    return mrt.randn(c.B, rows, heads, width):to(c.dtype)
  end
  local inputs = { draw(c.T, c.H, c.D), draw(c.S, c.Hk, c.D), draw(c.S, c.Hk, c.Dv),
    mrt.randn(c.B, c.T, c.H, c.Dv) }
  mrt.eval(inputs)
  local here = results("cpu", inputs, c.options, c.packed)
  local there = results("cuda:0", inputs, c.options, c.packed)
  for i = 1, #here do
    local most = here[i]:abs():max():item()
    local far = (here[i] - there[i]):abs():max():item()
    local text = ("%s %d x %d of %d/%d, %d and %d wide, result %d: %g of %g"):format(c.dtype, c.T,
      c.S, c.H, c.Hk, c.D, c.Dv, i, far, most)
    -- weights, gradients of scores and results are rounded
    assert(far <= (most + 0.1) * (c.dtype == "bf16" and 2 ^ -6 or 2 ^ -9), text)
  end
end

local function ids(list) return mrt.tensor(list, { dtype = "i64" }) end

-- The forms, as tiles of 64 or 128 keys and blocks of 128 queries meet them.
local function drawn()
  local function one_in(n) return math.random(n) == 1 end
  local function pick(list) return list[math.random(#list)] end
  local c = { dtype = pick { "bf16", "f16" }, B = 2, Hk = math.random(2),
    T = pick { 1, 40, 64, 65, 128, 130, 200 }, S = pick { 1, 64, 100, 128, 129, 290 },
    D = pick { 64, 64, 128, 128, 8, 40, 72 } }
  c.H, c.Dv = c.Hk * math.random(2), one_in(3) and pick { 64, 128, 24 } or c.D
  c.packed = one_in(3) and c.T == c.S and c.D == c.Dv
  local o = { causal = one_in(2), scale = one_in(3) and -0.2 or nil }
  if one_in(3) then o.window = { math.random(0, c.S), math.random(0, c.S) } end
  if one_in(3) then o.lengths = ids { math.random(0, c.T), math.random(0, c.T) } end
  if one_in(3) then o.key_lengths = ids { math.random(0, c.S), math.random(0, c.S) } end
  if one_in(4) then o.offset = math.random(-5, c.S) end
  c.options = o
  return c
end

describe("attention by warpgroups", function()
  it("is the processor's, at every edge of its tiles", function()
    mrt.seed(5)
    for _, dtype in ipairs { "bf16", "f16" } do
      for _, D in ipairs { 64, 128 } do
        for _, causal in ipairs { false, true } do
          same { dtype = dtype, B = 1, T = 200, S = 330, H = 2, Hk = 1, D = D, Dv = D,
            options = { causal = causal } }
          same { dtype = dtype, B = 1, T = 140, S = 140, H = 2, Hk = 2, D = D, Dv = D,
            options = { causal = causal }, packed = true }
        end
      end
    end
  end)

  it("is the processor's, of any shape and options", function()
    mrt.seed(6)
    math.randomseed(6)
    for _ = 1, 30 do same(drawn()) end
  end)
end)

-- What ran, of a small attention in these dtypes and widths.
local script = [[
local mrt = require "mrt"
mrt.device "cuda:0"
for _, dtype in ipairs { "bf16", "f16" } do
  for _, D in ipairs { 64, 128 } do
    for _ = 1, 2 do
      local x = mrt.variable(mrt.randn(1, 70, 1, D):to(dtype))
      local o = x:attention(x, x, { causal = true }):to "f32"
      local y = mrt.grad(o:tanh():sum(), x)
      mrt.eval { o, y }
      assert(o:abs():max():item() < 9 and y:to "f32":abs():max():item() < 99)
    end
  end
end
print "done"
]]
local function ran(environment)
  local out = program.script(script, "MRT_EMULATE_COUNT=1 " .. environment)
  local count = {}
  for n, name in out:gmatch "emulated device: (%d+) ([%w_]+)<T, W" do
    count[name] = (count[name] or 0) + tonumber(n)
  end
  return count, out
end

describe("the trial of attention by warpgroups", function()
  if not emulated then return pending "not the emulated device" end

  it("compares both forms once for each dtype and width, then takes the new one", function()
    local count, out = ran ""
    assert.truthy(out:find "done\n", out)
    assert.falsy(out:find("mma.sync", 1, true), out)
    assert.are.equal(4 + 8, count.attend_wgmma, out)
    assert.are.equal(4 + 8, count.queries_wgmma, out)
    assert.are.equal(4 + 8, count.keys_wgmma, out)
    -- of the trials: one beside the new one, and one before each gradient
    assert.are.equal(4 + 2 * 4, count.attend, out)
    assert.are.equal(4, count.queries, out)
    assert.are.equal(4, count.keys, out)
  end)

  it("leaves the new one out where it computes nothing, and says so once", function()
    for _, kernel in ipairs { "attend", "keys" } do
      local count, out = ran(("MRT_EMULATE_SKIP=%s_wgmma"):format(kernel))
      local name = kernel == "attend" and "attention" or "attention's gradient"
      assert.truthy(out:find "done\n", out)
      assert.truthy(out:find(("mrt: cuda:0: %s of bf16, 64 wide, by mma.sync instead of wgmma: "
        .. "it computes nothing, as where sm_90a is not compiled for"):format(name), 1, true), out)
      assert.are.equal(1, select(2, out:gsub("mma.sync instead", "")), out)
      local forward = kernel == "attend"
      assert.are.equal(not forward and 4 + 8 or nil, count.attend_wgmma, out)
      assert.are.equal(forward and 4 + 8 or 4, count.queries_wgmma, out)
      assert.are.equal(forward and 4 or 4 + 8, count.queries, out)
    end
  end)

  it("is not made where the environment leaves warpgroups out", function()
    local count, out = ran "MRT_CUDA_ATTENTION=mma"
    assert.truthy(out:find "done\n", out)
    assert.is_nil(count.attend_wgmma)
    assert.is_nil(count.queries_wgmma)
    assert.are.equal(8, count.attend, out)
    assert.are.equal(8, count.queries, out)
  end)

  it("says how to do without where it breaks the device", function()
    local _, out = ran "MRT_EMULATE_BREAK=attend_wgmma:1"
    assert.truthy(out:find("the trial of attention by wgmma: ", 1, true), out)
    assert.truthy(out:find("MRT_CUDA_ATTENTION=mma does without", 1, true), out)
  end)
end)
