-- quantize_spec.lua -- weights in 8 and 4 bits: their error, products, layers
local mrt = require "mrt"
local files = require "support.files"
local core = require "mrt.core"
local nn, optim = mrt.nn, mrt.optim
local random = require "mrt.data.random"

local nf4 = { -1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
  -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0,
  0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
  0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1 }
local tables = { nf4 = nf4, int8 = {},
  fp4 = { -1, -8 / 12, -6 / 12, -4 / 12, -3 / 12, -2 / 12, -0.0625 / 12, 0, 0.0625 / 12,
    2 / 12, 3 / 12, 4 / 12, 6 / 12, 8 / 12, 1 } }
for code = -127, 127 do tables.int8[code + 128] = code / 127 end

-- The mean absolute error of normal numbers in blocks of n: the largest of a block,
-- M, is exact, the others are normal and below M; integrated over their value and
-- over M, whose density is 2 n phi(m) (2 Phi(m) - 1)^(n - 1).
local function expected(values, n)
  local function phi(x) return math.exp(-x * x / 2) / math.sqrt(2 * math.pi) end
  local step = 0.005
  -- By x from 0: the share of normal numbers within +-x.
  local within, grid = { [0] = 0.0 }, 1200
  for i = 1, grid do
    within[i] = within[i - 1] + 2 * phi((i - 0.5) * step) * step
  end
  local total, weight = 0.0, 0.0
  for top = 100, grid, 5 do
    local m, at, sum = top * step, 1, 0.0
    for i = -top, top - 1 do
      local z = (i + 0.5) * step
      while at < #values and math.abs(values[at + 1] - z / m) < math.abs(values[at] - z / m) do
        at = at + 1
      end
      sum = sum + math.abs(z - m * values[at]) * phi(z) * step
    end
    local density = phi(m) * within[top] ^ (n - 1)
    total, weight = total + density * sum / within[top], weight + density
  end
  return (n - 1) / n * total / weight
end

local function largest(x) return x:abs():amax():item() end

-- Random shapes and options, the same each time.
local function each_case(count, f)
  local draw = random.new(11)
  local function pick(n) return draw:integer(n) end
  for i = 1, count do
    local kind = ({ "int8", "nf4", "fp4", "q4_0", "q8_0" })[i % 5 + 1]
    local block = ({ nil, 2 * pick(40) })[pick(2) + 1]
    if kind:sub(1, 1) == "q" then block = nil end
    f({ kind = kind, block = block }, pick(70) + 1, pick(150) + 1, pick(200) + 1)
  end
end

