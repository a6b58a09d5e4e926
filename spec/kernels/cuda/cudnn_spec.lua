-- cudnn_spec.lua -- cuDNN computes what it can, kernels of ours the rest
--
-- The emulated device brings an emulated cuDNN, which refuses what the real one
-- does and tells of each execution. What the results are worth is in
-- ops_spec.lua, with MRT_SPEC_DEVICE=cuda:0 and MRT_CUDNN naming the device's
-- own library.
local files = require "support.files"
local program = require "support.program"

local library = os.getenv "MRT_CUDA"

if not (library and library:find "emulated") then
  describe("cuDNN", function()
    pending "MRT_CUDA names no emulated device"
  end)
  return
end

-- Convolutions and attention of this dtype, with gradients, on the CPU and on
-- the device; `ways` is how often each was asked for.
local script = [[
local mrt = require "mrt"
local core = require "mrt.core"
local dtype, causal, apart = %q, %s, %s
local function values()
  mrt.seed(3)
  local function draw(...) return mrt.randn(...):to(dtype) end
  local x, w, b = draw(2, 6, 5, 8), draw(12, 4, 3, 3), draw(12)
  local q, k, v = draw(2, 7, 4, 16), draw(2, 7 + apart, 2, 16), draw(2, 7 + apart, 2, 16)
  return { x, w, b, q, k, v }
end
local function step(x, w, b, q, k, v)
  local o = { groups = 2, padding = 1, stride = { 2, 1 } }
  local y = core.op.conv2d(x, w, o) + core.op.conv2d(x, w, b, o)
  local a = core.op.attention(q, k, v, { causal = causal })
  local loss = (y * y):to "f32":sum() + (a * a):to "f32":sum()
  local all = mrt.grad(loss, { x, w, q, k, v })
  table.insert(all, 1, loss)
  return table.unpack(all)
end
local function run(device)
  mrt.device "cpu"
  local given = values()
  mrt.eval(given)
  mrt.device(device)
  for i, t in ipairs(given) do given[i] = mrt.eval(t:to(device)) end
  local f, last = mrt.compile(step), nil
  for i = 1, 7 do
    collectgarbage() -- results come to lie where earlier ones did
    local out = { f(table.unpack(given)) }
    for j, t in ipairs(out) do out[j] = mrt.eval(t:to "cpu"):bytes() end
    local now = table.concat(out, "|")
    assert(not last or last == now, "run " .. i .. " has other bits")
    last = now
  end
  local out = { f(table.unpack(given)) }
  for j, t in ipairs(out) do out[j] = t:to "cpu":to "f32" end
  return out
end
local there, here = run "cuda:0", run "cpu"
mrt.device "cpu"
for i, t in ipairs(there) do
  local off = (t - here[i]):abs():max():item() / here[i]:abs():max():item()
  assert(off < (dtype == "f32" and 1e-5 or 0.03), "result " .. i .. " is off by " .. off)
end
mrt.device "cuda:0"
print(mrt.info().libraries)
]]

-- Attention with its gradient, once; `from`: where queries begin in their rows,
-- `wide`: values, if not as keys.
local once = [[
local mrt = require "mrt"
local core = require "mrt.core"
local function attend(B, T, H, Hk, from, wide, scale)
  mrt.device "cpu"
  mrt.seed(5)
  local given = { mrt.randn(B, T, H, 16), mrt.randn(B, T, Hk, 8),
    mrt.randn(B, T, Hk, wide or 8), mrt.randn(B, T, H, wide or 8) }
  for i, x in ipairs(given) do given[i] = mrt.eval(x:to "bf16") end
  local function results(device)
    mrt.device(device)
    local q, k, v, w = table.unpack(given)
    q, k, v, w = q:to(device), k:to(device), v:to(device), w:to(device)
    mrt.eval { q, k, v, w }
    local a = core.op.attention(q[{ {}, {}, {}, { from, from + 7 } }], k, v,
      { causal = true, scale = scale })
    local out = mrt.grad((a * w):to "f32":sum(), { q, k, v })
    out[4] = a
    for i, x in ipairs(out) do out[i] = mrt.eval(x:to "cpu":to "f32") end
    mrt.device "cpu"
    return out
  end
  local there, here = results "cuda:0", results "cpu"
  for i, x in ipairs(there) do
    -- a single key has gradients of 0
    local off = (x - here[i]):abs():max():item() / (here[i]:abs():max():item() + 1e-3)
    assert(off < 0.03, "result " .. i .. " is off by " .. off)
  end
end
%s
]]

