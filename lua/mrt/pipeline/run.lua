--- run.lua -- a stage's part of a step, for real
---
--- The events in their order; then what several parts of this stage have added up of one
--- parameter is put together, and gradients of parameters that several stages have are
--- added up, in the order of the stages, totals go from who has them to all, and each stage
--- runs what runs once.  Whatever breaks off here ends the others' step too, with its words.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local hold = require "mrt.pipeline.hold"

local op = core.op

local run = {}

-- What it returns would keep what it was given.
local function send(comm, x, to) op.send(x, { to = to - 1, comm = comm }):free() end

local function backend(entry, inputs, number)
  local comm, back = entry.settings.comm.number, {}
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

local function share_total(settings, t)
  local x = op.broadcast(t.into, { root = t.root, comm = settings.comm.number })
  if t.root ~= settings.stage - 1 then t.into:assign(x) end
  x:free()
end

local function all(entry, inputs, number)
  hold.walk(entry.settings.stage, entry.stages, entry.events, backend(entry, inputs, number))
  for _, sum in ipairs(entry.beside) do sum.plan:run { sum.from } end
  for _, t in ipairs(entry.tied) do add_tied(entry, t) end
  for _, t in ipairs(entry.totals) do share_total(entry.settings, t) end
  local final, outputs = entry.core:run_part(inputs, 0, 0, number), {}
  for i, place in ipairs(entry.where) do outputs[i] = final[place.final] end
  return outputs
end

local function words_of(err)
  return type(err) == "table" and err.message or tostring(err)
end

--- Run a step of this stage.
---@param entry table
---@param inputs any[]
---@param number integer  how many steps were before, for random numbers
---@return mrt.Tensor[] outputs
function run.step(entry, inputs, number)
  local ok, outputs = pcall(all, entry, inputs, number)
  if ok then return outputs end
  if not (type(outputs) == "table" and outputs.code == "rank") and entry.order.p > 1 then
    pcall(core.communicator.abort, entry.settings.comm.number, words_of(outputs))
  end
  error(outputs, 0)
end

return run
