-- attention.lua -- samples of attention, attention_grad and rope
--
-- Sizes cross the edges of tiles (64 queries against 64 keys) and of vectors.
-- Shapes: B batches, T queries of H heads, S keys of Hk heads, D, Dv wide.

local oracle = require "op.attention_oracle"

local function tensor(dims)
  local n = 1
  for i = 1, #dims do
    n = n * dims[i]
  end
  local data = {}
  for i = 1, n do
    data[i] = 0.0
  end
  return { dims = dims, data = data }
end

local function f32(x) return (string.unpack("f", string.pack("f", x))) end

-- The angle of a pair in row `t` of time, of sample `b`.
local function angle(ins, options, b, t, pair, width)
  local second = ins[2]
  local f = second and not second.dtype:find "^[iu]" and second
  local p = ins[f and 3 or 2]
  local at = (options.offset or 0) + t
  if p then at = p.data[(#p.dims == 2 and b * p.dims[2] or 0) + t + 1] end
  if not f then return at * (options.base or 10000) ^ (-2 * pair / width) end
  local a = at * f.data[pair + 1]
  return f.dtype == "f32" and f32(a) or a
end

local function rope(ins, options)
  local x = ins[1]
  local y, r = tensor(x.dims), #x.dims
  local T, H, D = x.dims[r - 2], x.dims[r - 1], x.dims[r]
  local width = (options.width or 0) > 0 and options.width or D
  local scale = options.scale or 1
  for i = 0, #x.data - 1 do
    local t, d, b = i // (H * D) % T, i % D, i // (H * D * T)
    local pair = options.interleaved and d // 2 or d % (width // 2)
    local first = options.interleaved and d % 2 == 0 or
      not options.interleaved and d < width // 2
    local apart = options.interleaved and 1 or width // 2
    local a = d < width and angle(ins, options, b, t, pair, width)
    if options.inverse and a then
      a = -a
    end
    if d >= width then
      y.data[i + 1] = x.data[i + 1]
    elseif first then
      y.data[i + 1] = scale * (x.data[i + 1] * math.cos(a) -
        x.data[i + 1 + apart] * math.sin(a))
    else
      y.data[i + 1] = scale * (x.data[i + 1 - apart] * math.sin(a) +
        x.data[i + 1] * math.cos(a))
    end
  end
  return { y }
end

-- Frequencies of so many pairs, and positions.
local function frequencies(pairs)
  return { dims = { pairs }, low = 0, high = 1, constant = true, dtype = "f32" }
end
local function at(values, ...)
  local dims = { ... }
  return { dims = #dims > 0 and dims or { #values }, values = values, dtype = "i32" }
end

-- Inputs of a case: B, T, S, H, Hk, D, Dv.
local function qkv(B, T, S, H, Hk, D, Dv)
  return {
    { dims = { B, T, H, D } },
    { dims = { B, S, Hk, D } },
    { dims = { B, S, Hk, Dv or D } },
  }
end
local function with_grad(B, T, S, H, Hk, D, Dv)
  local ins = qkv(B, T, S, H, Hk, D, Dv)
  ins[4] = { dims = { B, T, H, Dv or D } }
  -- about what it is, so that weights are: rounding them must not show
  local lse = math.log(math.max(S, 1))
  ins[5] = { dims = { B, H, T }, low = lse - 1, high = lse + 1 }
  ins[6] = { dims = { B, T, H, Dv or D } }
  return ins
end

-- The same in narrow floats; lse, the fifth, is not.
local function narrow(dtype, ins)
  for i, x in ipairs(ins) do
    x.dtype = i == 5 and "f32" or dtype
  end
  return ins
end

-- Where every query sees a key, so that lse is finite and finite differences
-- exist; small, as those are slow.
local function smooth(inputs)
  return {
    { inputs = inputs(1, 1, 1, 1, 1, 1) },
    { inputs = inputs(2, 3, 3, 2, 2, 4) },
    { inputs = inputs(2, 3, 3, 2, 2, 4), options = { causal = true } },
    { inputs = inputs(1, 4, 3, 4, 2, 3, 5), options = { scale = 0.7 } },
    { inputs = inputs(1, 2, 5, 3, 1, 2, 1), options = { causal = true } },
    { inputs = inputs(0, 3, 3, 2, 2, 4) },
    { inputs = inputs(2, 0, 3, 2, 2, 4) },
    { inputs = inputs(2, 3, 3, 2, 2, 4, 0) },
  }
end
local function other(inputs)
  return {
    { inputs = inputs(1, 5, 2, 2, 1, 2), options = { causal = true } },
    { inputs = inputs(2, 3, 0, 2, 2, 4), options = { causal = true } },
    { inputs = inputs(1, 70, 70, 2, 1, 16), options = { causal = true } },
    { inputs = inputs(1, 64, 128, 1, 1, 64), options = { causal = true } },
    { inputs = inputs(1, 129, 67, 1, 1, 20, 33) },
    { inputs = inputs(1, 67, 131, 2, 2, 8), options = { causal = true } },
    { inputs = inputs(1, 9, 40, 2, 1, 130, 160) },
    { inputs = narrow("bf16", inputs(1, 70, 70, 2, 1, 64)), options = { causal = true } },
    { inputs = narrow("f16", inputs(1, 33, 70, 2, 1, 72, 96)), options = { scale = -0.2 } },
    { inputs = narrow("bf16", inputs(1, 5, 2, 2, 1, 128)), options = { causal = true } },
    { inputs = narrow("f8_e4m3", inputs(1, 5, 9, 2, 1, 12)) },
  }
end

local function three(q, k, v)
  return { { dims = q }, { dims = k }, { dims = v } }
end
local narrow_dout = with_grad(1, 3, 3, 2, 2, 4)
narrow_dout[6] = { dims = { 1, 3, 2, 5 } }

local bad = {
  {
    inputs = three({ 2, 3, 4 }, { 2, 3, 4 }, { 2, 3, 4 }),
    code = "shape",
    match = "input 1 is",
  },
  {
    inputs = three({ 1, 3, 2, 4 }, { 1, 3, 2, 5 }, { 1, 3, 2, 4 }),
    code = "shape",
    match = "input 2 is",
  },
  {
    inputs = three({ 1, 3, 2, 4 }, { 1, 3, 2, 4 }, { 1, 4, 2, 4 }),
    code = "shape",
    match = "input 3 is",
  },
  {
    inputs = qkv(1, 3, 3, 3, 2, 4),
    code = "shape",
    match = "3 heads of queries",
  },
  {
    inputs = qkv(1, 3, 3, 2, 2, 4),
    options = { scale = math.huge },
    code = "value",
    match = "scale inf",
  },
}

return {
  {
    op = "attention",
    cases = smooth(qkv),
    bad = bad,
    oracle = oracle.attention,
    grad = true,
  },
  { op = "attention", cases = other(qkv), oracle = oracle.attention, grad = false },
  {
    op = "attention_grad",
    cases = smooth(with_grad),
    bad = { { inputs = narrow_dout, code = "shape", match = "input 6 is" } },
    oracle = oracle.attention_grad,
    grad = true,
  },
  {
    op = "attention_grad",
    cases = other(with_grad),
    oracle = oracle.attention_grad,
    grad = false,
  },
  {
    op = "rope",
    cases = {
      { inputs = { { dims = { 2, 5, 3, 8 } } } },
      { inputs = { { dims = { 5, 3, 34 } } }, options = { interleaved = true, offset = 7 } },
      { inputs = { { dims = { 1, 2, 2, 1, 6 } } }, options = { inverse = true, base = 500 } },
      { inputs = { { dims = { 1, 70, 1, 2 } } }, options = { offset = 1000 } },
      { inputs = { { dims = { 1, 1, 1, 2 } } } },
      { inputs = { { dims = { 2, 3, 2, 0 } } } },
      { inputs = { { dims = { 2, 0, 2, 4 } } } },
      { inputs = { { dims = { 2, 3, 2, 7 } } }, options = { width = 4, scale = 1.5 } },
      { inputs = { { dims = { 3, 2, 9 } } }, options = { width = 6, interleaved = true } },
      { inputs = { { dims = { 2, 3, 2, 8 } }, frequencies(4) } },
      { inputs = { { dims = { 2, 3, 2, 8 } }, frequencies(2), at { 5, 0, 70 } },
        options = { width = 4, inverse = true } },
      { inputs = { { dims = { 2, 3, 2, 6 } }, at({ 4, 5, 6, 90, 91, 7 }, 2, 3) },
        options = { interleaved = true } },
      { inputs = { { dims = { 2, 3, 1, 70 } }, frequencies(35), at({ 4, 5, 6, 90, 91, 7 }, 2, 3) },
        options = { scale = 0.8 } },
      { inputs = { { dims = { 2, 3, 2, 40 }, dtype = "bf16" }, frequencies(16),
        at({ 4, 5, 6, 90, 91, 7 }, 2, 3) }, options = { width = 32 } },
    },
    bad = {
      { inputs = { { dims = { 3, 2, 4 } } }, options = { width = 6 }, code = "shape",
        match = "width 6" },
      { inputs = { { dims = { 3, 2, 4 } } }, options = { scale = 1 / 0 }, code = "value",
        match = "scale" },
      { inputs = { { dims = { 3, 2, 4 } }, frequencies(3) }, code = "shape", match = "pair" },
      { inputs = { { dims = { 3, 2, 4 } }, at { 1, 2 } }, code = "shape", match = "each row" },
      { inputs = { { dims = { 1, 3, 2, 4 } }, at({ 1, 2 }, 1, 2) }, code = "shape",
        match = "samples and time" },
      { inputs = { { dims = { 3, 2, 4 } }, at { 1, 2, 3 }, at { 1, 2, 3 } }, code = "value",
        match = "3 inputs" },
      { inputs = { { dims = { 3, 4 } } }, code = "shape", match = "time, heads" },
      { inputs = { { dims = { 3, 2, 5 } } }, code = "shape", match = "even" },
      { inputs = { { dims = { 3, 2, 4 } } }, options = { base = 0 }, code = "value",
        match = "base 0" },
    },
    oracle = rope,
    grad = true,
  },
}
