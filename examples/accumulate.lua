--- accumulate.lua -- the gradient of a large batch from small ones, two ways
---
---     mrt examples/accumulate.lua
---
--- An epoch has 11 mini-batches of 8 rows; a step is taken every 4 of them, so the
--- last window has 3.  Four networks begin alike and see the same rows:
---
---   batch       the window as one batch
---   accumulate  the window as one batch, mrt.compile with accumulate = 4: the
---               planner splits it into micro-batches
---   by hand     the loop that everybody writes: gradients are added to buffers
---               mini-batch by mini-batch, then a step, then zero; what is left is
---               flushed at the epoch's end.  Each counts as many rows as it has
---   fixed 1/4   the same with every mini-batch divided by 4: the short window's
---               gradient is 3/4 of what it should be
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local nn, optim = mrt.nn, mrt.optim

local ROWS, COUNT, WINDOW, EPOCHS = 8, 11, 4, 20

mrt.seed(1)
local images = mrt.randn(ROWS * COUNT, 32)
local labels = images:matmul(mrt.randn(32, 5)):argmax(2)
mrt.eval(images, labels)

local function network()
  mrt.seed(2)
  local model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 5))
  return model, optim.sgd(model:parameters(), { lr = 0.5 })
end

--- Mini-batches first to last of an epoch, as one.
---@param first integer
---@param last integer
local function rows(first, last)
  local from, to = (first - 1) * ROWS + 1, last * ROWS
  return mrt.eval(images:slice(1, from, to), labels:slice(1, from, to))
end

local function length(list) return mrt.global_norm(list):item() end

-- ---- the planner's way: a function of the window ---------------------------

-- Returns train(first, last): the gradient's length, after a step.
local function compiled(k)
  local model, opt = network()
  local step = mrt.compile(function(x, y)
    local grads = mrt.grad(nn.cross_entropy(model(x), y), opt:parameters())
    opt:step(grads)
    return mrt.global_norm(grads)
  end, { accumulate = k })
  return function(first, last) return step(rows(first, last)):item() end, model,
    step
end

-- ---- by hand: a function of the mini-batch, and buffers --------------------

-- weight(n) says how much each of a window's n mini-batches counts.
local function by_hand(weight)
  local model, opt = network()
  local buffers = {}
  for i, p in ipairs(opt:parameters()) do
    buffers[i] = mrt.variable(mrt.zeros_like(p))
  end
  local add = mrt.compile(function(x, y, w)
    local grads = mrt.grad(nn.cross_entropy(model(x), y), opt:parameters())
    for i, g in ipairs(grads) do buffers[i]:assign(buffers[i] + g * w) end
  end)
  local apply = mrt.compile(function()
    opt:step(buffers)
    for _, b in ipairs(buffers) do b:assign(0) end
  end)
  return function(first, last)
    for i = first, last do
      local x, y = rows(i, i)
      add(x, y, weight(last - first + 1))
    end
    local norm = length(buffers)
    apply()
    return norm
  end, model
end

-- ---- the same epochs for all -----------------------------------------------

local names = { "batch", "accumulate", "by hand", "fixed 1/4" }
local train, model = {}, {}
local step
train[1], model[1] = compiled(1)
train[2], model[2], step = compiled(WINDOW)
train[3], model[3] = by_hand(function(n) return 1 / n end)
train[4], model[4] = by_hand(function() return 1 / WINDOW end)

print "length of the gradient in the first epoch"
print(("%-7s %5s  %12s %12s %12s %12s"):format("window", "rows",
  table.unpack(names)))
for epoch = 1, EPOCHS do
  for first = 1, COUNT, WINDOW do
    local last, norm = math.min(first + WINDOW - 1, COUNT), {}
    for i, go in ipairs(train) do norm[i] = go(first, last) end
    if epoch == 1 then
      print(("%d to %-2d %5d  %12.6f %12.6f %12.6f %12.6f"):format(first, last,
        (last - first + 1) * ROWS, table.unpack(norm)))
    end
  end
end

local function apart(a, b)
  local differences, theirs = {}, b:parameters()
  for i, p in ipairs(a:parameters()) do differences[i] = p - theirs[i] end
  return length(differences) / length(b:parameters())
end

print(("\nafter %d epochs: how far the weights are from the batch's"):format(EPOCHS))
for i = 2, #train do
  print(("  %-12s %.1e"):format(names[i], apart(model[i], model[1])))
end

local x, y = rows(1, WINDOW)
print(("\nbytes of a step: %d as one batch, %d in %d micro-batches"):format(
  step:plan_in(1, x, y).peak, step:plan(x, y).peak, WINDOW))
