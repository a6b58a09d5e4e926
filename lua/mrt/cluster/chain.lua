--- chain.lua -- kernels that a host launches one after the other
---
--- A host needs so long to launch each kernel, the device so long to compute it, and it
--- computes them in order.  A chain is three numbers: `host`, how long the host is busy;
--- `device`, how long the device computes; `until_done`, when the device has finished if both
--- begin at 0 with nothing queued.  With these, chains are joined without looking at their
--- kernels again ((max, +) algebra; Baccelli et al., "Synchronization and Linearity", 1992).
---
--- SPDX-License-Identifier: MIT

---@class mrt.cluster.Chain
---@field host number        seconds
---@field device number      seconds
---@field until_done number  seconds
local Chain = {}
Chain.__index = Chain

--- A chain of one kernel, or of none.
---@param host? number
---@param device? number
---@return mrt.cluster.Chain
function Chain.new(host, device)
  host, device = host or 0, device or 0
  return setmetatable({ host = host, device = device, until_done = host + device }, Chain)
end

--- This chain, then another.
---@param other mrt.cluster.Chain
---@return mrt.cluster.Chain
function Chain:then_(other)
  return setmetatable({ host = self.host + other.host, device = self.device + other.device,
    until_done = math.max(self.until_done + other.device, self.host + other.until_done) }, Chain)
end

--- This chain without another, which ends it.
---@param other mrt.cluster.Chain
---@return mrt.cluster.Chain
function Chain:less(other)
  return setmetatable({ host = self.host - other.host, device = self.device - other.device,
    until_done = math.max(self.until_done - other.device, self.host - other.host) }, Chain)
end

--- This chain `n` times.
---@param n integer
---@return mrt.cluster.Chain
function Chain:times(n)
  local out, part = Chain.new(), self
  while n > 0 do
    if n % 2 == 1 then out = out:then_(part) end
    part, n = part:then_(part), n // 2
  end
  return out
end

return Chain
