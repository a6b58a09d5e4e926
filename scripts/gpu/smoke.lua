--- smoke.lua -- ten steps of a small GPT on a device
---
---     mrt scripts/gpu/smoke.lua DEVICE FILE     losses, exactly, and what mrt info says
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local results = require "results"

local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy

local device, file = arg[1], arg[2]
local BATCH <const>, CONTEXT <const>, VOCAB <const> = 4, 64, 256

-- Token ids by arithmetic: the same on every device.
local function ids(seed)
  return (mrt.arange(BATCH * CONTEXT, { dtype = "i64" }) * 37 + seed)
    :remainder(VOCAB):reshape(BATCH, CONTEXT)
end

-- Weights are drawn on the CPU, and carried.
local function model_on(where)
  mrt.device(where)
  mrt.seed(1)
  return nn.GPT { vocab = VOCAB, dim = 64, layers = 2, heads = 2, context = CONTEXT }
end

local function model_with(dtype)
  local from = model_on "cpu":parameters()
  local made = model_on(device)
  for i, p in ipairs(made:parameters()) do
    p:assign(device == "cpu" and from[i] or from[i]:to(device))
  end
  return made, dtype == "bf16" and policy.precision.bf16() or nil
end

local function losses(dtype)
  local model, precision = model_with(dtype)
  local params = model:parameters()
  local opt = optim.adamw(params, { lr = 1e-3 })
  local step = mrt.compile(function(x, y)
    local loss = nn.cross_entropy(model(x), y)
    opt:step(mrt.grad(loss, params))
    return loss
  end, { precision = precision })
  local x, y, list = mrt.eval(ids(1)), mrt.eval(ids(38)), {}
  for i = 1, 10 do list[i] = ("%a"):format(step(x, y):item()) end
  return list
end

local out = { device = device, info = core.info() }
for _, dtype in ipairs { "f32", "bf16" } do
  local ok, value = pcall(losses, dtype)
  out[dtype] = ok and value or nil
  out[dtype .. "_failed"] = not ok and tostring(value) or nil
  results.write(file, out)
  print(dtype, ok and table.concat(value, " ") or value)
end
