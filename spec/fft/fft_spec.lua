-- fft_spec.lua -- mrt.fft: arguments, several dimensions, long transforms, frames
local mrt = require "mrt"
local bits = require("support.bits").of
local fft = mrt.fft

local function random(...)
  mrt.seed(9)
  local dims = { ... }
  dims[#dims + 1] = { dtype = "f64" }
  return mrt.eval(mrt.randn(table.unpack(dims)))
end

local function near(a, b, tolerance)
  assert.are.same(b.shape, a.shape)
  local far = a:numel() == 0 and 0 or (a - b):abs():amax():item()
  assert(far <= (tolerance or 1e-11), ("%g apart"):format(far))
end

local function complex(re) return mrt.stack({ re, re * 0 }, re:dim() + 1) end

describe("a transform", function()
  it("and back is the same, of any length, dim and norm", function()
    for _, n in ipairs { 1, 2, 9, 16, 31, 37, 100, 1021, 4096, 6000, 65536 } do
      local x = random(n, 2)
      local r = mrt.eval(x:select(2, 1):copy())
      for _, norm in ipairs { "backward", "ortho", "forward" } do
        near(fft.ifft(fft.fft(x, { norm = norm }), { norm = norm }), x)
        near(fft.irfft(fft.rfft(r, { norm = norm }), { n = n, norm = norm }), r)
        near(fft.hfft(fft.ihfft(r, { norm = norm }), { n = n, norm = norm }), r)
      end
      local s = fft.fft(complex(r))
      near(fft.rfft(r), s:slice(1, 1, n // 2 + 1), 1e-10)
      local power, sum = s:square():sum():item() / n, r:square():sum():item()
      assert(math.abs(power / sum - 1) < 1e-12) -- Parseval
    end
    local x = random(3, 4, 5, 2)
    for dim = 1, 3 do
      near(fft.fft(x, { dim = dim }), fft.fft(x, { dim = dim - 4 }))
      near(fft.ifft(fft.fft(x, nil, dim), nil, dim), x)
      local y = fft.fft(x:transpose(dim, 3)):transpose(dim, 3)
      near(fft.fft(x, { dim = dim }), y)
    end
  end)

  it("cuts what is longer and fills what is shorter", function()
    local x = random(5, 2)
    near(fft.fft(x, 3), fft.fft(x:slice(1, 1, 3)))
    near(fft.fft(x, { n = 8 }), fft.fft(x:pad { dim = 1, after = 3 }))
    local r = random(5)
    near(fft.rfft(r, 8), fft.rfft(r:pad { dim = 1, after = 3 }))
    near(fft.irfft(x, 4), fft.irfft(x:slice(1, 1, 3), 4))
    assert.are.same({ 8 }, fft.irfft(x).shape)
  end)

  it("of several dimensions is one after the other", function()
    local x = random(2, 4, 6, 2)
    near(fft.fftn(x), fft.fft(fft.fft(fft.fft(x, { dim = 1 }), { dim = 2 }), { dim = 3 }))
    near(fft.fft2(x), fft.fftn(x, { dim = { 2, 3 } }))
    near(fft.ifft2(fft.fft2(x)), x)
    near(fft.ifftn(fft.fftn(x, { norm = "ortho" }), { norm = "ortho" }), x)
    local r = random(2, 4, 5)
    near(fft.irfftn(fft.rfftn(r), { s = { 2, 4, 5 } }), r)
    near(fft.irfft2(fft.rfft2(r), { s = { 4, 5 } }), r)
    near(fft.rfft2(r), fft.fft2(complex(r)):slice(3, 1, 3))
    near(fft.fftn(x, { s = { 3, 3 } }), fft.fft2(x, { s = { 3, 3 } }))
  end)

  it("has the same bits whatever the threads, the lane, the strides", function()
    local x = random(40, 48, 2)
    local all = fft.fft(x)
    for _, i in ipairs { 1, 7, 40 } do
      -- the same way: a batch of as many
      local one = x:slice(1, i, i):expand(40, 48, 2)
      assert.equal(bits { all:select(1, i):copy() }, bits { fft.fft(one):select(1, 3):copy() })
    end
    local turned = mrt.eval(x:transpose(1, 2):copy())
    assert.equal(bits { all }, bits { fft.fft(turned:transpose(1, 2)) })
  end)

  it("keeps a NaN to its own signal", function()
    local x = random(20, 8)
    local bad = mrt.where(mrt.arange(20):unsqueeze(2):eq(3), 0 / 0, x)
    local y, z = fft.rfft(x), fft.rfft(bad)
    assert.equal(bits { y:slice(1, 5, 20):copy() }, bits { z:slice(1, 5, 20):copy() })
    assert.equal(10, z:select(1, 4):isnan():to("i64"):sum():item())
  end)
end)

describe("frequencies", function()
  it("are PyTorch's", function()
    assert.are.same({ 0, 0.25, -0.5, -0.25 }, fft.fftfreq(4):totable())
    assert.are.same({ 0, 1, 2, -2, -1 }, fft.fftfreq(5, 0.2):totable())
    assert.are.same({ 0, 0.25, 0.5 }, fft.rfftfreq(4):totable())
    assert.are.same({ 0 }, fft.fftfreq(1):totable())
    assert.are.same({ -2, -1, 0, 1, 2 }, fft.fftshift(fft.fftfreq(5, 0.2), 1):totable())
    local x = random(3, 4)
    near(fft.ifftshift(fft.fftshift(x, { 1, 2 }), { 1, 2 }), x)
  end)
end)

describe("frames", function()
  it("give the signal back", function()
    local x = random(2, 200)
    local hann = (mrt.arange(16, { dtype = "f64" }) * (math.pi / 16)):sin():square()
    for _, o in ipairs { { n_fft = 16, window = hann }, { n_fft = 16, hop_length = 5 },
      { n_fft = 20, win_length = 16, window = hann, normalized = true },
      { n_fft = 16, window = hann, pad_mode = "constant" } } do
      local y = fft.stft(x, o)
      assert.equal(o.n_fft // 2 + 1, y:size(2))
      o.pad_mode, o.length = nil, 200
      local back = fft.istft(y, o)
      near(back:slice(2, 1, 190), x:slice(2, 1, 190), 1e-9)
    end
  end)

  it("are spectra of what lies there", function()
    local x = random(40)
    local y = fft.stft(x, { n_fft = 8, hop_length = 4, center = false })
    assert.are.same({ 5, 9, 2 }, y.shape)
    near(y:select(2, 3), fft.rfft(x:slice(1, 9, 16)))
    local c = fft.stft(x, { n_fft = 8 })
    assert.are.same({ 5, 21, 2 }, c.shape)
    local ends = mrt.cat { x:select(1, 5):reshape(1), x:select(1, 4):reshape(1),
      x:select(1, 3):reshape(1), x:select(1, 2):reshape(1), x:slice(1, 1, 4) }
    near(c:select(2, 1), fft.rfft(ends))
  end)
end)

describe("gradients", function()
  local function weigh(y)
    local w = (mrt.arange(y:numel(), { dtype = "f64" }) * 0.7 + 0.3):sin()
    return ((y * y) * w:reshape(y.shape)):sum()
  end
  local function check(f, x)
    local v = mrt.eval(mrt.randn(x.shape, { dtype = "f64" }))
    local h = 1e-4
    local along = (mrt.grad(f(x), x) * v):sum():item()
    local wanted = (f(mrt.eval(x + h * v)):item() - f(mrt.eval(x - h * v)):item()) / (2 * h)
    assert(math.abs(along - wanted) <= 1e-6 * math.max(1, math.abs(wanted)),
      ("%.9g, %.9g by differences"):format(along, wanted))
  end

  it("are transforms, and have gradients", function()
    for _, f in ipairs {
      function(x) return weigh(fft.fft(x, 7)) end,
      function(x) return weigh(fft.irfft(x, 9)) end,
      function(x) return weigh(fft.rfftn(x)) end,
      function(x) return weigh(fft.stft(x:flatten(), { n_fft = 6 })) end,
    } do
      local x = random(8, 2)
      check(f, x)
      local w = mrt.eval(mrt.randn(x.shape, { dtype = "f64" }))
      check(function(y) return (mrt.grad(f(y), y) * w):sum() end, x)
    end
  end)

  it("in a compiled function are the same bits within a budget", function()
    local x = random(16, 300)
    local function run(options)
      local step = mrt.compile(function(v)
        local y = fft.rfft(v:sin())
        local z = fft.irfft(y * y, 300):tanh()
        return mrt.grad((z * v):sum(), v)
      end, options)
      return bits { step(x) }, step:plan(x)
    end
    local plain, plan = run()
    local got, lean = run { memory = math.floor(plan.peak * 0.9) }
    assert.equal(plain, got)
    assert.is_true(lean.peak < plan.peak)
  end)
end)

describe("bad input", function()
  it("is refused by name, at the line that gave it", function()
    local function refused(pattern, f)
      local ok, err = pcall(f)
      assert.is_false(ok)
      assert.matches(pattern, tostring(err))
      assert.matches("fft_spec.lua:" .. debug.getinfo(f, "S").linedefined, tostring(err), 1, true)
    end
    local x = random(4, 2)
    refused("complex numbers wanted", function() fft.fft(random(4, 3)) end)
    refused("norm ortogonal", function() fft.fft(x, { norm = "ortogonal" }) end)
    refused("fft: dim 2", function() fft.fft(x, { dim = 2 }) end)
    refused("rfft: dim 0", function() fft.rfft(x, { dim = 0 }) end)
    refused("ifft: n 0", function() fft.ifft(x, 0) end)
    refused("irfft: n 1.5", function() fft.irfft(x, 1.5) end)
    refused("given twice", function() fft.rfftn(x, { dim = { 1, -2 } }) end)
    refused("2 sizes for 1 dims", function() fft.fftn(x, { s = { 1, 2 }, dim = { 1 } }) end)
    refused("fftshift: a dim", function() fft.fftshift(x) end)
    refused("onesided", function() fft.stft(random(40), { n_fft = 8, onesided = false }) end)
    refused("too short", function() fft.stft(random(3), { n_fft = 8 }) end)
    refused("hop_length 0", function() fft.stft(random(40), { n_fft = 8, hop_length = 0 }) end)
  end)
end)
