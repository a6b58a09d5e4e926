--- mrt bench shard -- data parallel and ZeRO on 1 to 4 ranks, beside their formulas
--
--     mrt bench shard [--ranks 1,2,3,4] [--steps N] [--json FILE]
--
-- A small GPT is trained on the same global batches by every policy: in f32, its
-- gradients clipped; in bf16, weights gathered and gradients reduced in it; and so with
-- both retained, which on one rank is the same.  Told are:
--
--   bits       whether losses and final weights have the bits of ddp on as many ranks
--   loss, weights  how far they are, at most, from those of one rank
--   peak       planned bytes, and what the rank that is furthest from it took besides
--   sent       elements that ranks gave to others in a step, in parameters a rank,
--              times N/(N-1); and how many bytes were counted beyond the plan's: small
--              allreduces, which everyone computes, give each rank N-1 times their bytes
--   state      bytes a parameter of what persists and of gradients: the most bytes of
--              the plan's role `gradient` alive at once (those of activations too), but
--              with retain the variables, which persist, that hold them
--   time       of a step, the quickest by that of ddp
--
-- Then a GPT of 7.5 billion parameters on 64 ranks, beside figure 1 of the paper
-- (Rajbhandari et al., "ZeRO", 2020): planned only.
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local json = require "mrt.util.json"
local format = require "mrt.util.format"
local save = require "mrt.plan.report.save"

local here = debug.getinfo(1, "S").source:match "^@(.*)shard%.lua$"

local POLICIES <const> = { "ddp", "1", "2", "3", "fsdp" }
local VARIANTS <const> = { "f32", "bf16", "retain" }
local NAMES <const> = { ddp = "ddp", ["1"] = "zero 1", ["2"] = "zero 2", ["3"] = "zero 3",
  fsdp = "fsdp" }

-- Bytes a parameter in mixed precision, by the paper; of f32 nothing is said.
local FORMULAS <const> = {
  ddp = function() return 16 end,
  ["1"] = function(n) return 4 + 12 / n end,
  ["2"] = function(n) return 2 + 14 / n end,
  ["3"] = function(n) return 16 / n end,
}
FORMULAS.fsdp = FORMULAS["3"]

-- ---- running ------------------------------------------------------------------

-- What `mrt` prints when it is run so; raises what it says otherwise.
local function output_of(command, ...)
  local errors = os.tmpname()
  local pipe = assert(io.popen(("'%s' %s 2>'%s'"):format(core.program(),
    command:format(...), errors)))
  local text = pipe:read "a"
  local good = pipe:close()
  local file <close> = assert(io.open(errors))
  local message = file:read "a"
  os.remove(errors)
  if not good then error("mrt bench shard: " .. message, 0) end
  return text
end

-- Train on `n` ranks; what rank 0 says, with the final weights.
local function train(n, policy, variant, steps)
  local path = os.tmpname()
  local file = path .. ".safetensors"
  local text = output_of("launch --no-prefix -n %d '%sshard_rank.lua' %s %s %d '%s'", n,
    here, policy, variant, steps, file)
  local result = assert(json.decode(text))
  result.weights = assert(mrt.load(file))
  os.remove(file)
  os.remove(path)
  return result
end

-- ---- comparing ----------------------------------------------------------------

-- How far two runs are from one another at most: losses, weights.
local function distance(a, b)
  local loss, weight = 0, 0
  for i, x in ipairs(a.losses) do loss = math.max(loss, math.abs(x - b.losses[i])) end
  for name, w in pairs(a.weights) do
    weight = math.max(weight, (w - b.weights[name]):abs():max():item())
  end
  return loss, weight
end

