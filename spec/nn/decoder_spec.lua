--- decoder_spec.lua -- nn.Decoder against the formulas it is made of
---
--- Options are drawn at random, and what the model computes is compared with the same
--- written out: scores stored, keys repeated, every expert on every token.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local nn = mrt.nn
local rotary = require "mrt.nn.decoder.rotary"

local B <const>, T <const>, VOCAB <const> = 2, 9, 23

local function near(wanted, got, tolerance, what)
  local difference = (wanted - got):abs():amax():item()
  local size = wanted:abs():amax():item()
  assert.is_true(difference <= tolerance * size,
    ("%s differs by %g of %g"):format(what or "it", difference, size))
end

local function tokens(count)
  return mrt.eval(mrt.randint(0, VOCAB, { B, count or T }, { dtype = "i32" }))
end

-- ---- the formulas ----------------------------------------------------------------

local plain = {}

local acts = {
  silu = function(x) return x * x:sigmoid() end,
  gelu = function(x) return x * ((x / math.sqrt(2)):erf() + 1) / 2 end,
  gelu_tanh = function(x)
    return x * (((x + x ^ 3 * 0.044715) * math.sqrt(2 / math.pi)):tanh() + 1) / 2
  end,
  relu = function(x) return x:maximum(0) end,
}

function plain.norm(x, module, o)
  local function weighted(y, weight) return weight and y * weight or y end
  if o.norm == "rms" or o.norm == "rms1" then
    local y = x / ((x * x):mean(-1, true) + o.eps):sqrt()
    return y * (o.norm == "rms1" and module.weight + 1 or module.weight)
  end
  local y = x - x:mean(-1, true)
  y = weighted(y / ((y * y):mean(-1, true) + o.eps):sqrt(), module.weight)
  return module.bias and y + module.bias or y
end

local function linear(x, module)
  local y = x:matmul(module.weight:t())
  return module.bias and y + module.bias or y
end

function plain.turn(x, rope, context)
  local list, scale = rotary.frequencies(rope, x:size(2), context)
  local half = rope.width // 2
  local angle = mrt.arange(0, x:size(2), { dtype = "f32" }):reshape(-1, 1, 1) *
    mrt.tensor(list, "f32")
  local c, s = angle:cos() * scale, angle:sin() * scale
  local turned, rest = x:slice(4, 1, rope.width), nil
  if rope.width < x:size(4) then rest = x:slice(4, rope.width + 1, x:size(4)) end
  local y
  if rope.interleaved then
    local pair = turned:reshape(x:size(1), x:size(2), x:size(3), half, 2)
    local a, b = pair:select(5, 1), pair:select(5, 2)
    y = mrt.stack({ a * c - b * s, a * s + b * c }, 5)
      :reshape(x:size(1), x:size(2), x:size(3), rope.width)
  else
    local a, b = turned:slice(4, 1, half), turned:slice(4, half + 1, rope.width)
    y = mrt.cat({ a * c - b * s, a * s + b * c }, 4)
  end
  return rest and mrt.cat({ y, rest }, 4) or y
end

local function heads_of(x, at, name, count, o)
  local y, norm = linear(x, at[name]), at[name .. "_norm"]
  if norm and o.qk_norm == "width" then y = plain.norm(y, norm, o) end
  if o.clip then y = y:clamp(-o.clip, o.clip) end
  y = y:reshape(x:size(1), x:size(2), count, o.head_dim)
  return norm and o.qk_norm == "head" and plain.norm(y, norm, o) or y
end

local function repeated(x, times)
  local n, t, h, d = table.unpack(x:size())
  return x:reshape(n, t, h, 1, d):expand(n, t, h, times, d):reshape(n, t, h * times, d)
end

