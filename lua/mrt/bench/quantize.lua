--- mrt bench quantize -- products with weights in 8 and 4 bits
--
--     mrt bench quantize [--rows 1,16,256] [--seconds S] [--cpu]
--
-- Times of y = x w^T and of dx = dy w for w [3072,768], in f32 and with x and dy in
-- bf16 under the policy for that: the fastest run in S seconds, and their ratio to
-- the whole weights in f32; bits of a weight, and the mean absolute error of normal
-- ones.  --cpu counts processor time, for one thread on a machine with much
-- else to do.
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local nn = mrt.nn

local N <const>, K <const> = 3072, 768

local kinds = {
  { "whole" }, { "int8", { kind = "int8" } }, { "nf4", { kind = "nf4" } },
  { "nf4 double", { kind = "nf4", double = true } }, { "fp4", { kind = "fp4" } },
}

-- Milliseconds of the products: the least median of three runs.
local function fastest(o, precision, fn, ...)
  local step = mrt.compile(fn, { precision = mrt.policy.precision[precision]() })
  local best, began = math.huge, core.clock()
  repeat
    local total = 0
    for _, node in ipairs(step:measure({ rounds = 3, cpu = o.cpu }, ...).steps) do
      if node.class == "matmul" or node.class == "pointwise" then total = total + node.measured end
    end
    best = math.min(best, total)
  until core.clock() - began > o.seconds
  return best * 1e3
end

local function read(args)
  local o, i = { seconds = 0.5, rows = "1,16,64,256" }, 1
  while i <= #args do
    local name, value = args[i]:match "^%-%-(%w+)$", args[i + 1]
    if name == "cpu" then
      o.cpu, i = true, i + 1
    elseif (name == "rows" or name == "seconds") and value then
      o[name], i = value, i + 2
    else
      error("mrt bench quantize: no option " .. args[i] .. ", or no value", 0)
    end
  end
  o.seconds = tonumber(o.seconds)
  return o
end

-- The layers, and what the numbers of each differ from the f32 ones by.
local function layers()
  mrt.seed(1)
  local linear, out = nn.Linear(K, N, { bias = false, init = mrt.randn }), {}
  for i, kind in ipairs(kinds) do
    out[i] = kind[2] and nn.QuantizedLinear(linear, kind[2]) or linear
    if kind[2] then
      print(("%-12s %6.3f bits  error %.4f"):format(kind[1], out[i]:bits(),
        (out[i]:weights() - linear.weight):abs():mean():item()))
    end
  end
  return out
end

return function(...)
  local o, info = read { ... }, core.info()
  print(("%s, %d threads; w [%d,%d]"):format(info.isa, info.threads, N, K))
  local list = layers()
  print(("%-12s %-4s %5s %9s %6s %9s %6s"):format("w", "x", "rows", "y ms", "", "dx ms", ""))
  for word in o.rows:gmatch "%d+" do
    local rows, y0, dx0 = math.tointeger(word), nil, nil
    for _, dtype in ipairs { "f32", "bf16" } do
      local x, dy = mrt.randn(rows, K):to(dtype), mrt.randn(rows, N):to(dtype)
      mrt.eval(x, dy)
      for i, layer in ipairs(list) do
        local y = fastest(o, dtype, function(a) return layer(a):to(dtype) end, x)
        local dx = fastest(o, dtype, function(a, b)
          return mrt.grad(layer(a):to(dtype), a, { grad_outputs = b })
        end, x, dy)
        y0, dx0 = y0 or y, dx0 or dx
        print(("%-12s %-4s %5s %9.3f %6.2f %9.3f %6.2f"):format(kinds[i][1],
          dtype, word, y, y / y0, dx, dx / dx0))
      end
    end
  end
end
