--- plan_find.lua -- `mrt plan --cluster NAME:N --find`
--
-- SPDX-License-Identifier: MIT

local core = require "mrt.core"

local find = {}

local names <const> = { layers = "layers", dim = "hidden", heads = "heads", vocab = "vocab",
  context = "seq", kv_heads = "kv_heads", ffn = "ffn", batch = "batch" }

--- Read --gpt layers=96,dim=12288,heads=96,vocab=51200,context=2048,batch=1536.
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

-- The cheapest in time: all ranks are paid for, so the quickest of this many; is it in time?
local function in_time(found, o)
  if not o.deadline then return true end
  local hours = o.tokens / o.tokens_of_step * found.best.seconds / 3600
  if hours <= o.deadline then return true end
  return false, ("%.1f hours is the quickest, the deadline is %.4g"):format(hours, o.deadline)
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
  if not model then return "no decoder is found in the step: --gpt layers=..,dim=.. says its shape" end
  local args = table.pack(...)
  local first = args[1]
  local rows = model.rows or first and require "mrt".is_tensor(first) and first:size(1) or 1
  model.batch = model.batch or rows * options.machine.devices
  return find.run(options, model, { step = step, args = args, rows = rows })
end

--- Search, print and write: what is wrong, or nil.
---@param options table  of `mrt plan`
---@param model table    with `batch`
---@param script? {step: mrt.Compiled, args: table, rows: integer}  plans are made of
---@return string? problem
function find.run(options, model, script)
  local cluster = require "mrt.cluster" (options.cluster)
  local batch = options.batch or model.batch
  if not batch then return "--batch wanted: sequences of a step, over all ranks" end
  model.batch = nil
  local found = cluster:find { model = model, batch = batch, software = options.software,
    precisions = options.precision == "f8" and { "bf16", "f8" } or nil }
  local o = { cluster = options.cluster, devices = cluster.devices, tokens = options.tokens,
    price = options.price, deadline = options.deadline, tokens_of_step = batch * model.seq }
  if found.best and script then confirm(found, o, cluster, script) end
  io.stdout:write(require "mrt.plan.report.find" (found, o), "\n")
  if not found.best and o.said and #o.said > 0 then
    return ("none of the %d quickest by estimate fits when it is planned"):format(#o.said)
  elseif not found.best then
    return ("nothing fits: the least is over by %s"):format(require "mrt.util.format".bytes(
      math.ceil(find.least_over(found))))
  end
  if options.write then
    local text = require "mrt.cluster.find.policy_file".text(found.best, options.cluster)
    local ok, message = core.write_file(options.write, text)
    if not ok then return message end
  end
  local ok, problem = in_time(found, o)
  return not ok and problem or nil
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
