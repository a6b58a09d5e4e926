-- cache_spec.lua -- with a cache a decoder computes what it computes without

local mrt = require "mrt"
local nn = mrt.nn

local function ints(list) return mrt.tensor(list, "i32") end

local function size(x) return x:to "f32":abs():max():item() end

-- Decoders that differ in what a cache sees.
local kinds = {
  { rope = { base = 1000 } },
  { windows = { false, 5, false }, qk_norm = "head" },
  { windows = 3, kv_heads = 1, softcap = 5, norm_place = "both" },
  { positions = "learned", kv_heads = 4, bias = true, norm = "layer", gated = false, tie = true },
  { head_dim = 24, parallel = "one", rope = { width = 8 } },
}

local function decoder(kind)
  local o = { vocab = 61, dim = 32, layers = 3, heads = 4, kv_heads = 2, context = 40, hidden = 48 }
  for name, value in pairs(kind) do o[name] = value end
  return nn.Decoder(o):eval()
end

-- Logits of ids [B,n], by pieces of these sizes.
local function by_pieces(model, ids, pieces, cache)
  local step = mrt.compile(function(tokens, start)
    return model(tokens, { cache = cache, start = start })
  end)
  local parts, from = {}, 0
  for i, n in ipairs(pieces) do
    local start = {}
    for b = 1, ids:size(1) do start[b] = from end
    parts[i] = step(ids:slice(2, from + 1, from + n), ints(start))
    from = from + n
  end
  return mrt.cat(parts, 2)
end

describe("a cache of keys and values", function()
  it("changes no logits, however tokens come", function()
    mrt.seed(1)
    for k, kind in ipairs(kinds) do
      local model = decoder(kind)
      local ids = mrt.randint(0, 61, 2, 19)
      local wanted = model(ids)
      for _, pieces in ipairs { { 19 }, { 7, 1, 1, 8, 1, 1 } } do
        local cache = model:cache { batch = 2, length = 23 }
        local got = by_pieces(model, ids, pieces, cache)
        assert.is_true(size(got - wanted) <= 2e-6 * size(wanted), "kind " .. k)
      end
    end
  end)

  it("changes none of decoders made at random", function()
    local random = require "mrt.data.random".new(20)
    local function of(list) return list[1 + random:number() * #list // 1] end
    mrt.seed(5)
    for n = 1, 10 do
      local window = of { false, 2, 7 }
      local model = decoder { kv_heads = of { 1, 2, 4 }, head_dim = of { 8, 20 },
        windows = { window, of { false, window }, window }, softcap = of { 3, false } or nil,
        norm = of { "rms", "rms1", "layer" }, norm_place = of { "pre", "post", "both" },
        qk_norm = of { "head", "width", false } or nil, bias = of { true, false },
        positions = of { "rotary", "learned" }, gated = of { true, false },
        tie = of { true, false }, final_softcap = of { 4, false } or nil,
        embed_scale = of { 2, false } or nil,
        experts = of { { count = 3, top = 2 }, false } or nil }
      local batch, pieces, length = of { 1, 3 }, {}, 0
      for i = 1, 4 do pieces[i] = of { 1, 1, 3, 9 } end
      for _, piece in ipairs(pieces) do length = length + piece end
      local ids = mrt.randint(0, 61, batch, length)
      local wanted = model(ids)
      local got = by_pieces(model, ids, pieces, model:cache { batch = batch, length = length })
      assert.is_true(size(got - wanted) <= 5e-6 * size(wanted), "decoder " .. n)
    end
  end)

  it("has samples at places of their own, and padding that nobody sees", function()
    mrt.seed(2)
    for _, kind in ipairs(kinds) do
      local model = decoder(kind)
      local ids = mrt.randint(0, 61, 2, 12)
      local wanted = model(ids)
      local at = { cache = model:cache { batch = 2, length = 12 } }
      local function read(from, n, start, lengths)
        local a, b = ids:slice(1, 1, 1), ids:slice(1, 2, 2)
        local tokens = mrt.cat({ a:slice(2, from[1], from[1] + n - 1),
          b:slice(2, from[2], from[2] + n - 1) }, 1)
        at.start, at.lengths = ints(start), ints(lengths)
        return mrt.eval(model(tokens, at))
      end
      read({ 1, 1 }, 6, { 0, 0 }, { 6, 2 })
      local got = read({ 7, 3 }, 6, { 6, 2 }, { 6, 6 })
      local a = got:slice(1, 1, 1) - wanted:slice(1, 1, 1):slice(2, 7, 12)
      local b = got:slice(1, 2, 2) - wanted:slice(1, 2, 2):slice(2, 3, 8)
      assert.is_true(math.max(size(a), size(b)) <= 2e-6 * size(wanted))
    end
  end)

  it("may be narrow, and of narrow models", function()
    mrt.seed(3)
    local model = decoder(kinds[1])
    local ids = mrt.randint(0, 61, 2, 19)
    local wanted = model(ids)
    for dtype, off in pairs { bf16 = 2e-2, f16 = 2e-3 } do
      local cache = model:cache { batch = 2, dtype = dtype }
      local got = by_pieces(model, ids, { 7, 1, 11 }, cache)
      assert.is_true(size(got - wanted) <= off * size(wanted), dtype)
      assert.equal("f32", got.dtype)
    end
    model:to "bf16"
    local narrow = model(ids)
    local cache = model:cache { batch = 2 }
    assert.equal("bf16", cache.dtype)
    local got = by_pieces(model, ids, { 7, 1, 11 }, cache)
    assert.is_true(size(got - narrow) <= 3e-2 * size(wanted))
  end)

  it("takes the bytes that it says, which are the plan's, and is written in place", function()
    local model = decoder(kinds[1])
    local cache = model:cache { batch = 2, length = 30 }
    assert.equal(3 * 2 * 2 * 30 * 2 * 8 * 4, cache:nbytes())
    local step = mrt.compile(function(tokens, start)
      return model(tokens, { cache = cache, start = start })
    end)
    local plan = step:plan(mrt.zeros({ 2, 1 }, { dtype = "i32" }), ints { 0, 0 })
    local weights = 0
    for _, p in model:named_parameters() do weights = weights + p:nbytes() end
    local rest = plan.persistent - weights - cache:nbytes()
    assert.is_true(rest >= 0 and rest < 8192, rest)
    for _, node in ipairs(plan:steps()) do
      assert.is_true(node.op ~= "copy" and node.op ~= "assign", node.op)
    end
  end)

  it("refuses what it cannot be", function()
    local model = decoder(kinds[1])
    assert.error_matches(function() model:cache { dtype = "i32" } end, "cache: dtype \"i32\"")
    assert.error_matches(function() model:cache { batch = 0 } end, "cache: .*batch")
    assert.error_matches(function() model:cache { size = 3 } end, "cache: no option 'size'")
  end)
end)
