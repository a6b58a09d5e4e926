--- fft.lua -- Fourier transforms
---
--- SPDX-License-Identifier: MIT

local vocabulary = {}

local pair = "complex numbers are a last dimension of 2, uncounted by dim"

local function text(value, from)
  if value == nil then return "None" end
  if type(value) == "string" then return "'" .. value .. "'" end
  if type(value) == "number" then
    return ("%d"):format(from and value > 0 and value - 1 or value)
  end
  local parts = {}
  for i, v in ipairs(value) do parts[i] = text(v, from) end
  return "(" .. table.concat(parts, ", ") .. ",)"
end

-- The Python call of one whose input, output are complex.
local function expression(name, first, takes, gives)
  return function(v)
    local x = takes and "torch.view_as_complex(a)" or "a"
    local y = ("torch.fft.%s(%s, %s, dim=%s, norm=%s)"):format(name, x, text(v[first]),
      v.dim == nil and (name:find "2" and "(-2, -1)" or name:find "n$" and "None" or "-1")
      or text(v.dim, true), text(v.norm))
    return gives and "torch.view_as_real(torch.resolve_conj(" .. y .. "))" or y
  end
end

local norms = { "backward", "ortho", "forward" }
local lengths = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 30, 37, 41, 64, 74, 97 }

local function shape(r, least)
  local dims = {}
  for i = 1, r(least, 3) do dims[i] = r(1, 6) end
  dims[#dims] = r.pick(lengths)
  return dims
end

local function copy_with(dims, last)
  local copy = { table.unpack(dims) }
  copy[#copy + 1] = last
  return copy
end

local function one(name, takes, gives)
  return { torch = "torch.fft." .. name, ours = "mrt.fft." .. name, grad = true,
    differs = pair, expression = expression(name, "n", takes, gives),
    args = { { "input", "tensor" }, { "n", "int" }, { "dim", "dim", -1 },
      { "norm", "string", "backward" } },
    draw = function(r)
      local dims = shape(r, 1)
      local dim, n = r.dim(dims), r.bool() and r(1, 20) or nil
      if not gives and not n and dims[dim > 0 and dim or #dims + dim + 1] == 1 then n = 3 end
      return { input = { dims = takes and copy_with(dims, 2) or dims }, n = n, dim = dim,
        norm = r.bool() and r.pick(norms) or nil }
    end,
    size = function(n)
      return { input = { dims = takes and { n // 1000, 1000, 2 } or { n // 1000, 1000 } } }
    end }
end

local function several(name, takes, gives)
  local two = name:find "2$" ~= nil
  return { torch = "torch.fft." .. name, ours = "mrt.fft." .. name, grad = true,
    differs = pair, expression = expression(name, "s", takes, gives),
    args = { { "input", "tensor" }, { "s", "shape" }, { "dim", "dims" },
      { "norm", "string", "backward" } },
    draw = function(r)
      local dims, dim = { r(1, 4), r(2, 9), r.pick(lengths) }, nil
      if not gives then dims[3] = math.max(dims[3], 2) end
      if r.bool() then dim = r.bool() and { 1, 3 } or { 2, -1 } end
      local s = dim and r.bool() and { r(1, 9), r(1, 9) } or nil
      return { input = { dims = takes and copy_with(dims, 2) or dims }, s = s, dim = dim,
        norm = r.bool() and r.pick(norms) or nil }
    end,
    size = two and function(n)
      local side = math.floor(math.sqrt(n))
      return { input = { dims = takes and { side, side, 2 } or { side, side } } }
    end or nil }
end

local function add(row) vocabulary[#vocabulary + 1] = row end

for _, row in ipairs { { "fft", true, true }, { "ifft", true, true }, { "rfft", false, true },
  { "irfft", true, false }, { "hfft", true, false }, { "ihfft", false, true } } do
  add(one(table.unpack(row)))
end
for _, end_ in ipairs { "2", "n" } do
  for _, row in ipairs { { "fft", true, true }, { "ifft", true, true }, { "rfft", false, true },
    { "irfft", true, false } } do
    add(several(row[1] .. end_, row[2], row[3]))
  end
end
for _, name in ipairs { "hfft2", "ihfft2", "hfftn", "ihfftn" } do
  add { torch = "torch.fft." .. name, absent = "write it as irfft2, rfft2 of the conjugate" }
end

for _, name in ipairs { "fftfreq", "rfftfreq" } do
  add { torch = "torch.fft." .. name, ours = "mrt.fft." .. name, dtypes = { "f32" },
    args = { { "n", "int" }, { "d", "number", 1 } },
    draw = function(r) return { n = r(1, 20), d = r.bool() and r.real(0.1, 3) or nil } end }
end
for _, name in ipairs { "fftshift", "ifftshift" } do
  add { torch = "torch.fft." .. name, ours = "mrt.fft." .. name, grad = true,
    differs = "dim must be given, and counts the last dimension of 2",
    args = { { "input", "tensor" }, { "dim", "dims" } },
    draw = function(r)
      local dims = { r(1, 6), r(1, 7), r(1, 4) }
      return { input = { dims = dims }, dim = r.pick { { 1 }, { -1, 1 }, { 2 }, { 1, 2, 3 } } }
    end,
    size = function(n) return { input = { dims = { n // 100, 100 } }, dim = { 2 } } end }
end

local function stft(v)
  return ("torch.view_as_real(torch.stft(a, %d, hop_length=%s, win_length=%s, window=%s, "
    .. "center=%s, pad_mode='%s', normalized=%s, return_complex=True))"):format(v.n_fft,
    text(v.hop_length), text(v.win_length), v.window and "b" or "None",
    v.center == false and "False" or "True", v.pad_mode or "reflect",
    v.normalized and "True" or "False")
end

add { torch = "torch.stft", ours = "mrt.fft.stft", grad = true, expression = stft,
  differs = "a last dimension of 2; one side only",
  args = { { "input", "tensor" }, { "n_fft", "int" }, { "hop_length", "int" },
    { "win_length", "int" }, { "window", "tensor" }, { "center", "bool", true },
    { "pad_mode", "string", "reflect" }, { "normalized", "bool", false } },
  draw = function(r)
    local n = r(4, 16)
    local dims = { r(20, 60) }
    if r.bool() then table.insert(dims, 1, r(1, 3)) end
    return { input = { dims = dims }, n_fft = n, hop_length = r(1, 6), win_length = n,
      window = { dims = { n } }, center = r.bool(), pad_mode = r.pick { "reflect", "constant" },
      normalized = r.bool() }
  end }
add { torch = "torch.istft", ours = "mrt.fft.istft", tolerance = 1e-4,
  differs = "a last dimension of 2; where no window reaches, 0 and no error",
  args = { { "input", "tensor" }, { "n_fft", "int" }, { "hop_length", "int" } },
  expression = function(v)
    return ("torch.istft(torch.view_as_complex(a), %d, hop_length=%s)"):format(v.n_fft,
      text(v.hop_length))
  end,
  draw = function(r)
    local n = 2 * r(2, 8)
    return { input = { dims = { r(1, 3), n // 2 + 1, r(4, 9), 2 } }, n_fft = n,
      hop_length = r(1, n // 2) }
  end }

return vocabulary
