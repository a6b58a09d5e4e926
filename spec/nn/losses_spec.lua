--- losses_spec.lua -- losses of classes, pairs, triplets, sequences: by their formulas
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local failure = require "support.failure"
local nn = mrt.nn

local function near(wanted, got, tolerance)
  assert(math.abs(wanted - got) <= (tolerance or 1e-10) * math.max(1, math.abs(wanted)),
    ("%.12g, %.12g wanted"):format(got, wanted))
end

local function f64(values) return mrt.tensor(values, "f64") end
local function ids(values) return mrt.tensor(values, "i64") end

-- The derivative of f at x along a line, by differences.
local function slope(f, x, d)
  local h = 1e-6
  return (f(x + d * h):item() - f(x - d * h):item()) / (2 * h)
end

local function gradient_fits(f, x)
  mrt.seed(7)
  local d = mrt.eval(mrt.randn(x.shape, { dtype = "f64" }))
  near(slope(f, x, d), (mrt.grad(f(x), x) * d):sum():item(), 1e-6)
end

local x = f64 { { 0.3, -1.2, 2.0 }, { 1.1, 0.4, -0.7 } }

describe("a loss of classes", function()
  it("nll_loss picks, weighs and ignores", function()
    local p = x:log_softmax(-1)
    local q = p:totable()
    near(-(q[1][3] + q[2][1]) / 2, nn.nll_loss(p, ids { 2, 0 }):item())
    near(-(q[1][3] * 3 + q[2][1]) / 4,
      nn.nll_loss(p, ids { 2, 0 }, f64 { 1, 2, 3 }):item())
    near(-q[1][3], nn.nll_loss(p, ids { 2, -100 }):item())
    near(-q[2][1], nn.nll_loss(p, ids { 2, 0 }, { ignore_index = 2 }):item())
    assert.same({ -q[1][2], 0 }, nn.nll_loss(p, ids { 1, -100 }, { reduction = "none" }):totable())
    near(-(q[1][3] + q[2][1]) / 2, nn.nll_loss(p:t(), ids { 2, 0 }, { dim = 1 }):item())
    gradient_fits(function(y) return nn.nll_loss(y:log_softmax(-1), ids { 2, 1 }) end, x)
    for _, n in ipairs { 0, 1, 7, 5000, 70001 } do -- computed or not, line by line or compiled
      local logits, ids_ = mrt.eval(mrt.randn(n, 5)), mrt.eval(mrt.randint(-1, 5, { n }))
      for _, o in ipairs { { ignore_index = -1 }, { ignore_index = -1, reduction = "sum" } } do
        local line = nn.nll_loss(logits, ids_, o):bytes()
        assert.equal(line, nn.nll_loss(logits, ids_ + 0, o):bytes())
        assert.equal(line, mrt.compile(function(a, b) return nn.nll_loss(a, b, o) end)(logits, ids_)
          :bytes())
      end
    end
    assert.match("nll_loss: .*%[%.%.%., V%]", failure(nn.nll_loss, x, ids { 1, 2, 0 }).message)
    assert.match("one number for each class",
      failure(nn.nll_loss, x, ids { 1, 2 }, f64 { 1, 2 }).message)
    assert.match("3", failure(function() nn.nll_loss(x, ids { 1, 3 }):item() end).message)
  end)

  it("cross_entropy takes weights, probabilities, and another dimension", function()
    local w = f64 { 0.5, 2, 1 }
    near(nn.nll_loss(x:log_softmax(-1), ids { 1, 2 }, w):item(),
      nn.cross_entropy(x, ids { 1, 2 }, w):item())
    local hot = ids({ 1, 2 }):one_hot(3):to "f64"
    for _, smoothing in ipairs { 0, 0.2 } do
      near(nn.cross_entropy(x, ids { 1, 2 }, { label_smoothing = smoothing }):item(),
        nn.cross_entropy(x, hot, { label_smoothing = smoothing }):item())
      gradient_fits(function(y)
        return nn.cross_entropy(y, ids { 1, 2 }, { weight = w, label_smoothing = smoothing })
      end, x)
    end
    local y = mrt.eval(mrt.randn({ 2, 3, 4 }, { dtype = "f64" }))
    local t = mrt.eval(mrt.randint(0, 3, 2, 4))
    near(nn.cross_entropy(y:transpose(2, 3), t):item(), nn.cross_entropy(y, t, { dim = 2 }):item())
    assert.match("dim = 2", failure(nn.nll_loss, y, t).message)
    assert.match("ids of classes are integers", failure(nn.cross_entropy, x, w).message)
  end)

  it("gives micro-batches the weights of the whole batch", function()
    local y = mrt.eval(mrt.randn({ 8, 5 }, { dtype = "f64" }))
    local t = mrt.eval(mrt.randint(0, 5, 8))
    local w = mrt.eval(mrt.rand({ 5 }, { dtype = "f64" }) + 0.5)
    local function train(k, loss)
      local p = mrt.parameter(mrt.full({ 5 }, 0.7, { dtype = "f64" }))
      local step = mrt.compile(function(a, b)
        local value = loss(a * p, b)
        p:assign(p - mrt.grad(value, p) * 0.1)
        return value
      end, { accumulate = k })
      return step(y, t):item(), p:totable()
    end
    for _, loss in ipairs {
      function(a, b) return nn.cross_entropy(a, b, w) end,
      function(a, b) return nn.nll_loss(a:log_softmax(-1), b, { ignore_index = 2 }) end,
      function(a, b) return nn.multi_margin_loss(a, b) end,
    } do
      local value, p = train(1, loss)
      local parts, q = train(4, loss)
      near(value, parts, 1e-6)
      for i = 1, 5 do near(p[i], q[i], 1e-6) end
    end
  end)

  it("multi_margin and multilabel_margin compare the target with the others", function()
    local short = math.max(0, 1 - 2.0 + 0.3) + math.max(0, 1 - 2.0 - 1.2)
    local other = math.max(0, 1 - 0.4 + 1.1) + math.max(0, 1 - 0.4 - 0.7)
    near((short + other) / 6, nn.multi_margin_loss(x, ids { 2, 1 }):item())
    near((short + other * 3) / 6,
      nn.multi_margin_loss(x, ids { 2, 1 }, { weight = f64 { 1, 3, 1 } }):item())
    near(1.7 ^ 2 / 3, nn.multi_margin_loss(x[2], ids(1), 2):item())
    local several = math.max(0, 1 - (2.0 - -1.2)) + math.max(0, 1 - (0.3 - -1.2))
    near(several / 3, nn.multilabel_margin_loss(x[1], ids { 2, 0, -1 }):item())
    assert.equal(0, nn.multilabel_margin_loss(x[1], ids { -1, 0, 1 }):item())
    assert.match("p = 3", failure(nn.multi_margin_loss, x, ids { 0, 0 }, 3).message)
    assert.match("target", failure(nn.multi_margin_loss, x, ids { 0 }).message)
  end)
end)

