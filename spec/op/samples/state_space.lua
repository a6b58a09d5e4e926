-- state_space.lua -- samples of selective_scan and linear_attention, and their gradients

local float = require "op.arrays".float
local full = require "op.images".full

-- ---- selective_scan --------------------------------------------------------

-- Call visit(k, t, d, h, e) for each step in order: h[n] after it, e[n] its factors.
local function each_channel(ins, visit)
  local u, delta, A, B = ins[1], ins[2], ins[3], ins[4]
  local batch, T, D = table.unpack(u.dims)
  local N = A.dims[2]
  for b = 0, batch - 1 do
    for d = 0, D - 1 do
      local steps, h = {}, {}
      for n = 1, N do h[n] = 0.0 end
      for t = 0, T - 1 do
        local i, after, e = (b * T + t) * D + d + 1, {}, {}
        for n = 1, N do
          e[n] = math.exp(delta.data[i] * A.data[d * N + n])
          after[n] = e[n] * h[n] + delta.data[i] * u.data[i] * B.data[(b * T + t) * N + n]
        end
        steps[t] = { i = i, at = (b * T + t) * N, before = h, after = after, e = e }
        h = after
      end
      visit(d, steps, T, N)
    end
  end
end

local function scan(ins)
  local y, C = full(ins[1].dims, 0.0), ins[5]
  each_channel(ins, function(_, steps, T, N)
    for t = 0, T - 1 do
      local s = steps[t]
      for n = 1, N do y.data[s.i] = y.data[s.i] + C.data[s.at + n] * s.after[n] end
    end
  end)
  return { y }
end

local function scan_grad(ins)
  local u, delta, A, B, C, dy = table.unpack(ins)
  local du, dd, dA = full(u.dims, 0.0), full(u.dims, 0.0), full(A.dims, 0.0)
  local dB, dC = full(B.dims, 0.0), full(C.dims, 0.0)
  each_channel(ins, function(d, steps, T, N)
    for n = 1, N do
      local carry = 0
      for t = T - 1, 0, -1 do
        local s = steps[t]
        local g = C.data[s.at + n] * dy.data[s.i] + carry
        local step, x = delta.data[s.i], u.data[s.i]
        dC.data[s.at + n] = dC.data[s.at + n] + s.after[n] * dy.data[s.i]
        dB.data[s.at + n] = dB.data[s.at + n] + g * step * x
        du.data[s.i] = du.data[s.i] + g * B.data[s.at + n] * step
        local exponent = g * s.before[n] * s.e[n]
        dd.data[s.i] = dd.data[s.i] + g * B.data[s.at + n] * x + exponent * A.data[d * N + n]
        dA.data[d * N + n] = dA.data[d * N + n] + exponent * step
        carry = g * s.e[n]
      end
    end
  end)
  return { du, dd, dA, dB, dC }
end

local function scan_case(batch, T, D, N, back)
  local u = { dims = { batch, T, D } }
  local steps = { dims = { batch, T, D }, low = 0.05, high = 1 }
  return { inputs = { u, steps, { dims = { D, N }, low = -1, high = 0 }, float(batch, T, N),
    float(batch, T, N), back and u or nil }, tolerance = T > 40 and 2e-4 or nil }
end
local scan_sizes = { { 1, 1, 1, 1 }, { 2, 5, 3, 4 }, { 1, 7, 35, 2 }, { 2, 3, 70, 3 },
  { 1, 50, 33, 2 }, { 0, 3, 2, 2 }, { 2, 0, 3, 2 }, { 2, 3, 0, 2 }, { 1, 3, 2, 0 } }
local function scan_cases(back)
  local out = {}
  for i, s in ipairs(scan_sizes) do out[i] = scan_case(s[1], s[2], s[3], s[4], back) end
  return out
end

-- ---- linear_attention ------------------------------------------------------

-- Call visit(rows, steps, T) for each head: rows.q ... where the rows of step t begin.
local function each_head(ins, decays, visit)
  local B, T, H, K = table.unpack(ins[1].dims)
  local V, W = ins[3].dims[4], decays and ins[4].dims[4] or 0
  for b = 0, B - 1 do
    for h = 0, H - 1 do
      local steps, S = {}, full({ K, V }, 0.0).data
      for t = 0, T - 1 do
        local row = (b * T + t) * H + h
        local s = { k = row * K, v = row * V, w = row * W, before = S, after = {}, left = {} }
        for i = 1, K do
          s.left[i] = W == 0 and 1 or ins[4].data[s.w + (W == 1 and 1 or i)]
          for j = 1, V do
            local at = (i - 1) * V + j
            s.after[at] = s.left[i] * S[at] + ins[2].data[s.k + i] * ins[3].data[s.v + j]
          end
        end
        steps[t], S = s, s.after
      end
      visit(steps, T, K, V, W)
    end
  end
