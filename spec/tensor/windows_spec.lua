-- windows_spec.lua -- convolutions and pools of signals and volumes, other sizes, scans
local mrt = require "mrt"
local nn = mrt.nn

local function near(wanted, got, loose)
  assert.are.same(wanted.shape, got.shape)
  local off = wanted:numel() > 0 and (wanted - got):abs():amax():item() or 0
  assert(off <= (loose or 1e-5), ("off by %g"):format(off))
end
local function refused(code, text, f, ...)
  local ok, err = pcall(f, ...)
  assert(not ok, text .. ": was taken")
  assert.equal(code, err.code, tostring(err))
  assert(tostring(err):find(text, 1, true), tostring(err))
  assert(tostring(err):find("windows_spec.lua:%d+: "), tostring(err))
end

describe("convolutions of signals and volumes", function()
  it("are those of images, of one row", function()
    local x, w, b = mrt.randn(2, 4, 9), mrt.randn(6, 2, 3), mrt.randn(6)
    local o = { stride = 2, padding = 1, dilation = 2, groups = 2 }
    local of_image = x:unsqueeze(3):conv2d(w:unsqueeze(3), b, { stride = { 1, 2 },
      padding = { 0, 1 }, dilation = { 1, 2 }, groups = 2 })
    near(of_image:squeeze(3), x:conv1d(w, b, o))
    near(x:conv1d(w, b, o):select(1, 1), x:select(1, 1):conv1d(w, b, o))
    local y, t = mrt.randn(2, 6, 5), mrt.randn(6, 2, 3)
    near(y:unsqueeze(3):conv_transpose2d(t:unsqueeze(3), { stride = { 1, 2 }, groups = 2 })
      :squeeze(3), y:conv_transpose1d(t, { stride = 2, groups = 2 }))
  end)

  it("of volumes are sums of images, plane by plane", function()
    local x, w = mrt.randn(1, 2, 4, 5, 6), mrt.randn(3, 2, 2, 3, 3)
    local y = x:conv3d(w, { padding = { 0, 1, 1 } })
    assert.are.same({ 1, 3, 3, 5, 6 }, y.shape)
    for d = 1, 3 do
      local wanted = x:select(3, d):conv2d(w:select(3, 1), { padding = 1 })
        + x:select(3, d + 1):conv2d(w:select(3, 2), { padding = 1 })
      near(wanted, y:select(3, d))
    end
  end)

  it("transposed are the gradients", function()
    local x, w = mrt.randn(2, 4, 5, 6, 7), mrt.randn(6, 2, 3, 2, 3)
    local o = { stride = { 2, 1, 3 }, padding = 1, dilation = { 1, 2, 1 }, groups = 2 }
    local y = x:conv3d(w, o)
    local dy = mrt.randn(y:size())
    local dx = mrt.grad(y, x, { grad_outputs = dy })
    local sides = {}
    for i = 1, 3 do -- what the strides left over
      local span = o.dilation[i] * (w:size(2 + i) - 1)
      sides[i] = x:size(2 + i) - ((y:size(2 + i) - 1) * o.stride[i] - 2 + span + 1)
    end
    o.output_padding = sides
    near(dx, dy:conv_transpose3d(w, o), 1e-4)
  end)

  it("keep the size with padding 'same', of even kernels too", function()
    for _, k in ipairs { 1, 2, 3, 4 } do
      assert.equal(9, mrt.randn(1, 2, 9):conv1d(mrt.randn(2, 2, k), { padding = "same" }):size(3))
      local image = mrt.randn(1, 2, 5, 6):conv2d(mrt.randn(2, 2, k, 2), { padding = "same" })
      assert.are.same({ 1, 2, 5, 6 }, image.shape)
    end
  end)

  it("refuse what does not fit, by name", function()
    local x = mrt.randn(2, 4, 9)
    refused("shape", "conv1d: f32[2,4,9] in 1 group, 3 channels wanted", x.conv1d, x,
      mrt.zeros(2, 3, 3))
    refused("shape", "spans 11 does not fit 9", x.conv1d, x, mrt.zeros(2, 4, 6), { dilation = 2 })
    refused("value", "conv1d: stride 0", x.conv1d, x, mrt.zeros(2, 4, 3), { stride = 0 })
    refused("value", "padding: 2 integers, one wanted", x.conv1d, x, mrt.zeros(2, 4, 3),
      { padding = { 1, 1 } })
    refused("shape", "[N,C,D,H,W] wanted", x.conv3d, x, mrt.zeros(2, 4, 3, 3, 3))
    refused("value", "no option 'strides'", x.conv1d, x, mrt.zeros(2, 4, 3), { strides = 1 })
    refused("shape", "a bias [2]", x.conv1d, x, mrt.zeros(2, 4, 3), mrt.zeros(3))
    refused("value", "output_padding 3", x.conv_transpose1d, x, mrt.zeros(4, 2, 3),
      { stride = 2, output_padding = 3 })
    refused("shape", "weights [4, outputs", x.conv_transpose1d, x, mrt.zeros(3, 2, 3))
    refused("value", "multiples of the 2 groups", nn.Conv1d, 3, 4, 3, { groups = 2 })
  end)
end)

