-- index.lua -- samples of gather, embedding and its gradient

local arrays = require "op.arrays"
local at, make, with, dim, float =
  arrays.at, arrays.make, arrays.with, arrays.dim, arrays.float

local function gather(ins, options)
  local x, ids = ins[1], ins[2]
  local d = dim(x, options.dim)
  return {
    make(ids.dims, function(index)
      return at(x, with(index, d, at(ids, index) + 1))
    end),
  }
end

local function embedding(ins)
  local w, ids = ins[1], ins[2]
  local dims = with(ids.dims, #ids.dims + 1, w.dims[2])
  return {
    make(dims, function(index)
      return at(w, { at(ids, index) + 1, index[#dims] })
    end),
  }
end

local function embedding_grad(ins, options)
  local ids, dy = ins[1], ins[2]
  local C = dy.dims[#dy.dims]
  local dw = make({ options.rows, C }, function()
    return 0.0
  end)
  for i, id in ipairs(ids.data) do
    for j = 1, C do
      dw.data[id * C + j] = dw.data[id * C + j] + dy.data[(i - 1) * C + j]
    end
  end
  return { dw }
end

local function embedding_add(ins)
  local c = ins[3]
  local dw = embedding_grad(ins, { rows = c.dims[1] })[1]
  for i, v in ipairs(c.data) do dw.data[i] = dw.data[i] + v end
  return { dw }
end

-- Ids below n.
local function ids(n, dims, dtype)
  return { dims = dims, dtype = dtype or "i64", integer = n }
end

return {
  {
    op = "gather",
    cases = {
      { inputs = { float(5), ids(5, { 8 }) }, options = { dim = 1 } },
      { inputs = { float(4, 3), ids(4, { 6, 3 }) }, options = { dim = 1 } },
      { inputs = { float(4, 3), ids(3, { 2, 7 }, "i32") },
        options = { dim = 2 } },
      { inputs = { float(2, 4, 3), ids(4, { 1, 5, 2 }, "u8") },
        options = { dim = -2 } },
      { inputs = { float(4, 3), ids(4, { 0, 3 }) }, options = { dim = 1 } },
    },
    bad = {
      { inputs = { float(4, 3), ids(3, { 5, 2 }) }, options = { dim = 2 },
        code = "shape", match = "no larger size" },
      { inputs = { float(4, 3), ids(3, { 4 }) }, options = { dim = 2 },
        code = "shape", match = "same rank" },
      { inputs = { float(4), float(4) }, options = { dim = 1 },
        code = "dtype", match = "i64, i32 or u8" },
      { inputs = { float(0), ids(1, { 4 }) }, options = { dim = 1 },
        code = "value", match = "empty" },
      { inputs = { float(4), ids(4, { 4 }) }, options = { dim = 2 },
        code = "value", match = "dim 2" },
    },
    oracle = gather,
    grad = { 1 },
  },
  {
    op = "embedding",
    cases = {
      { inputs = { float(7, 5), ids(7, { 4 }) } },
      { inputs = { float(7, 40), ids(7, { 2, 9 }, "i32") } },
      { inputs = { float(3, 2), ids(3, {}, "u8") } },
      { inputs = { float(3, 2), ids(3, { 0 }) } },
      { inputs = { float(3, 0), ids(3, { 4 }) } },
    },
    bad = {
      { inputs = { float(7), ids(7, { 4 }) }, code = "shape",
        match = "two dimensions" },
      { inputs = { float(7, 5), float(4) }, code = "dtype",
        match = "i64, i32 or u8" },
      { inputs = { float(0, 5), ids(1, { 4 }) }, code = "value",
        match = "empty" },
    },
    oracle = embedding,
    grad = { 1 },
  },
  {
    op = "embedding_grad",
    cases = {
      { inputs = { ids(7, { 4 }), float(4, 5) }, options = { rows = 7 } },
      { inputs = { ids(3, { 2, 9 }, "i32"), float(2, 9, 70) },
        options = { rows = 5 } },
      { inputs = { ids(3, {}, "u8"), float(2) }, options = { rows = 3 } },
      { inputs = { ids(3, { 0 }), float(0, 2) }, options = { rows = 3 } },
    },
    bad = {
      { inputs = { ids(3, { 4 }), float(3, 2) }, options = { rows = 3 },
        code = "shape", match = "ids and then C" },
      { inputs = { ids(3, { 4 }), float(4, 2) }, options = { rows = 0 },
        code = "value", match = "0 rows" },
    },
    oracle = embedding_grad,
    grad = { 2 },
  },
  {
    op = "embedding_add",
    cases = {
      { inputs = { ids(7, { 4 }), float(4, 5), float(7, 5) } },
      { inputs = { ids(3, { 2, 9 }, "i32"), float(2, 9, 70), float(5, 70) } },
      { inputs = { ids(3, { 40 }), float(40, 530), float(9, 530) } },
      { inputs = { ids(3, {}, "u8"), float(2), float(3, 2) } },
      { inputs = { ids(3, { 0 }), float(0, 2), float(3, 2) } },
    },
    bad = {
      { inputs = { ids(3, { 4 }), float(3, 2), float(3, 2) },
        code = "shape", match = "ids and then C" },
      { inputs = { ids(3, { 4 }), float(4, 2), float(3, 5) },
        code = "shape", match = "%[3,2%] wanted" },
      { inputs = { ids(3, { 4 }), float(4, 2), float(3) },
        code = "shape", match = "two dimensions" },
      { inputs = { ids(3, { 4 }), float(4, 2), float(0, 2) },
        code = "value", match = "0 rows" },
    },
    oracle = embedding_add,
    grad = { 2, 3 },
  },
}
