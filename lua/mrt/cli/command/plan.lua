--- plan.lua -- `mrt plan [options] script.lua [args]`: plan, and stop.
--
-- The script runs until it calls its first compiled function; that call is
-- planned, the plan printed, and the process ends with status 0.  A script that
-- plans and never calls runs to its end; then its first plan is the one.  What the
-- script evaluates before really runs; a report that it has printed itself is not
-- printed again.
--
-- Several policies are compared by as many processes, each of which runs the script.
--
-- SPDX-License-Identifier: MIT

local arguments = require "mrt.cli.arguments"
local cases = require "mrt.plan.report.cases"
local compile = require "mrt.compile"
local core = require "mrt.core"
local device = require "mrt.device"
local json = require "mrt.util.json"
local format = require "mrt.util.format"
local on_cluster = require "mrt.cli.command.plan_cluster"
local search = require "mrt.cli.command.plan_find"

local MOST_RANKS <const> = 1 << 20

local exit, out, err = os.exit, io.stdout, io.stderr -- whatever a script does

local function complain(text, ...)
  err:write("mrt plan: ", text:format(...), "\n")
  return 1
end

-- By name, and in their order.
local stages = { "ddp", "zero1", "zero2", "zero3", "fsdp",
  ddp = function(shard) return shard.ddp() end,
  zero1 = function(shard) return shard.zero(1) end,
  zero2 = function(shard) return shard.zero(2) end,
  zero3 = function(shard) return shard.zero(3) end,
  fsdp = function(shard) return shard.fsdp() end }

-- Print the ways into so much memory; is there one?
local function show_ways(plan, options, line)
  local ways = plan:options { budget = line }
  local to = options.json and err or out
  to:write(tostring(ways), "\n")
  return ways.choice ~= nil
end

-- What the peak is to keep: the budget, or the named device's memory; nil if nothing.
local function line_of(plan, options)
  local line = options.budget or options.device and plan.device.capacity
  return line ~= 0 and line or nil
end

-- Is the step within its line?  If not, what would bring it there?
local function check_line(plan, options)
  local budget, need, line = options.budget, plan.working_set, line_of(plan, options)
  if not line or plan:needs() <= line then return 0 end
  if show_ways(plan, options, line) then return 0 end
  return complain("the step takes %s bytes (%s), %s %s (%s); %s %s (%s)",
    format.count(plan:needs()), format.bytes(plan:needs()), budget
      and "the budget is" or options.device .. " has", format.count(line),
    format.bytes(line), line < need
      and "it is below the working-set bound,"
      or "the working-set bound is", format.count(need), format.bytes(need))
end

-- Write for the process that asked: the exit status.
local function write_figures(options, found)
  local file <close>, message = io.open(options.figures, "w")
  local ok = file
  if file then ok, message = file:write(json.encode(found, { lossy = true })) end
  return ok and 0 or complain("%s", message)
end

