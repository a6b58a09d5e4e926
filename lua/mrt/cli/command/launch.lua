--- launch.lua -- `mrt launch [options] script.lua [args]`: local ranks.
--
-- Starts the script n times with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,
-- MASTER_ADDR and MASTER_PORT in the environment (and MRT_RUN, a token that only
-- the ranks of this run know), and prints what they print, each line with
-- its rank before it.  When one fails, the others have a few seconds to end by
-- themselves, which they do with an error that names it; then they are ended.  The
-- exit status is that of the rank that failed first.
--
-- On several hosts each runs its own, with --nodes and --node as torchrun has them: node
-- k has the ranks from k * n on, which meet at MASTER_ADDR and MASTER_PORT, and know each
-- other by MRT_RUN.  Who fails is told by the ranks themselves, by their communicators.
--
-- SPDX-License-Identifier: MIT

local arguments = require "mrt.cli.arguments"
local core = require "mrt.core"

local function complain(text, ...)
  io.stderr:write("mrt launch: ", text:format(...), "\n")
  return 1
end

-- ---- what they print --------------------------------------------------------

-- Gives whole lines of one rank to `out`.
local function printer(out, prefix)
  local rest = ""
  return function(text)
    if not text then -- the end
      if rest ~= "" then out:write(prefix, rest, "\n") end
      rest = ""
      return
    end
    rest = rest .. text
    local last = rest:match ".*()\n"
    if not last then return end
    for line in rest:sub(1, last):gmatch "([^\n]*)\n" do out:write(prefix, line, "\n") end
    rest = rest:sub(last + 1)
    out:flush()
  end
end

-- ---- the ranks --------------------------------------------------------------

-- What only the ranks of one run know.
local function new_token()
  local file <close> = assert(io.open("/dev/urandom", "rb"))
  return (file:read(16):gsub(".", function(c) return ("%02x"):format(c:byte()) end))
end

