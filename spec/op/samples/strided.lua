-- strided.lua -- samples of slice with a step, diagonal, windows and flip

local arrays = require "op.arrays"
local at, make, with, dim, float =
  arrays.at, arrays.make, arrays.with, arrays.dim, arrays.float

local function slice(ins, options)
  local x = ins[1]
  local d = dim(x, options.dim)
  local first, last = options.first or 1, options.last or x.dims[d]
  return { make(with(x.dims, d, math.max(0, (last - first) // options.step + 1)),
    function(index)
      return at(x, with(index, d, first + (index[d] - 1) * options.step))
    end) }
end

local function diagonal(ins, options)
  local x, offset, dims = ins[1], options.offset or 0, {}
  local p, q = dim(x, options.dim1 or 1), dim(x, options.dim2 or 2)
  for i, n in ipairs(x.dims) do
    if i ~= p and i ~= q then dims[#dims + 1] = n end
  end
  local down, right = math.max(0, -offset), math.max(0, offset)
  dims[#dims + 1] = math.max(0, math.min(x.dims[p] - down, x.dims[q] - right))
  return { make(dims, function(index)
    local from, k = {}, 0
    for i = 1, #x.dims do
      if i ~= p and i ~= q then
        k = k + 1
        from[i] = index[k]
      end
    end
    from[p], from[q] = index[#dims] + down, index[#dims] + right
    return at(x, from)
  end) }
end

local function windows(ins, options)
  local x = ins[1]
  local d, rank = dim(x, options.dim), #x.dims
  local dims = with(x.dims, d, (x.dims[d] - options.size) // options.step + 1)
  dims[rank + 1] = options.size
  return { make(dims, function(index)
    local from = { table.unpack(index, 1, rank) }
    from[d] = (index[d] - 1) * options.step + index[rank + 1]
    return at(x, from)
  end) }
end

local function flip(ins, options)
  local x, turned = ins[1], {}
  for i = 1, #x.dims do turned[i] = not options.dims or #options.dims == 0 end
  for _, d in ipairs(options.dims or {}) do turned[dim(x, d)] = true end
  return { make(x.dims, function(index)
    local from = {}
    for i, n in ipairs(x.dims) do from[i] = turned[i] and n + 1 - index[i] or index[i] end
    return at(x, from)
  end) }
end

local function typed(dtype, ...)
  return { dims = { ... }, dtype = dtype, integer = dtype == "bool" and 2 or 50 }
end

local function own_piece(ins, o)
  local x = ins[1]
  local inner = #x.data // (o.outer * o.size)
  return { make({ o.outer, inner }, function(index)
    return x.data[((index[1] - 1) * o.size + o.rank) * inner + index[2]]
  end) }
end

return {
  {
    op = "slice",
    cases = {
      { inputs = { float(7, 3) }, options = { dim = 1, step = 2 } },
      { inputs = { float(3, 8) }, options = { dim = 2, first = 2, last = 8, step = 3 } },
      { inputs = { float(2, 9, 2) }, options = { dim = 2, first = 3, last = 7, step = 2 } },
      { inputs = { float(5) }, options = { dim = 1, first = 4, step = 9 } },
      { inputs = { float(5) }, options = { dim = 1, first = 3, last = 2, step = 2 } },
      { inputs = { float(5, 0) }, options = { dim = 1, step = 2 } },
    },
    bad = {
      { inputs = { float(5) }, options = { dim = 1, step = 0 }, code = "value",
        match = "step 0, 1 or more" },
      { inputs = { float(5) }, options = { dim = 1, step = -1 }, code = "value",
        match = "see flip" },
    },
    oracle = slice,
    grad = true,
  },
  {
    op = "own_piece",
    cases = {
      { inputs = { float(6, 2) }, options = { outer = 1, rank = 1, size = 3 } },
      { inputs = { float(4, 6) }, options = { outer = 4, rank = 0, size = 2 } },
      { inputs = { float(2, 6, 3) }, options = { outer = 6, rank = 1, size = 2 } },
      { inputs = { float(5) }, options = { outer = 1, rank = 0, size = 1 } },
      { inputs = { float(0, 3) }, options = { outer = 1, rank = 1, size = 2 } },
    },
    bad = {
      { inputs = { float(4) }, options = { outer = 1, rank = 2, size = 2 }, code = "value",
        match = "piece 2 of 2" },
      { inputs = { float(4) }, options = { outer = 0, rank = 0, size = 2 }, code = "value",
        match = "after 0 elements" },
      { inputs = { float(5) }, options = { outer = 1, rank = 0, size = 2 }, code = "shape",
        match = "not cut into 2 pieces" },
    },
    oracle = own_piece,
  },
  {
    op = "diagonal",
    cases = {
      { inputs = { float(4, 4) } },
      { inputs = { float(3, 5) }, options = { offset = 1 } },
      { inputs = { float(5, 3) }, options = { offset = -2 } },
      { inputs = { float(3, 3) }, options = { offset = 3 } },
      { inputs = { float(3, 3) }, options = { offset = -4 } },
      { inputs = { float(2, 3, 4) }, options = { dim1 = -1, dim2 = 1, offset = -1 } },
      { inputs = { float(2, 3, 4, 2) }, options = { dim1 = 2, dim2 = 3, offset = 1 } },
      { inputs = { float(1, 5) } },
      { inputs = { float(0, 3) } },
    },
    bad = {
      { inputs = { float(4) }, code = "shape", match = "at least 2 dimensions" },
      { inputs = { float(4, 4) }, options = { dim1 = 2, dim2 = -1 }, code = "value",
        match = "twice" },
      { inputs = { float(4, 4) }, options = { dim1 = 3 }, code = "value", match = "dim 3" },
    },
    oracle = diagonal,
    grad = true,
  },
  {
    op = "windows",
    cases = {
      { inputs = { float(7) }, options = { dim = 1, size = 3, step = 1 } },
      { inputs = { float(7, 2) }, options = { dim = 1, size = 2, step = 3 } },
      { inputs = { float(2, 6, 3) }, options = { dim = 2, size = 4, step = 2 } },
      { inputs = { float(2, 6) }, options = { dim = -1, size = 6, step = 9 } },
      { inputs = { float(3) }, options = { dim = 1, size = 0, step = 2 } },
    },
    bad = {
      { inputs = { float(3) }, options = { dim = 1, size = 4, step = 1 }, code = "value",
        match = "windows of 4" },
      { inputs = { float(3) }, options = { dim = 1, size = 2, step = 0 }, code = "value",
        match = "step 0" },
      { inputs = { float(1, 1, 1, 1, 1, 1, 1, 1) }, options = { dim = 1, size = 1, step = 1 },
        code = "shape", match = "at most 7" },
    },
    oracle = windows,
    grad = true,
  },
  {
    op = "flip",
    cases = {
      { inputs = { float(19) } },
      { inputs = { float(3, 40) }, options = { dims = { 1 } } },
      { inputs = { float(3, 40) }, options = { dims = { -1 } } },
      { inputs = { float(2, 3, 17) }, options = { dims = { 3, 1 } } },
      { inputs = { float() } },
      { inputs = { float(0, 3) } },
    },
    bad = {
      { inputs = { float(3) }, options = { dims = { 2 } }, code = "value", match = "dim 2" },
      { inputs = { float(3) }, options = { dims = { 1, -1 } }, code = "value",
        match = "twice" },
    },
    oracle = flip,
    grad = true,
  },
  {
    op = "flip",
    cases = { { inputs = { typed("u8", 5, 33) } }, { inputs = { typed("i64", 9) } },
      { inputs = { typed("bool", 9) } } },
    oracle = flip,
    grad = false,
  },
}
