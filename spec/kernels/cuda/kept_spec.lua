-- kept_spec.lua -- which algorithm of a product was fastest is found out once
--
-- On the emulated device, which tells of every product that it computes, and
-- names algorithms in an order that a seed decides.  Their bits differ.
local files = require "support.files"
local program = require "support.program"

local library = os.getenv "MRT_CUDA" or ""

describe("cuBLASLt's fastest algorithm", function()
  if not library:find "emulated" then
    pending "MRT_CUDA does not name the emulated plug-in"
    return
  end
  local folder = files.name()
  local path = files.temporary [[
    local mrt = require "mrt"
    mrt.seed(1)
    local a, b = mrt.eval(mrt.randn(192, 192)), mrt.eval(mrt.randn(192, 192))
    mrt.device "cuda:0"
    local c, d = mrt.eval(a:to "cuda:0"), mrt.eval(b:to "cuda:0")
    local sum = 0
    for i, byte in ipairs { c:matmul(d):bytes():byte(1, 4000) } do
      sum = (sum * 31 + byte * i) % 2^31
    end
    print("bits " .. sum)
  ]]

  -- Bits, the algorithm of the product, and how many were run before it.
  local function run(seed, cache)
    local _, out = program.shell(("XDG_CACHE_HOME=%s MRT_EMULATE_PRODUCTS=1 MRT_EMULATE_SEED=%d "
      .. "'%s' '%s' 2>&1"):format(cache or folder, seed, program.path, path))
    local bits = out:match "bits (%d+)"
    assert(bits, out)
    local runs, algorithm = 0, nil
    for which in out:gmatch "algorithm (%d)" do runs, algorithm = runs + 1, which end
    return bits, algorithm, runs - 1
  end

  local function kept()
    local _, out = program.shell("ls '" .. folder .. "'/mrt/*.product")
    local list = {}
    for name in out:gmatch "[^\n]+%.product" do list[#list + 1] = name end
    return list
  end

  it("is timed by one process, and taken by all others", function()
    local bits, algorithm, trials = run(0)
    assert.is_true(trials > 0)
    assert.equal(1, #kept())
    for seed = 0, 3 do
      local again, same, more = run(seed)
      assert.equal(0, more)
      assert.equal(algorithm, same)
      assert.equal(bits, again)
    end
  end)

  it("is found out again where the file is damaged or of something else", function()
    local name = kept()[1]
    local file = assert(io.open(name, "rb"))
    local whole = file:read "a"
    file:close()
    for _, content in ipairs { "", whole:sub(1, -2), "X" .. whole:sub(2) } do
      file = assert(io.open(name, "wb"))
      file:write(content)
      file:close()
      local _, algorithm, trials = run(0)
      assert.is_true(trials > 0)
      local _, same, none = run(1)
      assert.equal(0, none)
      assert.equal(algorithm, same)
    end
  end)

  it("is found out each time where nothing can be kept", function()
    local _, _, trials = run(0, "/dev/null/nowhere")
    assert.is_true(trials > 0)
  end)
end)
