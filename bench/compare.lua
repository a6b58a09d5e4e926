--- compare.lua -- mrt against PyTorch, in turn, on the same machine
---
---     mrt bench/compare.lua [--rounds 3] [--seconds 6] [case ...]
---
--- Runs step.lua and, where it can, torch_step.py alternately, and prints the
--- smallest of the medians of each with their ratio.  Two threads, f32.
---
--- SPDX-License-Identifier: MIT

local argparse = require "argparse"

local parser = argparse("mrt bench/compare.lua", "Compare with PyTorch.")
parser:argument("cases", "gpt gpt-small gpt2 mlp (default: all)"):args "*"
parser:option("--rounds", "times each"):default "3":convert(math.tointeger)
parser:option("--seconds", "of each measurement"):default "6":convert(tonumber)
parser:option("--python", "interpreter"):default "python3"
parser:option("--mrt", "program"):default(arg[-1])
local flags = parser:parse(arg)

local here = arg[0]:match "^(.*)/[^/]*$" or "."
local wanted = { gpt = 0.80, gpt2 = 0.65, mlp = 0.85, ["gpt-small"] = 0.5 }

-- The numbers and texts of one line of flat JSON; nil when nothing came.
local function measure(command)
  local pipe = io.popen(command .. " 2>/dev/null")
  local text = pipe:read "a"
  pipe:close()
  local result
  for key, value in text:gmatch '"([%w_]+)": ("?[^",}]*)' do
    result = result or {}
    result[key] = tonumber(value) or value:sub(2)
  end
  return result
end

local function better(best, new)
  if not best or (new and new.ms_med < best.ms_med) then return new end
  return best
end

local function run(case)
  local ours, theirs
  local rest = (" %s --seconds %g"):format(case, flags.seconds)
  for _ = 1, flags.rounds do
    ours = better(ours, measure(("MRT_THREADS=2 '%s' %s/step.lua%s")
      :format(flags.mrt, here, rest)))
    theirs = better(theirs, measure(("%s %s/torch_step.py%s")
      :format(flags.python, here, rest)))
  end
  return ours, theirs
end

local row = "%-10s %9s %9s %7s %7s %9s %9s %8s %9s"
print(row:format("case", "mrt ms", "torch ms", "ratio", "wanted", "mrt MB",
  "torch MB", "plan ms", "height"))
local version
for _, case in ipairs(#flags.cases > 0 and flags.cases
  or { "gpt-small", "mlp", "gpt", "gpt2" }) do
  local ours, theirs = run(case)
  if ours then
    local function number(t, key) return t and ("%.2f"):format(t[key]) or "-" end
    print(row:format(case, number(ours, "ms_med"), number(theirs, "ms_med"),
      theirs and ("%.2f"):format(ours.ms_med / theirs.ms_med) or "-",
      ("%.2f"):format(wanted[case]), number(ours, "rss_growth_MB"),
      number(theirs, "rss_growth_MB"), number(ours, "plan_ms"),
      ("%.3f"):format(ours.peak_MB / ours.lower_bound_MB)))
    version = version or theirs and theirs.library
  else
    print(("%-10s failed"):format(case))
  end
end
print(version and "against " .. version .. ", eager, two threads"
  or "PyTorch is not there: nothing to compare with")
