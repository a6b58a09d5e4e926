-- views.lua -- samples of the views

local arrays = require "op.arrays"
local at, make, with, dim, float =
  arrays.at, arrays.make, arrays.with, arrays.dim, arrays.float

local function reshape(ins, options)
  local x, dims, open, rest = ins[1], {}, nil, 1
  for i, n in ipairs(options.shape) do
    dims[i] = n
    if n == -1 then
      open = i
    else
      rest = rest * n
    end
  end
  if open then
    dims[open] = #x.data // rest
  end
  return { { dims = dims, data = x.data } }
end

local function permute(ins, options)
  local x, dims, order = ins[1], {}, {}
  for i, d in ipairs(options.dims) do
    order[i] = dim(x, d)
    dims[i] = x.dims[order[i]]
  end
  return {
    make(dims, function(index)
      local from = {}
      for i, d in ipairs(order) do
        from[d] = index[i]
      end
      return at(x, from)
    end),
  }
end

local function transpose(ins, options)
  local x = ins[1]
  local p, q = dim(x, options.dim0), dim(x, options.dim1)
  local function swap(list)
    return with(with(list, p, list[q]), q, list[p])
  end
  return {
    make(swap(x.dims), function(index)
      return at(x, swap(index))
    end),
  }
end

local function expand(ins, options)
  local x, dims = ins[1], {}
  local lead = #options.shape - #x.dims
  for i, n in ipairs(options.shape) do
    dims[i] = n == -1 and x.dims[i - lead] or n
  end
  return {
    make(dims, function(index)
      local from = {}
      for i = 1, #x.dims do
        from[i] = x.dims[i] == 1 and 1 or index[i + lead]
      end
      return at(x, from)
    end),
  }
end

-- `n` positions of dimension d after the first `skip`.
local function part(x, d, skip, n)
  return make(with(x.dims, d, n), function(index)
    return at(x, with(index, d, index[d] + skip))
  end)
end

local function slice(ins, options)
  local x = ins[1]
  local d = dim(x, options.dim)
  local first, last = options.first or 1, options.last or -1
  first = first < 0 and first + x.dims[d] + 1 or first
  last = last < 0 and last + x.dims[d] + 1 or last
  return { part(x, d, first - 1, last - first + 1) }
end

