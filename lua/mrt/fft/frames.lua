--- frames.lua -- spectra of short pieces of a signal, and the signal back
---
---   from  Griffin and Lim 1984: the signal whose frames come closest
---
--- SPDX-License-Identifier: MIT

local argument = require "mrt.util.argument"
local core = require "mrt.core"
local transform = require "mrt.fft.transform"

local op = core.op
local read, refuse = argument.read, argument.refuse

---@class mrt.fft
local frames = {}

local names = { "n_fft", "hop_length", "win_length", "window", "center", "pad_mode",
  "normalized", "onesided" }

local function whole(who, name, value, least)
  local n = math.tointeger(value)
  if n and n >= least then return n end
  refuse(who, "%s %s, %d or more wanted", name, tostring(value), least)
end

-- The window [n_fft]: ones, or that given in the middle of zeros.
local function window(who, x, o)
  local w, n = o.window, o.n_fft
  local length = whole(who, "win_length", o.win_length or n, 1)
  if w ~= nil then argument.tensor(who, "window", w) end
  if length > n or (w and (w:dim() ~= 1 or w:size(1) ~= length)) then
    refuse(who, "window %s of win_length %d, as long and at most n_fft %d wanted",
      w and w:type() or "of ones", length, n)
  end
  w = w or op.full { shape = { length }, value = 1, dtype = x:get_dtype() }
  local before = (n - length) // 2
  return op.pad(w, { dim = 1, before = before, after = n - length - before })
end

local function settings(who, x, ...)
  local o = read(who, names, ...)
  o.n_fft = whole(who, "n_fft", o.n_fft, 1)
  o.hop = whole(who, "hop_length", o.hop_length or o.n_fft // 4, 1)
  if who == "istft" and o.hop > o.n_fft then
    refuse(who, "hop_length %d, at most n_fft (%d) wanted", o.hop, o.n_fft)
  end
  if o.onesided == false then
    refuse(who, "onesided = false: the other half mirrors the first")
  end
  o.weights = window(who, x, o)
  return o
end

-- Positions of each frame in a signal of `length`, `before` of them before it, which
-- are mirrored: i64 [frames * n_fft].
local function positions(count, o, length, before)
  local start = op.mul(op.arange { stop = count, dtype = "i64" }, o.hop):unsqueeze(2)
  local at = op.sub(op.add(start, op.arange { stop = o.n_fft, dtype = "i64" }), before)
  if before > 0 then -- |at|, and from the end likewise
    at = op.sub(length - 1, op.abs(op.sub(length - 1, op.abs(at))))
  end
  return op.reshape(at, { count * o.n_fft })
end

-- x, and how many numbers of each frame lie before it and are to be mirrored.
local function centered(x, o)
  local before, mode = o.center ~= false and o.n_fft // 2 or 0, o.pad_mode or "reflect"
  if mode ~= "constant" and mode ~= "reflect" then
    refuse("stft", "pad_mode '%s', 'reflect' or 'constant' wanted", tostring(mode))
  end
  if mode == "constant" and before > 0 then
    return op.pad(x, { dim = x:dim(), before = before, after = before }), 0
  end
  return x, before
end

-- How many frames, of which none reaches further than is mirrored.
local function frame_count(x, o, before)
  local length = x:size(-1)
  if length + 2 * before < o.n_fft or (before > 0 and before >= length) then
    core.fail("shape", "stft", ("%s, too short for n_fft %d"):format(x:type(), o.n_fft))
  end
  return 1 + (length + 2 * before - o.n_fft) // o.hop
end

--- Spectra of short pieces of a real signal.
---
---     mrt.fft.stft(mrt.ones(64), 16):type()  --> f32[9,17,2]
---
--- Raises: frames longer than the signal.
---@param x mrt.Tensor  `[T]` or `[B, T]`
---@param ... any       n_fft, hop_length (default n_fft // 4), win_length (default n_fft),
---  window `[win_length]` (default ones), center (default true: frames around each hop, the
---  ends mirrored), pad_mode ("reflect" or "constant"), normalized (default false: by
---  1 / sqrt(n_fft)); or by name
---@return mrt.Tensor   `[..., n_fft // 2 + 1, frames, 2]`
function frames.stft(x, ...)
  argument.tensor("stft", "the first", x)
  local o = settings("stft", x, ...)
  if x:dim() ~= 1 and x:dim() ~= 2 then
    core.fail("shape", "stft", ("%s, [T] or [B, T] wanted"):format(x:type()))
  end
  local signal, before = centered(x, o)
  local count = frame_count(signal, o, before)
  local at = positions(count, o, signal:size(-1), before)
  local shape = x:get_shape()
  shape[#shape], shape[#shape + 1] = count, o.n_fft
  local pieces = op.reshape(signal:index_select(x:dim(), at), shape)
  local y = transform.from_real("stft", op.mul(pieces, o.weights),
    { norm = o.normalized and "ortho" or nil })
  return op.transpose(y, -3, -2)
end

-- Frames [..., count, n_fft] added up where they came from: [..., length].
local function overlap(pieces, o, count)
  local length = (count - 1) * o.hop + o.n_fft
  local shape = pieces:get_shape()
  shape[#shape] = nil
  shape[#shape] = count * o.n_fft
  local flat = op.reshape(pieces, shape)
  local at = op.expand(positions(count, o, length, 0), shape)
  shape[#shape] = length
  local zero = op.full { shape = shape, value = 0, dtype = pieces:get_dtype() }
  return op.scatter_add(zero, at, flat, { dim = -1 })
end

--- The signal whose `stft` this is: frames are added up, each weighted by the window,
--- and divided by the sum of its squares.  Where that is 0 the signal is 0.
---
---     mrt.fft.istft(mrt.fft.stft(mrt.ones(64), 16), 16):type()  --> f32[64]
---
--- Raises: frames that do not fit n_fft.
---@param x mrt.Tensor  `[..., n_fft // 2 + 1, frames, 2]`
---@param ... any       n_fft, hop_length, win_length, window, center, normalized as in stft,
---  and length: how many numbers (default: as many as the frames cover); by name
---@return mrt.Tensor   `[T]` or `[B, T]`
function frames.istft(x, ...)
  transform.want_complex("istft", x)
  local given = { ... }
  local last, length = given[#given], nil
  if type(last) == "table" and not core.is_tensor(last) then
    local copy = {}
    for k, v in pairs(last) do copy[k] = v end
    length, copy.length, given[#given] = copy.length, nil, copy
  end
  local o = settings("istft", x, table.unpack(given, 1, select("#", ...)))
  if x:size(-3) ~= o.n_fft // 2 + 1 then
    core.fail("shape", "istft", ("%s for n_fft %d, %d frequencies wanted"):format(x:type(),
      o.n_fft, o.n_fft // 2 + 1))
  end
  local count = x:size(-2)
  local pieces = transform.to_real("istft", op.transpose(x, -3, -2), { n = o.n_fft,
    norm = o.normalized and "ortho" or nil })
  local sum = overlap(op.mul(pieces, o.weights), o, count)
  local squares = op.expand(op.mul(o.weights, o.weights), { count, o.n_fft })
  local weight = overlap(squares, o, count)
  local covered = op.gt(weight, 1e-11)
  local y = op.where(covered, op.div(sum, op.where(covered, weight, 1)), 0)
  local first = o.center ~= false and o.n_fft // 2 or 0
  local n = length or y:size(-1) - 2 * first
  local there = math.min(n, y:size(-1) - first)
  y = op.slice(y, -1, first + 1, first + there)
  return n > there and op.pad(y, { dim = y:dim(), after = n - there }) or y
end

return frames
