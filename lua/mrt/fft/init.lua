--- mrt.fft -- discrete Fourier transforms
---
---     local fft = mrt.fft
---     local spectrum = fft.rfft(signal)             -- [..., n] -> [..., n // 2 + 1, 2]
---     local signal = fft.irfft(spectrum, n)
---     local power = spectrum:square():sum(-1)
---
--- There is no complex dtype: a complex tensor is a real one with a last dimension of
--- 2, the real and the imaginary part, as PyTorch's `view_as_real` gives it.  Dimensions
--- of a complex tensor are counted without it: `dim = -1` is the one before.
---
--- - `norm`: "backward" (default): the inverse divides by n; "forward": the other does;
---   "ortho": both by sqrt(n)
--- - `n`: how many numbers along dim: longer ones are cut, shorter ones filled with 0
---
--- f32 and f64, narrower floats in f32; any n, by factors up to 31, others by chirps
--- (kernels/cpu/fft/fft.c).  Gradients are transforms too.
---
--- SPDX-License-Identifier: MIT

local argument = require "mrt.util.argument"
local core = require "mrt.core"
local frames = require "mrt.fft.frames"
local transform = require "mrt.fft.transform"

local op = core.op
local read, refuse = argument.read, argument.refuse

---@class mrt.fft
local fft = {}

---@alias mrt.FFTNorm "backward"|"ortho"|"forward"

-- ---- one dimension ---------------------------------------------------------

--- Transform complex numbers along a dimension.
---
---     mrt.fft.fft(mrt.ones(4, 2)):type()  --> f32[4,2]
---
--- Raises: a dimension that x does not have, what is not complex.
---@param x mrt.Tensor  `[..., n, ..., 2]`
---@param ... any       n (default x's), dim (default -1), norm (default "backward"); or by
---  name
---@return mrt.Tensor
function fft.fft(x, ...)
  return transform.complex("fft", x, false, read("fft", { "n", "dim", "norm" }, ...))
end

--- Transform back.
---
---     mrt.fft.ifft(mrt.ones(4, 2)):type()  --> f32[4,2]
---
--- Raises: a dimension that x does not have, what is not complex.
---@param x mrt.Tensor  `[..., n, ..., 2]`
---@param ... any       n, dim, norm as in fft
---@return mrt.Tensor
function fft.ifft(x, ...)
  return transform.complex("ifft", x, true, read("ifft", { "n", "dim", "norm" }, ...))
end

--- Transform real numbers; of the spectrum, whose other half mirrors it, the first
--- n // 2 + 1 numbers.
---
---     mrt.fft.rfft(mrt.ones(4)):type()  --> f32[3,2]
---
--- Raises: a dimension that x does not have.
---@param x mrt.Tensor  `[..., n, ...]`
---@param ... any       n, dim, norm as in fft
---@return mrt.Tensor   `[..., n // 2 + 1, ..., 2]`
function fft.rfft(x, ...)
  return transform.from_real("rfft", x, read("rfft", { "n", "dim", "norm" }, ...))
end

--- Transform back to n real numbers.
---
---     mrt.fft.irfft(mrt.ones(3, 2)):type()  --> f32[4]
---
--- Raises: a dimension that x does not have, what is not complex.
---@param x mrt.Tensor  `[..., n // 2 + 1, ..., 2]`
---@param ... any       n (default: 2 (m - 1), m x's), dim, norm as in fft
---@return mrt.Tensor   `[..., n, ...]`
function fft.irfft(x, ...)
  return transform.to_real("irfft", x, read("irfft", { "n", "dim", "norm" }, ...))
end

local function conjugate(x) return transform.conjugate(x) end
local other = { backward = "forward", forward = "backward", ortho = "ortho" }

--- Transform a signal whose first n // 2 + 1 numbers are given and whose others mirror
--- them: real numbers.
---
---     mrt.fft.hfft(mrt.ones(3, 2)):type()  --> f32[4]
---
--- Raises: a dimension that x does not have, what is not complex.
---@param x mrt.Tensor  `[..., n // 2 + 1, ..., 2]`
---@param ... any       n, dim, norm as in irfft
---@return mrt.Tensor   `[..., n, ...]`
function fft.hfft(x, ...)
  local o = read("hfft", { "n", "dim", "norm" }, ...)
  o.norm = other[transform.norm("hfft", o.norm)]
  return transform.to_real("hfft", conjugate(transform.want_complex("hfft", x)), o)
end

--- Transform real numbers back to a signal that mirrors itself: its first half.
---
---     mrt.fft.ihfft(mrt.ones(4)):type()  --> f32[3,2]
---
--- Raises: a dimension that x does not have.
---@param x mrt.Tensor  `[..., n, ...]`
---@param ... any       n, dim, norm as in rfft
---@return mrt.Tensor   `[..., n // 2 + 1, ..., 2]`
function fft.ihfft(x, ...)
  local o = read("ihfft", { "n", "dim", "norm" }, ...)
  o.norm = other[transform.norm("ihfft", o.norm)]
  return conjugate(transform.from_real("ihfft", x, o))
end

-- ---- several dimensions ----------------------------------------------------

-- Name -> how one of several dimensions is transformed.
local several = {
  fft = function(who, x, o) return transform.several(who, x, o, "complex", false) end,
  ifft = function(who, x, o) return transform.several(who, x, o, "complex", true) end,
  rfft = function(who, x, o) return transform.several(who, x, o, "from_real", false) end,
  irfft = function(who, x, o) return transform.several(who, x, o, "to_real", true) end,
}

for name, f in pairs(several) do
  local two, all = name .. "2", name .. "n"
  fft[two] = function(x, ...)
    local o = read(two, { "s", "dim", "norm" }, ...)
    o.dim = o.dim or { -2, -1 }
    return f(two, x, o)
  end
  fft[all] = function(x, ...) return f(all, x, read(all, { "s", "dim", "norm" }, ...)) end
end

-- ---- frequencies -----------------------------------------------------------

local function frequencies(who, half, ...)
  local o = read(who, { "n", "d", "dtype" }, ...)
  local count, d = math.tointeger(o.n), o.d or 1
  if not count or count < 1 then refuse(who, "n %s, 1 or more wanted", tostring(o.n)) end
  if type(d) ~= "number" or d == 0 then refuse(who, "d %s, a step wanted", tostring(d)) end
  local dtype, step = o.dtype or "f32", 1 / (count * d)
  local function run(first, last)
    local i = op.arange { start = first, stop = last + 1, dtype = "i64" }
    return op.mul(op.cast(i, dtype), step)
  end
  if half then return run(0, count // 2) end
  local above = (count - 1) // 2
  if count == 1 then return run(0, 0) end
  return op.cat({ run(0, above), run(-(count // 2), -1) }, 1)
end

--- The frequencies of `fft`'s numbers: 0, 1, ... and then those below 0, over n d.
---
---     mrt.fft.fftfreq(4)  --> [0.00 0.25 -0.50 -0.25]
---
--- Raises: n below 1.
---@param ... any      n, d: the step between samples (default 1), dtype (default f32); or
---  by name
---@return mrt.Tensor  `[n]`
function fft.fftfreq(...) return frequencies("fftfreq", false, ...) end

--- The frequencies of `rfft`'s numbers: 0, 1, ... n // 2, over n d.
---
---     mrt.fft.rfftfreq(4)  --> [0.00 0.25 0.50]
---
--- Raises: n below 1.
---@param ... any      n, d, dtype as in fftfreq
---@return mrt.Tensor  `[n // 2 + 1]`
function fft.rfftfreq(...) return frequencies("rfftfreq", true, ...) end

-- The dims of x, all given: whether the last is a pair nobody can tell.
local function shifted(who, x, back, ...)
  argument.tensor(who, "the first", x)
  local dims = read(who, { "dim" }, ...).dim
  dims = type(dims) == "table" and dims or { dims }
  if #dims == 0 then
    refuse(who, "a dim, or a list of them, wanted: x may be complex or not")
  end
  for _, d in ipairs(dims) do
    local at = transform.dim(who, x, d, x:dim())
    local n = x:size(at)
    local first = back and n // 2 or (n + 1) // 2
    if first > 0 and first < n then
      x = op.cat({ op.slice(x, at, first + 1, n), op.slice(x, at, 1, first) }, at)
    end
  end
  return x
end

--- Put the frequency 0 in the middle.
---
---     mrt.fft.fftshift(mrt.fft.fftfreq(4), 1)  --> [-0.50 -0.25 0.00 0.25]
---
--- Shapes: `[...]` -> the same.
--- Raises: a dimension that x does not have.
---@param x mrt.Tensor
---@param ... any  dim: one or a list, of x as it is, the last one of 2 counted; or {dim = }
---@return mrt.Tensor
function fft.fftshift(x, ...) return shifted("fftshift", x, false, ...) end

--- Put it back.
---
---     mrt.fft.ifftshift(mrt.arange(4), 1)  --> [2 3 0 1]
---
--- Shapes: `[...]` -> the same.
--- Raises: a dimension that x does not have.
---@param x mrt.Tensor
---@param ... any  dim as in fftshift
---@return mrt.Tensor
function fft.ifftshift(x, ...) return shifted("ifftshift", x, true, ...) end

fft.stft, fft.istft = frames.stft, frames.istft

for name, f in pairs(fft) do fft[name] = core.front(f, nil, name) end

return fft
