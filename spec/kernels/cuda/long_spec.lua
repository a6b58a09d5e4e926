-- long_spec.lua -- rows that no block's registers hold, and places counted in 64 bits
--
-- MRT_CUDA names the plug-in.
local mrt = require "mrt"
local program = require "support.program"

local library = os.getenv "MRT_CUDA"
if not library then
  describe("long rows on a CUDA device", function()
    pending "MRT_CUDA names no plug-in"
  end)
  return
end

local kinds = {
  softmax = function(x) return x:softmax() end,
  log_softmax = function(x) return x:log_softmax() end,
  layer_norm = function(x) return x:layer_norm() end,
  rms_norm = function(x) return x:rms_norm() end,
}

describe("rows that no block's registers hold", function()
  after_each(function() mrt.device "cpu" end)

  for name, f in pairs(kinds) do
    it("agree with the processor's: " .. name, function()
      for _, n in ipairs { 17001, 33001 } do
        mrt.device "cpu"
        mrt.seed(n)
        local x, scale = mrt.eval(mrt.randn(2, n) + 0.5), mrt.eval(mrt.randn(2, n))
        local step = function(a, s)
          local y = f(a)
          return y, mrt.grad((y * s):sum(), { a })[1]
        end
        local wanted = { mrt.compile(step)(x, scale) }
        mrt.device "cuda:0"
        local got = { mrt.compile(step)(x:to "cuda:0", scale:to "cuda:0") }
        for i = 1, 2 do
          local most = wanted[i]:abs():max():item()
          local far = (wanted[i] - got[i]:to "cpu"):abs():max():item()
          assert(far <= 2e-5 * most, ("%d, result %d: %g of %g"):format(n, i, far, most))
        end
      end
    end)
  end
end)

describe("places counted in 64 bits", function()
  it("are those of 32", function()
    if not library:find("emulated", 1, true) then return pending "not the emulated device" end
    local script = [[
      local mrt = require "mrt"
      mrt.device "cuda:0"
      mrt.seed(2)
      local x = mrt.eval(mrt.randn(5, 7, 6))
      local ids = mrt.eval(mrt.randint(0, 7, 5, 4, 6))
      local wide = {
        x:permute(3, 1, 2):copy(), x:flip(2), x:slice(2, 2, 5):copy(), mrt.cat({ x, x }, 2),
        x:gather(2, ids), mrt.zeros(5, 7, 6):scatter(2, ids, x:slice(2, 1, 4):copy()),
        x:to("bf16"):permute(2, 3, 1):copy(), x:expand(2, 5, 7, 6):copy() }
      for _, t in ipairs(wide) do
        print("bits", (t:bytes():gsub(".", function(c) return ("%02x"):format(c:byte()) end)))
      end]]
    local narrow = program.script(script)
    local _, lines = narrow:gsub("bits", "")
    assert.are.equal(8, lines, narrow)
    assert.are.equal(narrow, program.script(script, "MRT_EMULATE_WIDE=1"))
    -- They are other kernels.
    local count = program.script(script, "MRT_EMULATE_WIDE=1 MRT_EMULATE_COUNT=1")
    assert.truthy(count:find("int64_t", 1, true), count)
  end)
end)
