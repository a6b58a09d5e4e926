--- saved.lua -- what the file of a snapshot says, looked at before it is believed
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local json = require "mrt.util.json"
local together = require "mrt.communicator.sync"

local saved = {}

-- 2: with checksums of everything, which `mrt.load` compares; 1: without.
saved.FORMAT = "2"
local formats = { ["1"] = true, ["2"] = true }

-- More ranks than this write no snapshot.
local MOST_RANKS <const> = 1 << 16

local function is_count(x, least) return math.type(x) == "integer" and x >= least end

-- How many ranks a text says; 0 where there is none, nil where it is none.
local function ranks_of(text)
  if not text then return 0 end
  local n = text:find "^%d+$" and math.tointeger(tonumber(text))
  return n and n >= 1 and n <= MOST_RANKS and n or nil
end

local function are_parts(parts)
  if type(parts) ~= "table" then return false end
  for name, values in pairs(parts) do
    if type(name) ~= "string" or type(values) ~= "table" then return false end
  end
  return true
end

-- What is wrong with what a rank has said of itself; nil: nothing.
local function problem_of(about)
  if type(about) ~= "table" then return "its state cannot be read" end
  if not is_count(about.step, 0) then return "its step is no step" end
  local random = about.random
  if type(random) ~= "table" or math.type(random.seed) ~= "integer"
    or math.type(random.next) ~= "integer" then
    return "its random numbers have no place"
  end
  return not are_parts(about.parts) and "its parts are no parts" or nil
end

---@class mrt.Saved
---@field tensors table<string, mrt.Tensor>
---@field about {step: integer, random: table, parts: table<string, table>}  of this rank
---@field pieces integer   files of pieces; 0: there are none
---@field token string?    of all files of this snapshot
---@field summed boolean   its files have checksums

-- What a rank's file says beside tensors; nil: nothing.
local function state_of(metadata, rank)
  return json.decode(rank > 0 and metadata["state." .. rank] or metadata.state or "")
end

--- Read a snapshot's file.
---
--- Returns nil: it cannot be read, is damaged, or is of other ranks.
---@param path string
---@return mrt.Saved? found
---@return string? message
function saved.read(path)
  local tensors, metadata = mrt.load(path)
  if not tensors then return nil, metadata end
  local rank, format = together.rank(), metadata["mrt.snapshot"]
  local function refuse(text, ...) return nil, path .. ": " .. text:format(...) end
  if not formats[format] then return refuse "no snapshot of a training run" end
  local summed = format ~= "1"
  if summed and not metadata["mrt.crc32"] then return refuse "its checksums are gone" end
  local ranks, pieces = ranks_of(metadata.ranks), ranks_of(metadata.pieces)
  if not ranks or not pieces then return refuse "its ranks cannot be counted" end
  if ranks > 0 and rank >= ranks then
    return refuse("saved by %d ranks, each at a place of its own; this is rank %d", ranks,
      rank)
  end
  local about = state_of(metadata, rank)
  local problem = problem_of(about)
  if problem then return refuse("%s", problem) end
  return { tensors = tensors, about = about, pieces = pieces, token = metadata.token,
    summed = summed }
end

return saved
