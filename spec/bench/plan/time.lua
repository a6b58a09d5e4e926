--- time.lua -- how long planning takes, and how that grows
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local nn, optim = mrt.nn, mrt.optim

local sizes = { 1000, 10000, 100000 }

local cases = {
  { "matmul chain", function(n)
    return function(x)
      for _ = 1, n do x = x:matmul(x) end
      return x
    end
  end },
  { "wide, merged in pairs", function(n)
    return function(x)
      local list = {}
      for i = 1, n // 4 do list[i] = (x * i):matmul(x) end
      while #list > 1 do
        local merged = {}
        for i = 1, #list - 1, 2 do
          merged[#merged + 1] = (list[i] + list[i + 1]):softmax(2)
        end
        if #list % 2 == 1 then merged[#merged + 1] = list[#list] end
        list = merged
      end
      return list[1]
    end
  end },
  { "deep net, AdamW", function(n)
    local weights = {}
    for i = 1, n // 6 do weights[i] = mrt.variable(mrt.zeros(8, 8)) end
    local opt = optim.adamw(weights, { lr = 1e-3 })
    return function(x)
      for _, w in ipairs(weights) do x = x:matmul(w):relu() end
      local loss = (x * x):mean()
      opt:step(mrt.grad(loss, weights))
      return loss
    end
  end },
}

-- Plan; processor seconds of the trace and of the rest.
local function time(fn, ...)
  local traced
  local began = os.clock()
  local plan = mrt.compile(function(...)
    local from = os.clock()
    local result = fn(...)
    traced = os.clock() - from
    return result
  end):plan(...)
  return plan, traced, os.clock() - began - traced
end

-- Most memory this process has had; nil where the system does not say.
local function memory()
  local file <close> = io.open "/proc/self/status"
  local kib = file and file:read "a":match "VmHWM:%s*(%d+) kB"
  return kib and kib * 1024 // 1 | 0
end

local function gpt3()
  local began = os.clock()
  local model = nn.GPT { vocab = 50257, dim = 12288, layers = 96, heads = 96,
    context = 2048 }
  local params = model:parameters()
  local opt = optim.adamw(params, { lr = 6e-5 })
  local tokens = mrt.zeros({ 1, 2048 }, { dtype = "i32" })
  local plan, traced, planned = time(function(x, y)
    local loss = nn.cross_entropy(model(x), y)
    opt:step(mrt.grad(loss, params))
    return loss
  end, tokens, tokens)
  local most = memory()
  print(("GPT-3 175B, batch 1 x 2048: %d nodes, peak %d bytes; trace %.2f s, "
    .. "plan %.2f s, with the model %.2f s; process %s")
    :format(plan.nodes, plan.peak, traced, planned, os.clock() - began,
      most and ("%.0f MiB"):format(most / 2 ^ 20) or "unknown"))
end

return function()
  gpt3() -- first, so that the memory is its own
  print "time: processor seconds; growth is for 10 times the nodes"
  print "graph                       nodes    trace     plan   growth   arena/live"
  for _, case in ipairs(cases) do
    local last
    for _, n in ipairs(sizes) do
      local plan, traced, planned = time(case[2](n), mrt.zeros(8, 8))
      local live = plan.lower_bound - plan.persistent - plan.outputs
      print(("%-24s %8d %8.2f %8.2f %8s   %10.4f"):format(case[1], plan.nodes,
        traced, planned, last and ("%.1f"):format(planned / last) or "",
        live > 0 and plan.transient / live or 1))
      last = planned
    end
  end
end
