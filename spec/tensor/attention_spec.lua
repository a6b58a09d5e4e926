-- attention_spec.lua -- masks, windows, lengths, softcap and pages of attention
--
-- The operators' own specs hold each option to an oracle; here are their
-- combinations beside plain operators, memory, and attention in compiled steps.
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local bits = require("support.bits").of
local rows = require "op.rows"

-- The same with scores that are stored; q [B,T,H,D], as many heads of k and v.
local function plain(q, k, v, o)
  local T, S = q:size(2), k:size(2)
  local function by_head(x) return x:transpose(2, 3) end
  local s = by_head(q):matmul(by_head(k):transpose(3, 4)) * (o.scale or q:size(4) ^ -0.5)
  if o.softcap then s = (s / o.softcap):tanh() * o.softcap end
  local function hide(seen) s = mrt.where(seen:expand(s.shape), s, -math.huge) end
  local t, key = mrt.arange(T):reshape(T, 1), mrt.arange(S)
  local function per_sample(x) return x:reshape(x:size(1), 1, 1, 1) end
  local Tb = o.lengths and per_sample(o.lengths) or mrt.full({ 1, 1, 1, 1 }, T, { dtype = "i64" })
  local Sb = o.key_lengths and per_sample(o.key_lengths)
    or mrt.full({ 1, 1, 1, 1 }, S, { dtype = "i64" })
  local at = o.offset or Sb - Tb
  if mrt.is_tensor(o.offset) then at = per_sample(o.offset) end
  local place = t + at
  if o.causal then hide(key:le(place)) end
  if o.window then
    hide(key:ge(place - o.window[1]))
    hide(key:le(place + o.window[2]))
  end
  hide(key:lt(Sb))
  hide(t:lt(Tb))
  if o.mask and o.mask.dtype == "bool" then hide(o.mask) elseif o.mask then s = s + o.mask end
  local top = s:amax(4, true)
  top = mrt.where(top:eq(-math.huge), 0.0, top):detach()
  local w = (s - top):exp()
  local sum = w:sum(4, true)
  w = w / mrt.where(sum:eq(0), 1.0, sum)
  return by_head(w:matmul(by_head(v)))
end

local function ids(list) return mrt.tensor(list, { dtype = "i64" }) end

-- Options drawn at random, for B samples of T queries and S keys and H heads.
local function drawn(B, T, S, H)
  local function one_in(n) return math.random(n) == 1 end
  local function lengths(most)
    local list = {}
    for b = 1, B do list[b] = math.random(0, most) end
    return ids(list)
  end
  local o = { causal = one_in(2), softcap = one_in(3) and 2.0 or nil,
    scale = one_in(3) and 0.3 or nil, window = one_in(2) and
      { math.random(0, S), math.random(0, S) } or nil,
    lengths = one_in(3) and lengths(T) or nil, key_lengths = one_in(3) and lengths(S) or nil }
  if one_in(3) then o.offset = one_in(2) and math.random(-5, S) or lengths(S) end
  local function or_one(n) return one_in(2) and n or 1 end
  local shape = { or_one(B), or_one(H), or_one(T), or_one(S) }
  local kind = math.random(3)
  if kind == 1 then o.mask = mrt.rand(table.unpack(shape)):lt(0.7) end
  if kind == 2 then o.mask = mrt.randn(table.unpack(shape)):to "f64" end
  return o
end

local function apart(a, b)
  local x, y, most = rows.data(a), rows.data(b), 0
  assert.are.same(a.shape, b.shape)
  for i = 1, #x do
    assert(x[i] == x[i] and y[i] == y[i], "NaN")
    most = math.max(most, math.abs(x[i] - y[i]))
  end
  return most
end