describe("quantisation", function()
  it("errs on normal numbers as its table says", function()
    mrt.seed(5)
    for _, kind in ipairs { "nf4", "fp4", "int8" } do
      local block = kind == "int8" and 768 or 64
      local wanted = expected(tables[kind], block)
      local w = mrt.eval(mrt.randn(1024, 768))
      local codes, scales = w:quantize { kind = kind, block = block }
      local back = codes:dequantize(scales, { kind = kind, block = block })
      local got = (back - w):abs():mean():item()
      assert.is_true(math.abs(got / wanted - 1) < 0.005, ("%s: %g, %g wanted"):format(kind, got,
        wanted))
      if kind == "nf4" then assert.is_true(math.abs(wanted - 0.0727) < 1e-4, wanted) end
    end
  end)

  it("changes nothing the second time", function()
    each_case(30, function(o, n, k)
      o.columns = k
      local codes, scales = mrt.randn(n, k):quantize { kind = o.kind, block = o.block }
      local again = codes:dequantize(scales, o):quantize { kind = o.kind, block = o.block }
      assert.equal(codes:bytes(), again:bytes())
    end)
  end)

  it("makes numbers of a block NaN where one is not finite, and of no other", function()
    for _, odd in ipairs { 0 / 0, math.huge, -math.huge } do
      local w = mrt.ones(2, 8):cat(mrt.full({ 2, 8 }, odd), mrt.ones(2, 8))
      for _, kind in ipairs { "int8", "nf4", "fp4", "q4_0", "q8_0" } do
        local o = { kind = kind, block = kind:sub(1, 1) ~= "q" and 8 or nil, columns = 8 }
        local codes, scales = w:quantize { kind = kind, block = o.block }
        local back = codes:dequantize(scales, o)
        local flags = back:isnan():to "i64":sum(2):totable()
        assert.same({ 0, 0, 8, 8, 0, 0 }, flags)
      end
    end
  end)

  it("multiplies as linear and matmul do with the whole weight, bit for bit", function()
    each_case(40, function(o, m, n, k)
      local codes, scales = mrt.eval(mrt.randn(n, k):quantize(o))
      local of = { kind = o.kind, block = o.block, columns = k, transposed = true }
      local w = codes:dequantize(scales, { kind = o.kind, block = o.block, columns = k })
      local x, dy, bias = mrt.eval(mrt.randn(m, k), mrt.randn(m, n), mrt.randn(n))
      assert.equal(x:linear(w, bias):bytes(), x:quantized_linear(codes, scales, bias, o):bytes())
      assert.equal(dy:matmul(w):bytes(), dy:quantized_linear(codes, scales, of):bytes())
      local dx = mrt.grad((x:quantized_linear(codes, scales, o) * dy):sum(), x)
      assert.equal(dy:matmul(w):bytes(), dx:bytes())
    end)
  end)
end)

-- Few rows go panel by panel, one row in registers where blocks allow it.
describe("a product of few rows with quantised weights", function()
  it("has rows whose bits do not depend on how many there are", function()
    for _, kind in ipairs { "int8", "nf4", "fp4", "q4_0", "q8_0" } do
      for _, s in ipairs { { 160, 576 }, { 100, 800, 96 }, { 64, 33 }, { 7, 770, 64 },
        { 33, 130, 10 } } do
        local n, k, block = table.unpack(s)
        local o = { kind = kind, block = not kind:find "^q" and block or nil }
        local x, w = mrt.eval(mrt.randn(20, k), mrt.randn(n, k))
        local codes, scales = mrt.eval(w:quantize(o))
        o.columns = k
        local wanted = mrt.eval(x:linear(codes:dequantize(scales, o)))
        for _, m in ipairs { 1, 2, 3, 5, 16, 17 } do
          local rows = x:slice(1, 1, m)
          local y = rows:quantized_linear(codes, scales, nil, o)
          assert.equal(wanted:slice(1, 1, m):bytes(), y:bytes(), kind .. m .. "," .. n)
          local narrow = rows:to "bf16":quantized_linear(codes, scales, nil, o)
          local all = x:to "bf16":quantized_linear(codes, scales, nil, o)
          assert.equal(all:slice(1, 1, m):bytes(), narrow:bytes(), kind .. m .. "," .. n)
        end
      end
    end
  end)
end)

