--- mrt bench operators -- every function that PyTorch has too, beside PyTorch
--
--     mrt bench operators [--only WORDS] [--rounds N] [--python PROGRAM] [--sizes N,N]
--
-- The rows of spec/torch/ that have a `size`, at 10^3, 10^5 and 10^7 elements: the
-- result computed once, its inputs being there.  Each row is timed for a moment here
-- and then there, in two processes that take turns, N rounds (3); a figure is the
-- least of all, in microseconds of wall time.  WORDS: names, with commas.  Last: the
-- geometric mean of the ratios by size, and what is above 2, with the reasons that
-- spec/torch/slower.lua states.
--
-- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local reasons = require "torch.slower"
local vocabulary = require "support.vocabulary"

local BATCH <const>, BATCHES <const> = 0.008, 4 -- seconds of a batch; batches of a round

local SIDE <const> = [[
import math, sys, time, warnings
import torch
import torch.nn.functional as F
warnings.simplefilter("ignore")
torch.set_num_threads(int(sys.argv[1]))
torch.manual_seed(1)
KINDS = {"f32": torch.float32, "f64": torch.float64, "i64": torch.int64, "i32": torch.int32,
         "u8": torch.uint8, "bool": torch.bool, "bf16": torch.bfloat16, "f16": torch.float16}
def tensor(dims, dtype, low, high):
    d = KINDS[dtype]
    if d == torch.bool: return torch.rand(dims) < 0.5
    if d.is_floating_point: return (torch.rand(dims) * (high - low) + low).to(d)
    return torch.randint(int(low), max(int(high), int(low) + 1), dims, dtype=d)
held = None
for line in sys.stdin:
    number, batch, batches, call, made = line.rstrip("\n").split("\t")
    try:
        if held is None or held[0] != number:
            names = {"torch": torch, "F": F, "math": math}
            for letter, t in zip("abcdefghijklmnopqrstuvwxyz", eval(made)): names[letter] = t
            held = (number, eval("lambda: " + call, names))
        f = held[1]
        def some(n):
            start = time.perf_counter()
            for _ in range(n): f()
            return (time.perf_counter() - start) / n
        with torch.no_grad():
            n = 1
            first = some(1)
            while n * first < float(batch): n, first = n * 2, min(first, some(n * 2))
            again = int(batches) if first < 1 else 0
            print(min([first] + [some(n) for _ in range(again)]), flush=True)
    except Exception as e:
        print("- " + str(e).split("\n")[0][:100], flush=True)
]]

-- ---- cases -------------------------------------------------------------------

local function literal_tensor(spec, dtype)
  dtype = spec.dtype or spec.integer and "i64" or dtype
  local low, high = spec.low or -1, spec.high or 1
  if spec.integer then low, high = 0, spec.integer end
  if dtype:find "^[iu]" and not spec.integer and high - low <= 2 then
    low, high = dtype == "u8" and 0 or low * 5, high * 5
  end
  return ("tensor((%s,), '%s', %s, %s)"):format(table.concat(spec.dims, ","), dtype, low, high)
end

local function made_here(spec, dtype)
  dtype = spec.dtype or spec.integer and "i64" or dtype
  local low, high = spec.low or -1, spec.high or 1
  if spec.integer then return mrt.randint(0, math.max(spec.integer, 1), spec.dims):to(dtype) end
  if dtype == "bool" then return mrt.rand(spec.dims):lt(0.5) end
  if dtype:find "^[iu]" then
    if high - low <= 2 then low, high = dtype == "u8" and 0 or low * 5, high * 5 end
    return mrt.randint(low, math.max(high, low + 1), spec.dims):to(dtype)
  end
  return (mrt.rand(spec.dims) * (high - low) + low):to(dtype)
end

