-- update_product.lua -- samples of updates that compute the product which is their gradient
--
-- Such an update is the update by a gradient that is multiplied, and added to, first.
local updates = {}
for _, row in ipairs(require "op.samples.update") do updates[row.op] = row.oracle end

local written = { descend = 1, sgd = 2, rmsprop = 2, adamw = 3 }

-- a @ b, and of a table the rows of dy that ids say.
local function gradient(p, a, b, ids, dy)
  local g, M, N, K = {}, p.dims[1], p.dims[2], a.dims[2]
  for i = 0, M - 1 do
    for j = 0, N - 1 do
      local sum = 0.0
      for k = 0, K - 1 do sum = sum + a.data[i * K + k + 1] * b.data[k * N + j + 1] end
      g[i * N + j + 1] = sum
    end
  end
  for i, id in ipairs(ids and ids.data or {}) do
    for j = 1, N do g[id * N + j] = g[id * N + j] + dy.data[(i - 1) * N + j] end
  end
  return { dims = p.dims, data = g }
end

local function oracle(name)
  return function(ins, o)
    local n, list = written[name], {}
    local at = n + 3 + (o.rows and 2 or 0)
    for k = 1, n do list[k] = ins[k] end
    list[n + 1] = gradient(ins[1], ins[n + 1], ins[n + 2], o.rows and ins[n + 3],
      o.rows and ins[n + 4])
    for k = at, #ins do list[n + 2 + k - at] = ins[k] end
    return updates[name](list, o)
  end
end

local function number(x) return { dims = {}, values = { x } } end
local function ids(n, dims, dtype) return { dims = dims, dtype = dtype or "i64", integer = n } end

local yes = { dims = {}, dtype = "bool", values = { true } }
local no = { dims = {}, dtype = "bool", values = { false } }
local tails = { {}, { number(0.5) }, { number(0.5), yes }, { number(2), no } }

-- M, N, K and, of a table, what ids are like
local sizes = { { 5, 3, 4 }, { 1, 1, 1 }, { 70, 33, 9 }, { 200, 17, 130 }, { 3, 4, 0 }, { 0, 4, 2 },
  { 4, 0, 2 }, { 7, 5, 3, ids(7, { 4 }) }, { 150, 20, 6, ids(9, { 3, 8 }, "i32") },
  { 3, 2, 2, ids(3, {}, "u8") }, { 3, 530, 2, ids(3, { 9 }) }, { 3, 2, 2, ids(3, { 0 }) } }

local function cases(name, options, more)
  local out = {}
  for i, size in ipairs(sizes) do
    local M, N, K, some = table.unpack(size)
    local inputs = {}
    for k = 1, written[name] do inputs[k] = { dims = { M, N }, low = 0.1, high = 1 } end
    inputs[#inputs + 1], inputs[#inputs + 2] = { dims = { M, K } }, { dims = { K, N } }
    if some then
      local dims = { table.unpack(some.dims) }
      dims[#dims + 1] = N
      inputs[#inputs + 1], inputs[#inputs + 2] = some, { dims = dims }
    end
    if name == "adamw" then inputs[#inputs + 1] = number(3) end
    inputs[#inputs + 1] = number(0.1)
    local tail = tails[i % #tails + 1]
    table.move(tail, 1, #tail, #inputs + 1, inputs)
    local o = { rows = some and true or nil }
    for key, value in pairs(options) do o[key] = value end
    for key, value in pairs(i % 2 == 0 and more or {}) do o[key] = value end
    out[i] = { inputs = inputs, options = o }
  end
  return out
end

local p, one = { dims = { 7, 5 } }, number(1)
local a, b, some, dy = { dims = { 7, 3 } }, { dims = { 3, 5 } }, ids(7, { 4 }), { dims = { 4, 5 } }

local function bad(options, code, match, ...)
  return { inputs = { ... }, options = options, code = code, match = match }
end

local lazy = bad({ lazy = true }, "value", "lazy", p, p, a, b, one)

return {
  { op = "descend_product", updates = true, grad = false, oracle = oracle "descend",
    cases = cases("descend", {}, { weight_decay = 0.1 }),
    bad = {
      bad({}, "shape", "two dimensions", { dims = { 7 } }, a, b, one),
      bad({}, "shape", "inner sizes", p, a, a, one),
      bad({}, "shape", "the shape of", p, b, { dims = { 5, 5 } }, one),
      bad({}, "shape", "", p, { dims = { 7 } }, b, one),
      bad({}, "dtype", "", p, some, b, one),
      bad({ lazy = true }, "value", "lazy", p, a, b, one),
      bad({}, "value", "inputs", p, a, b, one, one, yes, one),
      bad({ rows = true }, "value", "inputs", p, a, b, one),
      bad({ rows = true }, "dtype", "i64, i32 or u8", p, a, b, dy, dy, one),
      bad({ rows = true }, "shape", "ids and then C", p, a, b, some, { dims = { 4, 6 } }, one),
      bad({ rows = true }, "value", "empty", { dims = { 0, 5 } }, { dims = { 0, 3 } }, b, some, dy,
        one),
    } },
  { op = "sgd_product", updates = true, grad = false, oracle = oracle "sgd",
    cases = cases("sgd", { momentum = 0.9 }, { nesterov = true, weight_decay = 0.1 }),
    bad = { lazy } },
  { op = "rmsprop_product", updates = true, grad = false, oracle = oracle "rmsprop",
    cases = cases("rmsprop", { keep = 0.9, eps = 1e-3 }, { weight_decay = 0.1 }),
    bad = { lazy } },
  { op = "adamw_product", updates = true, grad = false, oracle = oracle "adamw",
    cases = cases("adamw", {}, { coupled = true, weight_decay = 0.1 }),
    bad = { bad({ lazy = true }, "value", "lazy", p, p, p, a, b, one, one) } },
}
