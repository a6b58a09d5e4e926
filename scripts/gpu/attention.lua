--- attention.lua -- flop a second of attention and of its gradient, causal, in bf16
---
---     mrt scripts/gpu/attention.lua FILE [DEVICE]
---
--- Counted as the half of the products that the mask leaves. Beside each the means of
--- squares of y, dq, dk and dv, which forms of the kernels should agree about to a part
--- in a thousand, and whether 20 runs give the same bits of them.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local results = require "results"

local file, device = arg[1], arg[2] or "cuda:0"
mrt.device(device)
mrt.seed(1)
local out = { device = core.info().libraries, rows = {} }

-- { batch, context, heads, width }
local shapes = { { 16, 1024, 12, 64 }, { 16, 1024, 25, 64 }, { 4, 4096, 12, 64 },
  { 8, 1024, 16, 128 }, { 2, 4096, 16, 128 } }

local function measured(B, T, H, D)
  local x = {}
  for i = 1, 4 do x[i] = results.normal("bf16", B, T, H, D) end
  local q, k, v, dout = table.unpack(x)
  local step = mrt.compile(function()
    local y = core.op.attention(q, k, v, { causal = true })
    local g = mrt.grad((y * dout):sum(), { q, k, v })
    local sums = { y, table.unpack(g) }
    for i, t in ipairs(sums) do
      t = t:to "f32"
      sums[i] = (t * t):mean()
    end
    return table.unpack(sums)
  end)
  local means, same = nil, true
  for _ = 1, 20 do
    local now = { step() }
    for i, t in ipairs(now) do now[i] = t:item() end
    for i, mean in ipairs(means or now) do same = same and mean == now[i] end
    means = now
  end
  local times = {}
  for _, s in ipairs(step:measure({ rounds = 5 }).steps) do
    times[s.op] = (times[s.op] or 0) + s.measured
  end
  local flop = 4 * B * H * T * T * D / 2
  local back = times.attention_grad
  return { batch = B, context = T, heads = H, width = D, means = means, same = same,
    forward_ms = times.attention * 1e3, forward = flop / times.attention,
    backward_ms = back and back * 1e3, backward = back and 2.5 * flop / back }
end

for _, s in ipairs(shapes) do
  local ok, row = pcall(measured, table.unpack(s))
  if not ok then row = { failed = tostring(row) } end
  out.rows[#out.rows + 1] = row
  results.write(file, out)
  print(table.concat(s, "x"), row.failed or ("forward %.0f, backward %.0f Tflop/s; means %.6g "
    .. "%.6g %.6g %.6g, bits %s"):format(row.forward / 1e12, (row.backward or 0) / 1e12,
    row.means[1], row.means[2], row.means[3], row.means[4], row.same and "the same" or "differ"))
  collectgarbage()
end
