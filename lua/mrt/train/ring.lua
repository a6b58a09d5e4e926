--- ring.lua -- what a step has used goes before the next one comes
---
--- A mini-batch and a step's results are of no use after the step, but Lua's
--- collector sees a few bytes where there are megabytes, and would let dozens of
--- them wait.  Where nobody else can have seen them (a mini-batch that a loader of
--- ours makes anew, the results of a compiled function, which gets stand-ins for
--- its arguments) they are freed, and the next mini-batch takes the same memory.
--- What a loader of the script's gives may be kept by the script: there the
--- collector is called when more than MOST bytes have come since it last ran.
---
--- SPDX-License-Identifier: MIT

local compile = require "mrt.compile"
local core = require "mrt.core"
local loader = require "mrt.data.loader"

local MOST <const> = 8 << 20 -- bytes

---@class mrt.train.Ring
---@field frees boolean    mini-batches are nobody else's
---@field compiled boolean
---@field least integer?   bytes in use after the last collection
local Ring = {}
Ring.__index = Ring

local ring = {}

---@param source any  a loader
---@param step any    what takes its mini-batches
---@return mrt.train.Ring
function ring.new(source, step)
  local compiled = compile.is(step)
  return setmetatable({ compiled = compiled,
    frees = compiled and loader.gives_fresh(source) }, Ring)
end

local function free(list)
  for i = 1, list.n or #list do
    if core.is_tensor(list[i]) then list[i]:free() end
    list[i] = nil
  end
end

--- A step has taken this mini-batch; the list is emptied.
---@param batch table
function Ring:batch(batch)
  if self.frees then return free(batch) end
  for i = 1, batch.n or #batch do batch[i] = nil end
  local now = core.info().bytes_now
  self.least = math.min(self.least or now, now)
  if now - self.least > MOST then
    collectgarbage()
    self.least = core.info().bytes_now
  end
end

--- These results of the step have been read.
---@param results table  packed
function Ring:results(results)
  if self.compiled then free(results) end
end

return ring
