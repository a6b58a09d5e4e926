--- transforms.lua -- the transforms of a compiled function, in their order
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local accumulate = require "mrt.accumulate"
local param_dtype = require "mrt.compile.param_dtype"
local shard = require "mrt.shard"
local show = require "mrt.util.options".show
local tensor = require "mrt.mesh.tensor"
local trace = require "mrt.compile.trace"

local transforms = {}

-- What a transform has beside hooks that are chains.
local others = { name = true, wraps = true, begin = true, finish = true, prepare = true,
  totals = true, before_step = true, after_step = true, state = true,
  load_state = true, expect_state = true }

-- The library's own, outermost first; those that the options do not ask for are not
-- there.  The order is needed:
--
--   loss scaling    outside sharding: gradients are reduced while they are scaled, and
--                   all ranks find the same overflow in the mean.  As it finishes it
--                   makes the updates that waited, which sharding must still see.
--   gradient noise scale  outside sharding, where gradients are those of all ranks;
--                   sharding shows it those of this rank, scaled alike.
--   pipeline        outside what is below, which is about this stage's parameters: others are
--                   not updated here, and norms are added up over the stages.
--   tensor parallel  outside sharding, which has pieces of weights for parameters.
--   sharding        outside accumulation: a bucket's gradient is that of the whole
--                   batch, reduced once or, where that may be, added up of what each
--                   micro-batch was reduced to.
--   accumulation    innermost of those that change gradients: it compares what the
--                   core computes for a micro-batch and for all of it.
--   cut             of a pipeline: inside accumulation, where a micro-batch's gradient is
--                   taken, it takes those of what stages hand on too.
--   pieces of weights  the other side of tensor parallel: what micro-batches add up are
--                   gradients of pieces; the core is asked for those of whole weights.
--   fp8 scaling     changes no gradient.  It reads what the planner has found, and
--                   assigns scales as it finishes, which loss scaling gates.
--   narrow weights  finishes last, when all updates are known: if some are of f32
--                   variables it converts these and has the trace made again.
--
-- A user's own are outside all of these: they see gradients as the function does, and
-- what they assign as they finish is seen by all.
local order = { "loss scaling", "gradient noise scale", "pipeline", "tensor parallel", "sharding",
  "accumulation", "cut", "pieces of weights", "fp8 scaling", "narrow weights" }

-- ---- a user's ----------------------------------------------------------------

local function refuse(text, ...)
  core.fail("value", "compile", "option 'transforms': " .. text:format(...))
end

local function check_fields(t, i)
  if type(t) ~= "table" or core.is_tensor(t) then
    refuse("a transform wanted at %d, a table, got %s", i, show(t))
  elseif type(t.name) ~= "string" then
    refuse("transform %d has no name: a string wanted, got %s", i, show(t.name))
  end
end

local function check_hook(t, key)
  local hook = t[key]
  if hook ~= nil and type(hook) ~= "function" then
    refuse("'%s': %s is %s, a function wanted", t.name, key, show(hook))
  end
end

-- Hooks are where a table keeps functions; other values are the transform's own.
local function check_hooks(t)
  for key, value in pairs(t) do
    if type(value) == "function" and not others[key] and not trace.is_chain(key) then
      refuse("'%s' has a hook '%s' that there is not (hooks: %s)", t.name, tostring(key),
        table.concat(transforms.hooks(), ", "))
    end
  end
  for _, hook in ipairs(transforms.hooks()) do check_hook(t, hook) end
end