describe("activations in int8", function()
  local function int8(o, k)
    return { kind = o.kind, block = o.block, columns = k, activations = "int8" }
  end

  it("give a row the same bits alone and among others, narrow or not", function()
    for _, s in ipairs { { "int8", 1030, 600 }, { "nf4", 160, 576, 96 }, { "fp4", 9, 2100 },
      { "q4_0", 520, 700 }, { "q8_0", 33, 33 } } do
      local kind, n, k, block = table.unpack(s)
      local x, w, bias = mrt.eval(mrt.randn(71, k):to "bf16", mrt.randn(n, k), mrt.randn(n))
      local codes, scales = mrt.eval(w:quantize { kind = kind, block = block })
      local how = int8({ kind = kind, block = block }, k)
      local all = mrt.eval(x:to "f32":quantized_linear(codes, scales, bias, how))
      for _, m in ipairs { 1, 2, 7, 64 } do
        local y = x:slice(1, 71 - m + 1, 71):quantized_linear(codes, scales, bias, how)
        assert.equal(all:slice(1, 71 - m + 1, 71):bytes(), y:bytes(), kind .. m)
      end
      local y = x:quantized_linear(codes, scales, bias:to "bf16", how)
      assert.equal(x:to "f32":quantized_linear(codes, scales, bias:to "bf16", how):to "bf16"
        :bytes(), y:bytes())
    end
  end)

  it("are off by what 8 bits are, and leave gradients as they are", function()
    for _, kind in ipairs { "int8", "nf4", "fp4", "q4_0", "q8_0" } do
      local x, w, dy = mrt.eval(mrt.randn(9, 512), mrt.randn(40, 512), mrt.randn(9, 40))
      local codes, scales = mrt.eval(w:quantize { kind = kind })
      local exact = x:quantized_linear(codes, scales, nil, { kind = kind })
      local y = x:quantized_linear(codes, scales, nil, int8({ kind = kind }, 512))
      local off = (y - exact):std():item() / exact:std():item()
      assert.is_true(off > 1e-3 and off < (kind:find "[nf][fp]4" and 0.03 or 0.01), kind .. off)
      assert.equal(mrt.grad((exact * dy):sum(), x):bytes(), mrt.grad((y * dy):sum(), x):bytes())
    end
  end)

  it("of blocks that have no scale are 0 or NaN", function()
    local codes, scales = mrt.eval(mrt.ones(3, 96):quantize { kind = "q4_0" })
    local how = int8({ kind = "q4_0" }, 96)
    for odd, wanted in pairs { [0] = 0, [1e-38] = 0, [math.huge] = 0 / 0, [-math.huge] = 0 / 0 } do
      local y = mrt.full({ 1, 96 }, odd):quantized_linear(codes, scales, nil, how):totable()[1]
      for i = 1, 3 do assert.is_true(y[i] == wanted or y[i] ~= y[i] and wanted ~= wanted, odd) end
    end
    local mixed = mrt.cat({ mrt.ones(1, 32), mrt.zeros(1, 32), mrt.full({ 1, 32 }, -2) }, 2)
    assert.same({ { -32, -32, -32 } }, mixed:quantized_linear(codes, scales, nil, how):totable())
  end)

  it("are a layer's option, for its inputs alone", function()
    local layer = nn.QuantizedLinear(nn.Linear(96, 8), { kind = "q4_0", activations = "int8" })
    assert.equal("96, 8, q4_0, 4.500 bits, int8 activations", layer:describe())
    local x = mrt.eval(mrt.randn(2, 96))
    assert.equal(x:quantized_linear(layer.codes, layer.scales, layer.bias,
      int8({ kind = "q4_0" }, 96)):bytes(), layer(x):bytes())
    assert.equal(layer(x):bytes(), mrt.compile(function(a) return layer(a) end,
      { precision = mrt.policy.precision.f32() })(x):bytes())
    assert.is_true(largest(layer(x) - mrt.compile(function(a) return layer(a) end,
      { precision = mrt.policy.precision.bf16() })(x)) < 0.05)
    assert.error_matches(function() layer(x:to "f64") end, "activations int8 of x f64")
    local function make(o) return function() nn.quantize(nn.Linear(96, 8), o) end end
    assert.error_matches(make { activations = "int4" }, "activations 'int4', exact or int8 wanted")
    assert.error_matches(make { kind = "nf4", block = 48, activations = "int8" },
      "block 48, a multiple of 32 wanted")
  end)
end)

