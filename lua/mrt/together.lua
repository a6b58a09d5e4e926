--- together.lua -- text that ranks tell each other, outside of plans
---
--- Of the ranks that have met (mrt.communicator.create); one that has met nobody
--- is alone, and each of these is then what its name says of one rank.  All ranks
--- call them in the same order.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

local together = {}

local function world()
  local number = core.communicator.world()
  local rank, size = core.communicator.info(number)
  return number, rank, size
end

--- Return this rank, from 0, and how many there are.
---@return integer rank
---@return integer size
function together.rank() return select(2, world()) end

--- Return the text that rank `root` gives.
---@param root integer
---@param text? string  of the root
---@return string
function together.broadcast(root, text)
  local number, rank = world()
  local own = rank == root and text or nil
  local size = core.communicator.bytes(number, "broadcast", root,
    own and ("<I8"):pack(#own) or 8)
  return core.communicator.bytes(number, "broadcast", root, own or (("<I8"):unpack(size)))
end

--- Return the texts of all ranks, of rank 0 first.
---@param text string
---@return string[]
function together.gather(text)
  local texts, _, size = {}, together.rank()
  for r = 0, size - 1 do texts[r + 1] = together.broadcast(r, text) end
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

return together