local function split(ins, options)
  local x, size, pieces = ins[1], options.size, {}
  local d = dim(x, options.dim or 1)
  for skip = 0, math.max(x.dims[d] - 1, 0), size do
    pieces[#pieces + 1] = part(x, d, skip, math.min(size, x.dims[d] - skip))
  end
  return pieces
end

local function same(ins)
  return { ins[1] }
end

return {
  {
    op = "reshape",
    cases = {
      { inputs = { float(2, 6) }, options = { shape = { 3, 4 } } },
      { inputs = { float(2, 6) }, options = { shape = { 2, 3, -1 } } },
      { inputs = { float(4, 1, 3) }, options = { shape = { 12 } } },
      { inputs = { float(1) }, options = { shape = {} } },
      { inputs = { float() }, options = { shape = { 1, 1 } } },
      { inputs = { float(0, 3) }, options = { shape = { 3, 0, 2 } } },
      { inputs = { float(0, 3) }, options = { shape = { -1, 3 } } },
    },
    bad = {
      { inputs = { float(2, 3) }, options = { shape = { 4 } },
        code = "shape", match = "6 elements" },
      { inputs = { float(2, 3) }, options = { shape = { 4, -1 } },
        code = "shape", match = "6 elements" },
      { inputs = { float(2, 3) }, options = { shape = { -1, -1 } },
        code = "value", match = "twice" },
      { inputs = { float(2, 3) }, options = { shape = { -2, 3 } },
        code = "value", match = "size -2" },
      { inputs = { float(0) }, options = { shape = { 0, -1 } },
        code = "shape", match = "0 elements" },
    },
    oracle = reshape,
    grad = true,
  },
  {
    op = "permute",
    cases = {
      { inputs = { float(2, 3, 4) }, options = { dims = { 3, 1, 2 } } },
      { inputs = { float(2, 3, 4) }, options = { dims = { 1, -1, 2 } } },
      { inputs = { float(5, 1) }, options = { dims = { 2, 1 } } },
      { inputs = { float(2, 0, 3) }, options = { dims = { 3, 2, 1 } } },
    },
    bad = {
      { inputs = { float(2, 3) }, options = { dims = { 1 } },
        code = "value", match = "all 2 wanted" },
      { inputs = { float(2, 3) }, options = { dims = { 1, 1 } },
        code = "value", match = "twice" },
      { inputs = { float(2, 3) }, options = { dims = { 1, 3 } },
        code = "value", match = "dim 3" },
    },
    oracle = permute,
    grad = true,
  },
  {
    op = "transpose",
    cases = {
      { inputs = { float(2, 5) }, options = { dim0 = 1, dim1 = 2 } },
      { inputs = { float(2, 3, 4) }, options = { dim0 = -1, dim1 = 1 } },
      { inputs = { float(2, 3) }, options = { dim0 = 2, dim1 = 2 } },
      { inputs = { float(0, 3) }, options = { dim0 = 1, dim1 = 2 } },
    },
    bad = {
      { inputs = { float(2, 3) }, options = { dim0 = 1, dim1 = 3 },
        code = "value", match = "dim 3" },
    },
    oracle = transpose,
    grad = true,
  },
  {
    op = "expand",
    cases = {
      { inputs = { float(1, 3) }, options = { shape = { 4, 3 } } },
      { inputs = { float(3) }, options = { shape = { 2, 4, 3 } } },
      { inputs = { float(2, 1, 3) }, options = { shape = { -1, 5, -1 } } },
      { inputs = { float() }, options = { shape = { 2, 2 } } },
      { inputs = { float(2, 3) }, options = { shape = { 2, 3 } } },
      { inputs = { float(1, 3) }, options = { shape = { 0, 3 } } },
    },
    bad = {
      { inputs = { float(2, 3) }, options = { shape = { 4, 3 } },
        code = "shape", match = "dim 1" },
      { inputs = { float(2, 3) }, options = { shape = { 3 } },
        code = "shape", match = "2 or more" },
      { inputs = { float(3) }, options = { shape = { -1, 3 } },
        code = "value", match = "size -1 at dim 1" },
    },
    oracle = expand,
    grad = true,
  },
  {
    op = "slice",
    cases = {
      { inputs = { float(5, 3) }, options = { dim = 1, first = 2, last = 4 } },
      { inputs = { float(3, 5) }, options = { dim = 2, first = -2, last = -1 } },
      { inputs = { float(3, 5) }, options = { dim = -1, first = 5, last = 5 } },
      { inputs = { float(2, 4, 3) }, options = { dim = 2, first = 3 } },
      { inputs = { float(4) }, options = { dim = 1, last = 2 } },
      { inputs = { float(4, 2) }, options = { dim = 1, first = 3, last = 2 } },
      { inputs = { float(4, 2) }, options = { dim = 1, first = 5, last = 4 } },
      { inputs = { float(0, 2) }, options = { dim = 1 } },
    },
    bad = {
      { inputs = { float(3, 4) }, options = { dim = 1, first = 2, last = 7 },
        code = "value", match = "2 to 7 of dim 1 of f32[3,4], 1 to 3" },
      { inputs = { float(3, 4) }, options = { dim = 2, first = -5, last = 4 },
        code = "value", match = "-5 to 4 of dim 2" },
      { inputs = { float(3, 4) }, options = { dim = 1, first = 3, last = 1 },
        code = "value", match = "3 to 1" },
      { inputs = { float(3, 4) }, options = { dim = 3 },
        code = "value", match = "dim 3" },
    },
    oracle = slice,
    grad = true,
  },
  {
    op = "split",
    cases = {
      { inputs = { float(6, 2) }, options = { size = 2 } },
      { inputs = { float(2, 7) }, options = { size = 3, dim = 2 } },
      { inputs = { float(2, 3, 2) }, options = { size = 9, dim = -2 } },
      { inputs = { float(0, 2) }, options = { size = 4 } },
    },
    bad = {
      { inputs = { float(6) }, options = { size = 0 },
        code = "value", match = "size 0" },
      { inputs = { float(100) }, options = { size = 1 },
        code = "value", match = "makes 100, at most" },
      { inputs = { float(6) }, options = { size = 2, dim = 2 },
        code = "value", match = "dim 2" },
    },
    oracle = split,
    grad = true,
  },
  {
    op = "row_by_row",
    cases = { { inputs = { float(2, 3), float(2, 3) } }, { inputs = { float(0), float(0) } } },
    bad = { { inputs = { float(2, 3), float(3, 2) }, code = "shape", match = "as the result" } },
    oracle = same,
    grad = { true, false },
  },
  {
    op = "detach",
    cases = { { inputs = { float(2, 3) } }, { inputs = { float(0) } } },
    oracle = same,
    grad = false,
  },
}