describe("a product with narrow floats and quantised weights", function()
  it("is that with the whole weights, bit for bit, and so are its gradients", function()
    each_case(30, function(o, m, n, k)
      local codes, scales = mrt.eval(mrt.randn(n, k):quantize(o))
      local w = codes:dequantize(scales, { kind = o.kind, block = o.block, columns = k })
      local x, dy, bias = mrt.eval(mrt.randn(m, k), mrt.randn(m, n), mrt.randn(n))
      for _, d in ipairs { "bf16", "f16", "f8_e4m3" } do
        local how = { kind = o.kind, block = o.block, compute = d }
        local y = x:quantized_linear(codes, scales, bias, how)
        assert.equal(core.op.linear(x, w, bias, { compute = d }):bytes(), y:bytes())
        local a, b = mrt.eval(x:to(d), bias:to(d))
        y = a:quantized_linear(codes, scales, b, how)
        local whole = core.op.linear(a, w:to(d), b)
        assert.equal(d, y.dtype)
        assert.equal(whole:bytes(), y:bytes())
        local up = dy:to(d)
        local got = mrt.grad(y, { a, b }, { grad_outputs = up })
        local wanted = mrt.grad(whole, { a, b }, { grad_outputs = up })
        for i = 1, 2 do
          assert.equal(wanted[i]:type(), got[i]:type())
          assert.equal(wanted[i]:bytes(), got[i]:bytes())
        end
        a = a:quantized_linear(codes, scales, nil, { kind = o.kind, block = o.block })
        assert.equal(x:to(d):linear(w):to(d):bytes(), a:bytes())
      end
    end)
  end)
end)

-- ---- layers ------------------------------------------------------------------

local function small()
  mrt.seed(2)
  return nn.GPT { vocab = 17, dim = 64, layers = 2, heads = 2, context = 8, tie = false }
end

local function ids() return mrt.randint(0, 17, 3, 8) end

