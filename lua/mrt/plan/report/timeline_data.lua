--- timeline_data.lua -- what the page of a plan knows of its steps and buffers
---
---     text       strings that the others name by number, from 0
---     roles      [[name, words, colour]]: of the arena
---     steps      columns: op, place, module (numbers of text; -1: none), back (1: of the
---                gradient), live (bytes), time (predicted microseconds)
---     buffers    columns: role (a number of roles), what, type, place, module, bytes,
---                offset, first, last (steps from 1, both included), maker (a step; 0:
---                none), reads: [[step]]
---     transfers  columns: out (1) or in (0), row, what, bytes, start, wait, long (1: takes
---                longer than the steps beside it), stall (predicted microseconds)
---     peak, arena, title
---
--- SPDX-License-Identifier: MIT

local embed = require "mrt.plan.report.embed"
local format = require "mrt.util.format"
local json = require "mrt.util.json"
local lanes = require "mrt.plan.report.lanes"
local markup = require "mrt.plan.report.markup"
local roles = require "mrt.plan.report.roles"

local LONGEST = 160 -- characters of a text

local function new_columns(...)
  local columns = {}
  for _, name in ipairs { ... } do columns[name] = json.array {} end
  return columns
end

local function add(columns, row)
  for name, list in pairs(columns) do list[#list + 1] = row[name] end
end

local function microseconds(seconds)
  return math.tointeger(math.floor(math.min(seconds, 1e9) * 1e6 + 0.5))
end

local function text_of(pool, text) return pool:of(format.shorten(text, LONGEST)) end

-- "train.lua:12"
local function line_of(x)
  return x.line > 0 and ("%s:%d"):format(x.file, x.line) or x.file
end

-- The module whose node made it, where that is known.
local function module_of(pool, x)
  return (x.module or "") ~= "" and text_of(pool, x.module) or -1
end

local function describe_steps(pool, steps)
  local columns = new_columns("op", "place", "module", "back", "live", "time")
  for _, s in ipairs(steps) do
    add(columns, { op = text_of(pool, s.op), place = text_of(pool, line_of(s)),
      module = module_of(pool, s), back = s.backward and 1 or 0, live = s.live,
      time = microseconds(s.time or 0) })
  end
  return columns
end

-- The steps that read each value, and the one that wrote it first.
local function uses(plan)
  local readers, maker = {}, {}
  for i, o in ipairs(plan:operands()) do
    for _, v in ipairs(o.reads) do
      local list = readers[v] or json.array {}
      if list[#list] ~= i then list[#list + 1] = i end
      readers[v] = list
    end
    for _, v in ipairs(o.writes) do maker[v] = maker[v] or i end
  end
  return readers, maker
end

-- The roles of the arena that there are, in order, and the number of each.
local function roles_of(values)
  local there, list, number = {}, json.array {}, {}
  for _, v in ipairs(values) do there[v.role] = there[v.role] or v.bytes > 0 end
  for _, role in ipairs(roles.order) do
    if there[role] and roles.in_arena[role] then
      number[role] = #list
      list[#list + 1] = { role, roles.words[role], markup.colours[role] }
    end
  end
  return list, number
end

local function describe_buffers(pool, plan, values)
  local columns = new_columns("role", "what", "type", "place", "module", "bytes", "offset",
    "first", "last", "maker", "reads")
  local readers, maker = uses(plan)
  local list, number = roles_of(values)
  for i, v in ipairs(values) do
    if number[v.role] and v.bytes > 0 then
      add(columns, { role = number[v.role], type = text_of(pool, v.type),
        what = text_of(pool, v.name or v.op ~= "" and v.op or v.role),
        place = text_of(pool, line_of(v)), module = module_of(pool, v), bytes = v.bytes,
        offset = v.offset, first = v.first, last = v.last, maker = maker[i] or 0,
        reads = readers[i] or json.array {} })
    end
  end
  return columns, list
end

local function describe_transfers(pool, plan, values)
  local columns = new_columns("out", "row", "what", "bytes", "start", "wait", "long", "stall")
  for _, t in ipairs(lanes.rows(lanes.list(plan, values))) do
    add(columns, { out = t.lane == "out" and 1 or 0, row = t.row - 1,
      what = text_of(pool, t.what), bytes = t.bytes, start = t.start, wait = t.wait,
      long = t.time > t.beside and 1 or 0, stall = microseconds(t.stall) })
  end
  return columns
end

---@param plan mrt.Plan
---@param values table[]  of the plan
---@param steps table[]   of the plan
---@return table
return function(plan, values, steps)
  local pool = embed.pool()
  local buffers, list = describe_buffers(pool, plan, values)
  return { text = pool.list, steps = describe_steps(pool, steps), buffers = buffers,
    roles = list, transfers = describe_transfers(pool, plan, values),
    peak = plan.peak_step, arena = plan.transient }
end
