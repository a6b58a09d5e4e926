--- shard -- one script on one rank or on many
---
--- Parameters are put into buckets (shard/bucket.lua) when their gradient is first
--- asked for in a trace: only there it is known which they are.  If a bucket is to
--- be in pieces, that trace is thrown away and made again.  Plans gather parameters
--- where they read them.  Gradients are reduced bucket by bucket, the last
--- layer's first, and handed back as if they were whole; optimizers and clipping
--- know what stands behind them, and whoever else reads one has it gathered.
---
--- SPDX-License-Identifier: MIT

local Bucket = require "mrt.shard.bucket"
local accumulate = require "mrt.accumulate"
local again = require "mrt.compile.retrace"
local core = require "mrt.core"
local gradients = require "mrt.shard.gradients"
local group = require "mrt.shard.group"
local weights = require "mrt.compile.param_dtype"

local op = core.op

local shard = { map = gradients.map, squares = gradients.squares, own = group.own }

local weak = { __mode = "k" }
local pieces_of = setmetatable({}, weak) -- by parameter: its bucket in pieces

local current -- of the trace being made: {sharding, ranks, buckets}; or nil

-- ---- which bucket ----------------------------------------------------------

--- The bucket that has a parameter in pieces.
---@param p mrt.Tensor
---@return mrt.Bucket?
function shard.bucket(p) return pieces_of[p] end

-- Put buckets into pieces, in another dtype if one is wanted, and make what stays of
-- them between steps.
local function spread(buckets, dtype)
  for _, b in ipairs(buckets) do
    if b.stage > 0 then
      for _, p in ipairs(dtype and b.params or {}) do
        if p:get_dtype() == "f32" then weights.convert(p, dtype) end
      end
      b:shard_params()
      for _, p in ipairs(b.params) do pieces_of[p] = b end
      weights.changed()
    end
    if b.settings.retain then b:retain() end
  end
end

-- A parameter that another function has put into pieces; whether it reads otherwise
-- from now on.
local function join(now, p, i)
  local b = pieces_of[p]
  local stage = now.sharding.stage_of(group.describe(p, i))
  if stage ~= b.stage then
    core.fail("state", "shard", ("parameter '%s' is in pieces as stage %d has it, stage %d "
      .. "wanted; a process has it in one way"):format(p:get_name() or i, b.stage, stage))
  end
  now.of[p] = b
  if b.begins then table.insert(now.fresh, b) end
  return b.settings.gather ~= nil
end