describe("nn.quantize", function()
  it("takes the bits a weight that it says", function()
    local function bits(o)
      local layer = nn.QuantizedLinear(nn.Linear(512, 1024), o)
      return layer:bits()
    end
    assert.equal(4.5, bits {})
    assert.equal(4.5, bits { kind = "fp4" })
    assert.equal(8 + 32 / 512, bits { kind = "int8" })
    assert.equal(4.5, bits { kind = "q4_0" })
    assert.equal(8.5, bits { kind = "q8_0" })
    local double = bits { double = true }
    assert.is_true(math.abs(double - (4 + 8 / 64 + 32 / (64 * 256))) < 1e-3, double)
  end)

  it("replaces all Linear layers but the exceptions, and keeps its modes", function()
    local model = small():eval()
    local x, seen = mrt.eval(ids()), 0
    local wanted = mrt.eval(model(x))
    assert.equal(model, nn.quantize(model, { kind = "int8", except = { "head", "2%.mlp" } }))
    for name, layer in model:modules() do
      if layer.type == "QuantizedLinear" then
        seen = seen + 1
        assert.is_false(layer.training)
        assert.is_nil(name:find "head" or name:find "2%.mlp")
      end
    end
    assert.equal(6, seen)
    local off = largest(model(x) - wanted)
    assert.is_true(off > 0 and off < 0.02, off)
    for _, p in ipairs(model:parameters()) do assert.equal("f32", p.dtype) end
  end)

  it("has a state that a model quantised alike loads", function()
    local one, other = small(), nn.GPT { vocab = 17, dim = 64, layers = 2, heads = 2,
      context = 8, tie = false }
    nn.quantize(one, { double = true })
    nn.quantize(other, { double = true })
    local path = files.name ".safetensors"
    assert(mrt.save(path, one:state()))
    other:load_state(assert(mrt.load(path)))
    local x = mrt.eval(ids())
    assert.equal(one(x):bytes(), other(x):bytes())
    assert.error_matches(function() small():load_state(one:state()) end, "there is no")
    assert.error_matches(function()
      nn.quantize(small(), { kind = "fp4", double = true }):load_state(one:state())
    end, "there is no 'blocks.1.attention.proj.nf4' here")
  end)

  it("computes under a policy as the whole weights do, its scales in f32", function()
    local x = mrt.eval(mrt.randn(20, 96))
    local precision = mrt.policy.precision
    for _, double in ipairs { false, true } do
      local layer = nn.QuantizedLinear(nn.Linear(96, 72), { double = double })
      local whole = nn.Linear(96, 72)
      whole.weight, whole.bias = mrt.parameter(layer:weights()), layer.bias
      whole:freeze()
      for _, policy in ipairs { precision.f32(), precision.bf16(),
        precision.f16 { loss_scale = false } } do
        local seen = {}
        for i, one in ipairs { layer, whole } do
          local step = mrt.compile(function()
            local y = one((x * 1.5):gelu()):gelu()
            return y, mrt.grad((y * y):sum(), x)
          end, { precision = policy })
          local y, dx = step()
          seen[i] = y:bytes() .. dx:bytes()
        end
        assert.equal(seen[2], seen[1], tostring(policy))
      end
      local run = mrt.compile(function() return layer(x * 1.5) end, { precision = precision.fp8() })
      assert.is_true(largest(run() - layer(x * 1.5)) < 0.05)
    end
  end)

  it("keeps scales in f32 beside narrow weights, before or after", function()
    for _, dtype in ipairs { "bf16", "f16", "f64" } do
      local first = nn.lora(nn.quantize(nn.Linear(33, 7):to(dtype)), { rank = 2 })
      local last = nn.lora(nn.quantize(nn.Linear(33, 7)), { rank = 2 }):to(dtype)
      for _, layer in ipairs { first, last } do
        local x = mrt.randn(5, 33):to(dtype)
        local y = layer(x)
        assert.equal(dtype == "f64" and layer == first and "f64" or "f32", layer.base.scales.dtype)
        assert.equal(dtype, y.dtype)
        local merged = nn.lora.merge(layer)
        assert.equal(dtype, merged.weight.dtype)
        assert.is_true(largest(merged(x):to "f32" - y:to "f32") < 0.05)
      end
    end
  end)

  it("refuses what it cannot do", function()
    assert.error_matches(function() nn.QuantizedLinear(nn.Linear(8, 3))(mrt.zeros(2, 7)) end,
      "x f32%[2,7%], 8 columns wanted")
    assert.error_matches(mrt.compile(function() nn.quantize(small()) end),
      "inside a compiled function")
    assert.error_matches(function() nn.quantize(nn.LayerNorm(4)) end,
      "quantize: no Linear to quantise in LayerNorm")
    assert.error_matches(function() nn.quantize(nn.Linear) end, "a module wanted")
    assert.error_matches(function() nn.quantize(small(), { kind = "int4" }) end,
      "kind 'int4', nf4, fp4, int8, q4_0 or q8_0 wanted")
    assert.error_matches(function() nn.quantize(small(), { kind = "q4_0", double = true }) end,
      "double with kind 'q4_0', whose scales are f16")
    assert.error_matches(function() nn.quantize(small(), { block = 63 }) end,
      "block 63, a positive, even number wanted")
    assert.error_matches(function() nn.quantize(small(), { except = 1 }) end, "option 'except'")
    assert.error_matches(function() nn.QuantizedLinear(nn.LayerNorm(4)) end, "a Linear wanted")
  end)
end)