describe("pools", function()
  it("tell where the largest are, in all of the input", function()
    for n = 1, 3 do
      local dims = { 2, 3, 5, 6, 7 }
      local x = mrt.randn({ table.unpack(dims, 1, n + 2) })
      for _, pool in ipairs { "max_pool%dd", "adaptive_max_pool%dd" } do
        local y, at = x[pool:format(n)](x, pool:find "adaptive" and
          { output_size = 3, return_indices = true } or
          { kernel_size = 2, padding = 1, return_indices = true })
        local flat = x:flatten(3):gather(3, at:flatten(3))
        near(y:flatten(3), flat, 0)
      end
    end
  end)

  it("take a window's kernel under both names, and refuse none", function()
    local x = mrt.randn(1, 1, 6)
    near(x:max_pool1d(2), x:max_pool1d { kernel = 2 }, 0)
    near(x:max_pool1d(2), x:max_pool1d { kernel_size = 2 }, 0)
    refused("value", "kernel_size: integers wanted", x.max_pool1d, x)
    refused("value", "output_size: integers wanted", x.adaptive_max_pool1d, x)
    refused("value", "at most half", x.avg_pool1d, x, 2, { padding = 2 })
    refused("value", "norm_type nil", x.lp_pool1d, x, { kernel_size = 2 })
  end)
end)

describe("other sizes", function()
  it("of images that lie channels last are the same", function()
    local x, w = mrt.randn(2, 3, 5, 6), mrt.randn(4, 3, 3, 3)
    local y = x:conv2d(w)
    for _, mode in ipairs { "nearest", "bilinear", "bicubic" } do
      local o = { size = { 7, 5 }, mode = mode }
      near(mrt.tensor(y:totable()):interpolate(o), y:interpolate(o))
    end
  end)

  it("refuse what has no meaning", function()
    local x = mrt.randn(1, 2, 4, 4)
    refused("value", "size or scale_factor", x.interpolate, x)
    refused("value", "size or scale_factor", x.interpolate, x, 3, 2.0)
    refused("shape", "mode linear of", x.interpolate, x, { size = 3, mode = "linear" })
    refused("value", "align_corners", x.interpolate, x, { size = 3, align_corners = true })
    refused("value", "antialias", x.interpolate, x, { size = 3, mode = "bilinear",
      antialias = true })
    refused("value", "mode area", x.interpolate, x, { size = 3, mode = "area" })
    refused("value", "scale_factor", x.interpolate, x, { scale_factor = -1.0 })
    refused("value", "upscale_factor 0", x.pixel_shuffle, x, 0)
    refused("shape", "2 channels", x.pixel_shuffle, x, 2)
    refused("shape", "4 rows", x.pixel_unshuffle, x, 3)
    refused("shape", "2 channels", x.channel_shuffle, x, 3)
  end)

  it("are layers too", function()
    local x = mrt.randn(2, 4, 6, 6)
    local net = nn.Sequential(nn.PixelShuffle(2), nn.PixelUnshuffle(2), nn.Unfold(3),
      nn.Fold({ 6, 6 }, 3), nn.Upsample { scale_factor = 2.0, mode = "bilinear" },
      nn.AdaptiveMaxPool2d(6), nn.LocalResponseNorm(3))
    assert.are.same({ 2, 4, 6, 6 }, net(x).shape)
    near(x, nn.PixelUnshuffle(3)(nn.PixelShuffle(2)(x):interpolate { size = { 12, 12 } })
      :pixel_shuffle(3):pixel_unshuffle(2), 0)
  end)
end)

