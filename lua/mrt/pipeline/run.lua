--- run.lua -- a stage's part of a step, for real
---
--- The events in their order; then what several parts of this stage have added up of one
--- parameter is put together, and gradients of parameters that several stages have are
--- added up, in the order of the stages, totals go from who has them to all, and each stage
--- runs what runs once.  Whatever breaks off here ends the others' step too, with its words.
---
--- SPDX-License-Identifier: MIT

local accumulate = require "mrt.accumulate"
local core = require "mrt.core"
local hold = require "mrt.pipeline.hold"
local together = require "mrt.communicator.sync"

local op = core.op

local run = {}

-- What it returns would keep what it was given.
local function send(comm, x, to) op.send(x, { to = to - 1, comm = comm }):free() end

local function backend(entry, inputs, number, results)
  local comm, back = entry.settings.comm.number, {}
  function back.keep(i, e, block)
    core.put_rows(results[i], (e.micro - 1) * entry.size, block.x)
  end
  function back.run(phase, e, given)
    local all = table.move(inputs, 1, #inputs, 1, {})
    for i, block in ipairs(given) do all[#inputs + i] = block.x end
    local made = phase.plan:run_part(all, (e.micro - 1) * entry.size, entry.rows, number, nil,
      entry.first_rows[e.does .. e.part])
    for i, x in ipairs(made) do made[i] = { x = x, users = 1 } end
    return made
  end
  function back.send(block, to) send(comm, block.x, to) end
  function back.recv(part, name, from)
    local like = entry.came[hold.slot(part, 0, name)]
    return { users = 1, x = op.recv { from = from - 1, shape = like.shape, dtype = like.dtype,
      comm = comm } }
  end
  function back.share(block)
    block.users = block.users + 1
    return block
  end
  function back.free(block)
    block.users = block.users - 1
    if block.users == 0 then block.x:free() end
  end
  return back
end

local function recv(comm, like, from)
  return op.recv { from = from - 1, shape = like:get_shape(), dtype = like:get_dtype(),
    comm = comm }
end

-- The lowest stage adds up, the others take what it has.
local function add_tied(entry, t)
  local comm, own, lowest = entry.settings.comm.number, entry.settings.stage, t.stages[1]
  local function with_received(plan, from)
    local x = recv(comm, t.into, from)
    plan:run { x }
    x:free()
  end
  if own ~= lowest then
    send(comm, t.into, lowest)
    return with_received(t.write, lowest)
  end
  for i = 2, #t.stages do with_received(t.add, t.stages[i]) end
  for i = 2, #t.stages do send(comm, t.into, t.stages[i]) end
end

-- A total that this stage does not read it passes on, and has no variable for it.
local function share_total(settings, t)
  local own = t.root == settings.stage - 1
  local given = (own or t.read) and t.into
    or op.full { shape = t.into:get_shape(), value = 0, dtype = t.into:get_dtype() }
  local x = op.broadcast(given, { root = t.root, comm = settings.comm.number })
  if t.read and not own then t.into:assign(x) end
  x:free()
end

-- Of the results with a row for each row of the batch those that this stage makes, empty.
local function own_results(entry)
  local out, own = {}, {}
  for i, r in ipairs(entry.results_of) do
    if r.stage == entry.settings.stage then
      out[i] = op.full { shape = r.shape, value = 0, dtype = r.dtype }
      own[#own + 1] = out[i]
    end
  end
  if #own > 0 then core.eval(own) end
  return out
end

-- Who makes a result gives it to the others.
local function share_results(entry, results)
  local comm, own = entry.settings.comm.number, entry.settings.stage
  for i, r in ipairs(entry.results_of) do
    if r.stage == own then
      for s = 1, entry.order.p do
        if s ~= own then send(comm, results[i], s) end
      end
    else
      results[i] = op.recv { from = r.stage - 1, shape = r.shape, dtype = r.dtype, comm = comm }
      core.eval { results[i] }
    end
  end
end

-- ---- before the first step ---------------------------------------------------------

--- What all stages must agree on, in words.
---@param order mrt.PipelineOrder
---@param graph mrt.PipelineGraph
---@return string
function run.describe(order, graph)
  local words, ends = {}, {}
  for s, list in ipairs(order.stages) do
    for _, a in ipairs(list) do words[#words + 1] = a[1] .. a[2] .. "." .. a[3] end
    words[#words + 1] = "|" .. s
  end
  local hash = 5381
  for byte in table.concat(words, " "):gmatch "." do
    hash = (hash * 33 + byte:byte()) & 0xffffffff
  end
  for part, nodes in ipairs(graph.ends) do
    local types = {}
    for k, node in ipairs(nodes) do types[k] = node.x:type() end
    ends[part] = table.concat(types, " + ")
  end
  return ("%d micro-batches, %d chunks a stage, the schedule with the sum %08x, cut behind %s")
    :format(order.m, order.v, hash, table.concat(ends, ", "))
end

-- All stages have planned the same, and what several have is the same.
local function agree(entry)
  local settings = entry.settings
  for s, said in ipairs(together.gather(entry.said, settings.comm)) do
    if said ~= entry.said then
      core.fail("rank", "pipeline", ("stage %d has %s; stage %d has %s"):format(settings.stage,
        entry.said, s, said))
    end
  end
  for _, o in ipairs(entry.owned) do
    if o.parameter and #o.stages > 1 then run.equal(settings, o.variable, o.stages) end
  end
  settings.agreed[entry.said] = true
end

--- Of the stages that have a variable the lowest gives it to the others.
---@param settings mrt.PipelineSettings
---@param variable mrt.Tensor
---@param stages integer[]
function run.equal(settings, variable, stages)
  for i = 2, #stages do
    if settings.stage == stages[1] then
      send(settings.comm.number, variable, stages[i])
    elseif settings.stage == stages[i] then
      local x = recv(settings.comm.number, variable, stages[1])
      variable:assign(x)
      x:free()
    end
  end
end

--- Let every rank have what any stage has: parameters, and what optimizers keep of them.
--- What ranks of a stage have in pieces they put together to send it.
---@param settings mrt.PipelineSettings
---@param only? integer  the one stage that shall have it
function run.collect(settings, only)
  local wants = (only or settings.stage) == settings.stage
  for _, o in ipairs(settings.owned or {}) do
    local own, v = false, o.variable
    for _, s in ipairs(o.stages) do own = own or s == settings.stage end
    local x = op.broadcast(own and v or op.full { shape = v:get_shape(), value = 0,
      dtype = v:get_dtype() }, { root = o.stages[1] - 1, comm = settings.comm.number })
    if wants and not own then v:assign(x) end
    x:free()
  end
end

-- What comes before the events: the results with a row for each row of the batch, empty.
local function begin(entry, number)
  -- a step that is planned anew, for another budget, may be so on some stages only
  if not entry.settings.agreed[entry.said] then agree(entry) end
  accumulate.start(entry)
  if entry.first then entry.first:run_part({}, 0, 0, number) end
  return own_results(entry)
end

local function all(entry, inputs, number)
  local results = begin(entry, number)
  hold.walk(entry.settings.stage, entry.stages, entry.events,
    backend(entry, inputs, number, results))
  for _, sum in ipairs(entry.beside) do sum.plan:run { sum.from } end
  for _, t in ipairs(entry.tied) do add_tied(entry, t) end
  for _, t in ipairs(entry.totals) do share_total(entry.settings, t) end
  share_results(entry, results)
  local final, outputs = entry.core:run_part(inputs, 0, 0, number), {}
  for i, place in ipairs(entry.where) do
    outputs[i] = place.rows and results[place.rows] or final[place.final]
  end
  return outputs
end

-- The events, with the first run of each phase measured.
local function measure(entry, inputs, each)
  local results, seen = begin(entry, 0), {}
  local back = backend(entry, inputs, 0, results)
  local plainly = back.run
  function back.run(phase, e, given)
    if not seen[phase] then
      local read = table.move(inputs, 1, #inputs, 1, {})
      for i, block in ipairs(given) do read[#inputs + i] = block.x end
      seen[phase] = true
      each(phase.plan, read, (e.micro - 1) * entry.size, entry.count)
    end
    return plainly(phase, e, given)
  end
  hold.walk(entry.settings.stage, entry.stages, entry.events, back)
  for _, x in pairs(results) do x:free() end
end

local function words_of(err)
  return type(err) == "table" and err.message or tostring(err)
end

-- What fails here is told to the other stages.
local function together_with(entry, f)
  return function(...)
    local ok, made = pcall(f, entry, ...)
    if ok then return made end
    if not (type(made) == "table" and made.code == "rank") and entry.order.p > 1 then
      pcall(core.communicator.abort, entry.settings.comm.number, words_of(made))
    end
    error(made, 0)
  end
end

--- The function that runs this stage's part of a step: of the inputs, and of how many steps
--- were before, for random numbers.
---@param entry table
---@return fun(inputs: any[], number: integer): mrt.Tensor[]
function run.of(entry) return together_with(entry, all) end

--- The function that runs the micro-batches of a step and gives each plan of a phase to
--- `each` before it first runs: with what it reads, its first row, and how often it runs in a
--- step.  All stages call it.  Nothing but accumulators changes.
---@param entry table
---@return fun(inputs: any[], each: fun(plan: userdata, read: any[], row: integer, runs: integer))
function run.measured(entry) return together_with(entry, measure) end

return run