-- Parameters without a bucket; whether others read otherwise from now on.
local function unplaced(now, params)
  local new, seen, changes = {}, {}, false
  for i, p in ipairs(params) do
    if core.is_variable(p) and not now.of[p] and not seen[p] then
      seen[p] = true
      if not pieces_of[p] then new[#new + 1] = p
      else changes = join(now, p, i) or changes end
    end
  end
  return new, changes
end

-- The buckets of these parameters; those that are new are made, and if they change
-- what parameters are the trace begins anew.
local function place(now, params)
  local new, changes = unplaced(now, params)
  if changes then again.request(function() end) end
  if #new == 0 then return end
  local buckets = group.make(new, now.sharding, now.ranks)
  local any = false
  for _, b in ipairs(buckets) do
    any = any or b.stage > 0 or b.settings.gather
    for _, p in ipairs(b.params) do now.of[p] = b end
    table.insert(now.fresh, b)
  end
  local dtype = weights.wanted()
  if any then again.request(function() spread(buckets, dtype) end) end
end

-- ---- in a trace --------------------------------------------------------------

-- How parameters read so far in the trace, where not as themselves: by bucket, since it
-- has been updated, or in a narrow dtype.
local views, narrow

local Trace = { __close = function() current, views, narrow = nil, nil, nil end }

-- Its parameters read as views of its newest version from now on.
local function read(b)
  local whole, list = b:gather(b.variable, b.stage == 3), {}
  for i, p in ipairs(b.params) do
    list[i] = b:view(whole, i)
    core.trace_read(p, list[i])
  end
  views[b] = list
end

-- Buckets by when they were made, each once; none whose parameters have been closed,
-- which a weak table may still name.
local function listed(of)
  local list, seen = {}, {}
  for _, b in pairs(of) do
    if not seen[b] and Bucket.live[b.serial] then seen[b], list[#list + 1] = true, b end
  end
  table.sort(list, function(x, y) return x.serial < y.serial end)
  return list
end

--- What a compiled function keeps of its option `shard`; nil for nil.
---@param sharding mrt.Sharding?
---@return table?
function shard.new(sharding)
  if not sharding then return nil end
  return { sharding = sharding, of = setmetatable({}, weak), fresh = {} }
end

--- Before a step: parameters begin as rank 0's, and what is retained of weights is that
--- of parameters as they are now.
---@param settings table  of shard.new
function shard.begin(settings)
  local fresh = #settings.fresh > 0
  while settings.fresh[1] do table.remove(settings.fresh, 1):broadcast() end
  for _, b in ipairs(settings.sharding.options.retain and listed(settings.of) or {}) do
    b:refresh()
  end
  -- what was made on the way would be computed before an update
  if fresh then collectgarbage() end
end

--- A step has run to its end.
---@param settings table  of shard.new
function shard.ended(settings)
  for _, b in ipairs(settings.sharding.options.retain and listed(settings.of) or {}) do
    b:refreshed()
  end
end

--- Spread parameters and gradients until the result is closed.
---@param settings table?  of shard.new
---@param plan table        options of the plan; gets which rank this is
---@return table closable
function shard.enter(settings, plan)
  views, narrow = {}, {}
  if settings then
    settings.ranks = settings.ranks or settings.sharding.options.comm
      or require "mrt.communicator".create()
    if settings.ranks.size > 1 then current = settings end
    plan.rank, plan.ranks = settings.ranks.rank, settings.ranks.size
    local prefetch = settings.sharding.options.prefetch
    plan.prefetch, plan.spare = prefetch or 1, not prefetch
    for _, b in ipairs(current and listed(settings.of) or {}) do
      if b.settings.gather then narrow[b] = b:read_narrow() end
    end
  end
  return setmetatable({}, Trace)
end

-- Does a variable read as what was put there for it, or itself?
local function reads_as(v, list, i)
  return core.id(core.current(v)) == core.id(list and list[i] or v)
end

-- A parameter that reads as narrow reads as itself from now on.
local function read_wide(b, i)
  local p = b.params[i]
  if narrow[b] and reads_as(p, narrow[b], i) then core.trace_read(p, p) end
end

-- What was assigned to variables in pieces goes into the piece.
local function gather_up(b, e)
  local own, any = e.piece == b.variable, false
  for i, v in ipairs(e.variables) do
    local as = own and (views[b] or narrow[b]) or nil
    any = any or not reads_as(v, as, i) and not reads_as(v, nil, i)
  end
  if not any then return end
  local values = {}
  for i, v in ipairs(e.variables) do
    if own then read_wide(b, i) end
    values[i] = core.current(v)
  end
  core.assign(e.piece, b:own(b:flatten(values, e.piece:get_dtype(), e.unit, e.fill)))
end

--- The function has been traced: what was assigned to parameters and state in pieces
--- goes there.
function shard.finish()
  for _, b in ipairs(listed(pieces_of)) do
    for _, e in ipairs(b.spread) do gather_up(b, e) end
  end
  for _, b in ipairs(current and listed(current.of) or {}) do
    if b.settings.retain then b:keep_weights() end
  end
end

local function reduce(b, values)
  local dtype = b.params[1]:get_dtype()
  local flat = op.cast(b:flatten(values, dtype), b.settings.reduce or dtype)
  local o = { comm = b.ranks.number, op = "mean", lazy = true }
  if b.stage == 1 then flat = b:keep_gradient(flat) end
  flat = (b.stage == 0 and op.allreduce or op.reduce_scatter)(flat, o)
  if b.stage ~= 1 then flat = b:keep_gradient(flat) end
  return op.cast(flat, dtype)
end

-- The positions in `xs` of a bucket's parameters, of all buckets there, last first.
local function by_bucket(now, xs)
  local list, at, seen = {}, {}, {}
  for k, x in ipairs(xs) do
    local b = not seen[x] and (pieces_of[x] or now.of[x])
    seen[x] = true
    if b then
      if not at[b] then at[b], list[#list + 1] = {}, b end
      for i, p in ipairs(b.params) do if p == x then at[b][i] = k end end
    end
  end
  table.sort(list, function(a, b) return a.serial > b.serial end)
  return list, at
end

-- What a parameter read as, in a narrow dtype, before it read as itself again; else nil.
local function narrow_before(now, p)
  local b = pieces_of[p] or now.of[p]
  local list = b and narrow[b]
  for i, q in ipairs(list and b.params or {}) do
    if q == p then return not reads_as(p, list, i) and list[i] or nil end
  end
end

-- Add gradients beyond the first `n` to those that they belong to; is none missing?
local function add_up(dx, n, from)
  local whole = true
  for i, k in pairs(from) do
    local part = dx[i] or nil
    dx[k] = dx[k] and part and op.add(dx[k], part) or dx[k] or part
    dx[i] = nil
  end
  for k = 1, n do whole = whole and dx[k] end
  return whole
end

-- The gradient of parameters, by way of what they read as before too.
local function differentiate(now, ys, xs, dys, allow_unused, ...)
  local all, from = table.move(xs, 1, #xs, 1, {}), {}
  for k, x in ipairs(xs) do
    local before = narrow_before(now, x)
    if before then
      all[#all + 1] = before
      from[#all] = k
    end
  end
  if #all == #xs then return accumulate.grad(ys, xs, dys, allow_unused, ...) end
  local dx = accumulate.grad(ys, all, dys, true, ...)
  if add_up(dx, #xs, from) or allow_unused then return dx end
  return accumulate.grad(ys, xs, dys, allow_unused, ...) -- says what is unused
end

--- Before a variable is assigned in a trace: it is no longer read in a narrow dtype.
---@param p mrt.Tensor
function shard.assigned(p)
  local b = current and current.of[p]
  for i, q in ipairs(b and narrow[b] and b.params or {}) do
    if q == p then read_wide(b, i) end
  end
end

--- After variables have been written outside a trace, by all ranks.
---@param list mrt.Tensor[]
function shard.wrote(list)
  for _, v in ipairs(list) do
    local b = pieces_of[v]
    if b then b:wrote(v) end
  end
end

--- mrt.grad: of parameters, the mean over the ranks.  From then on these read as
--- themselves, in full, for updates by hand.
---@return mrt.Tensor[]
function shard.grad(ys, xs, ...)
  local now = core.tracing() and current
  if not now then return accumulate.grad(ys, xs, ...) end
  place(now, xs)
  local dx = differentiate(now, ys, xs, ...)
  local buckets, at = by_bucket(now, xs)
  for _, b in ipairs(buckets) do
    local values = {}
    for i, k in pairs(at[b]) do values[i] = dx[k] or nil end
    if next(values) then
      local flat = reduce(b, values)
      local whole = gradients.whole(b, flat)
      for i, k in pairs(at[b]) do
        if dx[k] then dx[k] = gradients.hand(b, i, flat, whole) end
      end
    end
    for i in pairs(at[b]) do read_wide(b, i) end
  end
  local first = {}
  for k, x in ipairs(xs) do -- one that is there twice
    if first[x] then dx[k] = dx[first[x]] else first[x] = k end
  end
  return dx
end

-- ---- updates --------------------------------------------------------------

--- What an optimizer updates: parameters, and of those in pieces the buckets.
---@class mrt.Unit
---@field p mrt.Tensor         variable
---@field g mrt.Tensor
---@field index integer        of the parameter, or of a bucket's first
---@field bucket mrt.Bucket?

-- A bucket as one unit, with its parameters' gradients.
local function unit_of(optimizer, b, k, grad_of)
  local grads = {}
  for i, p in ipairs(b.params) do
    grads[i] = grad_of[p]
    if not grads[i] or optimizer:shard_kind(p) ~= optimizer:shard_kind(b.params[1]) then
      core.fail("state", optimizer.name, ("parameter '%s' is in one bucket with '%s', and "
        .. "is not updated here, or otherwise; make the optimizer before the first step")
        :format(p:get_name() or "?", b.params[1]:get_name() or "?"))
    end
  end
  return { p = b.variable, g = gradients.piece(b, grads), index = k, bucket = b }
end

--- List what is to be updated, in the order of the parameters.
---@param optimizer mrt.Optimizer
---@param params mrt.Tensor[]
---@param grads mrt.Tensor[]
---@return mrt.Unit[]
function shard.units(optimizer, params, grads)
  local units, seen, grad_of = {}, {}, {}
  for k, p in ipairs(params) do grad_of[p] = grads[k] end
  for k, p in ipairs(params) do
    local b = not optimizer:whole(p) and pieces_of[p]
    if not b then
      shard.assigned(p)
      units[#units + 1] = { p = p, g = grads[k], index = k }
    elseif not seen[b] then
      seen[b] = true
      units[#units + 1] = unit_of(optimizer, b, k, grad_of)
    end
  end
  return units
end

--- A bucket has been updated: its parameters read as their newest version.
---@param b mrt.Bucket
function shard.updated(b) read(b) end

return shard
