-- update_rows.lua -- samples of updates by rows, and of the updates that they are of
--
-- An update by rows is the update by a gradient that is added up first.
local updates = {}
for _, row in ipairs(require "op.samples.update") do updates[row.op] = row.oracle end

local EACH <const>, MEAN <const>, MEAN_AT <const> = 0, 2, 4
local written = { descend = 1, sgd = 2, rmsprop = 2, adamw = 3 }

-- Bags as lists of ids; where each id is by itself, bags of one.
local function bags_of(kind, ids, offsets)
  local bags, n = {}, #ids.data
  local each = kind == EACH and 1 or ids.dims[#ids.dims]
  local count = offsets and #offsets.data or 0
  if not offsets then
    count = 1
    for d = 1, #ids.dims - (kind == EACH and 0 or 1) do count = count * ids.dims[d] end
  end
  for b = 1, count do
    local from, to = (b - 1) * each, b * each
    if offsets then from, to = offsets.data[b], offsets.data[b + 1] or n end
    bags[b] = { table.unpack(ids.data, from + 1, to) }
  end
  return bags
end

local function gradient(p, ins, kinds, at)
  local g, C = {}, p.dims[2]
  for i = 1, #p.data do g[i] = 0.0 end
  for _, kind in ipairs(kinds) do
    local offsets = kind > MEAN and ins[at + 2] or nil
    local mean = kind == MEAN or kind == MEAN_AT
    for b, bag in ipairs(bags_of(kind, ins[at], offsets)) do
      for _, id in ipairs(bag) do
        for j = 1, C do
          g[id * C + j] = g[id * C + j] + ins[at + 1].data[(b - 1) * C + j]
            / (mean and #bag or 1)
        end
      end
    end
    at = at + (offsets and 3 or 2)
  end
  return { dims = p.dims, data = g }, at
end

-- Rows of zeros keep what they have.
local function lazily(ins, outs, g)
  local C = g.dims[2]
  for v = 0, g.dims[1] - 1 do
    local any = false
    for j = 1, C do any = any or g.data[v * C + j] ~= 0 end
    for k = 1, any and 0 or #outs do
      for j = 1, C do outs[k].data[v * C + j] = ins[k].data[v * C + j] end
    end
  end
  return outs
end

local function oracle(name)
  return function(ins, o)
    local n, list = written[name], {}
    local g, at = gradient(ins[1], ins, o.kinds, n + 1)
    for k = 1, n do list[k] = ins[k] end
    list[n + 1] = g
    for k = at, #ins do list[n + 2 + k - at] = ins[k] end
    local outs = updates[name](list, o)
    return o.lazy and lazily(ins, outs, g) or outs
  end
end

local function number(x) return { dims = {}, values = { x } } end
local function ids(n, dims, dtype) return { dims = dims, dtype = dtype or "i64", integer = n } end
local function values(list, dtype)
  return { dims = { #list }, dtype = dtype or "i64", values = list }
end

local V <const> = 200

-- kinds, and what each list has, for rows of C
local function lists(C)
  return {
    { { 0 }, ids(V, { 4, 3 }), { dims = { 4, 3, C } } },
    { { 0 }, ids(3, { 190 }, "u8"), { dims = { 190, C } } },
    { { 0 }, ids(V, {}, "i32"), { dims = { C } } },
    { { 0 }, ids(V, { 0 }), { dims = { 0, C } } },
    { { 1 }, ids(V, { 5, 30 }), { dims = { 5, C } } },
    { { 2 }, ids(9, { 2, 2, 7 }, "i32"), { dims = { 2, 2, C } } },
    { { 2 }, ids(9, { 3, 0 }), { dims = { 3, C } } },
    { { 3 }, ids(9, { 9 }), { dims = { 5, C } }, values { 0, 4, 4, 8, 9 } },
    { { 4 }, ids(9, { 9 }), { dims = { 3, C } }, values({ 2, 4, 9 }, "i32") },
    { { 0, 2, 0, 4 }, ids(9, { 6 }), { dims = { 6, C } }, ids(9, { 3, 4 }), { dims = { 3, C } },
      ids(9, { 2, 3 }), { dims = { 2, 3, C } }, ids(9, { 5 }), { dims = { 2, C } },
      values { 0, 2 } },
  }
end

local yes = { dims = {}, dtype = "bool", values = { true } }
local no = { dims = {}, dtype = "bool", values = { false } }
local tails = { {}, { number(0.5) }, { number(0.5), yes }, { number(2), no } }

local function cases(name, options, more)
  local out = {}
  for _, C in ipairs { 5, 70, 0 } do
    for i, list in ipairs(lists(C)) do
      local inputs = {}
      for k = 1, written[name] do
        inputs[k] = { dims = { V, C }, low = 0.1, high = 1 }
      end
      table.move(list, 2, #list, #inputs + 1, inputs)
      if name == "adamw" then inputs[#inputs + 1] = number(3) end
      inputs[#inputs + 1] = number(0.1)
      local tail = tails[i % #tails + 1]
      table.move(tail, 1, #tail, #inputs + 1, inputs)
      local o = { kinds = list[1] }
      for key, value in pairs(options) do o[key] = value end
      for key, value in pairs(i % 2 == 0 and more or {}) do o[key] = value end
      out[#out + 1] = { inputs = inputs, options = o }
    end
  end
  return out
end

local table_, one = { dims = { 7, 5 } }, number(1)
local some, dy = ids(7, { 4 }), { dims = { 4, 5 } }

local function bad(kinds, code, match, ...)
  return { inputs = { ... }, options = { kinds = kinds }, code = code, match = match }
end

local adagrad = { keep = 1, add = 1, eps = 1e-3 }
local not_lazy = { inputs = { table_, table_, some, dy, one }, options = { kinds = { 0 } },
  code = "value", match = "lazy wanted" }

return {
  { op = "descend_rows", updates = true, grad = false, oracle = oracle "descend",
    cases = cases("descend", {}, { lazy = true, weight_decay = 0.1 }),
    bad = {
      bad({ 0 }, "shape", "two dimensions", { dims = { 7 } }, some, dy, one),
      bad({}, "value", "0 lists", table_, some, dy, one),
      bad({ 5 }, "value", "kind 5", table_, some, dy, one),
      bad({ 0, 0 }, "value", "more wanted", table_, some, dy, one),
      bad({ 0 }, "value", "at most", table_, some, dy, one, one, yes, one),
      bad({ 0 }, "dtype", "i64, i32 or u8", table_, dy, dy, one),
      bad({ 0 }, "shape", "ids and then C", table_, some, { dims = { 4, 6 } }, one),
      bad({ 2 }, "shape", "a row for each bag", table_, some, dy, one),
      bad({ 1 }, "shape", "at least one dimension", table_, ids(7, {}), { dims = { 5 } }, one),
      bad({ 3 }, "shape", "one dimension each", table_, ids(7, { 2, 2 }), dy,
        values { 0, 1, 2, 3 }, one),
      bad({ 0 }, "value", "empty", { dims = { 0, 5 } }, some, dy, one),
      { inputs = { table_, some, dy, one }, options = { kinds = { 0 }, weight_decay = 0.1 },
        code = "value", match = "lazy wanted" },
    } },
  { op = "sgd_rows", updates = true, grad = false, oracle = oracle "sgd",
    cases = cases("sgd", { lazy = true, momentum = 0.9 }, { nesterov = true, weight_decay = 0.1 }),
    bad = { not_lazy } },
  { op = "rmsprop_rows", updates = true, grad = false, oracle = oracle "rmsprop",
    cases = cases("rmsprop", adagrad, { lazy = true, weight_decay = 0.1, keep = 0.9 }),
    bad = { not_lazy } },
  { op = "adamw_rows", updates = true, grad = false, oracle = oracle "adamw",
    cases = cases("adamw", { lazy = true }, { coupled = true, weight_decay = 0.1 }),
    bad = {
      { inputs = { table_, table_, table_, some, dy, one, one }, options = { kinds = { 0 } },
        code = "value", match = "lazy wanted" },
    } },
}
