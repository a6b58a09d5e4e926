--- collectives.lua -- `mrt bench collectives`: ranks of one host add up.
--
--     mrt bench collectives [--ranks N] [--rounds N] [--device cuda] [--json FILE]
--
-- An allreduce of f32 in a compiled step, in place, by N ranks (default 2); beside
-- it a copy of as many bytes on all ranks at once, and MPI_Allreduce where mpicc and
-- mpirun are installed.  Each round (default 5) starts all anew, one after the
-- other; medians.  GB/s are bytes of one rank by the time; of the bus: what each rank
-- has to give and take of them, 2 (N - 1) / N.  With --device cuda each rank has the GPU
-- of its number, or shares the first one; FILE, which may be that of `mrt bench gpu`,
-- gets the rows as `collectives`.
--
-- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local save = require "mrt.report.save"
local dkjson = require "dkjson"

local SIZES = { cpu = { 4, 4096, 1 << 16, 1 << 20, 1 << 24, 1 << 26 },
  cuda = { 1 << 24, 1 << 26, 1 << 28 } }

local here = debug.getinfo(1, "S").source:match "^@(.*)collectives%.lua$"

local function lines_of(command)
  local pipe = assert(io.popen(command .. " 2>&1"))
  local text = pipe:read "a"
  local good = pipe:close()
  return good and text or nil, text
end

local function sizes_text(device)
  return table.concat(SIZES[device], " ")
end

-- Seconds by name and size, of lines "name size seconds".
local function note(times, text)
  for name, size, seconds in text:gmatch "(%a+) (%d+) (%S+)\n" do
    local key = name .. " " .. size
    times[key] = times[key] or {}
    table.insert(times[key], tonumber(seconds))
  end
end

local function median(list)
  if not list then return nil end
  table.sort(list)
  return list[#list // 2 + 1]
end

-- How to run MPI's part; nil where there is no MPI.
local function mpi_command(ranks)
  local program = os.tmpname()
  local built = lines_of(("mpicc -O2 -o '%s' '%smpi_allreduce.c'"):format(program, here))
  if not built then return nil, program end
  return ("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun -n %d "
    .. "--oversubscribe '%s' %s"):format(ranks, program, sizes_text "cpu"), program
end

local function count(text)
  local n = math.tointeger(tonumber(text))
  return n and n >= 1 and n or nil
end

local kinds = { ranks = count, rounds = count,
  device = function(text) return SIZES[text] and text end,
  json = function(text) return text end }

local function read(args)
  local o = { ranks = 2, rounds = 5, device = "cpu" }
  for i = 1, #args, 2 do
    local name, value = (args[i] or ""):match "^%-%-(%a+)$", args[i + 1]
    local kind = kinds[name or ""]
    local got = kind and value and kind(value)
    if not got then
      error(("mrt bench collectives: no option %s, or not this value"):format(args[i]), 0)
    end
    o[name] = got
  end
  return o
end

-- Bytes that each rank gives, and gets, at least.
local function on_the_bus(size, o) return 2 * (o.ranks - 1) / o.ranks * size end

-- What was measured for each size, in JSON's words.
local function rows_of(times, o)
  local rows = {}
  for _, size in ipairs(SIZES[o.device]) do
    local t = median(times["allreduce " .. size])
    rows[#rows + 1] = t and { bytes = size, ranks = o.ranks, ms = 1e3 * t,
      nccl = os.getenv "MRT_NCCL", bus_gb_s = on_the_bus(size, o) / t / 1e9 }
  end
  return rows
end

-- Beside what FILE has already.
local function save_rows(o, rows)
  local file = io.open(o.json)
  local all = file and dkjson.decode(file:read "a") or {}
  if file then file:close() end
  all.collectives = all.collectives or {}
  table.move(rows, 1, #rows, #all.collectives + 1, all.collectives)
  assert(save.write(o.json, dkjson.encode(all) .. "\n"))
end

local function show(times, o)
  print(("%10s %12s %12s %12s %10s %10s"):format("bytes", "allreduce", "copy", "MPI",
    "of copy", "of MPI"))
  local function ms(seconds) return seconds and ("%.4f ms"):format(1e3 * seconds) or "" end
  local function ratio(a, b) return a and b and ("%.2fx"):format(a / b) or "" end
  for _, size in ipairs(SIZES[o.device]) do
    local own, copy = median(times["allreduce " .. size]), median(times["copy " .. size])
    local mpi = median(times["mpi " .. size])
    print(("%10d %12s %12s %12s %10s %10s  %s"):format(size, ms(own), ms(copy), ms(mpi),
      ratio(copy, own), ratio(mpi, own), own and ("%.2f GB/s, %.2f of the bus"):format(
        size / own / 1e9, on_the_bus(size, o) / own / 1e9) or ""))
  end
  for _, name in ipairs { "barrier", "mpibarrier" } do
    local t = median(times[name .. " 0"])
    if t then print(("%s %.2f us"):format(name, 1e6 * t)) end
  end
end

return function(...)
  local o, times = read { ... }, {}
  local mpi, program
  if o.device == "cpu" then mpi, program = mpi_command(o.ranks) end
  local own = ("'%s' launch -n %d --no-prefix '%scollectives_rank.lua' %s %s"):format(
    core.program(), o.ranks, here, o.device, sizes_text(o.device))
  print(("%d ranks, %d rounds, medians%s"):format(o.ranks, o.rounds,
    mpi and "" or "; no MPI here"))
  for _ = 1, o.rounds do
    local text, why = lines_of(own)
    if not text then error("mrt bench collectives: " .. why, 0) end
    note(times, text)
    if mpi then note(times, lines_of(mpi) or "") end
  end
  if program then os.remove(program) end
  if o.json then save_rows(o, rows_of(times, o)) end
  show(times, o)
end
