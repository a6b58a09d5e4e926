--- nn_spec.lua -- modules find their parameters, and layers are what they say
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local training = require "support.training"
local nn = mrt.nn

local function small_gpt(options)
  local o = { vocab = 11, dim = 8, layers = 2, heads = 2, context = 6 }
  for key, value in pairs(options or {}) do o[key] = value end
  return nn.GPT(o)
end

local function names_of(module)
  local names = {}
  for name in module:named_parameters() do names[#names + 1] = name end
  return names
end

local function tokens(B, T)
  return mrt.randint(0, 11, { B, T })
end

local function close(a, b, tolerance)
  local worst = (a - b):abs():amax():item()
  assert.is_true(worst <= tolerance, ("differs by %g"):format(worst))
end

describe("a module", function()
  it("names parameters by their fields, in the order of assignment", function()
    local Net = nn.Module "Net"
    function Net:init()
      self.zeta = nn.Linear(2, 3)
      self.alpha = { nn.Linear(3, 3, { bias = false }), nn.LayerNorm(3) }
      self.scale = mrt.parameter(mrt.ones(3))
    end
    assert.same({ "zeta.weight", "zeta.bias", "alpha.1.weight",
      "alpha.2.weight", "alpha.2.bias", "scale" }, names_of(Net()))
  end)

  it("may hold a list twice, but not within itself", function()
    local Twice = nn.Module "Twice"
    function Twice:init()
      local list = { nn.Linear(2, 2) }
      self.lists = { list, list }
    end
    assert.equal(2, #Twice():parameters())
    local Within = nn.Module "Within"
    function Within:init()
      self.list = {}
      self.list[1] = { self.list }
    end
    assert.error_matches(function() Within():parameters() end, "'list%.1%.1'.*contains itself")
  end)

  it("counts tied weights once", function()
    local net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    net.layers[2].weight = net.layers[1].weight
    assert.equal(3, #net:parameters())
    assert.equal(4 * 4 + 4 + 4, net:count())
  end)

  it("leaves frozen parameters and buffers out of parameters()", function()
    local net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net:register_buffer("mean", mrt.variable(mrt.zeros(2)))
    net.layers[1]:freeze()
    assert.equal(2, #net:parameters())
    assert.equal(1, #net:buffers())
    assert.is_not_nil(net:state().mean)
    net.layers[1]:freeze(false)
    assert.equal(4, #net:parameters())
  end)

  it("loads what another one's state() gave, or nothing at all", function()
    local a, b = small_gpt(), small_gpt()
    b:load_state(a:state())
    local ids = tokens(2, 6)
    close(a(ids), b(ids), 0)
    local state = a:state()
    state["norm.weight"] = mrt.zeros(3)
    local before = b:state()["tokens.weight"]:totable()
    assert.error_matches(function() b:load_state(state) end, "norm.weight")
    state["norm.weight"], state.extra = nil, mrt.zeros(1)
    assert.error_matches(function() b:load_state(state) end, "extra")
    assert.same(before, b:state()["tokens.weight"]:totable())
  end)

  it("prints a tree with numbers of parameters", function()
    local text = tostring(small_gpt { bias = false })
    assert.matches("^GPT%(vocab 11, context 6%) +1,7%d%d parameters", text)
    assert.matches("\n  blocks%.2: Block%(%) +", text)
    assert.matches("\n      qkv: Linear%(8, 24, no bias%) +192\n", text)
  end)

  it("refuses options it does not have", function()
    assert.error_matches(function() nn.Linear(2, 2, { biass = true }) end,
      "Linear: no option 'biass' %(options: bias, init%)")
    assert.error_matches(function() small_gpt { heads = 3 } end,
      "dim 8 is no multiple of 3 heads: give their width, head_dim")
  end)
end)

describe("Linear", function()
  it("begins within 1/sqrt(inputs)", function()
    local weight = nn.Linear(64, 256).weight
    local largest = weight:abs():amax():item()
    assert.is_true(largest <= 0.125 and largest > 0.124)
    assert.is_true(math.abs(weight:mean():item()) < 0.005)
  end)
end)

describe("Augment", function()
  local function images(n) return mrt.arange(1, n * 12 + 1):to "f32":reshape(n, 2, 2, 3) end

  -- Image `got` is what is seen through a window of `from` with zeros around it.
  local function shift_of(from, got, padding)
    local function pixel(channel, i, j, mirrored)
      if mirrored then j = 4 - j end
      return from[channel][i] and from[channel][i][j] or 0
    end
    for di = -padding, padding do
      for dj = -padding, padding do
        for _, mirrored in ipairs { false, true } do
          local same = true
          for channel = 1, 2 do
            for i = 1, 2 do
              for j = 1, 3 do
                -- mirrored first, then moved, is moved the other way
                local at = mirrored and j - dj or j + dj
                local wanted = (at >= 1 and at <= 3) and pixel(channel, i + di, at, mirrored) or 0
                same = same and wanted == got[channel][i][j]
              end
            end
          end
          if same then return di, dj, mirrored end
        end
      end
    end
  end

  it("moves and mirrors each image on its own, in every place", function()
    mrt.seed(1)
    local augment, x = nn.Augment { padding = 1, flip = true }, images(200)
    local from, got, seen, kinds = x:totable(), augment(x):totable(), {}, 0
    for i = 1, 200 do
      local di, dj, mirrored = shift_of(from[i], got[i], 1)
      assert.is_truthy(di, "no window of image " .. i)
      local kind = ("%d %d %s"):format(di, dj, mirrored)
      if not seen[kind] then seen[kind], kinds = true, kinds + 1 end
    end
    assert.equal(18, kinds)
  end)

  it("is the same again, in micro-batches too, and normalises only in evaluation", function()
    local augment = nn.Augment { padding = 2, flip = true, mean = { 1, 2 }, std = { 2, 4 } }
    local function run(accumulate)
      mrt.seed(7)
      local w = mrt.parameter(mrt.ones(1, 2, 2, 3))
      local step = mrt.compile(function(x)
        local y = augment(x)
        w:assign(w - mrt.grad((y * w):mean(), w))
        return y
      end, { accumulate = accumulate })
      step(images(8))
      return step(images(8)):bytes()
    end
    assert.equal(run(1), run(1))
    assert.equal(run(1), run(4))
    augment:eval()
    local y = augment(mrt.full({ 1, 2, 1, 1 }, 255, { dtype = "u8" }))
    assert.same({ 0, -0.25 }, y:flatten():totable())
  end)

  it("refuses what is no image, and options that make no sense", function()
    for wanted, call in pairs {
      ["images %[N,C,H,W%] wanted"] = function() nn.Augment { flip = true }(mrt.ones(2, 2)) end,
      ["padding = %-1"] = function() nn.Augment { padding = -1 } end,
      ["std%[2%] = 0"] = function() nn.Augment { std = { 1, 0 } } end,
      ["1 values of mean for f32%[1,2,1,1%]"] = function()
        nn.Augment { mean = { 1 } }(mrt.ones(1, 2, 1, 1))
      end,
      ["no option 'crop'"] = function() nn.Augment { crop = 4 } end,
    } do
      assert.error_matches(call, wanted)
    end
  end)
end)

describe("Dropout", function()
  it("does nothing in evaluation mode, in compiled functions too", function()
    local drop = nn.Dropout(0.5)
    local run = mrt.compile(function(x) return drop(x) end)
    local x = mrt.ones(1000)
    local function zeros(y) return (y:eq(0)):to "f32":sum():item() end
    assert.is_true(math.abs(zeros(run(x)) - 500) < 100)
    drop:eval()
    assert.equal(0, zeros(run(x)))
    drop:train()
    assert.is_true(math.abs(zeros(run(x)) - 500) < 100)
  end)
end)

describe("attention", function()
  it("equals the formula with stored scores", function()
    mrt.seed(3)
    for _, C in ipairs { 8, 7, 20 } do
      local B, T, H, D = 2, 5, 2, 4
      local layer = nn.CausalSelfAttention(C, H, { head_dim = C ~= H * D and D or nil })
      assert.same({ 3 * H * D, C }, layer.qkv.weight:size())
      local x = mrt.randn(B, T, C)
      local qkv = layer.qkv(x):reshape(B, T, 3, H, D):permute { 3, 1, 4, 2, 5 }
      local function part(i) return qkv:slice(1, i, i):reshape(B, H, T, D) end
      local scores = part(1):matmul(part(2):transpose(-1, -2)) / math.sqrt(D)
      local at = mrt.arange(T)
      local future = at:reshape(1, T):gt(at:reshape(T, 1))
      scores = mrt.where(future, -1e30, scores)
      local y = scores:softmax(-1):matmul(part(3))
      y = layer.proj(y:transpose(2, 3):reshape(B, T, H * D))
      close(layer(x), y, 1e-5)
    end
  end)
end)

describe("GPT", function()
  -- As its table has them, which no width of dim / heads gives.
  it("has heads of any width: 1.3B and 13B of GPT-3", function()
    for _, row in ipairs { { 24, 2048, 24 }, { 40, 5140, 40 } } do
      local o = { vocab = 50257, context = 2048, layers = row[1], dim = row[2],
        heads = row[3], head_dim = 128 }
      local count = mrt.estimate.parameters { vocab = 50257, context = 2048, layers = row[1],
        dim = row[2], heads = row[3], head_dim = 128 }
      assert.equal(count, nn.GPT(o):count())
    end
    local thin = small_gpt { heads = 3, head_dim = 2 }
    assert.matches("3 heads of 2", tostring(thin))
    assert.error_matches(function() small_gpt { head_dim = 0 } end, "head_dim")
  end)


  it("never looks ahead", function()
    local model = small_gpt()
    local ids = tokens(1, 6)
    local other = mrt.cat({ ids:slice(2, 1, 3), (ids:slice(2, 4, 6) + 1) % 11 }, 2)
    local a, b = model(ids):slice(2, 1, 3), model(other):slice(2, 1, 3)
    close(a, b, 1e-6)
  end)

  it("begins near the loss of knowing nothing", function()
    mrt.seed(1)
    local model = small_gpt()
    local loss = nn.cross_entropy(model(tokens(8, 6)), tokens(8, 6)):item()
    assert.is_true(math.abs(loss - math.log(11)) < 0.1)
  end)

  it("refuses more tokens than its context", function()
    assert.error_matches(function() small_gpt()(tokens(1, 7)) end,
      "GPT: .*%[1,7%] tokens, wanted at most context = 6")
  end)

  it("writes the same text again from the same seed", function()
    local model = small_gpt()
    local a = nn.generate(model, { 1, 2 }, 9, { seed = 5 })
    assert.same(a, nn.generate(model, { 1, 2 }, 9, { seed = 5 }))
    assert.equal(11, #a)
    assert.is_true(model.training)
  end)

  it("writes what it has learnt", function()
    mrt.seed(2)
    local model = small_gpt { vocab = 4, dim = 16 }
    local opt = mrt.optim.adam(model:parameters(), { lr = 0.01 })
    local step = training.step(model, opt)
    local x = mrt.tensor({ { 0, 1, 2, 3, 0, 1 } }, "i32")
    local y = mrt.tensor({ { 1, 2, 3, 0, 1, 2 } }, "i32")
    for _ = 1, 60 do step(x, y) end
    assert.same({ 0, 1, 2, 3, 0, 1 },
      nn.generate(model, { 0 }, 5, { temperature = 0 }))
  end)
end)
