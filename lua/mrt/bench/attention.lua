--- mrt bench attention -- attention in narrow floats beside f32
---
---     mrt bench attention [--seconds S] [--cpu]
---
--- Milliseconds of attention and of its gradient for q, k, v [B,T,H,D], the
--- fastest run of each in S seconds during which dtypes take turns; ratios are to
--- f32.  --cpu counts processor time, for one thread on a machine with much else
--- to do.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"

local shapes = { { 12, 256, 6, 64 }, { 1, 256, 12, 64 }, { 1, 1024, 12, 64 }, { 4, 2048, 8, 64 } }
local dtypes = { "f32", "bf16", "f16" }
local options = { causal = true }

-- The operator's steps for each dtype, and what to call them with.  Results are
-- read in the step, so that they are in memory that was touched before.
local function steps_of(shape)
  local list = {}
  for i, dtype in ipairs(dtypes) do
    local x = {}
    for k = 1, 4 do x[k] = mrt.randn(table.unpack(shape)):to(dtype) end
    local q, k, v, dout = table.unpack(x)
    local o, lse = core.op.attention(q, k, v, options)
    mrt.eval(q, k, v, dout, o, lse)
    list[2 * i - 1] = { mrt.compile(function(a, b, c)
      local y = core.op.attention(a, b, c, options)
      return y:sum()
    end), q, k, v }
    list[2 * i] = { mrt.compile(function(a, b, c, d, e, f)
      local dq, dk, dv = core.op.attention_grad(a, b, c, d, e, f, options)
      return dq:sum() + dk:sum() + dv:sum()
    end), q, k, v, o, lse, dout }
  end
  return list
end

-- Seconds of the one node of class attention.
local function time(step, o)
  local best = math.huge
  local call, how = step[1], { rounds = 3, cpu = o.cpu }
  for _, node in ipairs(call:measure(how, table.unpack(step, 2)).steps) do
    if node.class == "attention" then best = math.min(best, node.measured) end
  end
  return best
end

local function row(shape, o)
  local steps, best, began = steps_of(shape), {}, core.clock()
  repeat
    for i, step in ipairs(steps) do
      best[i] = math.min(best[i] or math.huge, time(step, o))
    end
  until core.clock() - began > o.seconds
  local text = ("%-16s"):format(table.concat(shape, ","))
  for way = 1, 2 do
    text = text .. (" %8.2f"):format(best[way] * 1e3)
    for i = way + 2, #best, 2 do
      text = text .. (" %8.2f %5.2f"):format(best[i] * 1e3, best[i] / best[way])
    end
  end
  print(text)
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
end
