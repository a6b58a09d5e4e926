--- run.lua -- runs a campaign: `mrt run.lua NAME [options]`, see scripts/campaign
---
--- A round is a process of its own group, so that whatever it starts ends with
--- it.  After each the campaign's state is written beside the last and renamed.
---
--- SPDX-License-Identifier: MIT

package.path = "spec/?.lua;" .. package.path
local core = require "mrt.core"

local MARK <const> = "\1campaign "
local LONGEST_TEXT <const> = 4000

local function fail(...)
  io.stderr:write("campaign: ", string.format(...), "\n")
  os.exit(2)
end

local function quoted(text)
  return "'" .. text:gsub("'", "'\\''") .. "'"
end

-- ---- what is asked for -----------------------------------------------------

local options = { minutes = 1, seed = 1, cores = 1 }
local whole = { seed = true, cores = true, round = true }

local function read_options()
  local i = 2
  while arg[i] do
    local name = arg[i]:match "^%-%-(%l+)$"
    if name == "table" or name == "program" then
      options[name], i = true, i + 1
    elseif name == "folder" and arg[i + 1] then
      options.folder, i = arg[i + 1], i + 2
    elseif name == "minutes" or whole[name] then
      local value = tonumber(arg[i + 1])
      if whole[name] then value = math.tointeger(value) end
      if not value or value < 0 then fail("%s wants a number", arg[i]) end
      options[name], i = value, i + 2
    else
      fail("no option '%s'", arg[i])
    end
  end
  options.cores = math.max(options.cores, 1)
end

local function load_campaign(name)
  local path = name:find "/" and name or "spec/campaign/" .. name .. ".lua"
  if not io.open(path) then fail("no campaign '%s'", name) end
  local campaign = assert(dofile(path))
  assert(campaign.about and campaign.unit and campaign.round, path)
  return campaign
end

local function list()
  for _, file in ipairs(assert(core.list_folder "spec/campaign")) do
    local name = file:match "^(.*)%.lua$"
    if name and name ~= "run" and not name:find "_spec$" then
      print(("%-12s %s"):format(name, load_campaign(name).about))
    end
  end
end

-- ---- a round ---------------------------------------------------------------

