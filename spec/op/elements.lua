-- elements.lua -- what samples of pointwise operators share: shapes, oracles, cases
--
-- Sizes are below, at and above a vector and a block of the kernels.

local elements = {}

--- An oracle from a function of one element of each input, the last input's dtype and
--- the options.
function elements.each(f)
  return function(ins, options)
    local data, all = {}, ins[#ins]
    for i = 1, #all.data do
      local x, y, z = ins[1].data[i], ins[2] and ins[2].data[i], ins[3] and ins[3].data[i]
      data[i] = f(x, y, z, all.dtype, options)
    end
    return { { dims = all.dims, data = data } }
  end
end

local shapes = { {}, { 1 }, { 7 }, { 3, 5 }, { 2, 3, 67 }, { 1, 4, 1 }, { 0, 3 }, { 3, 0 },
                 { 5000 }, { 2, 1, 2, 1, 3, 1, 2, 2 } }

--- The shapes above with `n` inputs each, in [low, high); `more` cases follow.
function elements.cases(n, low, high, more, options)
  local list = {}
  for _, dims in ipairs(shapes) do
    local inputs = {}
    for i = 1, n do
      inputs[i] = { dims = dims, low = low, high = high }
    end
    list[#list + 1] = { inputs = inputs, options = options }
  end
  return table.move(more or {}, 1, #(more or {}), #list + 1, list)
end

--- A case of given values, which are not for finite differences.
function elements.given(dtype, ...)
  local inputs = {}
  for i, values in ipairs { ... } do
    inputs[i] = { dims = { #values }, values = values, dtype = dtype }
  end
  return { inputs = inputs, grad = false }
end

--- A case of integers, of which the operator makes f32.
function elements.as_f32(dtype, ...)
  local case = elements.given(dtype, ...)
  case.tolerance = 2e-5
  return case
end

--- That with options.
function elements.with(options, case)
  case.options = options
  return case
end

--- An integer result as its dtype holds it.
function elements.held(z, dtype)
  if dtype == "u8" then
    return z & 0xff
  elseif dtype == "i32" then
    return (z + 0x80000000 & 0xffffffff) - 0x80000000
  end
  return z
end

--- Bad input of operators of one and of two tensors.
elements.no_tensor = { { inputs = {}, code = "value", match = "a tensor wanted" } }
elements.unequal = { { inputs = { { dims = { 3 } }, { dims = { 4 } } }, code = "shape" } }

return elements
