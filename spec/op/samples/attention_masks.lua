-- attention_masks.lua -- samples of attention with masks, windows, lengths, pages
--
-- Sizes cross the edges of tiles (64 queries against 64 keys) and of vectors.
-- Shapes: B batches, T queries of H heads, S keys of Hk heads, D, Dv wide.

local oracle = require "op.attention_oracle"

local function qkv(B, T, S, H, Hk, D, Dv)
  return { { dims = { B, T, H, D } }, { dims = { B, S, Hk, D } },
    { dims = { B, S, Hk, Dv or D } } }
end

-- The same with o, lse and do.
local function with_grad(B, T, S, H, Hk, D, Dv)
  local ins = qkv(B, T, S, H, Hk, D, Dv)
  local lse = math.log(math.max(S, 1))
  ins[4] = { dims = { B, T, H, Dv or D } }
  ins[5] = { dims = { B, H, T }, low = lse - 1, high = lse + 1 }
  ins[6] = { dims = { B, T, H, Dv or D } }
  return ins
end

-- What may follow, in the order of the row, for `has`.
local order = { { "mask", 1 }, { "queries", 2 }, { "keys", 4 }, { "at", 8 } }

-- A case: shapes of q, k, v; the inputs that may be absent; options.
local function case(sizes, more, options)
  return { sizes = sizes, more = more or {}, options = options or {} }
end

local function floats(...) return { dims = { ... } } end
local function bools(...) return { dims = { ... }, dtype = "bool" } end
local function ints(...) return { dims = { select("#", ...) }, dtype = "i64", values = { ... } } end

-- Of which every query sees a key, so that finite differences exist.
local smooth = {
  case({ 2, 3, 4, 2, 1, 3 }, { mask = floats(1, 1, 3, 4) }),
  case({ 2, 3, 4, 2, 2, 3 }, { mask = floats(2, 1, 1, 4) }, { softcap = 1.5 }),
  case({ 1, 3, 4, 2, 1, 3 }, { mask = floats(1, 2, 3, 1) }, { causal = true }),
  case({ 2, 3, 3, 2, 1, 2, 4 }, { mask = floats(2, 2, 3, 3) }, { softcap = 0.7, scale = 0.9 }),
  case({ 1, 3, 3, 1, 1, 2 }, { mask = floats(1, 1, 1, 1) }),
  case({ 1, 5, 5, 2, 2, 3 }, nil, { left = 1, right = 2 }),
  case({ 1, 5, 5, 2, 2, 3 }, nil, { left = 2, causal = true, softcap = 2 }),
  case({ 2, 3, 5, 2, 1, 3 }, { keys = ints(5, 3) }),
  case({ 2, 3, 5, 2, 1, 3 }, { at = ints(1, 2) }, { causal = true }),
  case({ 1, 3, 5, 2, 1, 3 }, nil, { causal = true, offset = 0 }),
  case({ 0, 3, 5, 2, 1, 3 }, { mask = floats(1, 1, 3, 5), keys = ints() }),
  case({ 2, 0, 5, 2, 1, 3 }, { mask = floats(1, 1, 0, 5), queries = ints(0, 0) }),
}
-- Of which some sees none, or that are large.
local other = {
  case({ 2, 3, 0, 2, 1, 3 }, { mask = floats(1, 2, 3, 0), keys = ints(0, 0) }),
  case({ 2, 4, 5, 2, 1, 3 }, { queries = ints(4, 2), keys = ints(3, 0) }),
  case({ 2, 4, 5, 2, 1, 3 }, { mask = bools(2, 1, 1, 5) }, { causal = true }),
  case({ 2, 70, 70, 2, 1, 16 }, { mask = bools(2, 1, 1, 70) }),
  case({ 1, 70, 130, 2, 1, 16 }, { mask = bools(1, 2, 70, 130) }),
  case({ 1, 130, 67, 2, 2, 8 }, { mask = floats(1, 2, 130, 67) }, { causal = true }),
  case({ 2, 66, 129, 1, 1, 20, 33 }, { mask = floats(1, 1, 66, 129) }, { softcap = 1 }),
  case({ 1, 64, 128, 1, 1, 16 }, { mask = floats(1, 1, 64, 128) }),
  case({ 1, 65, 65, 2, 1, 8 }, { mask = floats(1, 2, 65, 1) }),
  case({ 1, 200, 200, 1, 1, 8 }, nil, { left = 20, causal = true }),
  case({ 1, 150, 260, 1, 1, 8 }, nil, { left = 3, right = 70 }),
  case({ 1, 150, 140, 1, 1, 8 }, nil, { left = 0, right = 0 }),
  case({ 1, 70, 140, 1, 1, 8 }, nil, { left = 5, right = 3, offset = -10 }),
  case({ 1, 70, 140, 1, 1, 8 }, nil, { left = 65, offset = 130 }),
  case({ 3, 130, 140, 2, 1, 8 }, { queries = ints(130, 5, 64), keys = ints(140, 70, 0) },
    { causal = true }),
  case({ 3, 130, 140, 1, 1, 8 }, { mask = bools(3, 1, 1, 140), queries = ints(130, 5, 64),
    keys = ints(140, 70, 100), at = ints(-5, 60, 200) }, { left = 80, right = 10, softcap = 3 }),
  case({ 2, 1, 150, 4, 2, 16 }, { keys = ints(150, 33), at = ints(149, 32) }, { causal = true }),
  case({ 3, 1, 200, 6, 2, 20, 100 }, { at = ints(199, 0, -1), queries = ints(1, 1, 1) },
    { left = 70, causal = true, softcap = 2 }),
  case({ 2, 1, 90, 3, 3, 33 }, { queries = ints(1, 0) }, { left = 5, right = 9, offset = 40 }),
}