-- In the round's process: what it found goes out in lines that begin with MARK.
local function run_round(campaign, seed)
  local given = os.getenv "MRT_CAMPAIGN_FOLDER" -- the driver removes that one
  local name = given or os.tmpname()
  if not given then os.remove(name) end
  core.make_folders(name)
  local count, findings = campaign.round(seed, name)
  if not given then os.execute("rm -rf " .. quoted(name)) end
  for _, text in ipairs(findings or {}) do
    print(MARK .. ("finding %q"):format(text:sub(1, LONGEST_TEXT)):gsub("\n", "n"))
  end
  print(MARK .. "count " .. math.tointeger(count))
  os.exit(findings and #findings > 0 and 1 or 0, true)
end

-- Where programs with sanitizers are built.
local sanitized = { sanitized = "build-asan", fuzzers = "build-fuzz" }

local function command_of(campaign, seed)
  local program = os.getenv "MRT" or "build/mrt"
  local env = "env MRT_CAMPAIGN_ROUND=1"
  local folder = sanitized[campaign.program]
  if folder then
    folder = os.getenv "MRT_SANITIZED_FOLDER" or folder
    if campaign.program == "sanitized" then program = folder .. "/mrt" end
    env = env .. " MRT_SANITIZED_FOLDER=" .. folder
      .. " ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1"
      .. " UBSAN_OPTIONS=print_stacktrace=1"
  end
  if not os.getenv "MRT_DEVICE" then env = env .. " MRT_DEVICE=declared" end
  return ("%s MRT=%s %s spec/campaign/run.lua %s --round %d"):format(env, program, program,
    quoted(arg[1]), seed)
end

-- Starts a round.  Interrupted, it takes all with it that the round started; however
-- it ends, what it and its children left in their folder goes.
local function start(campaign, seed)
  local line = ("d=$(mktemp -d) || exit; MRT_CAMPAIGN_FOLDER=$d TMPDIR=$d timeout -s KILL %d "
    .. "%s </dev/null 2>&1 & p=$!; trap 'kill -s KILL -- -$p' INT TERM; wait $p; c=$?; "
    .. "rm -rf \"$d\"; echo; echo ended $c"):format(
    campaign.timeout or 300, command_of(campaign, seed))
  return { seed = seed, pipe = assert(io.popen(line)), began = core.clock() }
end

local function how_it_ended(code, campaign, seconds)
  if code == 137 and seconds > (campaign.timeout or 300) - 1 then
    return ("hangs: not done after %d s"):format(campaign.timeout or 300)
  end
  return code > 128 and ("ended by signal %d"):format(code - 128)
    or ("ended with status %d"):format(code)
end

-- Count and findings of a round that was started.
local function finish(campaign, round)
  local text = round.pipe:read "a"
  round.pipe:close()
  local code = math.tointeger(tonumber(text:match "\nended (%d+)\n$")) or 128
  local findings = {}
  for line in text:gmatch(MARK .. "finding (\"[^\n]*\")") do
    findings[#findings + 1] = load("return " .. line)()
  end
  local count = text:match(MARK .. "count (%d+)\n")
  if #findings == 0 and (code ~= 0 or not count) then
    findings[1] = how_it_ended(code, campaign, core.clock() - round.began) .. "\n"
      .. text:gsub("\n+ended %d+\n$", ""):sub(-LONGEST_TEXT)
  end
  return math.tointeger(tonumber(count or 0)), findings
end

-- ---- what was done so far --------------------------------------------------

local function read_state(path)
  local file <close> = io.open(path)
  if not file then
    return { next = options.seed, rounds = 0, count = 0, seconds = 0, findings = {} }
  end
  local made = assert(load(file:read "a", path, "t", {}))
  return made()
end

local function write_state(path, state)
  local lines = {}
  for _, key in ipairs { "next", "rounds", "count", "seconds" } do
    lines[#lines + 1] = ("%s = %q"):format(key, state[key])
  end
  for i, f in ipairs(state.findings) do
    lines[#lines + 1] = ("f%d = { seed = %d, text = %q }"):format(i, f.seed, f.text)
  end
  local file = assert(io.open(path .. ".new", "w"))
  assert(file:write("local t = {\n", table.concat(lines, ",\n"), "\n}\n",
    "t.findings = {}\nwhile t['f' .. #t.findings + 1] do\n",
    "  t.findings[#t.findings + 1] = t['f' .. #t.findings + 1]\nend\nreturn t\n"))
  assert(file:close())
  assert(os.rename(path .. ".new", path))
end

local function show(campaign, state)
  print(("%-20s %10s %14s %10s %10s"):format("campaign", "rounds", campaign.unit,
    "seconds", "findings"))
  print(("%-20s %10d %14d %10.0f %10d"):format(arg[1], state.rounds, state.count,
    state.seconds, #state.findings))
  for _, f in ipairs(state.findings) do
    print(("\n%s\n  repeat: scripts/campaign %s --round %d"):format(f.text, arg[1], f.seed))
  end
end

-- ---- the campaign ----------------------------------------------------------

local function run(campaign, state, path)
  local began, done_before = core.clock(), state.seconds
  local running, next_seed = {}, state.next
  local function more()
    return core.clock() - began < options.minutes * 60
  end
  while more() or #running > 0 do
    while more() and #running < options.cores do
      running[#running + 1] = start(campaign, next_seed)
      next_seed = next_seed + 1
    end
    -- In the order of seeds, so that the state is: all up to this one are done.
    local round = table.remove(running, 1)
    local count, findings = finish(campaign, round)
    for _, text in ipairs(findings) do
      state.findings[#state.findings + 1] = { seed = round.seed, text = text }
    end
    state.next, state.rounds = round.seed + 1, state.rounds + 1
    state.count, state.seconds = state.count + count, done_before + core.clock() - began
    write_state(path, state)
  end
end

if not arg[1] then return list() end
local campaign = load_campaign(arg[1])
read_options()
if options.program then return print(campaign.program or "plain") end
if options.round and not os.getenv "MRT_CAMPAIGN_ROUND" then
  -- Asked for by hand: the program that the campaign wants, its output as it comes.
  local _, _, code = os.execute(command_of(campaign, options.round))
  os.exit(code == 0 and 0 or 1)
end
if options.round then run_round(campaign, options.round) end
local folder = options.folder or "build/campaign/" .. arg[1]
core.make_folders(folder)
local path = folder .. "/state.lua"
local state = read_state(path)
local missing = campaign.missing and campaign.missing()
if missing then print(missing) end
if not options.table and not missing then
  local ok, err = pcall(run, campaign, state, path)
  if not ok and not tostring(err):find "interrupted" then error(err, 0) end
end
show(campaign, state)
os.exit(#state.findings == 0 and 0 or 1)
