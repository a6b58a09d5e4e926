-- loss_spec.lua -- losses: their numbers, gradients, reductions, micro-batches
local mrt = require "mrt"
local nn, optim = mrt.nn, mrt.optim

local function near(wanted, got, tolerance)
  assert(math.abs(wanted - got) <= (tolerance or 1e-6) * math.max(1, math.abs(wanted)),
    ("%.9g, %.9g wanted"):format(got, wanted))
end

local numbers = { "bce", "bce_with_logits", "mse", "l1", "huber", "smooth_l1" }

-- What each is for one pair of numbers.
local formulas = {
  bce = function(p, y) return -(y * math.log(p) + (1 - y) * math.log(1 - p)) end,
  bce_with_logits = function(x, y)
    local p = 1 / (1 + math.exp(-x))
    return -(3 * y * math.log(p) + (1 - y) * math.log(1 - p))
  end,
  mse = function(x, y) return (x - y) ^ 2 end,
  l1 = function(x, y) return math.abs(x - y) end,
  huber = function(x, y)
    local d = math.abs(x - y)
    return d <= 0.3 and d * d / 2 or 0.3 * (d - 0.15)
  end,
  smooth_l1 = function(x, y)
    local d = math.abs(x - y)
    return d <= 0.2 and d * d / 0.4 or d - 0.1
  end,
}
local options = { bce_with_logits = { pos_weight = 3 }, huber = { delta = 0.3 },
  smooth_l1 = { beta = 0.2 } }

local function with(name, reduction)
  local o = { reduction = reduction }
  for k, v in pairs(options[name] or {}) do o[k] = v end
  return o
end

