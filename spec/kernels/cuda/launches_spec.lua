-- launches_spec.lua -- how often a device is launched for a layer of a GPT
--
-- MRT_CUDA names the plug-in; the emulated one counts what it runs (MRT_EMULATE_COUNT).
local files = require "support.files"
local program = require "support.program"

local library = os.getenv "MRT_CUDA"

if not library or not library:find("emulated", 1, true) then
  describe("launches of a layer", function()
    pending "MRT_CUDA does not name the emulated plug-in"
  end)
  return
end

-- Of three steps, each node by itself and products by the first algorithm, untimed.
local function launches(layers, weights)
  local path = files.temporary(([[
    local mrt = require "mrt"
    mrt.device "cuda:0"
    local step, x, y = require("mrt.bench.gpt").make({ layers = %d, heads = 2, dim = 128,
      context = 64, batch = 2, vocab = 512 }, {}, "%s")
    for _ = 1, 3 do step(x, y):item() end
  ]]):format(layers, weights))
  local code, out = program.shell(("MRT_CUDA_GRAPHS=off MRT_CUDA_LT=first MRT_EMULATE_COUNT=1 "
    .. "'%s' '%s'"):format(program.path, path))
  assert.are.equal(0, code, out)
  local all, products = 0, 0
  for n, name in out:gmatch "emulated device: (%d+) ([%w_]+)" do
    n = tonumber(n)
    if name == "cublasLtMatmul" then products = products + n end
    local ours = not name:find "^cuda" and not name:find "^update" and name ~= "put_milestone"
    if ours then all = all + n end
  end
  return all / 3, products / 3
end

describe("launches of a layer", function()
  -- Forward and backward, without the updates: 12 products, and what is around them.
  for weights, most in pairs { f32 = 38, bf16 = 31 } do
    it(("are no more than %d, of weights in %s"):format(most, weights), function()
      local two, two_products = launches(2, weights)
      local three, three_products = launches(3, weights)
      assert.are.equal(12, three_products - two_products)
      local each = three - two
      assert.is_true(each > 12 and each <= most, ("%g launches"):format(each))
    end)
  end
end)