-- A row at a size: a case as vocabulary.case makes it, of tensors drawn by the core.
local function case_of(row, n)
  local dtype = "f32"
  local drawn = row.size(n)
  if not drawn then return nil end
  local case, made = { row = row, values = {}, tensors = {} }, {}
  local function add(spec)
    made[#made + 1] = literal_tensor(spec, dtype)
    case.tensors[#case.tensors + 1] = made_here(spec, dtype)
    return case.tensors[#case.tensors]
  end
  for _, argument in ipairs(row.args) do
    local name, kind, value = argument[1], argument[2], drawn[argument[1]]
    if value ~= nil and kind == "tensor" then
      value = add(value)
    elseif value ~= nil and kind == "tensors" then
      local list = {}
      for i, spec in ipairs(value) do list[i] = add(spec) end
      value = list
    end
    case.values[name] = value
  end
  for name, value in pairs(drawn) do
    if name:sub(1, 1) == "_" then case.values[name] = value end
  end
  if #case.tensors > 0 then mrt.eval(case.tensors) end
  case.made = "[" .. table.concat(made, ", ") .. "]"
  return case
end

-- ---- times -------------------------------------------------------------------

local clock = core.clock

-- Once, whatever it returns; then what is timed: the tensors that it returns, computed.
local function prepared(case)
  local call = vocabulary.bind(case)
  local first = call()
  if mrt.is_tensor(first) then
    mrt.eval(first)
    return function() mrt.eval(call()) end
  elseif type(first) == "table" then
    return function() mrt.eval(call()) end
  end
  return call
end

local function time_here(case)
  local compute = prepared(case)
  local function some(n)
    local start = clock()
    for _ = 1, n do compute() end
    return (clock() - start) / n
  end
  local n, least = 1, some(1)
  while n * least < BATCH do
    n = n * 2
    least = math.min(least, some(n))
  end
  for _ = 1, least < 1 and BATCHES or 0 do least = math.min(least, some(n)) end
  return least
end

-- A process of PyTorch's that is asked one case at a time.
local function other_side(python, threads)
  local path = os.tmpname()
  local program <close> = assert(io.open(path, "w"))
  program:write(SIDE)
  program:flush()
  local answers = os.tmpname()
  os.remove(answers)
  assert(os.execute("mkfifo '" .. answers .. "'"))
  local pipe = assert(io.popen(("'%s' '%s' %d > '%s'"):format(python, path, threads, answers), "w"))
  local from = assert(io.open(answers))
  os.remove(answers)
  local side = {}
  function side.time(number, case)
    pipe:write(("%d\t%g\t%d\t%s\t%s\n"):format(number, BATCH, BATCHES,
      vocabulary.python(case), case.made))
    pipe:flush()
    local line = from:read "l" or "- it ended"
    return tonumber(line), line
  end
  function side.close()
    pipe:close()
    from:close()
    os.remove(path)
  end
  return side
end

-- ---- the table ---------------------------------------------------------------

local function read(args)
  local o = { rounds = 3, python = os.getenv "PYTHON" or "python3", only = "",
    sizes = "1000,100000,10000000" }
  for i = 1, #args, 2 do
    local name, value = args[i]:match "^%-%-(%l+)$", args[i + 1]
    if not (value and o[name]) then
      error("mrt bench operators: " .. args[i] .. " cannot be " .. tostring(value), 0)
    end
    o[name] = name == "rounds" and math.tointeger(value) or value
  end
  return o
end

local function chosen(o)
  local list = {}
  for _, row in ipairs(vocabulary.rows()) do
    local name = row.torch:match "[^.]+$"
    if row.size and not row.absent
      and (o.only == "" or ("," .. o.only .. ","):find("," .. name .. ",", 1, true)) then
      list[#list + 1] = row
    end
  end
  return list
end

local function measure(row, n, number, side, rounds)
  local ok, case = pcall(case_of, row, n)
  if not ok or not case then return nil, nil, not ok and tostring(case) or nil end
  local here, there, why = math.huge, side and math.huge or nil, nil
  for _ = 1, rounds do
    local fine, seconds = pcall(time_here, case)
    if not fine then return nil, there, tostring(seconds) end
    here = math.min(here, seconds)
    if there then
      local other, said = side.time(number, case)
      if not other then there, why = nil, said else there = math.min(there, other) end
    end
  end
  return here, there, why
end

local function show(seconds) return seconds and ("%.1f"):format(seconds * 1e6) or "-" end

local function show_slow(slow)
  local names = {}
  for name in pairs(slow) do names[#names + 1] = name end
  table.sort(names)
  if #names > 0 then print "above 2:" end
  for _, name in ipairs(names) do
    print(("  %-32s %s  %s"):format(name, table.concat(slow[name], ", "),
      reasons[name] or "(no reason stated)"))
  end
end

return function(...)
  local o = read { ... }
  local info = core.info()
  local has = os.execute(("'%s' -c 'import torch' 2>/dev/null"):format(o.python))
  local side = has and other_side(o.python, info.threads) or nil
  print(("%s, %d threads; least of %d rounds, microseconds; the other side: %s"):format(info.isa,
    info.threads, o.rounds, has and "PyTorch" or "none"))
  print(("%-28s %9s %12s %12s %8s"):format("", "elements", "here", "PyTorch", "ratio"))
  local number, logs, slow = 0, {}, {}
  for _, row in ipairs(chosen(o)) do
    for size in o.sizes:gmatch "%d+" do
      number = number + 1
      local here, there, why = measure(row, math.tointeger(size), number, side, o.rounds)
      if here or there or why then
        local name = row.torch:gsub("^torch%.", "")
        local ratio = here and there and here / there
        print(("%-28s %9s %12s %12s %8s%s"):format(name, size, show(here), show(there),
          ratio and ("%.2f"):format(ratio) or "-", why and "  " .. why:sub(1, 100) or ""))
        if ratio then
          local sum = logs[size] or { 0, 0 }
          logs[size] = { sum[1] + math.log(ratio), sum[2] + 1 }
          if ratio > 2 then
            slow[name] = slow[name] or {}
            table.insert(slow[name], ("%.2f at %s"):format(ratio, size))
          end
        end
      end
      collectgarbage()
    end
  end
  if side then side.close() end
  for size in o.sizes:gmatch "%d+" do
    local sum = logs[size]
    if sum then
      print(("geometric mean at %s elements: %.2f of %d"):format(size, math.exp(sum[1] / sum[2]),
        sum[2]))
    end
  end
  show_slow(slow)
end