local function environment(here, o, run)
  local rank, list = o.node * o.ranks + here, {}
  for name, value in pairs { RANK = rank, WORLD_SIZE = o.nodes * o.ranks, LOCAL_RANK = here,
    LOCAL_WORLD_SIZE = o.ranks, MASTER_ADDR = run.address, MASTER_PORT = run.port,
    MRT_RUN = run.token, MRT_RESTART = run.attempt,
    MRT_LISTENER = rank == 0 and run.listener or "" } do
    list[#list + 1] = ("%s=%s"):format(name, value)
  end
  if not os.getenv "MRT_THREADS" then -- the ranks share the cores
    list[#list + 1] = ("MRT_THREADS=%d"):format(math.max(1, core.info().threads // o.ranks))
  end
  return list
end

-- Where they meet, and by which word.  Of one host: listening before anybody is told
-- where; rank 0 alone inherits that, so that the others hear of its end.
local function meeting(o, attempt)
  if o.nodes > 1 then
    return { attempt = attempt, address = os.getenv "MASTER_ADDR",
      port = os.getenv "MASTER_PORT" or "29500", token = os.getenv "MRT_RUN" or "" }
  end
  local run = { attempt = attempt, address = "127.0.0.1", token = new_token() }
  run.listener, run.port = core.listen_here()
  if not run.listener then error("no free port", 0) end
  return run
end

local function start(o, attempt)
  local ranks, run = {}, meeting(o, attempt)
  for here = 0, o.ranks - 1 do
    local rank = o.node * o.ranks + here
    local process, message = core.spawn(o.command, environment(here, o, run))
    if rank == 0 and run.listener then core.close_listener(run.listener) end
    if not process then error(message, 0) end
    local prefix = o.prefix and ("[%d] "):format(rank) or ""
    ranks[here + 1] = { process = process, rank = rank,
      printer(io.stdout, prefix), printer(io.stderr, prefix) }
  end
  return ranks
end

-- Print what is there; true when something was.
local function drain(ranks)
  local found = false
  for _, r in ipairs(ranks) do
    for which = 1, 2 do
      local text = not r["closed" .. which] and r.process:read(which)
      if text == nil then r["closed" .. which] = true end
      if text ~= false and text ~= "" then r[which](text) end
      found = found or text and text ~= ""
    end
  end
  return found
end

local function running(ranks)
  local list = {}
  for _, r in ipairs(ranks) do
    if not r.how then
      r.how, r.code = r.process:status()
      if not r.how then list[#list + 1] = r end
    end
  end
  return list
end

local SAVING <const> = 60 -- seconds that a run has after Ctrl-C to save itself
local FOR_ANOTHER = 75 -- status of a rank that another one ended

-- Who was killed comes first, who failed for another last: several may have ended
-- since somebody looked.
local function failure(ranks)
  local found, other
  for _, r in ipairs(ranks) do
    if r.how == "signal" then return r end
    if r.how and r.code == FOR_ANOTHER then
      other = other or r
    elseif r.how and r.code ~= 0 then
      found = found or r
    end
  end
  return found or other
end

-- Whom to blame by now: until they are asked to end, one that has failed for
-- another may be followed by that one.
local function blame(failed, ranks)
  if failed and (failed.code ~= FOR_ANOTHER or failed.asked) then return failed end
  local found = failure(ranks)
  if failed and found then found.deadline = failed.deadline end
  return found
end

-- One has failed: the others have some time, then are asked to end, then made to.
local function press(left, failed, o)
  local now = core.clock()
  failed.deadline = failed.deadline or now + o.grace
  if now <= failed.deadline then return end
  for _, r in ipairs(left) do r.process:kill(failed.asked) end
  failed.deadline, failed.asked = now + 2, true
end

-- Run them to their end: nil, or the rank that failed first (or `failed`).
local function supervise(ranks, o, failed)
  local left = running(ranks)
  while #left > 0 do
    failed = blame(failed, ranks)
    if failed then press(left, failed, o) end
    local list = {}
    for i, r in ipairs(left) do list[i] = r.process end
    core.wait_for_any(list, failed and 0.05 or 0.2)
    drain(ranks)
    left = running(ranks)
  end
  while drain(ranks) do end
  for _, r in ipairs(ranks) do r[1]() r[2]() end
  return blame(failed, ranks)
end

local function describe(r)
  if r.how == "signal" then return ("was ended by signal %d"):format(r.code) end
  return ("ended with status %d"):format(r.code)
end

-- What is wrong with the options of several hosts; nil: nothing.
local function problem_of(o)
  if o.nodes == 1 and o.node > 0 then return ("--node %d, but --nodes is 1"):format(o.node) end
  if o.node >= o.nodes then
    return ("--node %d, 0 to %d wanted"):format(o.node, o.nodes - 1)
  elseif o.nodes > 1 and not os.getenv "MASTER_ADDR" then
    return "--nodes wants MASTER_ADDR, the host of node 0, in the environment"
  elseif o.nodes > 1 and o.restarts > 0 then
    return "--restarts is of one host: on several, what started the nodes starts them anew"
  end
end

local function run(o)
  local problem = problem_of(o)
  if problem then return complain("%s", problem) end
  o.command = { assert(core.program()), table.unpack(o.rest) }
  o.prefix = not o.no_prefix
  for attempt = 0, o.restarts do
    local ranks = start(o, attempt)
    local ok, failed = pcall(supervise, ranks, o)
    if not ok then -- Ctrl-C, which came to the ranks too: they end by themselves
      if not tostring(failed):find("interrupted!", 1, true) then error(failed, 0) end
      supervise(ranks, o, { deadline = core.clock() + math.max(o.grace, SAVING) })
      return 128 + 2
    end
    if not failed then return 0 end
    complain("rank %d (pid %d) %s%s", failed.rank, failed.process:pid(), describe(failed),
      attempt < o.restarts and "; all start anew" or "")
    if attempt == o.restarts then
      return failed.how == "signal" and 128 + failed.code or failed.code
    end
  end
end

return arguments.new {
  name = "mrt launch",
  about = "Run a script as ranks on this machine, which compute together.",
  script = "script.lua [args]",
  { "-n, --ranks N", "ranks on this host", default = 2, least = 1 },
  { "--nodes N", "hosts, each of which runs this command; the environment has MASTER_ADDR, the "
    .. "host of node 0, MASTER_PORT, and MRT_RUN, a text that only they know", default = 1,
    least = 1 },
  { "--node N", "which of them this one is, from 0", default = 0, least = 0 },
  { "--restarts N", "start all of them anew, at most so often, when one has failed; a script goes "
    .. "on from its last snapshot (train.run { snapshots = FOLDER, resume = true })", default = 0,
    least = 0 },
  { "--grace X", "seconds that the others have to end when one has failed", default = 5, least = 0,
    most = 1e9 },
  { "--no-prefix", "print lines as they come, without the rank" },
  more = "The exit status is that of the rank that failed first, 128 + N of one that signal N "
    .. "ended.",
  run = run,
}