describe("a loss of pairs", function()
  local y = f64 { { 1.0, 0.2, 0.5 }, { -0.3, 0.9, 1.5 } }

  it("is its formula", function()
    near(((0.3 - 1) + math.max(0, 1 - -0.7)) / 2, nn.hinge_embedding_loss(f64 { -0.7, -0.7 },
      f64 { 1, -1 }):item())
    near(math.max(0, 0.1 - (2 - 1)) + math.max(0, 0.1 + (3 - 1)),
      nn.margin_ranking_loss(f64 { 2, 3 }, f64 { 1, 1 }, f64 { 1, -1 },
        { margin = 0.1, reduction = "sum" }):item())
    local cosine = nn.cosine_similarity(x, y):totable()
    near((1 - cosine[1] + math.max(0, cosine[2] - 0.1)) / 2,
      nn.cosine_embedding_loss(x, y, f64 { 1, -1 }, 0.1):item())
    local far = nn.pairwise_distance(x, y):totable()
    near(math.sqrt((0.3 - 1 + 1e-6) ^ 2 + (-1.4 + 1e-6) ^ 2 + (1.5 + 1e-6) ^ 2), far[1])
    local away = nn.pairwise_distance(x, -y):totable()
    near((math.max(0, far[1] - away[1] + 1) + math.max(0, far[2] - away[2] + 1)) / 2,
      nn.triplet_margin_loss(x, y, -y):item())
    near(nn.triplet_margin_loss(x, y, -y, 2):item(),
      nn.TripletMarginWithDistanceLoss { margin = 2 }(x, y, -y):item())
    near(0.5 * (math.log(0.25) + 0.09 / 0.25 + math.log(2 * math.pi)),
      nn.gaussian_nll_loss(f64 { 0.3 }, f64 { 0 }, f64 { 0.25 }, true):item())
    local nan = nn.gaussian_nll_loss(f64 { 0.3 }, f64 { 0 }, f64 { -1 }):item()
    assert.is_true(nan ~= nan)
    near(0.5 * math.log(0.5 / 0.1) + 0.5 * math.log(0.5 / 0.9),
      nn.kl_div(f64 { { 0.1, 0.9 } }:log(), f64 { { 0.5, 0.5 } }, "batchmean"):item())
    near(math.log(2), nn.kl_div(f64 { 0.5, 0.5 }:log(), f64 { 1, 0 }, "sum"):item())
    near(math.exp(0.5) - 3 * 0.5 + 3 * math.log(3) - 3 + 0.5 * math.log(6 * math.pi),
      nn.poisson_nll_loss(f64 { 0.5 }, f64 { 3 }, { full = true }):item())
    near(math.log(1 + math.exp(-0.4)), nn.soft_margin_loss(f64 { -0.4 }, f64 { -1 }):item())
  end)

  it("has the gradient that differences give", function()
    gradient_fits(function(a) return nn.cosine_embedding_loss(a, y, f64 { 1, -1 }) end, x)
    gradient_fits(function(a) return nn.triplet_margin_loss(a, y, -y, { swap = true }) end, x)
    gradient_fits(function(a) return nn.kl_div(y:log_softmax(-1), a:softmax(-1)) end, x)
    gradient_fits(function(a)
      return nn.multilabel_margin_loss(a, ids { { 0, 2, -1 }, { 1, -1, 0 } })
    end, x)
  end)

  it("refuses what does not fit", function()
    for _, name in ipairs { "kl_div", "soft_margin_loss", "hinge_embedding_loss",
      "poisson_nll_loss", "multilabel_soft_margin_loss" } do
      assert.match(name .. ": .*equal shapes", failure(nn[name], x, y[1]).message)
      assert.match(name .. ": .*reduction 'most'", failure(nn[name], x, y,
        { reduction = "most" }).message)
      assert.match(name .. ": no option 'size_average'", failure(nn[name], x, y,
        { size_average = true }).message)
    end
    assert.match("var f64%[3,1%] for f64%[2,3%]",
      failure(nn.gaussian_nll_loss, x, y, f64 { 1, 1, 1 }).message)
    assert.match("batchmean", failure(nn.kl_div, x, y, "batch").message)
  end)
end)