--- The hooks that a transform may have, sorted.
---@return string[]
function transforms.hooks()
  local list = {}
  for name in pairs(others) do
    if name ~= "name" and name ~= "wraps" then list[#list + 1] = name end
  end
  for _, name in ipairs(trace.hooks()) do list[#list + 1] = name end
  table.sort(list)
  return list
end

local function check_wraps(t)
  if t.wraps == nil then return end
  for _, name in ipairs(order) do if name == t.wraps then return end end
  refuse("'%s' wraps %s, one of %s wanted", t.name, show(t.wraps),
    table.concat(order, ", "))
end

local function check_list_of(given)
  if type(given) ~= "table" or core.is_tensor(given) then
    refuse("a list of transforms wanted, got %s", show(given))
  elseif given.name then
    refuse("a list of transforms wanted, got the transform %s", show(given.name))
  end
  for key in pairs(given) do
    if math.type(key) ~= "integer" or key < 1 or key > #given then
      refuse("a list of transforms wanted, got a table with a field %s", show(key))
    end
  end
end

--- Check the option `transforms` of mrt.compile.
---@param given any
function transforms.check(given)
  if given == nil then return end
  check_list_of(given)
  local seen = {}
  for _, name in ipairs(order) do seen[name] = true end
  for i, t in ipairs(given) do
    check_fields(t, i)
    if seen[t.name] then refuse("there are two transforms '%s'", t.name) end
    seen[t.name] = true
    check_hooks(t)
    check_wraps(t)
  end
end

-- ---- gradients of a user's -------------------------------------------------------

local function is_list(list, n)
  if type(list) ~= "table" or core.is_tensor(list) or n and #list ~= n then return false end
  for _, x in ipairs(list) do
    if not core.is_tensor(x) then return false end
  end
  return true
end

local function check_list(name, what, list, n)
  if is_list(list, n) then return list end
  core.fail("value", "grad", ("transform '%s': %s wanted, got %s"):format(name, what,
    type(list) == "table" and ("a table of %d"):format(#list) or show(list)))
end

-- A user's transform, which asks for gradients of lists and returns one.
local function checked(given)
  if not given.grad then return given end
  local own, name = given.grad, given.name
  local function grad(self, next, ys, xs, o)
    check_list(name, "grad(next, ys, xs, o): a list of outputs", ys)
    check_list(name, "grad(next, ys, xs, o): a list of inputs", xs)
    local function inner(y, x, options)
      check_list(name, "next(ys, xs, o): a list of outputs", y)
      check_list(name, "next(ys, xs, o): a list of inputs", x)
      if type(options) ~= "table" then
        check_list(name, "next(ys, xs, o): the table of options", options)
      end
      return next(y, x, options)
    end
    return check_list(name, ("%d gradients"):format(#xs), own(self, inner, ys, xs, o), #xs)
  end
  return setmetatable({ grad = grad }, { __index = given })
end

-- ---- the list --------------------------------------------------------------------

-- A transform that few ask for, whose module loads where one does.
local function asked(module, settings, options)
  return settings and require(module).new(settings, options) or nil
end

--- Make the transforms of a compiled function: those of the library that its options
--- ask for, and the user's.
---@param options table  of options.check
---@return mrt.Transform[] list  outermost first
---@return table<string, mrt.Transform> by_name
function transforms.new(options)
  local by_name, list = {}, {}
  by_name["loss scaling"] = asked("mrt.compile.loss_scale", options.loss_scale)
  by_name["gradient noise scale"] = asked("mrt.compile.gradient_noise", options.noise)
  by_name["tensor parallel"] = tensor.outer(options.mesh)
  by_name["pieces of weights"] = tensor.inner()
  by_name["sharding"] = shard.new(options.shard)
  by_name["pipeline"] = asked("mrt.pipeline.stages", options.pipeline)
  by_name["accumulation"] = accumulate.transform
  by_name["cut"] = by_name["pipeline"] and by_name["pipeline"].cut
  by_name["fp8 scaling"] = asked("mrt.compile.fp8_scaling", options.delayed, options)
  by_name["narrow weights"] = param_dtype.new(options.weights)
  for _, name in ipairs(order) do
    for _, t in ipairs(options.transforms or {}) do
      if (t.wraps or order[1]) == name then table.insert(list, checked(t)) end
    end
    table.insert(list, by_name[name])
  end
  return list, by_name
end

return transforms
