-- embedding_bag.lua -- samples of embedding_bag and its gradient

-- Ids of each bag, as a list of lists, and the dimensions before C.
local function bags_of(ids, offsets)
  local list, dims = {}, {}
  if offsets then
    for b, from in ipairs(offsets.data) do
      local to = offsets.data[b + 1] or #ids.data
      list[b] = { table.unpack(ids.data, from + 1, to) }
    end
    return list, { #list }
  end
  local each = ids.dims[#ids.dims]
  local count = 1
  for d = 1, #ids.dims - 1 do
    dims[d] = ids.dims[d]
    count = count * dims[d]
  end
  for b = 1, count do
    list[b] = { table.unpack(ids.data, (b - 1) * each + 1, b * each) }
  end
  return list, dims
end

local function embedding_bag(ins, o)
  local w, C = ins[1].data, ins[1].dims[2]
  local list, dims = bags_of(ins[2], ins[3])
  local y, won = {}, {}
  for b, ids in ipairs(list) do
    for j = 1, C do
      local at, sum, most, best = (b - 1) * C + j, 0.0, -math.huge, -1
      for _, id in ipairs(ids) do
        local x = w[id * C + j]
        sum = sum + x
        if x > most then most, best = x, id end
      end
      local mode = o.mode or "mean"
      won[at] = best
      y[at] = #ids == 0 and 0 or mode == "max" and most
        or mode == "mean" and sum / #ids or sum
    end
  end
  dims[#dims + 1] = C
  local out = { { dims = dims, data = y } }
  if o.mode == "max" then out[2] = { dims = dims, data = won } end
  return out
end

local function embedding_bag_grad(ins, o)
  local dy, C = ins[1].data, ins[1].dims[#ins[1].dims]
  local dw = {}
  for i = 1, o.rows * C do dw[i] = 0.0 end
  for b, ids in ipairs((bags_of(ins[2], ins[3]))) do
    for _, id in ipairs(ids) do
      for j = 1, C do
        local share = o.mode == "sum" and 1 or #ids
        dw[id * C + j] = dw[id * C + j] + dy[(b - 1) * C + j] / share
      end
    end
  end
  return { { dims = { o.rows, C }, data = dw } }
end

local function ids(n, dims, dtype)
  return { dims = dims, dtype = dtype or "i64", integer = n }
end

local function offsets(values, dtype)
  return { dims = { #values }, dtype = dtype or "i64", values = values }
end

local function float(...) return { dims = { ... } } end

-- ids, offsets, the bags' dimensions
local bags = {
  { ids(7, { 4, 3 }), nil, { 4 } },
  { ids(7, { 2, 2, 5 }, "i32"), nil, { 2, 2 } },
  { ids(7, { 6 }, "u8"), nil, {} },
  { ids(7, { 3, 0 }), nil, { 3 } },
  { ids(7, { 0, 3 }), nil, { 0 } },
  { ids(7, { 9 }), offsets { 0, 4, 4, 8, 9 }, { 5 } },
  { ids(7, { 5 }), offsets({ 2 }, "i32"), { 1 } },
  { ids(7, { 5 }), offsets {}, { 0 } },
}

local forward, backward = {}, {}
for _, mode in ipairs { "sum", "mean", "max" } do
  for _, bag in ipairs(bags) do
    for _, C in ipairs { 5, 70, 0 } do
      forward[#forward + 1] = { inputs = { float(7, C), bag[1], bag[2] },
        options = { mode = mode } }
      local dims = { table.unpack(bag[3]) }
      dims[#dims + 1] = C
      if mode ~= "max" then
        backward[#backward + 1] = { inputs = { { dims = dims }, bag[1], bag[2] },
          options = { mode = mode, rows = 7 } }
      end
    end
  end
end

local w, list = float(7, 5), ids(7, { 4 })

return {
  { op = "embedding_bag", cases = forward, oracle = embedding_bag, grad = true,
    bad = {
      { inputs = { float(7), list }, code = "shape", match = "two dimensions" },
      { inputs = { w, ids(7, {}) }, code = "shape", match = "at least one dimension" },
      { inputs = { w, ids(7, { 2, 2 }), offsets { 0, 2 } }, code = "shape",
        match = "one dimension each" },
      { inputs = { w, float(4) }, code = "dtype", match = "i64, i32 or u8" },
      { inputs = { w, list, float(2) }, code = "dtype", match = "i64, i32 or u8" },
      { inputs = { float(0, 5), list }, code = "value", match = "empty" },
    } },
  { op = "embedding_bag_grad", cases = backward, oracle = embedding_bag_grad, grad = true,
    bad = {
      { inputs = { float(3, 5), ids(7, { 4, 2 }) }, options = { rows = 7 }, code = "shape",
        match = "a row for each bag" },
      { inputs = { float(4, 5), ids(7, { 4, 2 }) }, options = { rows = 0 }, code = "value",
        match = "0 rows" },
    } },
}
