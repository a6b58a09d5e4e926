-- swap.lua -- when is moving a value to the slow tier free?
--
-- For activations of a GPT's training step, the easiest and the hardest: the time to copy each out
-- and in (T_swap) against the time of what runs between its last use in the
-- forward pass and its first in the backward pass (T_compute), on this machine and
-- on devices that are not here.  Then the step really runs with weights and
-- optimizer state in a file: the losses are the same bits.
--
--     mrt examples/swap.lua
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local format = require "mrt.format"
local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy

local tokens = mrt.randint(0, 65, { 8, 64 }, { dtype = "i32" })
local targets = mrt.randint(0, 65, { 8, 64 }, { dtype = "i32" })

local function make(options)
  mrt.seed(1)
  local model = nn.GPT { vocab = 65, dim = 128, layers = 4, heads = 4, context = 64 }
  local params = model:parameters()
  local opt = optim.adamw(params, { lr = 1e-3 })
  return mrt.compile(function(a, b)
    local loss = nn.cross_entropy(model(a), b)
    opt:step(mrt.grad(loss, params))
    return loss
  end, options)
end

-- The last forward and the first backward step that read each value.
local function gaps(plan)
  local steps, values, list = plan:steps(), plan:values(), {}
  local last, first = {}, {}
  for i, touched in ipairs(plan:operands()) do
    for _, v in ipairs(touched.reads) do
      if not steps[i].backward then last[v] = i
      elseif last[v] and not first[v] then first[v] = i end
    end
  end
  for v, value in ipairs(values) do
    if value.kind == "activation" and first[v] then
      local between = 0
      for i = last[v] + 1, first[v] - 1 do between = between + steps[i].time end
      list[#list + 1] = { value = value, between = between }
    end
  end
  table.sort(list, function(a, b)
    local p, q = a.between / a.value.bytes, b.between / b.value.bytes
    if p ~= q then return p > q end
    return a.value.first < b.value.first
  end)
  return list
end

local function table_for(name)
  if name then mrt.device.use(name) end
  local plan = make():plan(tokens, targets)
  local d = plan.device
  if not (d.slow_read and d.slow_read > 0) then return end
  print(("\n%s: slow tier %s/s in, %s/s out"):format(d.name,
    format.bytes(d.slow_read), format.bytes(d.slow_write)))
  print "value                     bytes      T_swap   T_compute  hidden"
  local list = gaps(plan)
  for i, gap in ipairs(list) do
    if i <= 3 or i > #list - 3 then -- the easiest and the hardest
      local v, size = gap.value, format.bytes(gap.value.bytes)
      local swap = v.bytes / d.slow_write + v.bytes / d.slow_read
      print(("%-20s %10s %8.3f ms %8.3f ms  %s"):format(v.op, size, swap * 1e3,
        gap.between * 1e3, swap <= gap.between and "yes" or "no"))
    end
  end
end

table_for(nil)
for _, name in ipairs { "a100-40", "h200" } do table_for(name) end
mrt.device.use "declared"

local kept, swapped = make(), make { swap = policy.swap.all() }
print "\nstep   all in memory   weights and optimizer state in a file"
for i = 1, 4 do
  local a, b = kept(tokens, targets):item(), swapped(tokens, targets):item()
  print(("%4d   %.10f    %.10f  %s"):format(i, a, b, a == b and "same bits" or "DIFFER"))
end
local a, b = kept:plan(tokens, targets), swapped:plan(tokens, targets)
print(("peak   %s        %s, and %s in the file"):format(format.bytes(a.peak),
  format.bytes(b.peak), format.bytes(b.slow)))