end

local function attend(ins)
  local q, o = ins[1], full(ins[3].dims, 0.0)
  each_head(ins, ins[4], function(steps, T, K, V)
    for t = 0, T - 1 do
      local s = steps[t]
      for i = 1, K do
        for j = 1, V do
          o.data[s.v + j] = o.data[s.v + j] + q.data[s.k + i] * s.after[(i - 1) * V + j]
        end
      end
    end
  end)
  return { o }
end

local function attend_grad(ins)
  local decays = #ins == 5
  local q, k, v, dy = ins[1], ins[2], ins[3], ins[#ins]
  local outs = {}
  for i = 1, #ins - 1 do outs[i] = full(ins[i].dims, 0.0) end
  local function add(i, at, x) outs[i].data[at] = outs[i].data[at] + x end
  each_head(ins, decays, function(steps, T, K, V, W)
    local g = full({ K, V }, 0.0).data
    for t = T - 1, 0, -1 do
      local s = steps[t]
      for i = 1, K do
        for j = 1, V do
          local at = (i - 1) * V + j
          g[at] = g[at] + q.data[s.k + i] * dy.data[s.v + j]
          add(1, s.k + i, s.after[at] * dy.data[s.v + j])
          add(2, s.k + i, g[at] * v.data[s.v + j])
          add(3, s.v + j, g[at] * k.data[s.k + i])
          if W > 0 then add(4, s.w + (W == 1 and 1 or i), g[at] * s.before[at]) end
          g[at] = g[at] * s.left[i]
        end
      end
    end
  end)
  return outs
end

local attention_sizes = { { 1, 1, 1, 1, 1 }, { 2, 5, 3, 4, 2 }, { 1, 6, 2, 3, 70, 1 },
  { 2, 7, 1, 3, 9, 3 }, { 1, 30, 2, 2, 5, 2 }, { 0, 3, 2, 2, 2 }, { 2, 0, 2, 2, 2, 1 },
  { 2, 3, 0, 2, 2 }, { 1, 3, 2, 0, 2 }, { 1, 3, 2, 2, 0, 2 } }
local function attention_cases(back)
  local out = {}
  for i, s in ipairs(attention_sizes) do
    local B, T, H, K, V, W = table.unpack(s)
    local ins = { float(B, T, H, K), float(B, T, H, K), float(B, T, H, V) }
    if W then ins[4] = { dims = { B, T, H, W }, low = 0.2, high = 1 } end
    if back then ins[#ins + 1] = float(B, T, H, V) end
    out[i] = { inputs = ins }
  end
  return out
end

return {
  { op = "selective_scan", oracle = scan, grad = true, cases = scan_cases(), bad = {
    { inputs = { float(2, 3), float(2, 3), float(3, 2), float(2, 3, 2), float(2, 3, 2) },
      code = "shape", match = "[batch, T, D] wanted" },
    { inputs = { float(2, 3, 4), float(2, 3, 4), float(3, 2), float(2, 3, 2), float(2, 3, 2) },
      code = "shape", match = "[4, N] wanted" },
    { inputs = { float(2, 3, 4), float(2, 3, 4), float(4, 2), float(2, 3, 2), float(2, 3, 3) },
      code = "shape", match = "[batch, T, N]" },
  } },
  { op = "selective_scan_grad", oracle = scan_grad, grad = true, cases = scan_cases(true) },
  { op = "linear_attention", oracle = attend, grad = true, cases = attention_cases(), bad = {
    { inputs = { float(2, 3, 4), float(2, 3, 4), float(2, 3, 4) }, code = "shape",
      match = "[batch, T, heads, K] wanted" },
    { inputs = { float(2, 3, 1, 4), float(2, 3, 1, 4), float(2, 4, 1, 4) }, code = "shape",
      match = "[batch, T, heads, V]" },
    { inputs = { float(2, 3, 1, 4), float(2, 3, 1, 4), float(2, 3, 1, 4), float(2, 3, 1, 3) },
      code = "shape", match = "[batch, T, heads, 1]" },
  } },
  { op = "linear_attention_grad", oracle = attend_grad, grad = true,
    cases = attention_cases(true) },
}