describe("a loss of numbers", function()
  mrt.seed(4)
  local x, y = mrt.eval(mrt.rand({ 6, 5 }, { dtype = "f64" }) * 0.8 + 0.1),
    mrt.eval(mrt.rand({ 6, 5 }, { dtype = "f64" }))

  it("is its formula, added up, averaged, or neither", function()
    for _, name in ipairs(numbers) do
      local each = nn[name](x, y, with(name, "none")):totable()
      local a, b, sum = x:totable(), y:totable(), 0
      for i = 1, 6 do
        for j = 1, 5 do
          local wanted = formulas[name](a[i][j], b[i][j])
          near(wanted, each[i][j], 1e-12)
          sum = sum + wanted
        end
      end
      near(sum, nn[name](x, y, with(name, "sum")):item(), 1e-12)
      near(sum / 30, nn[name](x, y, with(name)):item(), 1e-12)
    end
  end)

  it("has the gradient that differences give", function()
    for _, name in ipairs(numbers) do
      local function f(a) return nn[name](a, y, with(name)):item() end
      local g = mrt.grad(nn[name](x, y, with(name)), x):totable()
      for i = 1, 6 do
        local step = (mrt.arange(30, { dtype = "f64" }):reshape(6, 5):eq(i * 4.0)):to "f64" * 1e-6
        local at = i * 4
        near((f(x + step) - f(x - step)) / 2e-6, g[at // 5 + 1][at % 5 + 1], 1e-7)
      end
    end
  end)

  it("gives micro-batches the weights of the whole batch", function()
    for _, name in ipairs(numbers) do
      for _, reduction in ipairs { "mean", "sum" } do
        local function train(k)
          local w = mrt.parameter(mrt.eval(mrt.full({ 5 }, 0.7, { dtype = "f64" })))
          local step = mrt.compile(function(a, b)
            local loss = nn[name](a * w, b, with(name, reduction))
            w:assign(w - mrt.grad(loss, w) * 0.1)
            return loss
          end, { accumulate = k })
          local loss = step(x, y):item()
          return loss, w:totable()
        end
        local loss, w = train(1)
        for _, k in ipairs { 2, 4 } do
          local parts, v = train(k)
          near(loss, parts, 1e-6)
          for i = 1, 5 do near(w[i], v[i], 1e-6) end
        end
      end
    end
  end)

  it("refuses other shapes, reductions and widths", function()
    for _, name in ipairs(numbers) do
      local f = nn[name]
      assert.error_matches(function() f(x, y:slice(1, 1, 1)) end, name .. ": .*equal shapes")
      assert.error_matches(function() f(x, y:reshape(5, 6)) end, name .. ": .*equal shapes")
      assert.error_matches(function() f(x, y, { reduction = "max" }) end, name .. ": .*'max'")
      assert.error_matches(function() f(x, 3) end, name .. ": .*a tensor wanted")
    end
    assert.error_matches(function() nn.huber(x, y, { delta = 0 }) end, "delta = 0")
    assert.error_matches(function() nn.smooth_l1(x, y, { beta = -1 }) end, "beta = %-1")
  end)

  it("is finite and has the right slope for logits of any size", function()
    local logits, wanted = mrt.tensor { -200.0, -20, 0, 20, 200 }, mrt.tensor { 0, 0, 1, 1, 1 }
    local far = nn.bce_with_logits(logits, wanted, { reduction = "none" }):totable()
    near(math.exp(-20), far[2] * 1, 1e-12)
    near(1, far[2] / math.exp(-20), 1e-5)
    near(math.log(2), far[3])
    near(1, far[4] / math.exp(-20), 1e-5)
    local wrong = nn.bce_with_logits(logits, 1 - wanted, { reduction = "none" }):totable()
    assert.same({ 200.0, 20.0 }, { wrong[1], wrong[4] })
    local g = mrt.grad(nn.bce_with_logits(logits, wanted, { reduction = "sum" }), logits):totable()
    near(-0.5, g[3])
    local sure = mrt.tensor { 0.0, 1.0 }
    local finite = nn.bce(sure, 1 - sure, { reduction = "none" })
    assert.is_true(finite:amax():item() < 100)
    assert.same({ 0.0, 0.0 }, nn.bce(sure, sure, { reduction = "none" }):abs():totable())
    for _, v in ipairs(mrt.grad(finite:sum(), sure):totable()) do assert.equal(v, v) end
  end)
end)

describe("cross entropy with label smoothing", function()
  it("is that of the smoothed targets", function()
    local logits = mrt.eval(mrt.randn({ 4, 7 }, { dtype = "f64" }))
    local targets = mrt.tensor({ 3, 0, 6, 2 }, { dtype = "i64" })
    local hot = mrt.arange(7):reshape(1, 7):eq(targets:reshape(4, 1)):to "f64"
    local wanted = -((hot * 0.9 + 0.1 / 7) * logits:log_softmax(2)):sum(2):mean()
    local loss = nn.cross_entropy(logits, targets, { label_smoothing = 0.1 })
    near(wanted:item(), loss:item(), 1e-12)
    local g = mrt.grad(loss, logits) - mrt.grad(wanted, logits)
    assert.is_true(g:abs():amax():item() < 1e-12)
    local some = nn.cross_entropy(logits, targets, { label_smoothing = 0.1, ignore_index = 6 })
    assert.is_true(some:item() ~= loss:item())
    assert.error_matches(function()
      nn.cross_entropy(logits, targets, { label_smoothing = 1.1 })
    end, "label_smoothing 1.1, 0 to 1 wanted")
  end)
end)

describe("cross entropy of a head, in parts", function()
  local N, D, V = 22, 6, 40
  local function f64(...) return mrt.eval(mrt.randn({ ... }, { dtype = "f64" })) end
  local x, w, bias = f64(2, N // 2, D), f64(V, D), f64(V)
  local targets = mrt.eval(mrt.randint(0, V, 2, N // 2))
  local function head(rows) return rows:linear(w, bias) end

  it("is that of all logits, with its gradients, whatever the parts", function()
    for _, o in ipairs { {}, { reduction = "sum" }, { reduction = "none" },
      { ignore_index = targets:totable()[1][3], label_smoothing = 0.1 } } do
      local wanted = nn.cross_entropy(head(x), targets, o)
      local gradients = mrt.grad(wanted:sum(), { x, w, bias })
      for _, chunks in ipairs { 1, 3, 8, 1000 } do
        o.chunks = chunks
        local loss = nn.linear_cross_entropy(x, head, targets, o)
        assert.equal(wanted:type(), loss:type())
        near(0, (loss - wanted):abs():amax():item(), 1e-12)
        for i, g in ipairs(mrt.grad(loss:sum(), { x, w, bias })) do
          near(0, (g - gradients[i]):abs():amax():item(), 1e-12)
        end
      end
      o.chunks = nil
    end
  end)

  it("gives micro-batches the weights of the whole batch", function()
    local function train(k)
      local p = mrt.parameter(w)
      local step = mrt.compile(function(a, b)
        local loss = nn.linear_cross_entropy(a, p, b, { chunks = 3 })
        p:assign(p - mrt.grad(loss, p) * 0.1)
        return loss
      end, { accumulate = k })
      return step(x, targets):item(), p
    end
    local loss, whole = train(1)
    local parts, split = train(2)
    near(loss, parts, 1e-12)
    near(0, (whole - split):abs():amax():item(), 1e-12)
  end)

  it("never holds all logits, in a model's step too", function()
    mrt.seed(1)
    local model = nn.GPT { vocab = 4096, dim = 16, layers = 1, heads = 2, context = 32 }
    local opt = optim.adamw(model:parameters())
    local ids = mrt.eval(mrt.randint(0, 4096, 8, 33))
    local function planned(loss)
      return mrt.compile(function(a, b)
        local value = loss(a, b)
        opt:step(mrt.grad(value, model:parameters()))
        return value
      end):plan(ids:slice(2, 1, 32), ids:slice(2, 2, 33)).transient
    end
    local all = planned(function(a, b) return nn.cross_entropy(model(a), b) end)
    local logits = 8 * 32 * 4096 * 4
    local parts = planned(function(a, b) return model:loss(a, b, { chunks = 8 }) end)
    assert.is_true(all > logits)
    assert.is_true(parts < all - 3 * logits / 4, ("%d of %d"):format(parts, all))
  end)

  it("refuses what is no head, no count, no reduction", function()
    local function refused(text, ...)
      local list = table.pack(...)
      assert.error_matches(function()
        nn.linear_cross_entropy(table.unpack(list, 1, list.n))
      end, "linear_cross_entropy: .*" .. text)
    end
    refused("a tensor or a layer wanted for the head, got 3", x, 3, targets)
    refused("chunks.*positive integer", x, w, targets, { chunks = 0 })
    refused("max", x, w, targets, { reduction = "max" })
    refused("%[%.%.%., D%]", x, w, targets:reshape(N))
    refused("no option 'chunk'", x, w, targets, { chunk = 2 })
    refused("the targets", x, w, 3)
  end)
end)
