-- triangle.lua -- samples of tril, triu, diag_embed and cross

local arrays = require "op.arrays"
local at, make, dim, float = arrays.at, arrays.make, arrays.dim, arrays.float

local function triangle(keeps)
  return function(ins, options)
    local x, rank = ins[1], #ins[1].dims
    return { make(x.dims, function(index)
      local beyond = index[rank] - index[rank - 1] - (options.diagonal or 0)
      return keeps(beyond) and at(x, index) or 0
    end) }
  end
end

local function diag_embed(ins, options)
  local x, offset, dims = ins[1], options.offset or 0, {}
  local rank = #x.dims + 1
  local function place(d) return d < 0 and d + rank + 1 or d end
  local p, q = place(options.dim1 or -2), place(options.dim2 or -1)
  local k = 0
  for i = 1, rank do
    if i == p or i == q then
      dims[i] = x.dims[rank - 1] + math.abs(offset)
    else
      k = k + 1
      dims[i] = x.dims[k]
    end
  end
  return { make(dims, function(index)
    if index[q] - index[p] ~= offset then return 0 end
    local from = {}
    for i = 1, rank do
      if i ~= p and i ~= q then from[#from + 1] = index[i] end
    end
    from[#from + 1] = math.min(index[p], index[q])
    return at(x, from)
  end) }
end

local function cross(ins, options)
  local x, y = ins[1], ins[2]
  local d = dim(x, options.dim or -1)
  return { make(x.dims, function(index)
    local function part(t, i)
      local from = { table.unpack(index) }
      from[d] = (index[d] + i - 1) % 3 + 1
      return at(t, from)
    end
    return part(x, 1) * part(y, 2) - part(x, 2) * part(y, 1)
  end) }
end

local function typed(dtype, ...)
  return { dims = { ... }, dtype = dtype, integer = dtype == "bool" and 2 or 50 }
end

local rows = {}
local kept = { tril = function(n) return n <= 0 end, triu = function(n) return n >= 0 end }
for _, name in ipairs { "tril", "triu" } do -- in this order, on all ranks of a spec
  local keeps = kept[name]
  rows[#rows + 1] = {
    op = name,
    cases = {
      { inputs = { float(4, 4) } },
      { inputs = { float(3, 20) }, options = { diagonal = 2 } },
      { inputs = { float(20, 3) }, options = { diagonal = -2 } },
      { inputs = { float(2, 3, 4) }, options = { diagonal = 9 } },
      { inputs = { float(2, 3, 4) }, options = { diagonal = -9 } },
      { inputs = { float(3, 0) } },
    },
    bad = { { inputs = { float(4) }, code = "value", match = "at least 2 dimensions" } },
    oracle = triangle(keeps),
    grad = true,
  }
  rows[#rows + 1] = { op = name, oracle = triangle(keeps), grad = false,
    cases = { { inputs = { typed("u8", 5, 9) } }, { inputs = { typed("i64", 3, 3) } },
      { inputs = { typed("bool", 3, 4) }, options = { diagonal = 1 } } } }
end

rows[#rows + 1] = {
  op = "diag_embed",
  cases = {
    { inputs = { float(4) } },
    { inputs = { float(3, 5) }, options = { offset = 1 } },
    { inputs = { float(2, 3) }, options = { offset = -2, dim1 = 1, dim2 = 3 } },
    { inputs = { float(2, 3, 4) }, options = { dim1 = -1, dim2 = 2, offset = 1 } },
    { inputs = { float(2, 0) }, options = { offset = 2 } },
    { inputs = { float(0) } },
  },
  bad = {
    { inputs = { float() }, code = "value", match = "1 to 7 dimensions" },
    { inputs = { float(4) }, options = { dim1 = 2, dim2 = -1 }, code = "value",
      match = "twice" },
    { inputs = { float(4) }, options = { dim1 = 3 }, code = "value", match = "dim 3" },
    { inputs = { float(4) }, options = { offset = 1 << 61 }, code = "value",
      match = "too large" },
  },
  oracle = diag_embed,
  grad = true,
}
rows[#rows + 1] = { op = "diag_embed", oracle = diag_embed, grad = false,
  cases = { { inputs = { typed("u8", 2, 5) } }, { inputs = { typed("i64", 3) } } } }

rows[#rows + 1] = {
  op = "cross",
  cases = {
    { inputs = { float(3), float(3) } },
    { inputs = { float(19, 3), float(19, 3) } },
    { inputs = { float(2, 3, 17), float(2, 3, 17) }, options = { dim = 2 } },
    { inputs = { float(3, 0), float(3, 0) }, options = { dim = 1 } },
  },
  bad = {
    { inputs = { float(4), float(4) }, code = "shape", match = "3 along dim 1" },
    { inputs = { float(2, 3), float(3) }, code = "shape", match = "one shape" },
    { inputs = { typed("i64", 3), typed("i64", 3) }, code = "dtype" },
  },
  oracle = cross,
  grad = true,
}

return rows
