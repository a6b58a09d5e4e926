--- mesh_grid.lua -- the section of `mrt bench mesh` about ranks that compute together
---
--- A GPT and a model of experts ("moe") by AdamW, and an MLP by SGD, on meshes of each
--- dimension and of two:
---
---   loss      how far losses are from those of one rank, at most, as a share; "micro": one
---             rank whose sums have another order, that of micro-batches; and the last loss
---   off       bytes that the rank which is furthest from its plan took besides
---   peak      bytes of a rank as planned, of the largest; between: those of them that
---             stay between steps
---   sent      bytes that all ranks gave to others in a step; how many more than their
---             plans say (of four ranks in one memory small sums go straight to all, not
---             around); and as a multiple of a formula, which leaves out the embedding, the
---             head, norms and the loss
---
--- The MLP is computed by hand too, as in Megatron-LM (Shoeybi et al., 2019): columns of
--- the first weight, rows of the second, and `comm:allreduce` of what the ranks have.
---
--- SPDX-License-Identifier: MIT

local compare = require "mrt.bench.mesh_compare"
local format = require "mrt.util.format"

local MICRO <const> = 4 -- with a pipeline
local plain <const> = { "micro", "tensor=2", "tensor=4", "tensor=2,data=2", "tensor=2,shard=2",
  "context=2", "tensor=2,context=2", "pipeline=2,tensor=2", "pipeline=2,shard=2" }
local GRIDS <const> = { gpt = plain, mlp = plain, moe = { "micro", "expert=2", "expert=4",
  "expert=2,data=2", "expert=2,tensor=2", "expert=2,pipeline=2" } }

local function ranks_of(grid)
  local n = 1
  for size in grid:gmatch "=(%d+)" do n = n * size end
  return n
end

-- How many ranks a dimension has.
local function size_of(grid, name) return tonumber(grid:match(name .. "=(%d+)") or 1) end

-- The part of something that a rank gives to each other, or gets of each, among n.
local function share(n) return (n - 1) / n end

-- Bytes of all ranks, for `x` elements of an activation, `p` of parameters.  Tensor: of each
-- layer of a GPT eight gathers and reductions (Korthikanti et al., 2022), of an MLP's blocks
-- one sum each way.  Context: keys and values round the ring forward, and these and their
-- gradients backward.  Data: a sum of gradients.  Shard: weights gathered twice for each
-- micro-batch, gradients reduced once.  Expert: in each layer rows go and come back, forward
-- and backward, with room for all that there are; gradients of what is no expert's are summed.
local function formula(run)
  local grid, x = run.grid, run.activation
  local t, c, d = size_of(grid, "tensor"), size_of(grid, "context"), size_of(grid, "data")
  local s, stages = size_of(grid, "shard"), size_of(grid, "pipeline")
  local e = size_of(grid, "expert")
  local p, micro = run.parameters / t / stages, stages > 1 and run.micro or 1
  local own = (run.parameters - run.experts) / t / stages
  local meets = run.model ~= "mlp" and 8 * run.layers or 4 * run.layers - 2
  local each = share(t) * meets * x / c / stages
    + share(c) * (6 * run.layers * x / t + 2 * p)
    + share(e) * 4 * run.layers / stages * e * run.top * x
    + share(e * d) * 2 * own + share(d) * 2 * run.experts / e / stages
    + share(s) * (2 * micro + 1) * p
  local ends = 2 * (stages - 1) * x * t * d * s * e -- of stages, forth and back
  return 4 * (ranks_of(grid) * each + ends)
end

local function row_of(run, one)
  return { model = run.model, grid = run.grid, loss = compare.distance(run, one),
    last = run.losses[#run.losses], off = compare.furthest(run),
    peak = math.max(table.unpack(run.planned)), between = math.max(table.unpack(run.persistent)),
    sent = compare.sum(run.sent), wire = math.floor(compare.sum(run.wire) + 0.5),
    losses = run.losses,
    planned = run.planned, taken = run.taken, formula = formula(run) }
end

local function show(r)
  local times = r.formula > 0 and ("%.2f"):format(r.sent / r.formula) or "-"
  print(("%-4s %-20s %9.1e %7.4f %6d %10s %10s %10s %+7d %5s"):format(r.model, r.grid, r.loss,
    r.last, r.off, format.bytes(r.peak), format.bytes(r.between), format.bytes(r.sent),
    r.sent - r.wire, times))
end

-- The MLP by hand, beside one rank and beside the option on as many.
local function by_hand(o, ranks, one, rows)
  for _, n in ipairs { 2, 4 } do
    local hand = ranks(n, "mesh_grid_rank.lua", "mlp", "hand", o.steps, 1)
    local same
    for _, r in ipairs(rows) do
      if r.model == "mlp" and r.grid == "tensor=" .. n then same = r end
    end
    local row = { model = "mlp", grid = "hand", ranks = n, loss = compare.distance(hand, one),
      apart = compare.distance(hand, same) }
    print(("mlp  by hand, %d ranks    %9.1e  from tensor=%d %.1e"):format(n, row.loss, n,
      row.apart))
    rows[#rows + 1] = row
  end
end

---@param o {steps: integer}
---@param ranks fun(n: integer, script: string, ...: any): table
---@return table rows
return function(o, ranks)
  local rows = {}
  print "\nmeshes"
  print(("%-4s %-20s %9s %7s %6s %10s %10s %10s %7s %5s"):format("", "mesh", "loss", "last",
    "off", "peak", "between", "sent", "more", "times"))
  for _, model in ipairs { "gpt", "moe", "mlp" } do
    local one = ranks(1, "mesh_grid_rank.lua", model, "one", o.steps, 1)
    rows[#rows + 1] = row_of(one, one)
    show(rows[#rows])
    for _, grid in ipairs(GRIDS[model]) do
      if model ~= "mlp" or not grid:find "context" then -- an MLP has no sequence
        local run = ranks(ranks_of(grid), "mesh_grid_rank.lua", model, grid, o.steps, MICRO)
        rows[#rows + 1] = row_of(run, one)
        show(rows[#rows])
      end
    end
    if model == "mlp" then by_hand(o, ranks, one, rows) end
  end
  return rows
end
