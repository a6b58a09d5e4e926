--- collectives.lua -- `mrt bench collectives`: ranks of one host add up.
--
--     mrt bench collectives [--ranks N] [--rounds N]
--
-- An allreduce of f32 in a compiled step, in place, by N ranks (default 2); beside
-- it a copy of as many bytes on all ranks at once, and MPI_Allreduce where mpicc and
-- mpirun are installed.  Each round (default 5) starts all anew, one after the
-- other; medians.  GB/s are bytes of one rank by the time.
--
-- SPDX-License-Identifier: MIT

local core = require "mrt.core"

local SIZES = { 4, 4096, 1 << 16, 1 << 20, 1 << 24, 1 << 26 }

local here = debug.getinfo(1, "S").source:match "^@(.*)collectives%.lua$"

local function lines_of(command)
  local pipe = assert(io.popen(command .. " 2>&1"))
  local text = pipe:read "a"
  local good = pipe:close()
  return good and text or nil, text
end

local function sizes_text()
  return table.concat(SIZES, " ")
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
    .. "--oversubscribe '%s' %s"):format(ranks, program, sizes_text()), program
end

local function read(args)
  local o = { ranks = 2, rounds = 5 }
  for i = 1, #args, 2 do
    local name = (args[i] or ""):match "^%-%-(%a+)$"
    local value = math.tointeger(tonumber(args[i + 1]))
    if not o[name or ""] or not value or value < 1 then
      error(("mrt bench collectives: no option %s, or no count"):format(args[i]), 0)
    end
    o[name] = value
  end
  return o
end

local function show(times)
  print(("%10s %12s %12s %12s %10s %10s"):format("bytes", "allreduce", "copy", "MPI",
    "of copy", "of MPI"))
  local function ms(seconds) return seconds and ("%.4f ms"):format(1e3 * seconds) or "" end
  local function ratio(a, b) return a and b and ("%.2fx"):format(a / b) or "" end
  for _, size in ipairs(SIZES) do
    local own, copy = median(times["allreduce " .. size]), median(times["copy " .. size])
    local mpi = median(times["mpi " .. size])
    print(("%10d %12s %12s %12s %10s %10s  %s"):format(size, ms(own), ms(copy), ms(mpi),
      ratio(copy, own), ratio(mpi, own), own and ("%.2f GB/s"):format(size / own / 1e9) or ""))
  end
  for _, name in ipairs { "barrier", "mpibarrier" } do
    local t = median(times[name .. " 0"])
    if t then print(("%s %.2f us"):format(name, 1e6 * t)) end
  end
end

return function(...)
  local o, times = read { ... }, {}
  local mpi, program = mpi_command(o.ranks)
  local own = ("'%s' launch -n %d --no-prefix '%scollectives_rank.lua' %s"):format(
    core.program(), o.ranks, here, sizes_text())
  print(("%d ranks, %d rounds, medians%s"):format(o.ranks, o.rounds,
    mpi and "" or "; no MPI here"))
  for _ = 1, o.rounds do
    local text, why = lines_of(own)
    if not text then error("mrt bench collectives: " .. why, 0) end
    note(times, text)
    if mpi then note(times, lines_of(mpi) or "") end
  end
  os.remove(program)
  show(times)
end