-- The words of the command that change the plan: policies, the script, its arguments.
local function words_of(options)
  local list = {}
  for _, case in ipairs(options.cases) do
    table.move(case.arguments, 1, #case.arguments, #list + 1, list)
  end
  return format.utf8(table.concat(table.move(options.script, 1, #options.script, #list + 1, list),
    " "))
end

-- Write a lock, or hold the plan to one: the exit status.
local function show_lock(plan, options)
  local lock = require "mrt.plan.report.lock"
  local now = lock.of(plan, { script = words_of(options), ranks = options.ranks or 1 })
  if options.lock then
    local ok, message = core.write_file(options.lock, lock.text(now))
    return ok and check_line(plan, options) or complain("%s", message)
  end
  local before, problem = lock.read(options.check)
  if not before then return complain("%s", problem) end
  local ok, said = lock.compare(before, now)
  if not ok then return complain("%s: %s", options.check, said) end
  out:write(said, "\n")
  return check_line(plan, options)
end

-- Print the plan as asked: the exit status.
local function show(plan, options)
  local ok, message
  if options.figures then
    return write_figures(options, require "mrt.plan.report.figures" (plan, line_of(plan, options)))
  elseif options.lock or options.check then
    return show_lock(plan, options)
  elseif options.json then
    ok, message = out:write(require "mrt.plan.report.json" (plan))
  else
    ok = true
    if options.long then
      if not plan.reported then ok, message = plan:report(out) end
    elseif not plan.reported then
      ok, message = out:write(require "mrt.plan.report.brief" (plan, { budget = options.budget,
        script = words_of(options) }), "\n")
    end
  end
  if ok then ok, message = out:flush() end
  if ok and options.html then
    ok, message = plan:save(options.html, { format = "html" })
  end
  if not ok then return complain("%s", message) end
  return check_line(plan, options)
end

-- The arguments that every process of a comparison gets.
local function common_of(options)
  local list = {}
  for _, name in ipairs { "ranks", "mesh", "budget", "device" } do
    local value = options[name]
    if value then
      list[#list + 1] = ("--%s=%s"):format(name, type(value) == "table" and value.word or value)
    end
  end
  return list
end

-- Figures of the script as it is and in every case, `text` if it came from standard input.
local function plan_cases(options, script, text)
  local list, path = { { name = "script", arguments = {} } }, nil
  table.move(options.cases, 1, #options.cases, 2, list)
  if text then
    path = os.tmpname()
    local file <close> = assert(io.open(path, "w"))
    file:write(text)
    script[1] = path
  end
  local entries, said = cases.plan(list, common_of(options), script)
  if path then os.remove(path) end
  err:write(said)
  return entries
end

-- The largest value of the script's flag that fits: the exit status.
local function show_largest(options, script)
  local found, problem = require "mrt.plan.report.largest_flag" (options, common_of(options),
    script)
  if not found then return complain("%s", problem) end
  out:write(tostring(found), "\n")
  return found.best and 0 or 1
end

-- What mrt.plan.compare draws of them; how many are over their limit.
local function curves_of(entries)
  local plans, over = { names = {} }, 0
  for _, e in ipairs(entries) do
    local f = e.figures
    if f then
      plans[#plans + 1], plans.capacity = cases.curve(f), f.limit
      plans.names[#plans] = e.name
      if f.over then over = over + 1 end
    end
  end
  return plans, over
end

-- The script in every case, side by side: the exit status.
local function compare(options, script, text)
  local entries = plan_cases(options, script, text)
  local ok, message = out:write(
    require "mrt.plan.report.side_by_side" (entries, options.ranks or 1), "\n")
  local plans, over = curves_of(entries)
  if ok and options.html and #plans > 0 then
    ok, message = require "mrt.plan.report.compare" (plans):save(options.html)
  end
  if not ok then return complain("%s", message) end
  if over > 0 and over == #plans then
    return complain("no step is within %s", format.bytes(plans.capacity))
  end
  return #plans == #entries and 0 or 1
end

-- Read the policies; one alone is laid over the script.
local function load_policies(options)
  local script = require "mrt.policy.script"
  if #options.cases > 1 and options.json then
    return nil, "--json prints one plan, there are several --policy or --shard"
  end
  for _, case in ipairs(options.cases) do
    local kind, value = table.unpack(case.arguments)
    local policy, message
    if kind == "--shard" and (options.ranks or 1) == 1 then
      return nil, "--shard spreads over ranks: --ranks N wanted, 2 or more"
    elseif kind == "--shard" then
      policy = { shard = stages[value](require "mrt.policy.shard") }
    else
      policy, message = script.try(value)
    end
    if not policy then return nil, message end
    compile.override = #options.cases == 1 and policy or nil
  end
  return true
end

-- Standard output belongs to the JSON.
local function print_elsewhere()
  rawset(io, "stdout", err)
  io.output(err)
  _G.print = function(...)
    local words = table.pack(...)
    for i = 1, words.n do words[i] = tostring(words[i]) end
    err:write(table.concat(words, "\t"), "\n")
  end
end

local function set_arguments(script)
  local own = table.move(script, 1, #script, 0, {})
  own[-1] = _G.arg and _G.arg[-1] or "mrt"
  _G.arg = own
end

-- Plan for this device, if one is named: what is wrong with it.
local function use_device(name)
  if not name then return nil end
  local ok, profile, problem = pcall(device.use, name)
  if ok and profile then return nil end
  local text = problem or profile
  return type(text) == "table" and ("%s: %s"):format(name, text.message) or text
end

-- What the options change before the script runs; nil and what is wrong.
local function prepare(options)
  if options.json or options.figures then print_elsewhere() end
  local wrong = options.cluster and on_cluster.prepare(options)
  if wrong then return nil, wrong end
  local mesh = on_cluster.mesh(options)
  if mesh then options.ranks = require "mrt.mesh".read(mesh).ranks end
  if options.ranks then core.communicator.alone(0, options.ranks) end
  if options.budget then core.set_budget(options.budget) end
  local problem = use_device(options.device)
  if problem then return nil, problem end
  local ok, message = load_policies(options)
  if ok and mesh then
    compile.override = compile.override or {}
    compile.override.mesh = mesh
  end
  return ok, message
end

-- Run a script until it plans: the exit status.
local function plan_script(chunk, name, options, ...)
  local function shown(plan, ...)
    if not options.cluster or options.json then return show(plan, options) end
    local problem = (options.find and search.of_script or on_cluster.show)(options, plan, ...)
    return problem and complain("%s", problem) or 0
  end
  compile.planning = function(...) exit(shown(...), true) end
  if options.figures then
    local ok, problem = pcall(chunk, ...)
    if not ok then
      local text = type(problem) == "table" and problem.message or tostring(problem)
      write_figures(options, { message = text:match "^[^\n]*" })
      return 1
    end
  else
    chunk(...)
  end
  local call = compile.first_call
  if call then return shown(compile.first_plan, table.unpack(call, 1, call.n)) end
  return complain("%s ended without calling or planning a compiled function (mrt.compile)",
    name)
end

-- The script as a function.
local function load_script(name, text)
  if text then return load(text:gsub("^#[^\n]*", ""), "=stdin", "t") end
  return loadfile(name ~= "-" and name or nil)
end

-- Without a script, for the decoder that --gpt describes: the exit status.
local function search_alone(options)
  local ok, problem = pcall(search.run, options, options.gpt)
  if not ok then problem = type(problem) == "table" and problem.message or error(problem, 0) end
  return problem and complain("%s", problem) or 0
end

local function run(options)
  local script, text = options.rest, nil
  if options.find and not script[1] then return search_alone(options) end
  options.script = script
  if script[1] == "-" and #options.cases > 1 then text = io.read "a" end
  if options.largest then return show_largest(options, script) end
  local chunk, message = load_script(script[1], text)
  if not chunk then return complain("%s", message) end
  set_arguments(script)
  local ok, problem = prepare(options)
  if not ok then return complain("%s", problem) end
  if #options.cases > 1 then return compare(options, script, text) end
  return plan_script(chunk, script[1], options, table.unpack(script, 2))
end

-- ---- the command line ----------------------------------------------------------

local function read_largest(word)
  local name, step = word:match "^%-*([%w_-]+):?(%d*)$"
  step = math.tointeger(tonumber(step)) -- none: as the script allows
  if name and (not step or step >= 1) then return { name = name, step = step } end
  return nil, ("'%s', NAME or NAME:STEP wanted"):format(word)
end

local function read_mesh(word)
  local given, problem = require "mrt.mesh".parse(word)
  return given and { word = word, given = given }, problem
end

local function policy_case(word) return { { name = word, arguments = { "--policy", word } } } end

local function shard_cases(word)
  if word ~= "all" and not stages[word] then
    return nil, ("'%s', %s or all wanted"):format(word, table.concat(stages, ", "))
  end
  local list = {}
  for i, name in ipairs(word == "all" and stages or { word }) do
    list[i] = { name = name, arguments = { "--shard", name } }
  end
  return list
end

-- Options that each say what becomes of the plan: what is wrong with those given.
local function clash(options)
  local first
  for _, name in ipairs { "largest", "lock", "check", "json", "html" } do
    if options[name] and first and not (first == "json" and name == "html") then
      return ("--%s and --%s: one of them wanted"):format(first, name)
    end
    first = first or options[name] and name
  end
  if #options.cases > 1 and (first == "largest" or first == "lock" or first == "check") then
    return ("--%s wants one plan, there are several --policy or --shard"):format(first)
  end
end

return arguments.new {
  name = "mrt plan",
  about = "Plan the first compiled step of a script, say what it takes, and stop there.",
  script = "script.lua [args]",
  { "--long", "all that is known of the plan" },
  { "--budget BYTES", "the ways into so much memory, 6GiB, 512 MiB, 2e9; fail if there is none; of "
    .. "several plans: which are over it, fail if all are" },
  { "--largest NAME", "the largest value of the script's option --NAME (batch, context, layers, "
    .. "dim, ...) whose plan fits --budget or the memory of --device; NAME:64: multiples of 64, "
    .. "else what the script allows", read = read_largest },
  { "--device NAME", "plan for a machine that need not be here: a100-40, or a file that returns a "
    .. "profile; mrt info --devices lists them" },
  { "--ranks N", "plan for one of N ranks, of which no other need be here", least = 1,
    most = MOST_RANKS },
  { "--mesh LIST", "plan for one of the ranks of a mesh: tensor=8,shard=2,data=4",
    read = read_mesh },
  { "--cluster NAME:N", "plan for N devices of a machine, dgx-h100:128, or of a file that returns "
    .. "one: step time, and what each kind of rank takes" },
  { "--find", "search for the quickest mesh, micro-batches, recomputation that fit --cluster" },
  { "--gpt LIST", "search for this decoder: layers=96,dim=12288,heads=96,vocab=51200,context=2048,"
    .. "batch=1536; with experts, too: experts=8,top=2", read = search.read_gpt },
  { "--batch N", "sequences of a step over all ranks, of --find", least = 1 },
  { "--software NAME", "whose kernels and overlap --find expects: megatron_core, megatron, fsdp" },
  { "--precision NAME", "of --find; f8 tries it beside bf16", choices = { "bf16", "f8" } },
  { "--tokens X", "to train on: how long it takes; with --price what it costs", least = 1 },
  { "--deadline X", "hours: fail if --tokens take longer", least = 0 },
  { "--price X", "dollars per device-hour", least = 0 },
  { "--write FILE", "write what --find found as a policy, which mrt --policy takes" },
  { "--policy FILE", "lay the options that FILE returns over the script's", read = policy_case,
    many = true, as = "cases" },
  { "--shard NAME", "spread parameters over the ranks: ddp, zero1, zero2, zero3, fsdp; all: each "
    .. "of them", read = shard_cases, many = true, as = "cases" },
  { "--json", "print the plan as JSON; what the script prints goes to standard error (what "
    .. "programs that it starts print does not)" },
  { "--html FILE", "write a page with pictures as well" },
  { "--lock FILE", "write what the plan takes, by line of Lua" },
  { "--check FILE", "hold the plan to such a file: fail, and name the lines, where it takes a byte "
    .. "more or 1 % more predicted time" },
  { "--figures FILE" }, -- what a process among several is asked for
  more = "Several --policy and --shard are compared side by side, with the script as it is, which "
    .. "runs once for each and has no standard input.  script.lua may be - for standard input.",
  check = function(options)
    local list = {}
    for _, some in ipairs(options.cases or {}) do table.move(some, 1, #some, #list + 1, list) end
    options.cases = list
    return clash(options) or search.clash(options)
  end,
  alone = function(options) return options.find and options.gpt ~= nil end,
  run = run,
}
