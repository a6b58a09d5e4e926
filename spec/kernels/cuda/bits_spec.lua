-- bits_spec.lua -- a CUDA device has every operator; what moves, looks up,
-- adds up by ids or draws has the processor's bits
--
-- MRT_CUDA names the plug-in.
local mrt = require "mrt"
local core = require "mrt.core"
local files = require "support.files"

-- Moves and ids, drawn without mrt: the same on each device.
local function generator(seed)
  local state = seed % 2147483646 + 1
  return function(n)
    state = state * 48271 % 2147483647
    return state % n + 1
  end
end

-- What f, a function of a generator, computes on each device, as bytes.
local function bytes_on(name, f, seed)
  mrt.device(name)
  mrt.seed(seed)
  local ok, list = pcall(function() return mrt.eval(f(generator(seed))) end)
  mrt.device "cpu"
  assert(ok, list)
  local all = {}
  for i, t in ipairs(list) do all[i] = t:bytes() end
  return all
end

local function agree(what, f, seeds)
  for seed = 1, seeds do
    local here, there = bytes_on("cpu", f, seed), bytes_on("cuda:0", f, seed)
    for i, bytes in ipairs(here) do
      assert(bytes == there[i], ("%s, seed %d: result %d differs"):format(what, seed, i))
    end
  end
end

local dtypes = { "f32", "f64", "f16", "bf16", "f8_e4m3", "f8_e5m2", "i64", "i32", "u8", "bool" }
local sizes = { 0, 1, 2, 3, 8, 9, 16, 33, 64, 70, 130 }

