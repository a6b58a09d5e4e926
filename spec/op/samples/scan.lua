-- scan.lua -- samples of cumprod, cummax, cummin, recurrence

local arrays = require "op.arrays"
local at, make, with, dim, float =
  arrays.at, arrays.make, arrays.with, arrays.dim, arrays.float

local nan = 0 / 0

-- At each place: go(index of the place, places from the first to it).
local function running(ins, options, go)
  local x = ins[1]
  local d = #x.dims == 0 and 1 or dim(x, options.dim)
  return make(x.dims, function(index)
    local scalar, first, last = #x.dims == 0, 1, index[d] or 1
    if options.reverse then first, last = x.dims[d] or 1, index[d] or 1 end
    local state
    for k = first, last, options.reverse and -1 or 1 do
      state = go(state, scalar and {} or with(index, d, k), k - 1)
    end
    return state
  end)
end

local function cumprod(ins, options)
  return { running(ins, options, function(state, place)
    local v = at(ins[1], place)
    return (state or 1) * v
  end) }
end

local function extreme(goes_on)
  return function(ins, options)
    local function run(field)
      local states = {}
      local y = running(ins, options, function(state, place, k)
        local v = at(ins[1], place)
        if not state or goes_on(v, state.value) then return { value = v, position = k } end
        return state
      end)
      for i, state in ipairs(y.data) do states[i] = state[field] end
      return { dims = y.dims, data = states }
    end
    return { run "value", run "position" }
  end
end
local cummax = extreme(function(v, best) return v >= best or v ~= v end)
local cummin = extreme(function(v, best) return v <= best or v ~= v end)

local function recurrence(ins, options)
  return { running(ins, options, function(state, place)
    return at(ins[1], place) * (state or 0) + at(ins[2], place)
  end) }
end

local function typed(dtype, n, ...)
  return { dims = { ... }, dtype = dtype, integer = n }
end

local function shapes(input, more)
  local list = {}
  local function case(d, ...)
    local options, inputs = { dim = d }, {}
    for k, v in pairs(more or {}) do options[k] = v end
    for i = 1, more and 2 or 1 do inputs[i] = input(...) end
    list[#list + 1] = { inputs = inputs, options = options }
  end
  case(1, 7)
  case(-1, 3, 8)
  case(1, 6, 3)
  case(2, 2, 5, 70)
  case(2, 19, 4)
  case(1)
  case(1, 0, 3)
  case(2, 2, 0)
  case(1, 1, 4)
  return list
end

local function of(dtype, n)
  return function(...) return typed(dtype, n, ...) end
end

local bad_dim = { inputs = { float(2, 3) }, options = { dim = 3 }, code = "value",
  match = "dim 3" }
local edges = { dims = { 8 }, values = { -1, 2, -0.0, 2, nan, 5, nan, -math.huge } }
local zeros = {
  { inputs = { { dims = { 5 }, values = { 2, -1, 0, 3, 0.5 } } }, options = { dim = 1 } },
  { inputs = { { dims = { 6 }, values = { 2, 0, -3, 0, 0.5, 4 } } }, options = { dim = 1 } },
  { inputs = { { dims = { 2, 3 }, values = { 0, 2, 3, 1, 0, 2 } } }, options = { dim = 2 } },
}

return {
  { op = "cumprod", cases = shapes(float), bad = { bad_dim }, oracle = cumprod,
    grad = true },
  { op = "cumprod", cases = zeros, oracle = cumprod, grad = true },
  { op = "cumprod", cases = shapes(of("i64", 4)), oracle = cumprod, grad = false },
  { op = "cumprod", cases = shapes(of("i32", 4)), oracle = cumprod, grad = false },
  { op = "cumprod", cases = shapes(of("u8", 3)), oracle = cumprod, grad = false },
  { op = "cumprod", cases = shapes(of("bool", 2)), oracle = cumprod, grad = false },
  { op = "cummax", cases = shapes(float), bad = { bad_dim }, oracle = cummax,
    grad = true },
  { op = "cummin", cases = shapes(float), bad = { bad_dim }, oracle = cummin,
    grad = true },
  { op = "cummax", cases = shapes(of("i64", 9)), oracle = cummax, grad = false },
  { op = "cummin", cases = shapes(of("i32", 9)), oracle = cummin, grad = false },
  { op = "cummax", cases = shapes(of("u8", 9)), oracle = cummax, grad = false },
  { op = "cummin", cases = shapes(of("bool", 2)), oracle = cummin, grad = false },
  { op = "cummax", cases = { { inputs = { edges }, options = { dim = 1 } } },
    oracle = cummax, grad = false },
  { op = "cummin", cases = { { inputs = { edges }, options = { dim = 1 } } },
    oracle = cummin, grad = false },
  { op = "recurrence", cases = shapes(float, { reverse = false }), bad = {
      { inputs = { float(2, 3), float(2, 3) }, options = { dim = 3 }, code = "value",
        match = "dim 3" },
      { inputs = { float(2, 3), float(3, 2) }, options = { dim = 1 }, code = "shape",
        match = "equal shapes" },
      { inputs = { typed("i64", 3, 4), typed("i64", 3, 4) }, options = { dim = 1 },
        code = "dtype", match = "f32 or f64" } },
    oracle = recurrence, grad = true },
  { op = "recurrence", cases = shapes(float, { reverse = true }), oracle = recurrence,
    grad = true },
}
