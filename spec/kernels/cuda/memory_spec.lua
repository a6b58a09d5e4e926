-- memory_spec.lua -- nobody waits for the device to have memory or to give it back
--
-- MRT_CUDA names the plug-in.  What the host waited for, and in which call, is what
-- the emulated device tells at the end (MRT_EMULATE_COUNT).
local program = require "support.program"

local library = os.getenv "MRT_CUDA"
local emulated = library and library:find("emulated", 1, true)

if not emulated then
  describe("memory of a CUDA device", function()
    pending "MRT_CUDA names no emulated plug-in"
  end)
  return
end

-- STEPS steps, each with batches of its own that are too large for the queue's pinned
-- pieces, on DEVICE; integers, so that all devices give the same bits.
local loop = [[
  local mrt = require "mrt"
  mrt.device "DEVICE"
  local rows, width = 40, 1 << 17 -- 5 MiB an input: several pinned pieces
  local w = mrt.variable(mrt.zeros(width), "w")
  local step = mrt.compile(function(x, y)
    local z = x:to "f32" + y:to "f32"
    local sums = z:sum(1)
    w:assign(w + sums)
    return sums:slice(1, 1, 9):sum()
  end)
  local seen = {}
  local function bytes(i, n)
    local piece = {}
    for k = 1, 1024 do piece[k] = string.char((i * 7 + k * 13) % 251) end
    return table.concat(piece):rep(n // 1024)
  end
  local function batch(i)
    return mrt.from_bytes(bytes(i, rows * width), "u8", { rows, width }),
      mrt.from_bytes(bytes(i + 100, rows * width), "u8", { rows, width })
  end
  for i = 1, STEPS do
    local loss = step(batch(i))
    if i <= 2 then seen[i] = loss end
    if i % 3 == 0 then collectgarbage() end
  end
  for _, t in ipairs(seen) do print("bits", t:item()) end
  print("bits", w:slice(1, 700, 720):sum():item(), w:slice(1, 1, 5):totable()[3])
]]

local function run(text, steps, device, before)
  local script = text:gsub("DEVICE", device):gsub("STEPS", steps)
  local out, count, lines = program.script(script, "MRT_EMULATE_COUNT=1 " .. (before or "")), {}, {}
  for n, what in out:gmatch "emulated device: (%d+) ([^\n]*)" do count[what] = tonumber(n) end
  for line in out:gmatch "bits[^\n]*" do lines[#lines + 1] = line end
  return table.concat(lines, "\n"), count, out
end

describe("memory of a CUDA device", function()
  it("is had and given back in a loop of fresh batches without a wait", function()
    local bits, few = run(loop, 3, "cuda:0")
    local same, many, out = run(loop, 8, "cuda:0")
    assert.truthy(bits:find "^bits", bits)
    assert.are.equal(run(loop, 3, "cpu"), bits)
    assert.are.equal(run(loop, 8, "cpu"), same)
    assert.are.equal(7, many.cudaGraphLaunch, out)
    assert.are.equal(few.cudaFree, many.cudaFree, out)
    assert.are.equal(few.cudaMalloc, many.cudaMalloc, out)
    -- What reads the results at the end waits, in a call or two more if more is left.
    for _, call in ipairs { "cudaStreamSynchronize", "cudaEventSynchronize" } do
      local what = call .. " waited"
      assert.is_true((many[what] or 0) - (few[what] or 0) < 3, what .. "\n" .. out)
    end
    assert.is_nil(many["cudaFree waited"], out)
  end)

  it("is the pool's for large tensors that are computed outside of a step, too", function()
    local eager = [[
      local mrt = require "mrt"
      mrt.device "DEVICE"
      local x = mrt.eval(mrt.ones(1 << 21))
      for i = 1, STEPS do x = mrt.eval(x * 2) end
      print("bits", x:slice(1, 1, 2):totable()[1]) ]]
    local bits, few = run(eager, 3, "cuda:0")
    local _, many, out = run(eager, 9, "cuda:0")
    assert.are.equal("bits\t8.0", bits)
    assert.are.equal(few.cudaFree, many.cudaFree, out)
    assert.are.equal(few.cudaMalloc, many.cudaMalloc, out)
  end)

  it("is the same bits in other orders of the streams", function()
    local wanted = run(loop, 4, "cpu")
    for seed = 1, 3 do
      assert.are.equal(wanted, (run(loop, 4, "cuda:0", "MRT_EMULATE_SEED=" .. seed)))
    end
  end)

  -- 16 of these are 160 MiB.
  it("that was given back is there for an arena, and for another batch", function()
    local bits, _, out = run(loop, 16, "cuda:0", "MRT_EMULATE_MEMORY=" .. (110 << 20))
    assert.are.equal(run(loop, 16, "cpu"), bits, out)
  end)
end)