-- The same in narrow floats; a mask of floats is narrow, or f32.
local function narrow(c, dtype, mask)
  return { sizes = c.sizes, more = c.more, options = c.options, dtype = dtype, mask = mask }
end
for _, i in ipairs { 4, 7, 10, 16, 17, 18 } do
  other[#other + 1] = narrow(other[i], "bf16", "f32")
end
other[#other + 1] = narrow(other[6], "bf16", "bf16")
other[#other + 1] = narrow(other[7], "f16", "f32")

local function sample(c, first)
  local ins, has = first(table.unpack(c.sizes)), 0
  for i, x in ipairs(ins) do
    if c.dtype and not x.integer then x.dtype = i == 5 and "f32" or c.dtype end
  end
  for _, one in ipairs(order) do
    local x = c.more[one[1]]
    if x then
      ins[#ins + 1] = x.dtype and x or { dims = x.dims, dtype = c.mask }
      has = has | one[2]
    end
  end
  local options = { has = has }
  for name, value in pairs(c.options) do options[name] = value end
  local mask = c.more.mask
  if first == with_grad and mask and not mask.dtype then options.mask_grad = true end
  return { inputs = ins, options = options }
end

local function samples(list, first)
  local cases = {}
  for i, c in ipairs(list) do cases[i] = sample(c, first) end
  return cases
end

-- ---- pages -----------------------------------------------------------------

-- q [B,T,H,D], `pages` pages of `page` keys, a table [B,n].
local function paged(B, T, H, Hk, D, pages, page, n)
  return { { dims = { B, T, H, D } }, { dims = { pages, page, Hk, D } },
    { dims = { pages, page, Hk, D } }, { dims = { B, n }, integer = pages } }
end
local function paged_case(sizes, more, options)
  local c = case(sizes, more, options)
  return sample(c, paged)
end

local far = paged(1, 2, 1, 1, 2, 3, 4, 2)
far[4] = { dims = { 1, 2 }, dtype = "i64", values = { 0, 3 } }

-- ---- refused ---------------------------------------------------------------

local function bad(more, options, code, match)
  local one = sample(case({ 2, 3, 5, 2, 1, 4 }, more, options), qkv)
  return { inputs = one.inputs, options = one.options, code = code, match = match }
end
local without = bad({ mask = floats(1, 1, 3, 5) }, {}, "value", "4 inputs, 3 wanted")
without.options.has = 0
local refused = {
  bad({ mask = floats(3, 5) }, {}, "shape", "mask"),
  bad({ mask = floats(1, 2, 5, 3) }, {}, "shape", "or 1 in place"),
  bad({ mask = ints(1) }, {}, "dtype", "input 4"),
  bad({ keys = floats(2) }, {}, "dtype", "input 4"),
  bad({ keys = ints(1, 2, 3) }, {}, "shape", "one for each sample"),
  bad({}, { left = -2 }, "value", "window of -2"),
  bad({}, { softcap = -1 }, "value", "softcap -1"),
  bad({}, { softcap = 0 / 0 }, "value", "softcap"),
  bad({ keys = ints(6, 5) }, {}, "data", "more than there are"),
  bad({ queries = ints(-1, 3) }, {}, "data", "negative"),
  without,
}

return {
  { op = "attention", cases = samples(smooth, qkv), bad = refused, oracle = oracle.attention,
    grad = true },
  { op = "attention", cases = samples(other, qkv), oracle = oracle.attention, grad = false },
  { op = "attention_grad", cases = samples(smooth, with_grad), oracle = oracle.attention_grad,
    grad = true },
  { op = "attention_grad", cases = samples(other, with_grad), oracle = oracle.attention_grad,
    grad = false },
  {
    op = "paged_attention",
    cases = {
      paged_case({ 2, 3, 2, 1, 4, 7, 4, 3 }),
      paged_case({ 2, 1, 4, 2, 16, 9, 16, 10 }, { keys = ints(160, 33) }, { causal = true }),
      paged_case({ 2, 70, 1, 1, 16, 5, 64, 3 },
        { mask = bools(2, 1, 1, 192), keys = ints(150, 192) }, { left = 90, softcap = 2 }),
      paged_case({ 1, 5, 2, 2, 3, 4, 100, 2 }, { mask = floats(1, 2, 5, 200), at = ints(120) },
        { causal = true }),
      paged_case({ 1, 2, 1, 1, 4, 0, 4, 0 }),
      sample(narrow(case({ 2, 3, 2, 1, 64, 7, 16, 9 }, { keys = ints(140, 3) }),
        "bf16"), paged),
    },
    bad = {
      { inputs = far, code = "data", match = "page is not there" },
      { inputs = paged(2, 1, 2, 1, 4, 0, 4, 3), code = "value", match = "has none" },
      { inputs = qkv(1, 2, 3, 1, 1, 2), code = "value" },
    },
    oracle = oracle.paged_attention,
  },
}
