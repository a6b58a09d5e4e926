--- planning.lua -- what plans save: the same steps under every memory scheme
---
---     mrt examples/planning.lua                 tables
---     mrt examples/planning.lua --out FOLDER    pictures as well
---
--- none: every value has a place of its own.  in place: a result takes the place
--- of an input that nobody reads afterwards.  sharing: values that do not live at
--- the same time share memory.  The last columns are a dynamic caching pool over
--- the same execution: it allocates while the step runs.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local caching_allocator = require "mrt.plan.caching_allocator"
local arguments = require "mrt.cli.arguments"
local format = require "mrt.util.format"
local nn, optim = mrt.nn, mrt.optim

local flags = arguments.script {
  about = "Plan small steps under every memory scheme.",
  { "--out FOLDER", "one that is there, for pictures" },
}

local schemes = {
  { "none", { inplace = false, share = false } },
  { "in place", { share = false } },
  { "sharing", { inplace = false } },
  { "in place + sharing", {} },
}

-- ---- the steps ------------------------------------------------------------

mrt.seed(1)

-- Fusion would make one node of it, with nothing to plan.
local function exp(options)
  options.fuse = false
  local a, b = mrt.randn(256, 256), mrt.randn(256, 256)
  return mrt.compile(function(x, y)
    local z = (x * y + 3):exp()
    return z:sum(), table.unpack(mrt.grad(z:sum(), { x, y }))
  end, options), a, b
end

local function mlp(options)
  local model = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 10))
  local params = model:parameters()
  local opt = optim.adamw(params, { lr = 1e-3 })
  return mrt.compile(function(x, y)
    local loss = nn.cross_entropy(model(x), y)
    opt:step(mrt.grad(loss, params))
    return loss
  end, options), mrt.randn(128, 64), mrt.randint(0, 10, { 128 })
end

-- ---- tables and pictures -----------------------------------------------------

local function check(ok, message)
  if ok then return end
  io.stderr:write("planning.lua: ", message, "\n")
  os.exit(1)
end

local function save(plan, name)
  for _, ending in ipairs { ".html", ".svg", ".json", ".snapshot.json",
    ".snapshot.pickle" } do
    check(plan:save(("%s/%s%s"):format(flags.out, name, ending)))
  end
  for _, stage in ipairs { "traced", "differentiated", "fuse", "planned" } do
    check(plan:save(("%s/%s-%s.graph.svg"):format(flags.out, name, stage),
      { stage = stage }))
  end
end

local function row(scheme, plan)
  local pool = caching_allocator.simulate(plan)
  print(("  %-19s %11s %11s %11s   %11s %11s %6d %6.0f"):format(scheme,
    format.bytes(plan.peak), format.bytes(plan.transient),
    format.bytes(plan.transient - pool.live), format.bytes(pool.reserved),
    format.bytes(pool.wasted), pool.calls, pool.microseconds))
end

local function table_of(name, make, title)
  print(title)
  print(("  %-19s %11s %11s %11s   %11s %11s %6s %6s"):format("scheme", "peak",
    "arena", "wasted", "pool peak", "wasted", "calls", "us"))
  local plans, names = { names = {} }, { "none", "inplace", "sharing", "both" }
  for i, scheme in ipairs(schemes) do
    local options = { name = ("%s, %s"):format(name, scheme[1]) }
    for key, value in pairs(scheme[2]) do options[key] = value end
    local step, x, y = make(options)
    plans[i], plans.names[i] = step:plan(x, y), scheme[1]
    row(scheme[1], plans[i])
    if flags.out then save(plans[i], name .. "-" .. names[i]) end
  end
  if flags.out then
    check(mrt.plan.compare(plans):save(("%s/%s-compared.html")
      :format(flags.out, name)))
  end
  return plans[#plans]
end

local plan = table_of("exp", exp, "z = exp(a*b + 3), and the gradient of its sum")
print "\nits execution under in place + sharing"
plan:walk()
print "\nresults that could not take the place of an input"
for _, r in ipairs(plan:refused()) do
  print(("  step %d, %s over %s: %s"):format(r.step, r.op, r.input, r.reason))
end

print()
plan = table_of("mlp", mlp, "a training step of an MLP 64-256-10, AdamW, batch 128")
print()
plan:report()