describe("layers that pad", function()
  local x = mrt.tensor { { 1.0, 2, 3 } } -- a channel
  local function padded(name, p) return nn[name](p)(x):totable()[1] end

  it("mirror, repeat, go round, or put zeros", function()
    assert.are.same({ 3, 2, 1, 2, 3, 2 }, padded("ReflectionPad1d", { 2, 1 }))
    assert.are.same({ 1, 1, 1, 2, 3, 3 }, padded("ReplicationPad1d", { 2, 1 }))
    assert.are.same({ 2, 3, 1, 2, 3, 1 }, padded("CircularPad1d", { 2, 1 }))
    assert.are.same({ 0, 0, 1, 2, 3, 0 }, padded("ZeroPad1d", { 2, 1 }))
    local image = mrt.arange(4, { dtype = "f32" }):reshape(1, 1, 2, 2)
    assert.are.same({ { { { 3, 2, 3, 2 }, { 1, 0, 1, 0 }, { 3, 2, 3, 2 } } } },
      nn.ReflectionPad2d({ 1, 1, 1, 0 })(image):totable())
    assert.are.same({ 1, 1, 2, 4, 4 },
      nn.ReplicationPad3d({ 1, 1, 2, 0, 0, 1 })(image:unsqueeze(3)).shape)
  end)

  it("refuse what is not there to mirror", function()
    refused("shape", "padding 3 beside 3 places", nn.ReflectionPad1d(3), x)
    refused("value", "padding -1", nn.ZeroPad1d, -1)
    refused("value", "3 integers, one or 4", nn.ZeroPad2d, { 1, 2, 3 })
    refused("shape", "3 or 4 dimensions", nn.ZeroPad2d(1), x)
  end)
end)

describe("scans", function()
  it("of any function are what steps are", function()
    for _, n in ipairs { 1, 2, 3, 4, 7, 8, 13 } do
      for _, reverse in ipairs { false, true } do
        local x = mrt.randn(3, n)
        near(x:cumsum(2, reverse), mrt.associative_scan(mrt.add, x, 2, reverse))
        local a, b = mrt.rand(n, 2), mrt.randn(n, 2)
        local got = mrt.associative_scan(function(p, q)
          return { a = p.a * q.a, b = q.a * p.b + q.b }
        end, { a = a, b = b }, { dim = 1, reverse = reverse })
        near(mrt.linear_recurrence(a, b, { dim = 1, reverse = reverse }), got.b)
      end
    end
  end)

  it("refuse what cannot be scanned", function()
    refused("value", "dim 3 of f32[2,2]", mrt.associative_scan, mrt.add, mrt.zeros(2, 2), 3)
    refused("value", "function", mrt.associative_scan, 1, mrt.zeros(2))
    refused("shape", "as many positions", mrt.associative_scan, function(a) return a end,
      { mrt.zeros(2), mrt.zeros(3) })
    refused("shape", "do not broadcast", mrt.linear_recurrence, mrt.zeros(2), mrt.zeros(3),
      { dim = 1 })
    refused("value", "initial: a tensor", mrt.linear_recurrence, mrt.zeros(2), 1,
      { dim = 1, initial = 3 })
  end)

  it("begin where they are told, with numbers as well", function()
    local h = mrt.linear_recurrence(mrt.full({ 3, 1 }, 0.5), 1, { dim = 1,
      initial = mrt.tensor { 2.0 } })
    assert.are.same({ { 2 }, { 2 }, { 2 } }, h:totable())
  end)
end)

describe("layers that remember", function()
  it("read no position before its time, and learn", function()
    for _, layer in ipairs { nn.Mamba(6, { state = 3 }), nn.LinearAttention(6, 2),
      nn.LinearAttention(6, 3, { decay = false }) } do
      local x = mrt.randn(2, 9, 6)
      local y = layer(x)
      near(y:slice(2, 1, 5), layer(x:slice(2, 1, 5)), 1e-4)
      for _, g in ipairs(mrt.grad(y:square():sum(), layer:parameters())) do
        assert.is_true(g:abs():sum():item() > 0)
      end
    end
    refused("shape", "[B,T,dim] wanted", nn.Mamba(4), mrt.zeros(3, 4))
    refused("value", "no multiple of 4 heads", nn.LinearAttention, 6, 4)
  end)

  it("attend as sums over all positions before do", function()
    local q, k, v = mrt.randn(2, 5, 2, 3), mrt.randn(2, 5, 2, 3), mrt.randn(2, 5, 2, 4)
    local p = { q:permute(1, 3, 2, 4), k:permute(1, 3, 4, 2), v:permute(1, 3, 2, 4) }
    local function attended(decay)
      local t = mrt.arange(5, { dtype = "f32" })
      local left = (t:unsqueeze(2) - t):clamp(0):mul(math.log(decay)):exp():tril()
      return ((p[1]:matmul(p[2]) * left):matmul(p[3])):permute(1, 3, 2, 4)
    end
    near(attended(1), q:linear_attention(k, v))
    near(attended(0.8), q:linear_attention(k, v, { decay = 0.8 }))
    near(attended(0.8) * 0.5, q:linear_attention(k, v, { decay = mrt.full({ 2 }, 0.8),
      scale = 0.5 }))
    near(attended(0.8), q:linear_attention(k, v, { decay = mrt.full({ 2, 5, 2 }, 0.8) }))
  end)
end)