function plain.attention(x, at, o, layer)
  local q, k = heads_of(x, at, "q", o.heads, o), heads_of(x, at, "k", o.kv_heads, o)
  local v = heads_of(x, at, "v", o.kv_heads, o)
  local rope = o.windows[layer] and o.rope_local or o.rope
  if rope then q, k = plain.turn(q, rope, o.context), plain.turn(k, rope, o.context) end
  k, v = repeated(k, o.heads // o.kv_heads), repeated(v, o.heads // o.kv_heads)
  local scores = q:transpose(2, 3):matmul(k:permute(1, 3, 4, 2)) * (o.scale or o.head_dim ^ -0.5)
  if o.layer_scale then scores = scores / layer end
  if o.softcap then scores = (scores / o.softcap):tanh() * o.softcap end
  local count = x:size(2)
  local apart = mrt.arange(count):reshape(count, 1) - mrt.arange(count):reshape(1, count)
  local seen = apart:ge(0)
  if o.windows[layer] then seen = seen:logical_and(apart:le(o.windows[layer])) end
  local y = mrt.where(seen, scores, -1e30):softmax(4):matmul(v:transpose(2, 3))
  return linear(y:transpose(2, 3):reshape(x:size(1), count, o.heads * o.head_dim), at.proj)
end

local function feed(x, m, o)
  local up = linear(x, m.up)
  if m.gate then return linear(acts[o.activation](linear(x, m.gate)) * up, m.down) end
  return linear(acts[o.activation](up), m.down)
end

-- Every expert on every token, times its share, which is 0 for most.
local function experts(x, m, o)
  local e, p = o.experts, linear(x, m.router):softmax(-1)
  local least = p:topk(e.top, -1):select(3, e.top):unsqueeze(-1)
  local share = mrt.where(p:ge(least), p, 0)
  if e.normalize then share = share / share:sum(-1, true) end
  local y
  for i = 1, e.count do
    local up = x:matmul(m.up:select(1, i):t())
    local h = m.gate and acts[o.activation](x:matmul(m.gate:select(1, i):t())) * up
      or acts[o.activation](up)
    local one = h:matmul(m.down:select(1, i):t()) * share:slice(3, i, i)
    y = y and y + one or one
  end
  return m.shared and y + linear(x, m.shared_gate):sigmoid() * feed(x, m.shared, o) or y
end

function plain.mlp(x, m, o) return m.router and experts(x, m, o) or feed(x, m, o) end

function plain.block(x, b, o, layer)
  local function attend(y) return plain.attention(y, b.attention, o, layer) end
  local function norm(y, which) return plain.norm(y, b[which], o) end
  if o.parallel then
    local first = norm(x, "norm1")
    return x + attend(first) + plain.mlp(o.parallel == "two" and norm(x, "norm2") or first,
      b.mlp, o)
  elseif o.norm_place == "post" then
    x = x + norm(attend(x), "norm1")
    return x + norm(plain.mlp(x, b.mlp, o), "norm2")
  elseif o.norm_place == "sum" then
    x = norm(x + attend(x), "norm1")
    return norm(x + plain.mlp(x, b.mlp, o), "norm2")
  elseif o.norm_place == "both" then
    x = x + norm(attend(norm(x, "norm1")), "after1")
    return x + norm(plain.mlp(norm(x, "norm2"), b.mlp, o), "after2")
  end
  x = x + attend(norm(x, "norm1"))
  return x + plain.mlp(norm(x, "norm2"), b.mlp, o)
end

function plain.logits(model, ids)
  local o, x = model.options, model.tokens.weight:embedding(ids)
  if o.embed_scale then x = x * o.embed_scale end
  if model.embed_in then x = linear(x, model.embed_in) end
  if model.positions then
    local first = o.position_offset
    x = x + model.positions.weight:slice(1, first + 1, first + ids:size(2))
  end
  for i, block in ipairs(model.blocks) do x = plain.block(x, block, o, i) end
  if model.norm then x = plain.norm(x, model.norm, o) end
  if model.embed_out then x = linear(x, model.embed_out) end
  x = model.head and linear(x, model.head) or x:matmul(model.tokens.weight:t())
  if model.head_bias then x = x + model.head_bias end
  return o.final_softcap and (x / o.final_softcap):tanh() * o.final_softcap or x
end

-- ---- options at random -------------------------------------------------------------

local function drawer(seed)
  local state = seed
  local function any(n)
    state = state * 48271 % 2147483647
    return state // 7 % n + 1
  end
  return function(...) return (select(any(select("#", ...)), ...)) end
end

local scalings = {
  { kind = "linear", factor = 3 }, { kind = "dynamic", factor = 2, original = 6 },
  { kind = "llama3", factor = 8, low = 1, high = 4, original = 6 },
  { kind = "yarn", factor = 4, original = 6 },
  { kind = "longrope", short = { 1, 1.1 }, long = { 1, 2 }, original = 6 },
}

local function draw_rope(pick, width)
  if pick(1, 2) == 1 then return { width = width, interleaved = pick(true, false) } end
  local scaling = pick(table.unpack(scalings))
  return { base = pick(100, 1e4), width = scaling.kind == "longrope" and 4 or width,
    scaling = scaling }
end

local function draw(seed)
  local pick = drawer(seed)
  local width = pick(6, 8)
  local o = { vocab = VOCAB, dim = 24, layers = 2, heads = 4, kv_heads = pick(1, 2, 4),
    head_dim = width, hidden = 20, context = 16, norm = pick("rms", "rms1", "layer", "plain"),
    norm_bias = pick(true, false), norm_place = pick("pre", "pre", "post", "both", "sum"),
    activation = pick("silu", "gelu", "gelu_tanh", "relu"), gated = pick(true, false),
    bias = pick(true, false, { head = true }), qk_norm = pick(nil, "head", "width"),
    clip = pick(nil, 0.2), windows = pick(false, 3, { 2, false }), softcap = pick(nil, 0.5),
    final_softcap = pick(nil, 0.3), scale = pick(nil, 0.7), layer_scale = pick(false, true),
    embed_scale = pick(nil, 5), embed_dim = pick(nil, 10), tie = pick(false, true),
    parallel = pick(nil, "one", "two") }
  if o.parallel then o.norm_place = "pre" end
  if pick(1, 2, 3) == 1 then
    o.positions, o.position_offset = "learned", pick(0, 2)
  else
    o.rope, o.rope_local = draw_rope(pick, pick(4, width)), pick(nil, { base = 50 })
  end
  if pick(1, 2) == 1 then
    o.experts = { count = 5, top = pick(1, 2, 3), normalize = pick(true, false),
      shared = pick(nil, 12), hidden = 12, layers = pick(nil, { false, true }) }
  end
  return o
end

-- A model with larger weights than it would begin with: what is small shows too.
local function make(seed)
  mrt.seed(seed)
  local model = nn.Decoder(draw(seed))
  for _, p in ipairs(model:parameters()) do p:assign(p + mrt.randn(p:size()) * 0.15) end
  mrt.eval(model:parameters())
  return model
end

local function loss_of(logits, ids)
  return nn.cross_entropy(logits:reshape(-1, VOCAB), ids:reshape(-1))
end

describe("Decoder", function()
  it("computes what its formulas say, whatever its options", function()
    for seed = 1, 40 do
      local model, ids = make(seed), tokens()
      local params, what = model:parameters(), "seed " .. seed
      local wanted, got = plain.logits(model, ids), model(ids)
      local a = mrt.grad(loss_of(wanted, ids), params, { allow_unused = true })
      local b = mrt.grad(model:loss(ids, ids), params, { allow_unused = true })
      mrt.eval(wanted, got, a, b)
      near(wanted, got, 2e-5, what)
      local most = 0
      for i in ipairs(params) do most = math.max(most, a[i]:abs():amax():item()) end
      for i in ipairs(params) do
        local off = (a[i] - b[i]):abs():amax():item()
        assert.is_true(off <= 2e-5 * most, ("%s: gradient of %s: %g of %g"):format(what,
          params[i]:get_name() or i, off, most))
      end
    end
  end)

  it("gives the same bits within a budget, and recomputed", function()
    for _, seed in ipairs { 2, 5 } do
      local model, ids = make(seed), tokens()
      local params = model:parameters()
      local function step(options)
        return mrt.compile(function(x)
          local loss = model:loss(x, x)
          return loss, table.unpack(mrt.grad(loss, params, { allow_unused = true }))
        end, options)
      end
      local function bytes(options)
        local out = {}
        for i, x in ipairs { step(options)(ids) } do out[i] = x:bytes() end
        return table.concat(out)
      end
      local free = step {}:plan(ids).peak
      local all = bytes {}
      assert.is_true(all == bytes { memory = math.floor(free * 0.9) }, "seed " .. seed)
      assert.is_true(all == bytes { checkpoint = mrt.policy.checkpoint.every(1) }, "seed " .. seed)
    end
  end)

  it("in bf16 is as near as bf16 allows", function()
    for seed = 1, 12 do
      local model, ids = make(seed), tokens()
      if not model.options.experts then -- another one may be chosen
        local wanted = mrt.eval(model(ids))
        local off = model:to "bf16"(ids):to "f32" - wanted
        assert.is_true((off:norm() / wanted:norm()):item() < 0.06, "seed " .. seed)
        assert.are.equal("bf16", model:features(ids):get_dtype())
      end
    end
  end)

  it("is trained in micro-batches as in whole ones", function()
    for _, seed in ipairs { 2, 5 } do
      local function trained(options)
        local model = make(seed)
        local opt = mrt.optim.sgd(model:parameters(), { lr = 0.1 })
        local step = mrt.compile(function(x)
          local loss = model:loss(x, x)
          opt:step(mrt.grad(loss, model:parameters(), { allow_unused = true }))
          return loss
        end, options)
        mrt.seed(8)
        step(tokens())
        return model
      end
      local whole, parts = trained {}, trained { accumulate = 2 }
      for name, p in pairs(whole:state()) do near(p, parts:state()[name], 2e-5, name) end
    end
  end)

  it("takes positions from where each row starts", function()
    mrt.seed(4)
    local model = nn.Decoder { vocab = VOCAB, dim = 24, layers = 1, heads = 2, context = 64 }
    local ids, start = tokens(6), mrt.tensor({ 5, 40 }, "i32")
    near(model(ids), model(ids, { start = start }), 1e-5) -- only distances count
    local places = mrt.tensor({ { 0, 1, 2, 3, 4, 5 }, { 0, 1, 2, 3, 4, 5 } }, "i32")
    assert.is_true(model(ids):bytes() == model(ids, { positions = places }):bytes())
  end)

  it("reads its own segment alone, and no padding", function()
    local model, ids = make(6), tokens(8)
    local segments = mrt.tensor({ { 0, 0, 0, 1, 1, 1, 1, 1 }, { 0, 0, 0, 0, 0, 0, 0, 0 } }, "i32")
    local places = mrt.tensor({ { 0, 1, 2, 0, 1, 2, 3, 4 }, { 0, 1, 2, 3, 4, 5, 6, 7 } }, "i32")
    local packed = model(ids, { segments = segments, positions = places })
    near(model(ids:slice(1, 1, 1):slice(2, 4, 8)), packed:slice(1, 1, 1):slice(2, 4, 8), 2e-5)
    near(model(ids:slice(1, 2, 2)), packed:slice(1, 2, 2), 2e-5)
    local short = model(ids, { lengths = mrt.tensor({ 3, 8 }, "i32") })
    near(model(ids):slice(1, 1, 1):slice(2, 1, 3), short:slice(1, 1, 1):slice(2, 1, 3), 2e-5)
  end)

  it("leaves negative targets out of the mean", function()
    local model, ids = make(9), tokens()
    local some = mrt.where(mrt.arange(T):lt(4), -1, ids):to "i32"
    local wanted = loss_of(model(ids):slice(2, 5, T), ids:slice(2, 5, T))
    near(wanted, model:loss(ids, some), 1e-5)
    near(wanted, model:loss(ids, mrt.where(some:lt(0), 1, some):to "i32",
      { ignore_index = 1, chunks = 2 }), 1)
  end)

  it("refuses by name what it cannot be", function()
    local function refused(changed, text)
      local o = { vocab = 8, dim = 12, layers = 2, heads = 3, context = 8 }
      for name, value in pairs(changed) do o[name] = value end
      assert.error_matches(function() nn.Decoder(o) end, text)
    end
    refused({ heads = 5 }, "heads 5")
    refused({ kv_heads = 2 }, "kv_heads 2")
    refused({ norm = "batch" }, "option 'norm'")
    refused({ activation = "sine" }, "option 'activation'")
    refused({ windows = { 1 } }, "one for each of 2 layers")
    refused({ windows = -1 }, "an integer from 0")
    refused({ head_dim = 5 }, "width 5")
    refused({ rope = { width = 6 } }, "width 6")
    refused({ rope = { scaling = { kind = "spiral" } } }, 'kind "spiral"')
    refused({ rope = { scaling = { kind = "yarn", factor = 2 } } }, "original is missing")
    refused({ rope = {}, positions = "learned" }, "positions are learned")
    refused({ experts = { count = 2, top = 3 } }, "top 3 of 2")
    refused({ parallel = "one", norm_place = "post" }, "parallel one")
    refused({ colour = 1 }, "no option 'colour'")
    local model = nn.Decoder { vocab = 8, dim = 12, layers = 1, heads = 3, context = 8 }
    assert.error_matches(function() model(mrt.zeros({ 1, 9 }, { dtype = "i32" })) end,
      "at most context = 8")
  end)

  it("turns as published models do, at positions far out", function()
    local list = rotary.frequencies({ base = 500000, width = 64 }, 1, 1)
    -- torch: 1 / 500000 ** (torch.arange(0, 64, 2).float() / 64)
    local wanted = { [1] = 1, [2] = 0.663601279, [10] = 0.0249554086, [32] = 3.01385808e-06 }
    for i, x in pairs(wanted) do
      assert.is_true(math.abs(list[i] / x - 1) < 1e-7, ("%d: %.9g"):format(i, list[i]))
    end
    local x = mrt.ones(1, 1, 1, 64)
    local place = mrt.tensor({ 131071 }, "i32")
    local y = x:rope { frequencies = mrt.tensor(list, "f32"), positions = place }:totable()[1][1][1]
    local function f32(v) return (string.unpack("f", string.pack("f", v))) end
    for i = 1, 32 do
      local angle = f32(131071 * list[i])
      assert.is_true(math.abs(y[i] - (math.cos(angle) - math.sin(angle))) < 2e-7)
    end
  end)
end)
