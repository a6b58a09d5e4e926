--- mrt bench attention -- attention in narrow floats beside f32, masked beside not
---
---     mrt bench attention [--seconds S] [--cpu]
---
--- Milliseconds of attention and of its gradient for q, k, v [B,T,H,D], the
--- fastest run of each in S seconds during which all of a row take turns; ratios are
--- to f32, in the second table to attention without a mask.  There a mask of keys
--- hides the last tenth of them, one of pairs a random half; a window shows the 256
--- keys before; the last has a bias whose gradient is computed too.  --cpu counts
--- processor time, for one thread on a machine with much else to do.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"

local shapes = { { 12, 256, 6, 64 }, { 1, 256, 12, 64 }, { 1, 1024, 12, 64 }, { 4, 2048, 8, 64 } }
local dtypes = { "f32", "bf16", "f16" }
local options = { causal = true }

-- A list with options behind it, for a call.
local function apply(op, list, o)
  local all = { table.unpack(list) }
  all[#all + 1] = o
  return op(table.unpack(all))
end

-- Steps of attention and of its gradient, each with what to call it with; `more` are
-- the inputs behind q, k, v.  Results are read in the step, so that they are in
-- memory that was touched before.
local function two_steps(x, more, o, grad_o)
  local q, k, v, dout = table.unpack(x)
  local ins = { q, k, v, table.unpack(more) }
  local y, lse = apply(core.op.attention, ins, o)
  mrt.eval(x, more, y, lse)
  local back = { q, k, v, y, lse, dout, table.unpack(more) }
  return { mrt.compile(function(...)
    return (apply(core.op.attention, { ... }, o)):sum()
  end), table.unpack(ins) }, { mrt.compile(function(...)
    local sum = 0
    for _, d in ipairs { apply(core.op.attention_grad, { ... }, grad_o or o) } do
      sum = d:sum() + sum
    end
    return sum
  end), table.unpack(back) }
end

local function inputs(shape, dtype)
  local x = {}
  for k = 1, 4 do x[k] = mrt.randn(table.unpack(shape)):to(dtype) end
  return x
end

local function steps_of(shape)
  local list = {}
  for i, dtype in ipairs(dtypes) do
    list[2 * i - 1], list[2 * i] = two_steps(inputs(shape, dtype), {}, options)
  end
  return list
end

local masks = { "plain", "keys", "pairs", "bias", "window", "softcap", "own bias" }

-- The same for each of these masks.
local function masked_steps(shape, dtype)
  local B, T, H = table.unpack(shape)
  local x = inputs(shape, dtype)
  local keys = mrt.arange(T):lt(T * 9 // 10):reshape(1, 1, 1, T):expand(B, 1, 1, T):copy()
  local pairs_seen = mrt.rand(1, 1, T, T):lt(0.5)
  local bias = mrt.randn(1, H, T, T):to(dtype)
  local list = {}
  local function add(...) list[#list + 1], list[#list + 2] = two_steps(x, ...) end
  add({}, {})
  add({ keys }, { has = 1 })
  add({ pairs_seen }, { has = 1 })
  add({ bias }, { has = 1 })
  add({}, { left = 255, right = 0 })
  add({}, { softcap = 30 })
  add({ bias }, { has = 1 }, { has = 1, mask_grad = true })
  return list
end

-- Seconds of the one node of attention, or of its gradient.
local function time(step, o)
  local best = math.huge
  local call, how = step[1], { rounds = 3, cpu = o.cpu }
  for _, node in ipairs(call:measure(how, table.unpack(step, 2)).steps) do
    if node.class:find "^attention" then best = math.min(best, node.measured) end
  end
  return best
end

-- The shortest of each, in turn.
local function shortest(steps, o)
  local best, began = {}, core.clock()
  repeat
    for i, step in ipairs(steps) do
      best[i] = math.min(best[i] or math.huge, time(step, o))
    end
  until core.clock() - began > o.seconds
  return best
end

local function row(shape, o)
  local best = shortest(steps_of(shape), o)
  local text = ("%-16s"):format(table.concat(shape, ","))
  for way = 1, 2 do
    text = text .. (" %8.2f"):format(best[way] * 1e3)
    for i = way + 2, #best, 2 do
      text = text .. (" %8.2f %5.2f"):format(best[i] * 1e3, best[i] / best[way])
    end
  end
  print(text)
end

local function masked_row(shape, dtype, o)
  local best = shortest(masked_steps(shape, dtype), o)
  for way = 1, 2 do
    local text = ("%-16s %-5s%-9s"):format(table.concat(shape, ","), dtype,
      way == 1 and "forward" or "gradient")
    text = text .. (" %8.2f"):format(best[way] * 1e3)
    for i = way + 2, #best, 2 do text = text .. ("%9.2f"):format(best[i] / best[way]) end
    print(text)
  end
end

local function read(args)
  local o, i = { seconds = 3 }, 1
  while i <= #args do
    local name, value = args[i]:match "^%-%-(%w+)$", args[i + 1]
    if name == "cpu" then
      o.cpu, i = true, i + 1
    elseif name == "seconds" and tonumber(value) then
      o.seconds, i = tonumber(value), i + 2
    else
      error("mrt bench attention: no option " .. args[i] .. ", or no value", 0)
    end
  end
  return o
end

return function(...)
  local o, info = read { ... }, core.info()
  print(("%s, %d threads; ms forward, then of the gradient, and ratio to f32")
    :format(info.isa, info.threads))
  local head = ("%-16s"):format ""
  for _ = 1, 2 do head = head .. ("%9s%9s%6s%9s%6s"):format("f32", "bf16", "", "f16", "") end
  print(head)
  for _, shape in ipairs(shapes) do row(shape, o) end
  print "\nnot causal; ms without a mask, and ratios to that"
  print((("%-31s"):format "" .. ("%9s"):rep(#masks)):format(table.unpack(masks)))
  for _, shape in ipairs { shapes[1], shapes[3] } do
    for _, dtype in ipairs { "f32", "bf16" } do masked_row(shape, dtype, o) end
  end
end
