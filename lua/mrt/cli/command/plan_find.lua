--- plan_find.lua -- `mrt plan --cluster NAME:N --find`
--
-- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local format = require "mrt.util.format"

local find = {}

local names <const> = { layers = "layers", dim = "hidden", heads = "heads", vocab = "vocab",
  context = "seq", kv_heads = "kv_heads", ffn = "ffn", batch = "batch", experts = "experts",
  top = "top", shared = "shared" }

--- Read --gpt layers=96,dim=12288,heads=96,vocab=51200,context=2048,batch=1536; kv_heads, ffn,
--- experts, top and shared where they are not those of a GPT.
---@param word string
---@return table? model  with `batch`
---@return string? problem
function find.read_gpt(word)
  local model = {}
  for part in (word .. ","):gmatch "([^,]*)," do
    local name, n = part:match "^%s*([%w_]+)%s*=%s*(%d+)%s*$"
    if not name or not names[name] then
      return nil, ("'%s', layers=96,dim=12288,heads=96,vocab=51200,context=2048,batch=1536 wanted")
        :format(part)
    end
    model[names[name]] = math.tointeger(tonumber(n))
  end
  for _, name in ipairs { "layers", "dim", "heads", "vocab", "context" } do
    if not model[names[name]] then return nil, ("%s is missing"):format(name) end
  end
  return model
end

local HOUR <const> = 3600

-- Hours until all tokens are seen; nil: nothing fits.
local function hours_of(found, o)
  return found.best and o.tokens / o.tokens_of_step * found.best.seconds / HOUR
end

-- Half as many devices, and half of these: as long as it fits and is in time.  More devices
-- are quicker and, since some of their time is communication, cost more; the last of the list
-- is the cheapest in time.
local function cheaper(options, first, o, search)
  local list = { { found = first, name = options.cluster, devices = o.devices } }
  local machine, devices = options.cluster:gsub(":%d+$", ""), o.devices
  while devices % 2 == 0 and hours_of(list[#list].found, o) do
    devices = devices // 2
    local name = ("%s:%d"):format(machine, devices)
    local ok, found = pcall(search, name, 0)
    local hours = ok and hours_of(found, o)
    if not hours or hours > o.deadline then break end
    list[#list + 1] = { found = found, name = name, devices = devices }
  end
  table.sort(list, function(a, b)
    return a.found.best.seconds * a.devices < b.found.best.seconds * b.devices
  end)
  return list
end

--- What is wrong with options together.
---@param options table
---@return string?
function find.clash(options)
  if not options.find then
    for _, name in ipairs { "gpt", "deadline", "tokens", "price", "write", "software" } do
      if options[name] then return ("--%s goes with --find"):format(name) end
    end
    return nil
  end
  if not options.cluster then return "--find wants --cluster NAME:N" end
  if options.deadline and not options.tokens then return "--deadline wants --tokens" end
  if options.price and not options.tokens then return "--price wants --tokens" end
end

-- Hold the best to exact plans of the script: the first that fits is the winner.
local function confirm(found, o, cluster, script)
  local exact = require "mrt.cluster.find.exact"
  local c, said = exact.first(found, { cluster = o.cluster, step = script.step,
    args = script.args, rows = script.rows, memory = cluster.device.memory })
  o.said, found.best = said, c
  if c then said[#said + 1] = { candidate = c } end
  for _, one in ipairs(said) do require "mrt.cluster.find".explain(found, one.candidate) end
  if c then said[#said] = nil end
end

--- Search for the decoder of a script's step: what is wrong, or nil.
---@param options table
---@param plan mrt.Plan
---@param step mrt.Compiled
---@param ... any  as for the call
---@return string? problem
function find.of_script(options, plan, step, ...)
  local model = options.gpt or require "mrt.cluster.find.shape".of(plan)
  if not model then return "no decoder is found in the step: --gpt LIST says its shape" end
  local args = table.pack(...)
  local first = args[1]
  local rows = model.rows or first and require "mrt".is_tensor(first) and first:size(1) or 1
  model.batch = model.batch or rows * options.machine.devices
  return find.run(options, model, { step = step, args = args, rows = rows })
end

-- Of the cluster of this name.
local function searcher(options, model, batch, script)
  return function(name, rivals)
    return require "mrt.cluster" (name):find { model = model, batch = batch,
      software = options.software, rivals = rivals, own = script ~= nil,
      precisions = options.precision == "f8" and { "bf16", "f8" } or nil }
  end
end

-- What is wrong with what was found.
local function problem_of(found, o)
  if found.best then
    local hours = o.deadline and hours_of(found, o)
    return hours and hours > o.deadline
      and ("%.1f hours is the quickest, the deadline is %.4g"):format(hours, o.deadline) or nil
  elseif o.said and #o.said > 0 then
    return ("none of the %d quickest by estimate fits when it is planned"):format(#o.said)
  end
  return ("nothing fits: the least is over by %s"):format(format.bytes(
    math.ceil(find.least_over(found))))
end

--- Search, print and write: what is wrong, or nil.
---@param options table  of `mrt plan`
---@param model table    with `batch`
---@param script? {step: mrt.Compiled, args: table, rows: integer}  plans are made of
---@return string? problem
function find.run(options, model, script)
  local batch = options.batch or model.batch
  if not batch then return "--batch wanted: sequences of a step, over all ranks" end
  model.batch = nil
  local cluster = require "mrt.cluster" (options.cluster)
  local search = searcher(options, model, batch, script)
  local found = search(options.cluster)
  local o = { cluster = options.cluster, devices = cluster.devices, tokens = options.tokens,
    price = options.price, deadline = options.deadline, tokens_of_step = batch * model.seq }
  if o.deadline and found.best and not problem_of(found, o) then
    o.sizes = cheaper(options, found, o, search)
    local least = o.sizes[1]
    found, o.cluster, o.devices = least.found, least.name, least.devices
  end
  if found.best and script then confirm(found, o, cluster, script) end
  io.stdout:write(require "mrt.plan.report.find" (found, o), "\n")
  local problem = problem_of(found, o)
  if not problem and options.write then
    local text = require "mrt.cluster.find.policy_file".text(found.best, o.cluster)
    local ok, message = core.write_file(options.write, text)
    problem = not ok and message or nil
  end
  return problem
end

--- Bytes that the candidate with the least memory lacks.
---@param found mrt.cluster.Found
---@return number
function find.least_over(found)
  local least = math.huge
  for _, c in ipairs(found.candidates) do least = math.min(least, c.over) end
  return least
end

return find
