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
local communicator = require "mrt.communicator"
local core = require "mrt.core"
local gradient = require "mrt.accumulate.gradient"
local gradients = require "mrt.shard.gradients"
local group = require "mrt.shard.group"
local param_dtype = require "mrt.compile.param_dtype"
local retrace = require "mrt.compile.retrace"
local updates = require "mrt.shard.updates"
local with = require "mrt.util.options".with

local op = core.op

local shard = {}

local weak = { __mode = "k" }
local pieces_of = setmetatable({}, weak) -- by parameter: its bucket in pieces

---@class mrt.ShardSettings
---@field sharding mrt.Sharding
---@field ranks mrt.Communicator?  once a function has been traced
---@field of table<mrt.Tensor, mrt.Bucket>  by parameter
---@field fresh mrt.Bucket[]  whose parameters do not begin as rank 0's yet

--- A transform.  It lies outside of accumulation, so that what is reduced is the
--- gradient of the whole batch; and inside loss scaling, so that a gradient is
--- reduced before it is unscaled and all ranks see the same overflow.  Functions
--- without the option `shard` have it too: variables in pieces are so for all.
---@class mrt.ShardTransform: mrt.Transform
---@field settings mrt.ShardSettings?
---@field now mrt.ShardSettings?  in a trace: the settings, if there are several ranks
---@field views table<mrt.Bucket, mrt.Tensor[]>   ditto: what parameters read as, since
---  their bucket was updated
---@field narrow table<mrt.Bucket, mrt.Tensor[]>  ditto: in a narrow dtype
local Shard = { name = "sharding" }
Shard.__index = Shard

-- ---- which bucket ----------------------------------------------------------

-- Put buckets into pieces, in another dtype if one is wanted, and make what stays of
-- them between steps.
local function spread(buckets, dtype)
  for _, b in ipairs(buckets) do
    if b.stage > 0 then
      for _, p in ipairs(dtype and b.params or {}) do
        if p:get_dtype() == "f32" then param_dtype.convert(p, dtype) end
      end
      b:shard_params()
      for _, p in ipairs(b.params) do pieces_of[p] = b end
      param_dtype.changed()
    end
    if b.settings.retain then b:retain() end
  end
end

-- A parameter that another function has put into pieces; whether it reads otherwise
-- from now on.  `once`: micro-batches read what is gathered before them.
local function join(now, p, i, once)
  local b = pieces_of[p]
  local stage = now.sharding.stage_of(group.describe(p, i))
  if stage ~= b.stage then
    core.fail("state", "shard", ("parameter '%s' is in pieces as stage %d has it, stage %d "
      .. "wanted; a process has it in one way"):format(p:get_name() or i, b.stage, stage))
  end
  now.of[p] = b
  if b.begins then table.insert(now.fresh, b) end
  return b.settings.gather ~= nil or once and b:gathers_once()
end

-- Does another rank have it, too?  Experts' matrices each rank may have to itself.
local function is_shared(now, p)
  local experts = now.sharding.options.experts
  return not (experts and Bucket.of_experts[p]) or experts.comm ~= false
end

