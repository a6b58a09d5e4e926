-- arrays.lua -- flat row-major arrays {dims, data} for oracles

local arrays = {}

-- x at `index`, a list of 1-based positions.
function arrays.at(x, index)
  local offset = 0
  for d = 1, #x.dims do
    offset = offset * x.dims[d] + index[d] - 1
  end
  return x.data[offset + 1]
end

-- The tensor whose element at each index is f(index).
function arrays.make(dims, f)
  local index, data = {}, {}
  local function fill(d)
    if d > #dims then
      data[#data + 1] = f(index)
      return
    end
    for i = 1, dims[d] do
      index[d] = i
      fill(d + 1)
    end
  end
  fill(1)
  return { dims = dims, data = data }
end

-- A copy of `list` with `value` at `i`.
function arrays.with(list, i, value)
  local copy = { table.unpack(list) }
  copy[i] = value
  return copy
end

-- Dimension `d`, from the end when negative.
function arrays.dim(x, d)
  return d < 0 and d + #x.dims + 1 or d
end

function arrays.float(...)
  return { dims = { ... } }
end

return arrays
