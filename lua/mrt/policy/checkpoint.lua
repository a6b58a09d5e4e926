--- checkpoint.lua -- which activations are kept for the backward pass
---
--- A policy is asked once, while planning, and sees what it decides about; it
--- never runs in a step.  Recomputing changes no bit of a result.
---
--- Who comes from DeepSpeed finds its activation checkpointing options here:
---
--- | DeepSpeed                          | here                                       |
--- |------------------------------------|--------------------------------------------|
--- | number_checkpoints = k             | `segments(k)`                              |
--- | cpu_checkpointing                  | `swap()`                                   |
--- | contiguous_memory_optimization     | always so: the plan packs one arena        |
--- | partition_activations              | `shard` (one rank's share is the default)  |
--- | synchronize_checkpoint_boundary    | not needed: a plan is one stream of nodes  |
--- | profile                            | `step:profile()`                           |
---
--- SPDX-License-Identifier: MIT

local ask = require "mrt.policy.ask"
local core = require "mrt.core"
local format = require "mrt.util.format"
local options = require "mrt.util.options"

---@class mrt.policy.checkpoint
local checkpoint = {}
local asked = {} -- by the compiler

--- What a policy sees of one activation; steps count from 1 in the order planned
--- with everything kept.
---@class mrt.Activation
---@field op string        the operator, or what was fused: "add+gelu"
---@field name? string     given by mrt.name
---@field class string     kind of work of that node: "matmul", "norm", ...
---@field bytes integer
---@field flops number     of the node that makes it
---@field time number      predicted seconds of that node
---@field file string
---@field line integer     of the user's own code
---@field module string?   the path of the module that was called: "blocks.3.fc"
---@field type string      "f32[4,8]"
---@field first_use integer  the step that makes it
---@field last_use integer   the step that reads it last
---@field saved boolean    the backward pass reads it
---@field layer integer    1, 2, ...: as marked by mrt.layer, or found in the graph
---@field last_layer integer  the last layer that reads it in the forward pass
---@field boundary boolean a later layer reads it: it is handed on
---@field region boolean   inside mrt.checkpoint: recomputed already

--- The whole, for a policy.
---@class mrt.Activations
---@field layers integer
---@field saved integer    bytes the backward pass reads when all is kept
---@field variables table<string, true>  names of variables: they stay in any case
---@field [integer] mrt.Activation

---@alias mrt.CheckpointChoice "keep"|"recompute"|"swap"
---@alias mrt.CheckpointFunction fun(value: mrt.Activation,
---  plan: mrt.Activations): mrt.CheckpointChoice?, number?
---@alias mrt.CheckpointPolicy mrt.Checkpoint | mrt.CheckpointFunction

---@class mrt.Checkpoint
---@field name string
---@field decide fun(all: mrt.Activations): integer?  sets `choice` in each;
---  returns the bytes that open ones may keep, and whether they must not be
---  computed again
local Checkpoint = {}
Checkpoint.__index = Checkpoint
Checkpoint.__name = "mrt.Checkpoint"
function Checkpoint:__tostring() return "policy.checkpoint." .. self.name end

local function make(name, decide)
  return setmetatable({ name = name, decide = decide }, Checkpoint)
end

-- Every value that no region decides about.
local function each(all, f)
  for _, value in ipairs(all) do
    if not value.region then value.choice = f(value) end
  end
end

local function count(who, k)
  if math.type(k) ~= "integer" or k < 1 then
    core.fail("value", who, ("a positive integer wanted, got %s")
      :format(options.show(k)))
  end
  return k
end

--- Recompute nothing: the fastest step.  Within a budget, what is not kept can only
--- be swapped.
---
---     local c = policy.checkpoint.none()
---@return mrt.Checkpoint
function checkpoint.none()
  return make("none()", function() return nil, true end)
end

--- Keep nothing: every layer is computed again from the step's inputs.  The least
--- memory, for up to N(N-1)/2 more layer evaluations.
---
---     local c = policy.checkpoint.all()
---@return mrt.Checkpoint
function checkpoint.all()
  return make("all()", function(all)
    each(all, function(value)
      value.segment = value.layer
      return value.layer == all.layers and "keep" or "recompute"
    end)
  end)
end

-- Layers 1..N in segments: keep what later segments read, and the last segment,
-- which the backward pass wants first.
local function by_segment(all, segment_of)
  local last = segment_of(all.layers)
  each(all, function(value)
    value.segment = segment_of(value.layer)
    local crosses = segment_of(value.last_layer) > value.segment
    return (crosses or value.segment == last) and "keep" or "recompute"
  end)
end

--- Keep what every k-th layer hands on (Chen et al. 2016, arXiv 1604.06174), and
--- compute the layers of a segment again before its backward pass: one extra
--- forward pass in all.
---
---     local c = policy.checkpoint.every(2)
---
--- Raises: k below 1.
---@param k integer  layers per segment
---@return mrt.Checkpoint
function checkpoint.every(k)
  count("checkpoint.every", k)
  return make(("every(%d)"):format(k), function(all)
    by_segment(all, function(layer) return (layer - 1) // k + 1 end)
  end)
end

local function in_segments(all, n)
  n = math.min(n, all.layers)
  by_segment(all, function(layer)
    return ((layer - 1) * n) // all.layers + 1
  end)
end

--- Split the layers into k segments as equal as can be.
---
---     local c = policy.checkpoint.segments(4)
---
--- Raises: k below 1.
---@param k integer  segments; more than there are layers is as many
---@return mrt.Checkpoint
function checkpoint.segments(k)
  count("checkpoint.segments", k)
  return make(("segments(%d)"):format(k), function(all) in_segments(all, k) end)
end

--- Cut after every layer with which `bytes` of activations have gathered since
--- the last cut (Chen et al. 2016, Algorithm 3): for layers of unequal sizes.
--- About sqrt(all bytes * what a layer hands on) serves; whoever plans a few
--- values finds the best.
---
---     local c = policy.checkpoint.segments_of "8MiB"
---
--- Raises: what is no number of bytes.
---@param bytes integer|string
---@return mrt.Checkpoint
function checkpoint.segments_of(bytes)
  local size, message = format.read_bytes(bytes)
  if not size then core.fail("value", "checkpoint.segments_of", message) end
  return make(("segments_of(%s)"):format(format.bytes(size)), function(all)
    local in_layer, segment, gathered, n = {}, {}, 0, 1
    for _, value in ipairs(all) do
      in_layer[value.layer] = (in_layer[value.layer] or 0) + value.bytes
    end
    for layer = 1, all.layers do
      segment[layer], gathered = n, gathered + (in_layer[layer] or 0)
      if gathered >= size then n, gathered = n + 1, 0 end
    end
    by_segment(all, function(layer) return segment[layer] end)
  end)
end

--- Split N layers into about sqrt(N) segments: O(sqrt N) activations for one extra
--- forward pass (Chen et al. 2016).
---
---     local c = policy.checkpoint.sqrt()
---@return mrt.Checkpoint
function checkpoint.sqrt()
  return make("sqrt()", function(all)
    in_segments(all, math.max(1, math.floor(math.sqrt(all.layers) + 0.5)))
  end)
end

-- ---- by what a value is ----------------------------------------------------

local function set_of(who, list)
  local set = {}
  if type(list) ~= "table" then
    core.fail("value", who, "a list of names wanted, got " .. type(list))
  end
  for key, name in pairs(list) do
    if math.type(key) ~= "integer" or type(name) ~= "string" then
      core.fail("value", who, ("a list of names wanted, it has %s = %s")
        :format(tostring(key), tostring(name)))
    end
    set[name] = true
  end
  return set
end

local classes = { matmul = true, convolution = true, attention = true,
  norm = true, activation = true, dropout = true, pooling = true,
  softmax = true, reduce = true, pointwise = true, move = true, random = true }

-- Every word of the set must mean something in this step.
local function check_words(who, all, set)
  local names = {}
  for _, value in ipairs(all) do
    if value.name then names[value.name] = true end
  end
  for word in pairs(set or {}) do
    if not names[word] and all.variables[word] then
      core.fail("value", who, ("'%s' is a parameter or other variable, which "
        .. "stays in any case; only activations can be kept or recomputed")
        :format(word))
    end
  end
  return names
end

local function check_rule(who, all, set)
  local names = check_words(who, all, set)
  for word in pairs(set or {}) do
    if not (names[word] or classes[word] or core.op[word]) then
      core.fail("value", who, ("'%s' is no operator, class or name of an "
        .. "activation; mrt.name(x, '%s') names one"):format(word, word))
    end
  end
end

-- Is the value in the set by its name, its class, or the operators of its node:
-- all of them, or for `some` one of them?
local function within(set, value, some)
  -- forwards, a convolution's gradient is a transposed one
  local class = value.class:gsub("_dx$", "")
  if set[value.name] or set[class] then return true end
  local all = true
  for op in value.op:gmatch "[%w_]+" do
    if set[op] then
      if some then return true end
    else
      all = false
    end
  end
  return all
end

--- Choose by operator ("softmax"), name (mrt.name) or class of work ("matmul",
--- "convolution", "attention", "norm", "activation", "dropout", "pooling"):
---
---     policy.checkpoint.selective{ keep = {"matmul", "convolution"} }
---     policy.checkpoint.selective{ recompute = {"norm", "activation", "dropout"} }
---
--- With `keep` alone all else is recomputed, with `recompute` alone all else is
--- kept; with neither, norm, activation, dropout and pooling are recomputed.  What
--- a layer hands on to the next is kept unless `recompute` names it.
---
--- Raises: a rule that is neither "keep" nor "recompute".
---@param rules? {keep: string[]?, recompute: string[]?}
---@return mrt.Checkpoint
function checkpoint.selective(rules)
  local who = "checkpoint.selective"
  rules = options.read(who, rules, { keep = options.none, recompute = options.none })
  local keep = rules.keep and set_of(who, rules.keep)
  local again = rules.recompute and set_of(who, rules.recompute)
  if not keep and not again then
    again = set_of(who, { "norm", "activation", "dropout", "pooling" })
  end
  return make("selective()", function(all)
    check_rule(who, all, keep)
    check_rule(who, all, again)
    each(all, function(value)
      if keep and within(keep, value, true) then return "keep" end
      if again and within(again, value, false) then return "recompute" end
      return (value.boundary or not keep) and "keep" or "recompute"
    end)
  end)
end

--- Keep the values with these names (mrt.name) and what layers hand on; compute
--- all else again.
---
---     local c = policy.checkpoint.names { "hidden" }
---
--- Raises: what is no list of names.
---@param names string[]
---@return mrt.Checkpoint
function checkpoint.names(names)
  local who = "checkpoint.names"
  local keep = set_of(who, names)
  return make("names()", function(all)
    local found = check_words(who, all, keep)
    for name in pairs(keep) do
      if not found[name] then
        core.fail("value", who, ("no activation is named '%s'; "
          .. "mrt.name(x, '%s') names one"):format(name, name))
      end
    end
    each(all, function(value)
      return (keep[value.name] or value.boundary) and "keep" or "recompute"
    end)
  end)
end

--- Put what layers hand on to the swap tier and compute the rest again.
---
---     local c = policy.checkpoint.swap()
---@return mrt.Checkpoint
function checkpoint.swap()
  return make("swap()", function(all)
    each(all, function(value)
      if value.layer == all.layers then return "keep" end
      return value.boundary and "swap" or "recompute"
    end)
  end)
end

--- Keep at most this much for the backward pass, chosen for the least time: bytes
--- ("2 GiB", 2e9), or a share ("50%") of what is kept with nothing recomputed.
---
---     local c = policy.checkpoint.budget "50%"
---
--- Raises: what is no number of bytes and no share.
---@param bytes integer|string
---@return mrt.Checkpoint
function checkpoint.budget(bytes)
  local share = tostring(bytes):match "^%s*([%d.]+)%s*%%%s*$"
  share = share and tonumber(share)
  local size, message
  if not share then size, message = format.read_bytes(bytes) end
  if not share and not size or share and share > 100 then
    core.fail("value", "checkpoint.budget", (message or ("'%s' is more than all")
      :format(tostring(bytes))) .. '; "50%" is a share of what is kept')
  end
  return make(("budget(%s)"):format(tostring(bytes)), function(all)
    return size or math.floor(all.saved * share / 100)
  end)
end

-- ---- a user's own ----------------------------------------------------------

local answers = { keep = true, recompute = true, swap = true }

local function where(value)
  return ("%s, %s%s:%d (%s)"):format(value.op, value.module and value.module .. ", " or "",
    value.file, value.line, value.type)
end

local function answer(fn, value, all)
  local choice, priority = ask.call("checkpoint", where(value), fn, value, all)
  if choice ~= nil and not answers[choice] then
    core.fail("value", "checkpoint", ("%s answered %s for %s; \"keep\", "
      .. "\"recompute\" or \"swap\" wanted"):format(ask.name(fn),
        options.show(choice), where(value)))
  end
  if priority ~= nil and (type(priority) ~= "number" or priority ~= priority) then
    core.fail("value", "checkpoint", ("%s gave the priority %s for %s; a number "
      .. "wanted"):format(ask.name(fn), options.show(priority), where(value)))
  end
  return choice, priority
end

--- The function that the core calls with all activations, for an option of
--- mrt.compile; nil for nil.
---@param option mrt.CheckpointPolicy?
---@param who string  for messages
---@return (fun(all: mrt.Activations): integer?)?
function asked.decider(option, who)
  if option == nil then return nil end
  if getmetatable(option) == Checkpoint then return option.decide end
  ask.refuse_uncalled(who, "checkpoint", option, checkpoint)
  if type(option) ~= "function" then
    core.fail("value", who, ("option 'checkpoint': a policy or a function "
      .. "wanted, got %s"):format(options.show(option)))
  end
  return function(all)
    local shown = ask.view_all(all)
    for i, value in ipairs(all) do
      if not value.region then
        value.choice, value.priority = answer(option, shown[i], shown)
      end
    end
  end
end

return ask.hide(checkpoint, asked)