-- Parameters without a bucket; whether others read otherwise from now on.
local function unplaced(now, params, once, stages)
  local new, seen, changes = {}, {}, false
  for i, p in ipairs(params) do
    local other = stages and stages:is_foreign(p) -- of a pipeline
    if core.is_variable(p) and not now.of[p] and not seen[p] and not other then
      seen[p] = true
      if not pieces_of[p] then new[#new + 1] = is_shared(now, p) and p or nil
      else changes = join(now, p, i, once) or changes end
    end
  end
  return new, changes
end

-- The buckets of these parameters; those that are new are made, and if they change
-- what parameters are the trace begins anew.
local function place(now, params, trace)
  local new, changes = unplaced(now, params, trace.parts and not trace.options.gather_each,
    trace.stages)
  local weights = trace.options.weights
  if changes then retrace.request(function() end) end
  if #new == 0 then return end
  local buckets = group.make(new, now.sharding, now.ranks, weights and weights.stochastic)
  local any = false
  for _, b in ipairs(buckets) do
    any = any or b.stage > 0 or b.settings.gather
    for _, p in ipairs(b.params) do now.of[p] = b end
    table.insert(now.fresh, b)
  end
  local dtype = weights and weights.dtype
  if any then retrace.request(function() spread(buckets, dtype) end) end
end

-- ---- in a trace --------------------------------------------------------------

-- Its parameters read as views of its newest version from now on.
local function read(self, b)
  local whole, list = b:gather(b.variable, b.stage == 3), {}
  for i, p in ipairs(b.params) do
    list[i] = b:view(whole, i)
    core.trace_read(p, list[i])
  end
  self.views[b] = list
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

--- Make the transform of a compiled function from its option `shard`.
---@param sharding mrt.Sharding?
---@return mrt.ShardTransform
function shard.new(sharding)
  return setmetatable({ settings = sharding
    and { sharding = sharding, of = setmetatable({}, weak), fresh = {} } }, Shard)
end

-- The buckets whose weights are retained.
local function retained(settings)
  return settings and settings.sharding.options.retain and listed(settings.of) or {}
end

--- Parameters begin as rank 0's, and what is retained of weights is that of
--- parameters as they are now.
function Shard:before_step()
  local settings = self.settings
  if not settings then return end
  local fresh = #settings.fresh > 0
  while settings.fresh[1] do table.remove(settings.fresh, 1):broadcast() end
  for _, b in ipairs(retained(settings)) do b:refresh() end
  -- what was made on the way would be computed before an update
  if fresh then collectgarbage() end
end

function Shard:after_step()
  for _, b in ipairs(retained(self.settings)) do b:refreshed() end
end

-- Which this is of the ranks with rows of their own, and how many there are.
local function place_among(settings)
  local ranks, replicas = settings.ranks, settings.sharding.options.replicas
  if not replicas then return ranks.rank, ranks.size end
  return replicas.rank * ranks.size + ranks.rank, replicas.size * ranks.size
end

--- The plan is told which rank this is.
function Shard:begin(trace)
  self.views, self.narrow = {}, {}
  local settings, plan = self.settings, trace.options
  if not settings then return end
  settings.ranks = settings.ranks or settings.sharding.options.comm or communicator.create()
  if settings.ranks.size > 1 then self.now, trace.ranks = settings, settings.ranks end
  trace.replicas = settings.sharding.options.replicas
  plan.rank, plan.ranks = place_among(settings)
  local prefetch = settings.sharding.options.prefetch
  plan.prefetch, plan.spare = prefetch or 1, not prefetch
  local parts = not plan.gather_each and trace.parts or nil
  for _, b in ipairs(self.now and listed(settings.of) or {}) do
    self.narrow[b] = b:read_otherwise(parts)
  end
end

-- Does a variable read as what was put there for it, or itself?
local function reads_as(v, list, i)
  return core.id(core.current(v)) == core.id(list and list[i] or v)
end

-- A parameter that reads as narrow reads as itself from now on.
local function read_wide(self, b, i)
  local p, narrow = b.params[i], self.narrow[b]
  if narrow and reads_as(p, narrow, i) then core.trace_read(p, p) end
end

-- What was assigned to variables in pieces goes into the piece.
local function gather_up(self, b, e)
  local own, any = e.piece == b.variable, false
  for i, v in ipairs(e.variables) do
    local as = own and (self.views[b] or self.narrow[b]) or nil
    any = any or not reads_as(v, as, i) and not reads_as(v, nil, i)
  end
  if not any then return end
  local values = {}
  for i, v in ipairs(e.variables) do
    if own then read_wide(self, b, i) end
    values[i] = core.current(v)
  end
  core.assign(e.piece, b:own(b:flatten(values, e.piece:get_dtype(), e.unit, e.fill)))
end

--- What was assigned to parameters and state in pieces goes there.
function Shard:finish()
  for _, b in ipairs(listed(pieces_of)) do
    for _, e in ipairs(b.spread) do gather_up(self, b, e) end
  end
  for _, b in ipairs(retained(self.now)) do b:keep_weights() end
end

local function cast(x, dtype)
  return x:get_dtype() == dtype and x or op.cast(x, dtype)
end

-- Each is narrowed where it is made, so that no more than one of them is ever wide.
-- `keep`: by way of the variable that retains it.
local function reduce(b, values, keep)
  local dtype, narrow = b.params[1]:get_dtype(), {}
  local wire = b.settings.reduce or dtype
  for i, g in pairs(values) do narrow[i] = cast(g, wire) end
  local flat = b:flatten(narrow, wire)
  local o = { comm = b.ranks.number, op = "mean", lazy = true }
  if keep and b.stage == 1 then flat = b:keep_gradient(flat) end
  flat = (b.stage == 0 and op.allreduce or op.reduce_scatter)(flat, o)
  if b.settings.replicas then
    flat = op.allreduce(flat, { comm = b.settings.replicas.number, op = "mean", lazy = true })
  end
  if keep and b.stage ~= 1 then flat = b:keep_gradient(flat) end
  return cast(flat, dtype)
end

-- The same, added up over micro-batches: what each has been reduced to, where the
-- settings say so and that is possible; or what all have added up, reduced.  It is
-- not retained: accumulators stay, and are wider.
local function reduce_parts(parts, b, values)
  local now, n, each, sum = parts.now, #parts.now.marks, {}, nil
  if now == parts.whole then
    for s, section in ipairs(parts.sections) do each[s] = section.reduced[n][b] end
    sum = gradient.made(parts, each, b:name ".gradient")
  end
  sum = sum or gradient.own(reduce(b, values, false))
  now.reduced[n] = now.reduced[n] or {}
  now.reduced[n][b] = sum
  return sum
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
local function narrow_before(self, p)
  local b = pieces_of[p] or self.now.of[p]
  local list = b and self.narrow[b]
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
local function differentiate(self, next, ys, xs, o)
  local all, from = table.move(xs, 1, #xs, 1, {}), {}
  for k, x in ipairs(xs) do
    local before = narrow_before(self, x)
    if before then
      all[#all + 1] = before
      from[#all] = k
    end
  end
  if #all == #xs then return next(ys, xs, o) end
  local dx = next(ys, all, with(o, "allow_unused", true))
  if add_up(dx, #xs, from) or o.allow_unused then return dx end
  return next(ys, xs, o) -- says what is unused
end

-- A variable is written: it is no longer read in a narrow dtype.
local function assigned(self, p)
  local b = self.now and self.now.of[p]
  for i, q in ipairs(b and self.narrow[b] and b.params or {}) do
    if q == p then read_wide(self, b, i) end
  end
end

function Shard:assign(next, variable, value, when)
  assigned(self, variable)
  return next(variable, value, when)
end

--- After variables have been written outside a trace, by all ranks.
---@param list mrt.Tensor[]
function shard.wrote(list)
  for _, v in ipairs(list) do
    local b = pieces_of[v]
    if b then b:wrote(v) end
  end
end

-- Gradients of a bucket's parameters, where there are any, become views of its own;
-- `at` says where in `dx` they are.
local function hand_back(self, b, at, dx)
  local values, parts = {}, b:reduces_each() and not self.trace.stages and self.trace.parts
  for i, k in pairs(at) do values[i] = dx[k] or nil end
  if not next(values) then return end
  local flat = parts and reduce_parts(parts, b, values) or reduce(b, values, true)
  local whole = gradients.whole(b, flat)
  for i, k in pairs(at) do
    if dx[k] then dx[k] = gradients.hand(b, i, flat, whole) end
  end
end

--- Of parameters, the mean over the ranks.  From then on these read as themselves,
--- in full, for updates by hand.
function Shard:grad(next, ys, xs, o)
  local now, noise = self.now, self.trace.noise
  if now then place(now, xs, self.trace) end
  local dx = now and differentiate(self, next, ys, xs, o) or next(ys, xs, o)
  if noise then noise:part(dx, o, xs) end
  if not now then return dx end
  local buckets, at = by_bucket(now, xs)
  for _, b in ipairs(buckets) do
    hand_back(self, b, at[b], dx)
    for i in pairs(at[b]) do read_wide(self, b, i) end
  end
  local first = {}
  for k, x in ipairs(xs) do -- one that is there twice
    if first[x] then dx[k] = dx[first[x]] else first[x] = k end
  end
  return dx
end

function Shard:map(next, grads, f) return gradients.map(next, grads, f) end

function Shard:squares(next, grads) return gradients.squares(grads) or next(grads) end

--- Parameters in pieces are updated bucket by bucket, in this rank's piece; from then
--- on they read as their newest version.
function Shard:units(next, optimizer, params, grads)
  local units, buckets, seen, grad_of = {}, {}, {}, {}
  for k, p in ipairs(params) do grad_of[p] = grads[k] end
  for k, p in ipairs(params) do
    local b = not optimizer:whole(p) and pieces_of[p]
    if not b then
      if optimizer.options.lazy and pieces_of[p] then
        core.fail("state", optimizer.name, ("lazy for '%s', which ranks have in pieces, not rows; "
          .. "policy.shard.ddp() wanted"):format(p:get_name() or p:type()))
      end
      assigned(self, p)
      local unit = next(optimizer, { p }, { grads[k] })[1]
      unit.index = k
      table.insert(units, unit)
    elseif not seen[b] then
      seen[b], buckets[#buckets + 1] = true, b
      table.insert(units, { p = b.variable, g = updates.gradient(optimizer, b, grad_of),
        index = k, first = b.params[1], offset = b.ranks.rank * b.piece,
        bucket = b, done = function() read(self, b) end })
    end
  end
  local states = updates.states(optimizer, buckets)
  for _, unit in ipairs(units) do
    if unit.bucket then unit.state = states[unit.bucket] end
  end
  return units
end

--- A parameter is in no bucket's pieces.
---@param p mrt.Tensor
function shard.forget(p) pieces_of[p] = nil end

return shard
