--- peers.lua -- who else takes the training steps of `mrt bench step`
---
--- Ways to run a step in PyTorch (torch_step.py), or any command that prints one line of
--- JSON.  What a way says when it fails is kept, and it is not asked again if it has never
--- worked: torch.compile where there is no C++ compiler.
---
--- SPDX-License-Identifier: MIT

local cases = require "mrt.bench.cases"
local closest = require "mrt.util.closest"
local core = require "mrt.core"
local json = require "mrt.util.json"
local turns = require "mrt.bench.turns"

local peers = {}

-- Names as torch_step.py has them, and as a column shows them.
local ways = { { "eager", "eager" }, { "fused", "fused" }, { "compile", "compile" },
  { "channels-last", "cl" }, { "compile-channels-last", "comp-cl" } }
local heads = {}
peers.names = {}
for i, way in ipairs(ways) do peers.names[i], heads[way[1]] = way[1], way[2] end

local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

--- Names that a list asks for.
---@param text string
---@return string[]? names
---@return string? problem
function peers.read(text)
  local names = {}
  for name in text:gmatch "[^,]+" do
    if not heads[name] then
      local meant = closest(name, peers.names)
      return nil, ("no peer '%s'%s"):format(name, meant and ", did you mean " .. meant .. "?" or "")
    end
    names[#names + 1] = name
  end
  return names
end

local function torch(name, o)
  local script = package.searchpath("mrt.bench.peers", package.path)
    :gsub("peers%.lua$", "torch_step.py")
  local log = os.tmpname()
  local command = ("%s %s {case} --peer %s --threads %d --precision %s --seconds %g%s 2>%s")
    :format(quoted(o.python), quoted(script), name, core.info().threads, o.precision,
      o.seconds, o.cpu and " --cpu" or "", quoted(log))
  return { name = name, head = heads[name], command = command, log = log,
    images = name:find "channels%-last" ~= nil }
end

--- The peers of a run: name, head (of a column) and more.
---@param o {against: string?, peers: string[], python: string, precision: string,
---  seconds: number, cpu: boolean?}
---@return table[]
function peers.list(o)
  if o.against then return { { name = "other", head = "other", command = o.against } } end
  local probe = ("%s -c 'import torch' 2>/dev/null"):format(quoted(o.python))
  if #o.peers == 0 or o.precision == "fp8" or not os.execute(probe) then return {} end
  local list = {}
  for i, name in ipairs(o.peers) do list[i] = torch(name, o) end
  return list
end

--- Run a command and read its line of JSON; nil: there is none.
---@param command string
---@return table?
function peers.run(command)
  local pipe <close> = assert(io.popen(command))
  local line = pipe:read "a":match "({[^\n]*})"
  return line and json.decode(line)
end

-- The last that a failed command said.
local function complaint(peer)
  local file <close> = peer.log and io.open(peer.log)
  local last
  for line in file and file:lines() or function() end do last = line:match "%S.*" or last end
  return (last or "no measurement"):sub(1, 80)
end

local function is_for(peer, case)
  return not (peer.gone or peer.images and not cases.convolutional[case])
end

-- What came of it, noted.
local function note(peer, result)
  if result then
    peer.worked = true
  else
    peer.failed, peer.gone = complaint(peer), not peer.worked
  end
  return result
end

--- Measure a case; nil: it is not for this peer, or it failed (`peer.failed` says how).
---@param peer table
---@param case string
---@return table?
function peers.ask(peer, case)
  if not is_for(peer, case) then return nil end
  return note(peer, peers.run((peer.command:gsub("{case}", case))))
end

--- The same in turn: start it, and read what it says at its end.
---@param peer table
---@param case string
---@return mrt.bench.Turns?
function peers.start(peer, case)
  if not is_for(peer, case) then return nil end
  return turns.start(peer.command:gsub("{case}", case) .. " --in-turn")
end

---@param peer table
---@param process mrt.bench.Turns
---@return table?
function peers.finish(peer, process) return note(peer, process:finish()) end

--- Remove what peers have written.
---@param list table[]
function peers.close(list)
  for _, peer in ipairs(list) do
    if peer.log then os.remove(peer.log) end
  end
end

return peers
