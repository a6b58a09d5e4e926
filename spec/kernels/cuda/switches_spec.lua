-- switches_spec.lua -- the CUDA device without parts of it
--
-- What a library refuses kernels of ours do, and the same where the environment
-- leaves the library, or matrix units, out.  MRT_CUDA names the plug-in; only the
-- emulated device can be told to refuse.
local program = require "support.program"

local library = os.getenv "MRT_CUDA"
if not library then
  describe("the CUDA device's switches", function()
    pending "MRT_CUDA names no plug-in"
  end)
  return
end
local emulated = library:find "emulated" ~= nil

-- Products with and without bias and GELU, of one matrix and of many, one with
-- sums of what it reads, and a gradient, in three runs of a plan; `large` ones are
-- worth to be timed.
local script = [[
local mrt = require "mrt"
local large = %s
local function run(device)
  mrt.device "cpu"
  mrt.seed(7)
  local k, n = large and 256 or 40, large and 192 or 24
  local w, b = mrt.randn(n, k, { dtype = "%s" }), mrt.randn(n, { dtype = "%s" })
  local x = mrt.randn(3, large and 128 or 16, k, { dtype = "%s" })
  mrt.eval { w, b, x }
  mrt.device(device)
  w, b, x = mrt.variable(w:to(device)), b:to(device), x:to(device)
  local step = mrt.compile(function(x)
    local y = x:linear(w, b)
    local z = y:gelu { approximate = "tanh" }:matmul(y:transpose(2, 3))
    local left = x:reshape(-1, k)
    local p, s = require "mrt.core".op.matmul_sums(left:t(), left)
    return y:to "f32", z:to "f32", p:to "f32", s:to "f32", mrt.grad(z:to "f32":mean(), w):to "f32"
  end)
  local told = {}
  for _ = 1, 3 do
    for i, t in ipairs { step(x) } do told[i] = t:to "cpu" end
  end
  return told
end
local there, here = run "cuda:0", run "cpu"
mrt.device "cpu"
for i, t in ipairs(there) do
  local off = (t - here[i]):abs():max():item() / here[i]:abs():max():item()
  assert(off < ("%s" == "f32" and 1e-5 or 0.03), "result " .. i .. " is off by " .. off)
end
print "as the CPU"
]]

local function says(large, dtype, environment)
  local out = program.script(script:format(large, dtype, dtype, dtype, dtype),
    "MRT_EMULATE_PRODUCTS=1 " .. environment)
  assert(out:find("as the CPU", 1, true), out)
  local _, products = out:gsub("cublasLtMatmul:", "")
  return out, products
end

describe("the CUDA device", function()
  if not emulated then return pending "not the emulated device" end

  it("computes itself what the library refuses when it runs, and says so once", function()
    for _, status in ipairs { "7 CUBLAS_STATUS_INVALID_VALUE", "15 CUBLAS_STATUS_NOT_SUPPORTED",
      "13 CUBLAS_STATUS_EXECUTION_FAILED" } do
      local number, name = status:match "(%d+) (.*)"
      for _, first in ipairs { 1, 3 } do
        local out, products = says(false, first == 1 and "f32" or "bf16",
          ("MRT_EMULATE_REFUSE=%s:%d"):format(number, first))
        assert.are.equal(first - 1, products, out)
        local _, told = out:gsub("a kernel of ours instead of cuBLASLt [%d.]+: " .. name
          .. ": %d+ x %[%d+,%d+%]", "")
        assert.are.equal(1, told, out)
        assert.truthy(out:find "cuBLASLt refused %d+ products", out)
      end
    end
  end)

  it("does not ask the library again where all its algorithms fail", function()
    local out, products = says(true, "bf16", "MRT_EMULATE_REFUSE=15")
    assert.are.equal(0, products, out)
    assert.falsy(out:find "a kernel of ours instead", out)
  end)

  it("times no algorithm, or does without the library, where it is told to", function()
    local _, first = says(true, "bf16", "XDG_CACHE_HOME=/dev/null MRT_CUDA_LT=first")
    local _, timed = says(true, "bf16", "XDG_CACHE_HOME=/dev/null")
    local _, none = says(true, "bf16", "MRT_CUDA_LT=off")
    assert(first > 0 and first < timed, first .. " and " .. timed)
    assert.are.equal(0, none)
  end)

  it("names the node that failed, where each is waited for", function()
    local out = program.script([[
      local mrt = require "mrt"
      mrt.device "cuda:0"
      local step = mrt.compile(function(x)
        local y = x:softmax(-1):cumsum(1)
        y = y:cumsum(2)
        return y:softmax(-1):cumsum(1):sum()
      end)
      local x = mrt.eval(mrt.ones(4, 4))
      for i = 1, 4 do print(i, pcall(step, x)) end
    ]], "MRT_CUDA_SYNC=1 MRT_EMULATE_BREAK=each_row:6")
    assert.truthy(out:find "3%s+false%s+%S+:%d+: at softmax %([^()]+:6%): cuda:0 failed", out)
  end)
end)

describe("attention", function()
  it("is that of plain kernels where the environment says so", function()
    local out = program.script([[
      local mrt = require "mrt"
      local function run(device)
        mrt.device "cpu"
        mrt.seed(2)
        local q = mrt.eval(mrt.randn(2, 33, 2, 16):to "bf16")
        mrt.device(device)
        q = mrt.variable(q:to(device))
        local o = q:attention(q, q, { causal = true })
        return { o:to "f32":to "cpu", mrt.grad(o:to "f32":tanh():sum(), q):to "f32":to "cpu" }
      end
      local there, here = run "cuda:0", run "cpu"
      mrt.device "cpu"
      for i, t in ipairs(there) do
        local off = (t - here[i]):abs():max():item() / here[i]:abs():max():item()
        assert(off < 0.03, "result " .. i .. " is off by " .. off)
      end
      print "as the CPU"
    ]], "MRT_CUDA_ATTENTION=tile MRT_EMULATE_COUNT=1")
    assert(out:find("as the CPU", 1, true), out)
    if emulated then
      assert.truthy(out:find "differentiate", out)
      assert.falsy(out:find("queries", 1, true), out)
    end
  end)
end)
