--- exact.lua -- plans of candidates, to the byte, of a script's own step
---
--- The policy that would be written is laid over the step, and the stage that takes most by
--- estimate is planned; other ranks need not be there.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local policy_file = require "mrt.cluster.find.policy_file"

local exact = {}

-- So many candidates at most; another is begun before so many seconds of the processor.
local MOST <const>, SECONDS <const> = 6, 40

-- The arguments of the call with other rows, all zeros: plans depend on their types alone.
local function resized(args, from, to)
  local out = { n = args.n }
  for i = 1, args.n do
    local x = args[i]
    out[i] = x
    if mrt.is_tensor(x) and x:dim() > 0 and x:size(1) == from then
      local size = x:size()
      size[1] = to
      out[i] = mrt.zeros(size, { dtype = x.dtype })
    end
  end
  return out
end

local function plan_of(c, o)
  local given = assert(load(policy_file.text(c, o.cluster), "=policy", "t"))()
  local ranks = 1
  for _, n in pairs(c.mesh) do ranks = ranks * n end
  local rank = (c.memory.stage - 1) * (ranks // c.mesh.pipeline)
  local comm <close> = setmetatable({ mrt.communicator.supposed(ranks, rank) },
    { __close = function(own) own[1]:close() end })
  given.mesh = given.mesh or { data = 1 }
  given.mesh.comm = comm[1]
  local args = resized(o.args, o.rows, c.rows * c.micros)
  return o.step:with(given):plan(table.unpack(args, 1, args.n))
end

local function kind_of(c)
  return c.recompute .. (c.mesh.pipeline > 1 and " in stages" or "")
end

-- Plan it: what is wrong, or nil and what it takes is known.
local function try(c, o)
  local ok, plan = pcall(plan_of, c, o)
  if not ok then return type(plan) == "table" and plan.message or tostring(plan) end
  c.exact, c.over = plan.peak, plan:needs() - o.memory
end

--- Plan the quickest candidates in turn until one fits: it, and what to say of those before.
--- One that does not fit says how far off estimates of its kind are; who would not fit by that
--- is passed over.
---@param found mrt.cluster.Found
---@param o {cluster: string, step: mrt.Compiled, args: table, rows: integer, memory: number}
---@return mrt.cluster.Candidate?
---@return string[] said
function exact.first(found, o)
  local said, off = {}, {} -- by kind: what estimates are to be multiplied with, as plans have shown
  for _, c in ipairs(found.candidates) do
    if #said == MOST or os.clock() > SECONDS then break end
    if c.over <= 0 and c.memory.peak * (off[kind_of(c)] or 1) <= o.memory then
      local problem = try(c, o)
      if c.over <= 0 and not problem then return c, said end
      if not problem then off[kind_of(c)] = (c.over + o.memory) / c.memory.peak end
      said[#said + 1] = { candidate = c, problem = problem }
    end
  end
  return nil, said
end

return exact
