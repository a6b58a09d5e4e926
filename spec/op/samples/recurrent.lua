-- recurrent.lua -- samples of lstm_cell, gru_cell, their gradients, and each_use

local function sigmoid(x) return 1 / (1 + math.exp(-x)) end

-- tanh without overflow.
local function tanh(x) return 2 * sigmoid(2 * x) - 1 end

-- Call f(at, j, n) for every element of a state: the place before its row's
-- first, its column; and n, the width.
local function each(state, f)
  local n = state.dims[#state.dims]
  for i = 0, #state.data - 1 do
    f(i // n * n, i % n + 1, n)
  end
end

local function wide(dims, parts)
  local list = { table.unpack(dims) }
  list[#list] = list[#list] * parts
  return list
end

local function lstm_cell(ins)
  local a, b, c = ins[1].data, ins[2].data, ins[3].data
  local gates, c_next, h_next = {}, {}, {}
  each(ins[3], function(at, j, n)
    local gate = {}
    for k = 0, 3 do
      local i = 4 * at + k * n + j
      gate[k] = (k == 2 and tanh or sigmoid)(a[i] + b[i])
      gates[i] = gate[k]
    end
    c_next[at + j] = gate[1] * c[at + j] + gate[0] * gate[2]
    h_next[at + j] = gate[3] * tanh(c_next[at + j])
  end)
  local dims = ins[3].dims
  return { { dims = wide(dims, 4), data = gates }, { dims = dims, data = c_next },
    { dims = dims, data = h_next } }
end

local function lstm_cell_grad(ins)
  local gates, c, c_next, dh, dc_next = ins[1].data, ins[2].data, ins[3].data, ins[4].data,
    ins[5].data
  local da, dc = {}, {}
  each(ins[2], function(at, j, n)
    local function gate(k) return gates[4 * at + k * n + j] end
    local function set(k, x) da[4 * at + k * n + j] = x end
    local p = at + j
    local t = tanh(c_next[p])
    local d = dc_next[p] + dh[p] * gate(3) * (1 - t * t)
    set(0, d * gate(2) * gate(0) * (1 - gate(0)))
    set(1, d * c[p] * gate(1) * (1 - gate(1)))
    set(2, d * gate(0) * (1 - gate(2) ^ 2))
    set(3, dh[p] * t * gate(3) * (1 - gate(3)))
    dc[p] = d * gate(1)
  end)
  return { { dims = ins[1].dims, data = da }, { dims = ins[2].dims, data = dc } }
end

local function gru_cell(ins)
  local a, b, h = ins[1].data, ins[2].data, ins[3].data
  local gates, h_next = {}, {}
  each(ins[3], function(at, j, n)
    local i, p = 3 * at + j, at + j
    local r, z = sigmoid(a[i] + b[i]), sigmoid(a[i + n] + b[i + n])
    local m = tanh(a[i + 2 * n] + r * b[i + 2 * n])
    for k, x in ipairs { r, z, m, b[i + 2 * n] } do gates[4 * at + (k - 1) * n + j] = x end
    h_next[p] = (1 - z) * m + z * h[p]
  end)
  local dims = ins[3].dims
  return { { dims = wide(dims, 4), data = gates }, { dims = dims, data = h_next } }
end

local function gru_cell_grad(ins)
  local gates, h, dh_next = ins[1].data, ins[2].data, ins[3].data
  local da, db, dh = {}, {}, {}
  each(ins[2], function(at, j, n)
    local function gate(k) return gates[4 * at + k * n + j] end
    local function set(to, k, x) to[3 * at + k * n + j] = x end
    local r, z, m, d = gate(0), gate(1), gate(2), dh_next[at + j]
    local dm = d * (1 - z) * (1 - m * m)
    local dz, dr = d * (h[at + j] - m) * z * (1 - z), dm * gate(3) * r * (1 - r)
    for k, x in ipairs { dr, dz, dm } do set(da, k - 1, x) end
    for k, x in ipairs { dr, dz, dm * r } do set(db, k - 1, x) end
    dh[at + j] = d * z
  end)
  local dims = ins[2].dims
  return { { dims = wide(dims, 3), data = da }, { dims = wide(dims, 3), data = db },
    { dims = dims, data = dh } }
end

local function each_use(ins, o)
  local list = {}
  for i = 1, o.count do list[i] = ins[1] end
  return list
end

local function cases(make)
  local list = {}
  for _, dims in ipairs { { 3, 5 }, { 2, 19 }, { 4 }, { 2, 2, 3 }, { 1, 1 }, { 0, 3 }, { 2, 0 } } do
    list[#list + 1] = { inputs = make(dims) }
  end
  return list
end

local function cell(parts)
  return function(dims)
    local gates = { dims = wide(dims, parts), low = -2, high = 2 }
    return { gates, gates, { dims = dims } }
  end
end

local function kept(states)
  return function(dims)
    local ins = { { dims = wide(dims, 4), low = 0.1, high = 0.9 } }
    for i = 1, states do ins[i + 1] = { dims = dims } end
    return ins
  end
end

local x, four, three = { dims = { 3, 5 } }, { dims = { 3, 20 } }, { dims = { 3, 15 } }
local scalar = { dims = {} }
local ids = { dims = { 3, 5 }, dtype = "i32", integer = 9 }

return {
  { op = "lstm_cell", cases = cases(cell(4)), oracle = lstm_cell, grad = true,
    bad = {
      { inputs = { four, three, x }, code = "shape", match = "the gates" },
      { inputs = { scalar, scalar, scalar }, code = "shape", match = "at least one dimension" },
      { inputs = { four, four, ids }, code = "dtype", match = "i32" },
    } },
  { op = "lstm_cell_grad", cases = cases(kept(4)), oracle = lstm_cell_grad, grad = true,
    bad = { { inputs = { four, x, x, four, x }, code = "shape", match = "equal shapes" } } },
  { op = "gru_cell", cases = cases(cell(3)), oracle = gru_cell, grad = true,
    bad = { { inputs = { three, four, x }, code = "shape", match = "the gates" } } },
  { op = "gru_cell_grad", cases = cases(kept(2)), oracle = gru_cell_grad, grad = true,
    bad = { { inputs = { three, x, x }, code = "shape", match = "the gates" } } },
  { op = "each_use", oracle = each_use, grad = true,
    cases = {
      { inputs = { x }, options = { count = 1 } },
      { inputs = { x }, options = { count = 3 } },
      { inputs = { ids }, options = { count = 2 } },
    },
    bad = {
      { inputs = { x }, options = { count = 0 }, code = "value", match = "1 to 64" },
      { inputs = { x }, options = { count = 65 }, code = "value", match = "1 to 64" },
    } },
}