describe("ctc_loss", function()
  local T, N, C = 7, 3, 5
  mrt.seed(3)
  local logits = mrt.eval(mrt.randn({ T, N, C }, { dtype = "f64" }))
  local targets = ids { { 1, 2, 2 }, { 3, 4, 0 }, { 1, 0, 0 } }
  local steps, lengths = { 7, 6, 4 }, { 3, 2, 1 }
  local function loss(a, ...)
    return nn.ctc_loss(a:log_softmax(-1), targets, steps, lengths, ...)
  end

  it("has the gradient that differences give, and other forms of targets", function()
    gradient_fits(function(a) return loss(a) end, logits)
    gradient_fits(function(a) return loss(a, { reduction = "sum" }) end, logits)
    local rows = loss(logits, { reduction = "none" })
    local mean = (rows / f64(lengths)):mean():item()
    near(mean, loss(logits):item())
    local flat = ids { 1, 2, 2, 3, 4, 1 }
    near(mean, nn.ctc_loss(logits:log_softmax(-1), flat, ids(steps), ids(lengths)):item())
    near(rows:totable()[2] / 2, nn.ctc_loss(logits:select(2, 2):log_softmax(-1), ids { 3, 4 }, 6,
      2):item())
    near(mean, nn.CTCLoss()(logits:log_softmax(-1), targets, steps, lengths):item())
    near(mean, mrt.compile(loss)(logits):item())
  end)

  it("is infinite where there are too few steps, or 0 if told so", function()
    local few = { 7, 6, 0 }
    local log_probs = logits:log_softmax(-1)
    local rows = nn.ctc_loss(log_probs, targets, few, lengths, { reduction = "none" }):totable()
    assert.equal(math.huge, rows[3])
    local function finite(a)
      return nn.ctc_loss(a:log_softmax(-1), targets, few, lengths,
        { zero_infinity = true, reduction = "sum" })
    end
    near(rows[1] + rows[2], finite(logits):item())
    gradient_fits(finite, logits)
    assert.equal(0, mrt.grad(finite(logits), logits):select(2, 3):abs():sum():item())
  end)

  it("trains in micro-batches of sequences", function()
    local function train(k)
      local p = mrt.parameter(mrt.ones({ C }, { dtype = "f64" }))
      local step = mrt.compile(function(a, t, s, l)
        local value = nn.ctc_loss((a * p):transpose(1, 2):log_softmax(-1), t, s, l, 0, "sum")
        p:assign(p - mrt.grad(value, p) * 0.1)
        return value
      end, { accumulate = k })
      local rows = mrt.eval(logits:transpose(1, 2):copy())
      return step(rows, targets, ids(steps), ids(lengths)):item(), p:totable()
    end
    local whole, p = train(1)
    local parts, q = train(3)
    near(whole, parts)
    for i = 1, C do near(p[i], q[i]) end
  end)

  it("refuses what cannot be", function()
    local function refused(text, ...)
      assert.match("ctc_loss: .*" .. text, failure(nn.ctc_loss, ...).message)
    end
    local y = logits:log_softmax(-1)
    refused("blank 5 of 5", y, targets, steps, lengths, 5)
    refused("%[3, S%]", y, targets:t():slice(1, 1, 2), steps, lengths)
    refused("a length for each", y, targets, { 1 }, lengths)
    refused("an integer wanted", y, targets, { 1.5, 2, 3 }, lengths)
    refused("target_lengths want more", y, ids { 1, 2 }, steps, lengths)
    assert.match("inside a compiled function", failure(mrt.compile(function(a)
      return nn.ctc_loss(a, ids { 1, 2, 2, 3, 4, 1 }, steps, lengths)
    end), y).message)
    local late = failure(function()
      nn.ctc_loss(y, targets, { 8, 1, 1 }, lengths):item()
    end)
    assert.equal("data", late.code)
  end)
end)