describe("attention with options", function()
  it("is that of plain operators, any of them together, with its gradients", function()
    mrt.seed(3)
    math.randomseed(3)
    for round = 1, 150 do
      local B, T, S, H = math.random(2), math.random(90), math.random(150), math.random(2)
      local function random(...) return mrt.eval(mrt.randn(...):to "f64") end
      local q, k, v = random(B, T, H, 5), random(B, S, H, 5), random(B, S, H, 3)
      local dout = random(B, T, H, 3)
      local o = drawn(B, T, S, H)
      if o.mask then mrt.eval(o.mask) end
      local xs = { q, k, v, o.mask and o.mask.dtype == "f64" and o.mask or nil }
      local y, wanted = q:attention(k, v, o), plain(q, k, v, o)
      assert(apart(y, wanted) < 1e-12, "round " .. round)
      local d = mrt.grad((y * dout):sum(), xs)
      local dw = mrt.grad((wanted * dout):sum(), xs)
      for i = 1, #xs do assert(apart(d[i], dw[i]) < 1e-11, ("round %d, %d"):format(round, i)) end
    end
  end)

  it("reads pages as it reads keys that lie together", function()
    mrt.seed(4)
    local B, page, n, D = 3, 16, 5, 8
    local pages = ids { { 3, 0, 7, 2, 9 }, { 1, 4, 5, 6, 8 }, { 2, 3, 3, 0, 1 } }
    for _, dtype in ipairs { "f32", "f64", "bf16" } do
      local k, v = mrt.randn(10, page, 2, D):to(dtype), mrt.randn(10, page, 2, D):to(dtype)
      local q = mrt.randn(B, 2, 4, D):to(dtype)
      local function together(x)
        return x:index_select(1, pages:reshape(B * n)):reshape(B, n * page, 2, D)
      end
      local o = { causal = true, key_lengths = ids { 80, 33, 2 }, window = 40 }
      local wanted = q:attention(together(k), together(v), o)
      o.pages = pages
      assert.equal(bits { wanted }, bits { q:attention(k, v, o) })
      local ok, why = pcall(mrt.grad, q:attention(k, v, o):sum(), q)
      assert.is_false(ok)
      assert.truthy(tostring(why):find("paged_attention", 1, true), tostring(why))
    end
  end)

  it("takes the forms that PyTorch's has, causal from the first key", function()
    mrt.seed(5)
    local function check(shape, S, o, ours)
      local D, other = shape[#shape], { table.unpack(shape) }
      other[#other - 1] = S
      local q, k = mrt.randn(table.unpack(shape)), mrt.randn(table.unpack(other))
      local y = q:scaled_dot_product_attention(k, k, o)
      assert.are.same(shape, y.shape)
      local n, T = q:numel() // (shape[#shape - 1] * D), shape[#shape - 1]
      local function flat(x, count) return x:reshape(n, 1, count, D):transpose(2, 3) end
      ours.offset = ours.causal and 0
      local wanted = plain(flat(q, T), flat(k, S), flat(k, S), ours)
      assert(apart(y:reshape(n, T, 1, D), wanted) < 1e-5)
    end
    check({ 5, 4 }, 7, {}, {})
    check({ 3, 5, 4 }, 7, { is_causal = true }, { causal = true })
    check({ 2, 3, 5, 4 }, 7, { scale = 0.2 }, { scale = 0.2 })
    check({ 2, 1, 3, 5, 4 }, 7, { is_causal = true }, { causal = true })
    local mask = mrt.eval(mrt.rand(5, 7):lt(0.6))
    check({ 2, 2, 3, 5, 4 }, 7, { attn_mask = mask }, { mask = mask:reshape(1, 1, 5, 7) })
  end)

  it("refuses what does not fit, at the caller's line", function()
    local q = mrt.randn(2, 3, 4, 8)
    local function refused(code, words, o)
      local ok, why = pcall(function() return q:attention(q, q, o) end)
      assert.is_false(ok, words)
      assert.equal(code, why.code)
      assert.truthy(tostring(why):find(words, 1, true), tostring(why))
      assert.truthy(tostring(why):find("attention_spec.lua", 1, true), tostring(why))
    end
    refused("value", "window", { window = { 1 , 2, 3 } })
    refused("value", "window of -3", { window = -3 })
    refused("value", "offset", { offset = "end" })
    refused("value", "mask", { mask = 3 })
    refused("shape", "mask", { mask = mrt.randn(1, 1, 1, 3, 3) })
    refused("shape", "mask", { mask = mrt.randn(5, 3) })
    refused("dtype", "input 4", { mask = mrt.ones(3, 3):to "i64" })
    refused("dtype", "f64", { mask = mrt.ones(3, 3):to "f64" })
    refused("shape", "one for each sample", { lengths = ids { 1 } })
    refused("value", "no option", { windows = 3 })
    local ok, why = pcall(q.scaled_dot_product_attention, q, q, q, { dropout_p = 0.1 })
    assert.is_false(ok)
    assert.truthy(tostring(why):find("never stored", 1, true))
    ok, why = pcall(q.scaled_dot_product_attention, q, q:slice(2, 1, 1), q:slice(2, 1, 1))
    assert.is_false(ok)
    assert.truthy(tostring(why):find("enable_gqa", 1, true))
  end)
end)

describe("attention in a compiled step", function()
  local B, T, H, D = 4, 96, 2, 8

  local function model(o)
    mrt.seed(6)
    local w = mrt.variable(mrt.randn(H * D, 3 * H * D) * 0.2)
    local bias = mrt.variable(mrt.randn(1, H, T, T) * 0.1)
    local function loss(x, lengths)
      local q, k, v = x:matmul(w):reshape(x:size(1), T, 3 * H, D):split(H, 3)
      local y = q:attention(k, v, { causal = true, window = 40, softcap = 5, mask = bias,
        lengths = lengths, key_lengths = lengths })
      return (y * y):mean()
    end
    local step = mrt.compile(function(x, lengths)
      local y = loss(x, lengths)
      local d = mrt.grad(y, { w, bias })
      for i, p in ipairs { w, bias } do p:assign(p - d[i] * 0.1) end
      return y
    end, o)
    return step, { w, bias }
  end
  local x = mrt.eval(mrt.randn(B, T, H * D))
  local lengths = ids { 96, 50, 0, 77 }

  -- The numbers after two steps.
  local function trained(o)
    local step, params = model(o)
    local y
    for _ = 1, 2 do y = step(x, lengths) end
    return bits { y, params[1], params[2] }, step, { y, table.unpack(params) }
  end

  it("stores no scores: nothing of the plan is as large", function()
    local long, C = 512, 4
    local step = mrt.compile(function(q, mask)
      local y = q:attention(q, q, { mask = mask, window = 100, softcap = 3 })
      return y, mrt.grad((y * y):sum(), q)
    end)
    local q, mask = mrt.randn(1, long, 1, C), mrt.eval(mrt.rand(1, 1, 1, long):lt(0.5))
    local plan = step:plan(q, mask)
    for _, v in ipairs(plan:values()) do
      assert(v.bytes < long * long, ("%s has %d bytes"):format(v.name or v.op, v.bytes))
    end
    assert(plan.peak < long * long * 4)
  end)

  it("gives the same bits under a budget and by parts that are computed again", function()
    local wanted, step = trained {}
    assert.equal(wanted, (trained { fuse = false, share = false, inplace = false }))
    assert.equal(wanted, (trained { checkpoint = mrt.policy.checkpoint.every(1) }))
    local peak = step:plan(x, lengths).peak
    assert.equal(wanted, (trained { memory = peak }))
  end)

  it("works by parts of the batch, masks and lengths with them", function()
    local _, _, wanted = trained {}
    local _, _, got = trained { accumulate = 2 }
    for i, t in ipairs(got) do assert(apart(t, wanted[i]) < 1e-6, i) end
  end)

  it("works in bf16, with a bias that stays wide", function()
    local _, _, wanted = trained {}
    local _, _, got = trained { precision = mrt.policy.precision.bf16() }
    for i, t in ipairs(got) do assert(apart(t, wanted[i]) < 2e-2, i) end
  end)
end)

describe("windows and softcap of layers", function()
  it("change what they compute", function()
    mrt.seed(7)
    local x = mrt.randn(2, 12, 16)
    local function of(o)
      mrt.seed(8)
      return mrt.eval(mrt.nn.Block(16, 2, o)(x))
    end
    local all = of {}
    assert.equal(bits { all }, bits { of { window = 12 } })
    assert.is_true(apart(all, of { window = 2 }) > 1e-4)
    assert.is_true(apart(all, of { softcap = 0.01 }) > 1e-6)
    local ids_ = mrt.randint(0, 9, { 1, 8 })
    local function llama(o)
      mrt.seed(9)
      return mrt.eval(mrt.nn.Llama { vocab = 9, dim = 8, layers = 1, heads = 2, context = 8,
        window = o }(ids_))
    end
    assert.equal(bits { llama(nil) }, bits { llama(8) })
    assert.is_true(apart(llama(nil), llama(1)) > 1e-7)
  end)
end)