describe("nn.lora", function()
  it("computes the same at first, and gives its own parameters alone", function()
    for _, quantised in ipairs { false, true } do
      local model, x = small(), mrt.eval(ids())
      if quantised then nn.quantize(model) end
      local wanted = model(x):bytes()
      nn.lora(model, { rank = 2, layers = function(name) return name:find "mlp" end })
      assert.equal(wanted, model(x):bytes())
      local numbers = 0
      for _, p in ipairs(model:parameters()) do numbers = numbers + p:numel() end
      assert.equal(2 * 2 * 2 * (64 + 256), numbers)
      for name in pairs(nn.lora.state(model)) do
        assert.matches("^blocks%.%d%.mlp%.%w+%.[ab]$", name)
      end
    end
  end)

  it("leaves quantised tables and heads tied to them as they are", function()
    local model = nn.quantize(nn.Decoder { vocab = 64, dim = 64, layers = 1, heads = 4,
      context = 8, tie = true }, { embeddings = true })
    local x = mrt.eval(mrt.tensor({ { 1, 5, 60 } }, "i64"))
    local wanted = model(x):bytes()
    nn.lora(model, { rank = 2 })
    assert.equal(wanted, model(x):bytes())
    for name in pairs(nn.lora.state(model)) do assert.matches("^blocks%.1%.", name) end
  end)

  it("has the gradient of the merged weight", function()
    local base = nn.Linear(6, 5)
    local layer = nn.lora(base, { rank = 3, alpha = 6 })
    layer.b:assign(mrt.randn(5, 3))
    local x, dy = mrt.eval(mrt.randn(4, 6), mrt.randn(4, 5))
    local w = base.weight + layer.b:matmul(layer.a) * 2
    local wanted = mrt.grad((x:linear(w, base.bias) * dy):sum(), { layer.a, layer.b, x })
    local got = mrt.grad((layer(x) * dy):sum(), { layer.a, layer.b, x })
    for i = 1, 3 do assert.is_true(largest(wanted[i] - got[i]) < 1e-5) end
  end)

  it("trains over a 4-bit base that does not change, merges, and goes back", function()
    local model = nn.lora(nn.quantize(small(), { double = true }), { rank = 4, dropout = 0.1 })
    local x, y = mrt.eval(ids(), ids())
    local codes = model.blocks[1].mlp.fc.base.codes:bytes()
    local opt = optim.adamw(model:parameters(), { lr = 0.005 })
    local step = mrt.compile(function()
      local loss = nn.cross_entropy(model(x), y)
      opt:step(mrt.grad(loss, model:parameters()))
      return loss
    end)
    local first, last = step():item(), nil
    for _ = 1, 40 do last = step():item() end
    assert.is_true(last < 0.5 * first, last)
    assert.equal(codes, model.blocks[1].mlp.fc.base.codes:bytes())
    model:eval()
    local wanted = mrt.eval(model(x))
    nn.lora.merge(model, { keep = true })
    assert.equal("Linear", model.blocks[1].mlp.fc.type)
    assert.is_true(largest(model(x) - wanted) < 1e-4)
    nn.lora.unmerge(model)
    assert.equal(wanted:bytes(), model(x):bytes())
    local saved = nn.lora.state(model)
    local other = nn.lora(nn.quantize(small(), { double = true }), { rank = 4 }):eval()
    nn.lora.load_state(other, saved)
    assert.equal(wanted:bytes(), other(x):bytes())
  end)

  it("refuses what it cannot do", function()
    assert.error_matches(function() nn.lora(small(), { layers = "nothing" }) end,
      "no Linear or QuantizedLinear in GPT.* that 'layers' chooses")
    for _, rank in ipairs { 0, -1, 1.5, 0 / 0 } do
      assert.error_matches(function() nn.lora(small(), { rank = rank }) end,
        "rank: a positive integer")
    end
    local whole = small()
    assert.error_matches(function() nn.lora(whole, { rank = 18 }) end,
      "rank 18 of 'head', Linear%(64, 17, no bias%), at most 17 wanted")
    assert.equal("Linear", whole.blocks[1].mlp.fc.type) -- nothing was replaced
    assert.error_matches(function() nn.lora(small(), { layers = "[" }) end,
      "option 'layers': \"%[\": malformed pattern")
    assert.error_matches(function() nn.lora(small(), { alpha = 0 / 0 }) end, "alpha = ")
    assert.error_matches(function() nn.lora.merge(small()) end, "no adapter in GPT")
    local model = nn.lora.merge(nn.lora(small()))
    assert.error_matches(function() nn.lora.unmerge(model) end, "merge with keep = true")
  end)
end)