-- What the script says, how often each operation was executed, and the status.
local function tell(text, environment)
  local path, told = files.temporary(text), files.temporary ""
  local status, out = program.shell(("MRT_CUDNN='%s' MRT_EMULATE_CUDNN='%s' %s '%s' '%s'"):format(
    library, told, environment or "", program.path, path))
  local count = {}
  for line in io.lines(told) do
    count[line] = (count[line] or 0) + 1
  end
  return out, count, status
end
local function run(dtype, causal, apart, environment)
  return tell(script:format(dtype, causal, apart), environment)
end

-- By the first operation of a graph: a product of attention, a pointwise one of
-- its gradient.
local forward, weights, input, attention, gradient = "10", "11", "12", "19", "13"

-- It is right, and what was executed.
local function assert_once(what, wanted)
  local out, count, status = tell(once:format(what))
  assert.are.equal(0, status, what .. ": " .. out)
  assert.are.same(wanted, count, what)
end

describe("cuDNN", function()
  it("computes convolutions and attention, the same each time, also recorded", function()
    for _, dtype in ipairs { "bf16", "f16", "f32" } do
      local out, count = run(dtype, true, 0)
      assert(out:find("cuDNN 9.28.0", 1, true), out)
      -- queued and recorded; a replay, of the 8 runs most are, asks for nothing
      local n = count[weights]
      assert(n >= 2 and n < 6, dtype .. ": " .. n)
      assert.are.same({ [forward] = 2 * n, [weights] = n, [input] = n,
        [attention] = dtype ~= "f32" and n or nil,
        [gradient] = dtype ~= "f32" and n or nil }, count, dtype)
    end
  end)

  it("leaves alone what it refuses and what we would rather do", function()
    local out, count, status = run("bf16", true, 3)
    assert.are.equal(0, status, out)
    assert.are.equal(nil, count[attention] or count[gradient])
    out, count, status = run("bf16", false, 3)
    assert.are.equal(0, status, out)
    assert(count[attention] >= 2)
    assert.are.equal(count[attention], count[gradient])
    -- single queries, an address between two that it takes, values of another
    -- width, a negative scale
    for _, case in ipairs { "2, 1, 4, 2, 1", "2, 5, 4, 2, 2", "2, 5, 4, 2, 1, 16",
      "2, 5, 4, 2, 1, 8, -1" } do
      assert_once("attend(" .. case .. ")", {})
    end
  end)

  -- Each head of 1 to 128 queries and keys has 32 KiB of it, and where several
  -- share one of keys 4 KiB more.
  it("computes the gradient by slices whose workspace is moderate", function()
    for case, slices in pairs {
      ["2, 5, 4, 2, 1"] = 1, -- and no slices
      ["2560, 4, 8, 8, 1"] = 2, -- of 1280 samples
      ["2, 4, 24576, 12288, 1"] = 4, -- of half the heads of a sample
      ["32742, 2, 1, 1, 1"] = 3, -- of 10914: of 16371, lse would begin at odd addresses
    } do
      assert_once("attend(" .. case .. ")", { [attention] = 1, [gradient] = slices })
    end
  end)

  it("is asked for so many shapes of attention, and no more", function()
    assert_once("for B = 1, 70 do attend(B, 2, 1, 1, 1) end",
      { [attention] = 64, [gradient] = 64 })
  end)

  it("is not used when it is off or not there", function()
    for _, where in ipairs { "off", "/nowhere/libcudnn.so.9" } do
      local out, count = run("bf16", true, 0, "MRT_CUDNN=" .. where)
      assert(out:find "cuBLASLt" and not out:find "cuDNN", out)
      assert.are.same({}, count)
    end
  end)

  it("fails the device with its own words", function()
    local out = run("bf16", true, 0, "MRT_EMULATE_CUDNN_FAILS=1")
    assert(out:find("cuda:0 failed: cuDNN 9.28.0: CUDNN_STATUS_EXECUTION_FAILED", 1, true), out)
  end)
end)
