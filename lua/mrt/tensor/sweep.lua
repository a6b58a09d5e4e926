--- sweep.lua -- the reverse sweep of a gradient, step by step
---
---     print(mrt.sweep(loss, model:parameters()))
---
--- mrt.grad visits the operators between its two ends once, the last first, with a table
--- from nodes to gradients (Griewank & Walther, Evaluating Derivatives, 2nd ed., ch. 3):
--- a node's gradient is the sum of what each of its readers gives, and is complete when
--- its turn comes, for all readers have been visited by then.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local format = require "mrt.util.format"
local options = require "mrt.util.options"

--- A node as the table has it.
---@class mrt.SweepNode
---@field label string   its name, or v and a number: the order in which nodes were made
---@field type string    "f32[64,10]", of its gradient too
---@field bytes integer  of its gradient
---@field parts integer  gradients that have been added up so far

--- One operator's turn.
---@class mrt.SweepStep
---@field op string
---@field file? string
---@field line integer
---@field nodes mrt.SweepNode[]  its results; their gradients are complete
---@field gives mrt.SweepNode[]  what it reads: a part of their gradient each
---@field table mrt.SweepNode[]  gradients that there are after it, in the order of nodes
---@field waiting integer        bytes of these

---@class mrt.Sweep
---@field gradients mrt.Tensor[]  as mrt.grad gives them
---@field largest integer         the most bytes that wait after a step
---@field [integer] mrt.SweepStep
local Sweep = {}
Sweep.__index = Sweep
Sweep.__name = "mrt.Sweep"

local function as_list(x) return core.is_tensor(x) and { x } or x end

-- Labels by id, for all nodes that the steps name.
local function labels(steps, ys)
  local by_id, ids, out = {}, {}, {}
  local function add(n)
    if by_id[n.id] == nil then ids[#ids + 1] = n.id end
    by_id[n.id] = n.name or by_id[n.id] or false
  end
  for _, y in ipairs(ys) do add { id = core.id(y), name = y:get_name() } end
  for _, s in ipairs(steps) do
    for _, n in ipairs(s.nodes) do add(n) end
    for _, n in ipairs(s.gives) do add(n) end
  end
  table.sort(ids)
  for k, id in ipairs(ids) do out[id] = by_id[id] or "v" .. k end
  return out
end

-- The table from nodes to gradients.
local Table = {}
Table.__index = Table

function Table:add(n)
  local known = self.of[n.id] or { label = self.label[n.id], type = n.type, bytes = n.bytes,
    parts = 0, id = n.id }
  known.parts = known.parts + 1
  self.of[n.id] = known
end

local function copy(n)
  return { label = n.label, type = n.type, bytes = n.bytes, parts = n.parts }
end

function Table:copies(nodes)
  local out = {}
  for i, n in ipairs(nodes) do out[i] = copy(self.of[n.id]) end
  return out
end

-- All that is in it, and its bytes.
function Table:all()
  local list, bytes = {}, 0
  for _, n in pairs(self.of) do list[#list + 1], bytes = n, bytes + n.bytes end
  table.sort(list, function(a, b) return a.id < b.id end)
  for i, n in ipairs(list) do list[i] = copy(n) end
  return list, bytes
end

-- Replay the steps: what is in the table after each.
local function replay(self, steps, ys, xs)
  local now = setmetatable({ of = {}, label = labels(steps, ys) }, Table)
  local asked = {}
  for _, x in ipairs(xs) do asked[core.id(x)] = true end
  for _, y in ipairs(ys) do
    now:add { id = core.id(y), type = y:type(), bytes = y:nbytes() }
  end
  for i, s in ipairs(steps) do
    local nodes = now:copies(s.nodes)
    for _, n in ipairs(s.nodes) do
      if not asked[n.id] then now.of[n.id] = nil end -- no one asks for it any more
    end
    local gives = {}
    for k, n in ipairs(s.gives) do -- one by one: w * w gives to w twice
      now:add(n)
      gives[k] = copy(now.of[n.id])
    end
    local step = { op = s.op, file = s.file, line = s.line, nodes = nodes, gives = gives }
    step.table, step.waiting = now:all()
    self.largest = math.max(self.largest, step.waiting)
    self[i] = step
  end
end

local function words(nodes, each)
  local out = {}
  for i, n in ipairs(nodes) do out[i] = each(n) end
  return #out > 0 and table.concat(out, ", ") or "-"
end

local function result(n) return ("%s %s"):format(n.label, n.type) end
local function count(n) return n.parts > 1 and ("%s x%d"):format(n.label, n.parts) or n.label end
local function part(n) return n.parts > 1 and ("%s +"):format(n.label) or n.label end

function Sweep:__tostring()
  local lines = { ("%4s  %-14s %-20s %-24s %-24s %10s  %s"):format("step", "operator", "line",
    "of", "gives to", "waiting", "gradients there are") }
  for i, s in ipairs(self) do
    local line = s.file and ("%s:%d"):format(s.file:match "[^/]*$", s.line) or "?"
    lines[#lines + 1] = ("%4d  %-14s %-20s %-24s %-24s %10s  %s"):format(i, s.op, line,
      words(s.nodes, result), words(s.gives, part), format.bytes(s.waiting),
      words(s.table, count))
  end
  lines[#lines + 1] = ("%d operators; +: added to what is there, x2: a sum of two; at most %s wait")
    :format(#self, format.bytes(self.largest))
  return table.concat(lines, "\n")
end

local known <const> = { allow_unused = false, grad_outputs = options.none }

--- The gradient of y with respect to x, and each step of the sweep that makes it: the
--- operator visited, whose gradient is complete, what it gives to what it has read, and
--- the table from nodes to gradients after it.  Rules that differentiate (checkpoints,
--- custom gradients) are one step each.
---
---     local w = mrt.variable(mrt.randn(3), "w")
---     print(mrt.sweep((w * w):exp():sum(), w))
---
--- Raises: as mrt.grad.
---@param y mrt.Tensor|mrt.Tensor[]  scalars, unless grad_outputs are given
---@param x mrt.Tensor|mrt.Tensor[]
---@param o? {allow_unused: boolean?, grad_outputs: mrt.Tensor|mrt.Tensor[]|nil}
---@return mrt.Sweep
return function(y, x, o)
  o = options.read("sweep", o, known, true)
  local ys, xs = as_list(y), as_list(x)
  argument.tensors("sweep", ys)
  argument.tensors("sweep", xs)
  local gradients, steps = core.sweep(ys, xs, as_list(o.grad_outputs), o.allow_unused)
  local self = setmetatable({ gradients = gradients, largest = 0 }, Sweep)
  replay(self, steps, ys, xs)
  return self
end
