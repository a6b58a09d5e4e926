--- sync.lua -- text that ranks tell each other, outside of plans
---
--- Of the ranks that have met (mrt.communicator.create); one that has met nobody
--- is alone, and each of these is then what its name says of one rank.  All ranks
--- call them in the same order.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

local together = {}

-- Of a communicator, or of all ranks: its number, this rank, how many there are.
local function place_in(comm)
  local number = comm and comm.number or core.communicator.world()
  local rank, size = core.communicator.info(number)
  return number, rank, size
end

--- Return this rank, from 0, and how many there are.
---@return integer rank
---@return integer size
function together.rank() return select(2, place_in()) end

--- Return the text that rank `root` gives.
---@param root integer
---@param text? string  of the root
---@param comm? mrt.Communicator  default: all ranks
---@return string
function together.broadcast(root, text, comm)
  local number, rank = place_in(comm)
  local own = rank == root and text or nil
  local size = core.communicator.bytes(number, "broadcast", root,
    own and ("<I8"):pack(#own) or 8)
  return core.communicator.bytes(number, "broadcast", root, own or (("<I8"):unpack(size)))
end

--- Return the texts of all ranks, of rank 0 first.
---@param text string
---@param comm? mrt.Communicator  default: all ranks
---@return string[]
function together.gather(text, comm)
  local texts, _, _, size = {}, place_in(comm)
  for r = 0, size - 1 do texts[r + 1] = together.broadcast(r, text, comm) end
  return texts
end

--- Call `f` on rank 0 while the others wait; all return its text, or raise what
--- it raised.
---@param f fun(): string
---@return string
function together.first(f)
  local rank, size = together.rank()
  if size == 1 then return f() end
  local ok, result = true, nil
  if rank == 0 then ok, result = pcall(f) end
  local said = together.broadcast(0, (ok and "=" or "!") .. tostring(result))
  if rank == 0 and not ok then error(result, 0) end
  if said:sub(1, 1) == "!" then core.fail("rank", nil, "rank 0: " .. said:sub(2)) end
  return said:sub(2)
end

-- How a call on this rank went: "=" well, "-" it gave nil and a message, "!" it raised.
local function outcome(ok, result, message)
  if not ok then return "!" .. tostring(result) end
  return result == nil and message ~= nil and "-" .. tostring(message) or "="
end

-- What the first rank says that says worst; whether all say the same.
local function worst(texts)
  local found, alike = 1, true
  local weight = { ["="] = 0, ["-"] = 1, ["!"] = 2 }
  for r, text in ipairs(texts) do
    if weight[text:sub(1, 1)] > weight[texts[found]:sub(1, 1)] then found = r end
    alike = alike and text == texts[1]
  end
  return texts[found], found - 1, alike
end

--- Call `f` on every rank; nobody goes on before all know how it went.  What it
--- raises on one rank all raise, naming the rank; where it gives nil and a message on
--- one, all return these.  Else each gets its own result.
---@generic T
---@param f fun(...: any): T?, string?
---@param ... any
---@return T? result
---@return string? message
function together.all(f, ...)
  local _, size = together.rank()
  if size == 1 then return f(...) end
  local ok, result, message = pcall(f, ...)
  local said, rank, alike = worst(together.gather(outcome(ok, result, message)))
  local how, text = said:sub(1, 1), said:sub(2)
  if how == "=" then return result end
  if not alike then text = ("rank %d: %s"):format(rank, text) end
  if how == "-" then return nil, text end
  if alike then error(result, 0) end
  core.fail("rank", nil, text)
end

return together