-- Some view of a tensor of some dtype.
local function some_view(draw)
  local dims, total = {}, 1
  for i = 1, draw(5) do
    local n = sizes[draw(#sizes)]
    dims[i] = total * n > 20000 and 1 or n
    total = total * dims[i]
  end
  local x = mrt.cast(mrt.arange(total) % 113, dtypes[draw(#dtypes)]):reshape(dims)
  for _ = 1, draw(3) do
    local kind, r = draw(3), #x.shape
    if kind == 1 then
      x = x:transpose(draw(r), draw(r))
    elseif kind == 2 then
      local d = draw(r)
      local first = x.shape[d] > 0 and draw(x.shape[d])
      if first then x = x:slice(d, first, first - 1 + draw(x.shape[d] - first + 1)) end
    elseif r < 6 then
      x = x:unsqueeze(1):expand(3, table.unpack(x.shape))
    end
  end
  return x
end

-- Integers below n: most of them few, so that some places get many.
local function some_ids(draw, n, ...)
  local count, list = 1, {}
  for _, d in ipairs { ... } do count = count * d end
  for i = 1, count do list[i] = (draw(3) == 1 and draw(n) or draw(math.min(n, 3))) - 1 end
  local dtype = n <= 256 and ({ "i64", "i32", "u8" })[draw(3)] or draw(2) == 1 and "i64" or "i32"
  return mrt.tensor(list, { dtype = dtype }):reshape { ... }
end

local function some_reals(draw, ...)
  return mrt.rand { ... } * 2 - 1, mrt.cast(mrt.rand { ... } * 2 - 1, ({ "bf16", "f16" })[draw(2)])
end

if not os.getenv "MRT_CUDA" then
  describe("a CUDA device's bits", function()
    pending "MRT_CUDA names no plug-in"
  end)
  return
end

describe("a CUDA device", function()
  it("has a kernel for every operator that is not left to the CPU", function()
    mrt.device "cuda:0"
    local missing, left = {}, {}
    for _, row in ipairs(core.operators()) do
      -- collectives of GPUs are for NCCL
      if not row.kernel and not row.collective then missing[#missing + 1] = row.name end
    end
    mrt.device "cpu"
    for name in files.read("kernels/cuda/kernels.def"):gmatch "\nHOST%(([%w_]+)%)" do
      left[#left + 1] = name
    end
    table.sort(missing)
    table.sort(left)
    assert.are.same(left, missing)
  end)

  it("moves elements as the processor does, of every dtype and layout", function()
    agree("a move", function(draw)
      local x = some_view(draw)
      local d = draw(#x.shape)
      return { x:copy(), mrt.cat({ x, x:copy(), x }, { dim = d }),
        x:pad { dim = d, before = draw(4) - 1, after = draw(4) - 1 } }
    end, 100)
  end)

  it("looks up and adds up in the order of the ids, with the processor's bits", function()
    agree("a lookup", function(draw)
      local n, C = ({ 3, 200, 300, 70000 })[draw(4)], ({ 1, 5, 8, 140 })[draw(4)]
      if n > 1000 then C = 1 end
      local k = ({ 1, 31, 700, 3000 })[draw(4)]
      local table_, narrow = some_reals(draw, n, C)
      local dy, dy_narrow = some_reals(draw, k, C)
      local ids = some_ids(draw, n, k)
      local flat = ids:unsqueeze(2):expand(k, C):copy()
      local offsets = mrt.tensor({ 0, k // 3, k // 3, k - 1 }, { dtype = "i32" })
      local bags = { mode = ({ "sum", "mean" })[draw(2)] }
      local of_bags = { mode = bags.mode, rows = n }
      local op = core.op
      return { op.embedding(table_, ids), op.embedding(narrow, ids),
        op.gather(table_, flat, { dim = 1 }), op.scatter_add(table_, flat, dy, { dim = 1 }),
        op.scatter_add(table_:transpose(1, 2):copy(), flat:transpose(1, 2):copy(),
          dy:transpose(1, 2):copy(), { dim = 2 }),
        op.embedding_grad(ids, dy, { rows = n }), op.embedding_grad(ids, dy_narrow, { rows = n }),
        op.embedding_bag(table_, ids, offsets, bags),
        op.embedding_bag(table_, ids, { mode = "max" }),
        op.embedding_bag_grad(dy:slice(1, 1, 1):expand(4, C):copy(), ids, offsets, of_bags) }
    end, 40)
  end)

  it("tells an id out of range, whichever operator meets it", function()
    mrt.device "cuda:0"
    local op = core.op
    local w, ids = mrt.rand(4, 3), mrt.tensor({ 0, 9, 1 }, { dtype = "i64" })
    local column, offsets = ids:reshape(3, 1), mrt.tensor({ 0, 9 }, { dtype = "i64" })
    local lookups = {
      function() return op.embedding(w, ids) end,
      function() return op.gather(w, column, { dim = 1 }) end,
      function() return op.scatter_add(w, column, mrt.rand(3, 1), { dim = 1 }) end,
      function() return op.embedding_bag(w, ids, {}) end,
      function() return op.embedding_bag(w, ids, offsets, {}) end,
    }
    local told = {}
    for i, f in ipairs(lookups) do
      local ok, err = pcall(function() mrt.eval(f()) end)
      told[i] = not ok and err.code == "data" and tostring(err):find("9", 1, true) and true
    end
    mrt.device "cpu"
    assert.are.same({ true, true, true, true, true }, told)
  end)

  it("draws the processor's random numbers", function()
    agree("a draw", function(draw)
      local n = draw(3000)
      local dtype = ({ "f32", "f64" })[draw(2)]
      return { mrt.rand(n, { dtype = dtype }), mrt.randint(-5, 900, n), mrt.full({ n }, 0.1),
        mrt.arange(n, { dtype = dtype }) * 0.1,
        core.op.dropout(mrt.rand(n, { dtype = dtype }), { p = 0.3 }) }
    end, 20)
    for dtype, format in pairs { f32 = "<f", f64 = "<d" } do
      local function normal() return { mrt.randn(5000, { dtype = dtype }) } end
      local here, there = bytes_on("cpu", normal, 3)[1], bytes_on("cuda:0", normal, 3)[1]
      local most = 0
      for at = 1, #here, string.packsize(format) do
        local x, y = string.unpack(format, here, at), string.unpack(format, there, at)
        most = math.max(most, math.abs(x - y))
      end
      assert(most < (dtype == "f32" and 2e-6 or 1e-14), dtype .. ": " .. most)
    end
  end)
end)
