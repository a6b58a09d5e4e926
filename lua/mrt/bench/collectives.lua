--- mrt bench collectives -- ranks add up, by memory and messages, beside a copy and MPI
--
--     mrt bench collectives [--ranks N] [--rounds N] [--device cuda] [--json FILE]
--
-- An allreduce of f32 in a compiled step, in place, by N ranks (default 2); beside
-- it a copy of as many bytes on all ranks at once, and MPI_Allreduce where mpicc and
-- mpirun are installed.  Then the same by messages: over TCP on this host, by pairs and
-- round the ring, and over MPI where its plug-in is built, with the bytes that a rank
-- gives away, in parts of 2(p-1)/p of the whole.  Each round (default 5) starts all
-- anew, one after the other; medians.  GB/s are bytes of one rank by the time; of the
-- bus: what each rank has to give and take of them, 2 (N - 1) / N.  With --device cuda
-- each rank has the GPU of its number, or shares the first one; FILE, which may be that
-- of `mrt bench gpu`, gets the rows as `collectives`.
--
-- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local save = require "mrt.plan.report.save"
local json = require "mrt.util.json"

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

-- Seconds by name and size, of lines "name size seconds"; `way` before the names.
local function note(times, text, way)
  for name, size, seconds in text:gmatch "(%a+) (%d+) (%S+)\n" do
    local key = (way and way .. " " or "") .. name .. " " .. size
    times[key] = times[key] or {}
    table.insert(times[key], tonumber(seconds))
  end
end

local function median(list)
  if not list then return nil end
  table.sort(list)
  return list[#list // 2 + 1]
end

local function mpirun(ranks)
  return ("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun -n %d "
    .. "--oversubscribe"):format(ranks)
end

-- How to run MPI's part; nil where there is no MPI.
local function mpi_command(ranks)
  local program = os.tmpname()
  local built = lines_of(("mpicc -O2 -o '%s' '%smpi_allreduce.c'"):format(program, here))
  if not built then return nil, program end
  return ("%s '%s' %s"):format(mpirun(ranks), program, sizes_text "cpu"), program
end

-- Ways by messages: name, what is put before `mrt SCRIPT`, algorithm.
local function ways_of(o, mpi)
  local launch = ("MRT_TRANSPORT=sockets '%s' launch -n %d --no-prefix"):format(
    core.program(), o.ranks)
  local ways = { { "sockets", launch, "pairwise" }, { "ring", launch, "ring" } }
  if mpi then
    table.insert(ways, { "mpi", ("MRT_TRANSPORT=mpi %s '%s'"):format(mpirun(o.ranks),
      core.program()), "pairwise" })
  end
  return ways
end

-- One round of a way, if it can be had.
local function run_way(times, way)
  note(times, lines_of(("%s '%scollectives_rank.lua' cpu %s %s"):format(way[2], here,
    way[3], sizes_text "cpu")) or "", way[1])
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
  local all = file and json.decode(file:read "a") or {}
  if file then file:close() end
  all.collectives = all.collectives or {}
  table.move(rows, 1, #rows, #all.collectives + 1, all.collectives)
  assert(save.write(o.json, json.encode(all) .. "\n"))
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

-- Times by messages; bytes sent, in parts of what both algorithms send.
local function show_ways(times, ways, ranks)
  local head = ("\n%10s"):format("bytes")
  for _, way in ipairs(ways) do head = head .. ("%14s %17s"):format(way[1], "sent") end
  print(head)
  for _, size in ipairs(SIZES.cpu) do
    local line = ("%10d"):format(size)
    for _, way in ipairs(ways) do
      local t = median(times[way[1] .. " allreduce " .. size])
      local sent = median(times[way[1] .. " sent " .. size])
      line = line .. (t and ("%11.4f ms %5.2f GB/s %6.3f"):format(1e3 * t, size / t / 1e9,
        sent / (2 * (ranks - 1) / ranks * size)) or (" "):rep(32))
    end
    print(line)
  end
end

-- All rounds: times by what was timed.
local function measure(o, own, mpi, ways)
  local times = {}
  for _ = 1, o.rounds do
    local text, why = lines_of(own)
    if not text then error("mrt bench collectives: " .. why, 0) end
    note(times, text)
    if mpi then note(times, lines_of(mpi) or "") end
    for _, way in ipairs(ways) do run_way(times, way) end
  end
  return times
end

return function(...)
  local o, mpi, program = read { ... }, nil, nil
  if o.device == "cpu" then mpi, program = mpi_command(o.ranks) end
  local own = ("'%s' launch -n %d --no-prefix '%scollectives_rank.lua' %s pairwise %s")
    :format(core.program(), o.ranks, here, o.device, sizes_text(o.device))
  print(("%d ranks, %d rounds, medians%s"):format(o.ranks, o.rounds,
    mpi and "" or "; no MPI here"))
  local ways = o.device == "cpu" and ways_of(o, mpi) or {}
  local times = measure(o, own, mpi, ways)
  if program then os.remove(program) end
  if o.json then save_rows(o, rows_of(times, o)) end
  show(times, o)
  if #ways > 0 then show_ways(times, ways, o.ranks) end
end
