--- info.lua -- `mrt info`: what this build and this machine have.
--
-- SPDX-License-Identifier: MIT

local arguments = require "mrt.cli.arguments"
local core = require "mrt.core"
local device = require "mrt.device"
local engine = require "mrt.communicator.engine"
local format = require "mrt.util.format"

local function line(name, text) print(string.format("%-16s %s", name, text)) end

local function rate(x) return x and format.rate(x) or "-" end

local function devices()
  print(("%-12s %10s %8s %8s %8s %8s  %s"):format("device", "memory", "bytes/s",
    "f32", "bf16", "swap/s", "what"))
  for _, p in ipairs(device.list()) do
    local swap = p.swap or {}
    print(("%-12s %10s %8s %8s %8s %8s  %s"):format(p.name,
      format.bytes(p.memory.capacity), rate(p.memory.bandwidth), rate(p.flops.f32),
      rate(p.flops.bf16), rate(swap.read or swap.bandwidth), p.about))
    print((" "):rep(62) .. p.source)
    for _, link in ipairs(p.links or {}) do
      print(("%62s%s/s of each rank to others: %s%s"):format("", rate(link.bandwidth), link.name,
        link.ranks and (", %d ranks"):format(link.ranks) or " beyond"))
    end
  end
  print "bytes/s of the memory, flop/s of large products, bytes/s from the swap tier"
  print '"h100+25gbe": nodes joined by Ethernet (10gbe, 25gbe, 100gbe), a card for all of a node'
end

local function measure()
  local profile, path, message = device.profile()
  io.write(require "mrt.device.cache".text(profile))
  print(path and "-- kept in " .. path or "-- not kept: " .. message)
end

-- A line for each kind of device that is beside the CPU.
local function list_kinds()
  for _, kind in ipairs(core.device_kinds()) do
    local found, name = pcall(device, kind)
    local own = core.info()
    local why = not found and tostring(name.message or name):gsub("^device: ", "")
      :gsub("^device [%w:]+: ", "")
    local what = own.libraries ~= "" and own.libraries or own.isa
    line("  " .. (found and name or kind), why
      or ("%s%d of them"):format(what ~= "" and what .. "; " or "", own.devices))
    device "cpu"
  end
end

-- Who would carry what ranks exchange, and why.
local function show_ranks()
  local ok, text = pcall(engine.describe)
  line("ranks", ok and text or tostring(text.message or text):gsub("^communicator: ", ""))
  local name, why = core.communicator.mpi()
  line("  MPI", name or why)
  line("  one host", "shared memory")
  line("  several hosts", name
    and "MPI where mpirun or srun --mpi=pmix started them; else mrt's own TCP mesh"
    or "mrt's own TCP mesh, as there is no MPI")
  line("  GPUs", "NCCL where each rank has a GPU of its own; else as above, by the host")
end

local function show()
  local info = core.info()
  line("mrt", info.version)
  line("Lua", (info.lua:gsub("^Lua ", "")))
  line("instruction set", info.isa)
  line("threads", info.threads)
  line("libraries", info.libraries ~= "" and info.libraries or "none")
  line("devices", "cpu")
  list_kinds()
  show_ranks()
  line("plans are for", device.current().name)
  line("available", format.bytes(device.available()))
end

return arguments.new {
  name = "mrt info",
  about = "What this build and this machine have.",
  { "--devices", "profiles that mrt plan --device takes" },
  { "--measure", "measure this machine, keep the profile, print it" },
  run = function(o)
    if o.devices then return devices() end
    if o.measure then return measure() end
    return show()
  end,
}