-- The row of a run beside those of ddp and of one rank.
local function row_of(n, policy, variant, run, ddp, one)
  local row = { ranks = n, policy = policy, variant = variant, peak = run.peak,
    persistent = run.persistent, gradients = run.gradients, seconds = run.seconds,
    parameters = run.parameters, planned = run.planned, taken = run.taken,
    wire = run.wire, sent = run.sent }
  local loss, weight = distance(run, ddp)
  row.bits = loss == 0 and weight == 0
  row.loss, row.weight = distance(run, one)
  row.time = run.seconds / ddp.seconds
  row.off, row.all_sent = 0, 0
  for r = 1, n do
    local off = run.taken[r] - run.planned[r]
    if math.abs(off) > math.abs(row.off) then row.off = off end
    row.all_sent = row.all_sent + run.sent[r]
  end
  row.sent_off = math.tointeger((row.all_sent - n * run.wire + 0.5) // 1)
  local state = run.persistent + (variant ~= "retain" and run.gradients or 0)
  row.state, row.formula = state / run.parameters, FORMULAS[policy](n)
  local width = variant == "f32" and 4 or 2
  row.volume = n == 1 and 0 or row.all_sent / width / run.parameters / (n - 1)
  return row
end

-- ---- showing ------------------------------------------------------------------

local head <const> = "%5s %-7s %-7s %-5s %9s %9s %11s %6s %8s %9s %14s %6s"
local line <const> = "%5d %-7s %-7s %-5s %9.1e %9.1e %11s %+6d %7.3fP %9s %6.3f %s %5.2fx"

local function show(row)
  print(line:format(row.ranks, NAMES[row.policy], row.variant, row.bits and "same" or "OTHER",
    row.loss, row.weight, format.bytes(row.peak), row.off, row.volume,
    row.sent_off == 0 and "as plan" or ("%+d B"):format(row.sent_off), row.state,
    row.variant == "f32" and "       " or ("%7.3f"):format(row.state / row.formula), row.time))
end

local function compare_all(o)
  print(head:format("ranks", "policy", "", "bits", "loss", "weights", "peak", "off", "sent",
    "counted", "state  by paper", "time"))
  local rows, one = {}, {}
  for _, variant in ipairs(VARIANTS) do
    one[variant] = train(1, "none", variant, o.steps)
  end
  for _, n in ipairs(o.ranks) do
    for _, variant in ipairs(n > 1 and VARIANTS or { "f32", "bf16" }) do
      local ddp
      for _, policy in ipairs(POLICIES) do
        local run = train(n, policy, variant, o.steps)
        ddp = ddp or run
        rows[#rows + 1] = row_of(n, policy, variant, run, ddp, one[variant])
        show(rows[#rows])
      end
    end
  end
  return rows
end

-- ---- the paper's table ----------------------------------------------------------

local PAPER <const> = { [0] = 120, 31.4, 16.6, 1.9 }
local RANKS <const> = 64

local function paper()
  local rows = {}
  print(("\nper rank of %d, planned: scaled to 7.5e9 parameters"):format(RANKS))
  print "stage   GB   paper    off       sent"
  for stage = 0, 3 do
    local plan = assert(json.decode(output_of("plan --ranks %d --json '%sshard_paper.lua' %d",
      RANKS, here, stage)))
    local parameters = tonumber(plan.name:match "%d+")
    local row = { stage = stage, parameters = parameters, persistent = plan.persistent,
      wire = plan.wire, collectives = plan.collectives, paper = PAPER[stage] }
    row.gigabytes = plan.persistent / parameters * 7.5
    row.volume = plan.wire / 2 / parameters * RANKS / (RANKS - 1)
    rows[#rows + 1] = row
    print(("%5d %6.2f %6.1f %+5.1f %%  %7.3fP"):format(stage, row.gigabytes, row.paper,
      100 * (row.gigabytes / row.paper - 1), row.volume))
  end
  return rows
end

-- ---- all of it ------------------------------------------------------------------

local function read(args)
  local o = { ranks = { 1, 2, 3, 4 }, steps = 8 }
  local known = { json = function(word) return word end }
  function known.steps(word)
    local n = math.tointeger(tonumber(word))
    return n and n >= 1 and n or nil
  end
  function known.ranks(word)
    local list = {}
    for text in word:gmatch "[^,]+" do
      local n = math.tointeger(tonumber(text))
      if not n or n < 1 or n > 4 then return nil end
      list[#list + 1] = n
    end
    return #list > 0 and list or nil
  end
  for i = 1, #args, 2 do
    local name, value = args[i]:match "^%-%-(%a+)$", args[i + 1]
    o[name or ""] = known[name] and value and known[name](value)
      or error(("mrt bench shard: no option %s, or no value"):format(args[i]), 0)
  end
  return o
end

return function(...)
  local o, info = read { ... }, core.info()
  print(("%s, %d threads; %d steps"):format(info.isa, info.threads, o.steps))
  local result = { isa = info.isa, threads = info.threads, version = info.version,
    steps = o.steps, rows = compare_all(o), paper = paper() }
  if o.json then assert(save.write(o.json, json.encode(result) .. "\n")) end
end
