--- kernels.lua -- how long a kernel of a shape takes on a device
---
---   product     A grid of tiles goes over the device's units in waves, the last of which
---               may be nearly empty; each tile pays for the start and the end of its loop.
---               Of a few tiles, and of loops cut in parts where tiles are few, the quickest
---               counts, as a library's choice would.  Nothing is quicker than its bytes.
---   attention   flops at a share of the peak, which narrow heads lower
---   memory      bytes at a share of the bandwidth, that of its class
---
--- Launches are not here: they overlap (chain.lua).
---
--- SPDX-License-Identifier: MIT

local kernels = {}

local ceil, max, min = math.ceil, math.max, math.min

local function rate_of(device, dtype)
  return (device.flops[dtype] or device.flops.bf16) * (device.clock or 1)
end

local width <const> = { f32 = 4, bf16 = 2, f16 = 2, f8 = 1, f4 = 0.5 }

-- Seconds of a product in one kind of tile, its loop cut in `cut` parts.
local function tiled(device, x, tile, cut)
  local tiles = x.count * ceil(x.m / tile[1]) * ceil(x.n / tile[2]) * cut
  local unit = rate_of(device, x.dtype) / device.units * tile[3]
  local one = 2 * tile[1] * tile[2] * (ceil(x.k / cut) + device.loop) / unit
  local waves = ceil(tiles / device.units)
  -- a tail of blocks that end apart is shorter than a whole wave
  waves = waves - (waves - tiles / device.units) * device.tail
  local parts = cut > 1 and 8 * x.count * x.m * x.n * cut / device.bandwidth or 0
  return waves * one + parts
end

local cuts <const> = { 1, 2, 3, 4, 8 }

local function product(device, x)
  local best = math.huge
  for _, tile in ipairs(device.tiles) do
    for _, cut in ipairs(cuts) do
      if cut == 1 or x.k / cut >= 256 then best = min(best, tiled(device, x, tile, cut)) end
    end
  end
  -- rows that do not begin on 16 bytes are loaded in pieces
  if (x.k * width[x.dtype] % 16 ~= 0 or x.n * width[x.dtype] % 16 ~= 0) then
    best = best * device.unaligned
  end
  return max(best, x.bytes / (device.bandwidth * device.streams.product))
end

local function attention(device, x)
  local share = device.attention[x.gradient and 2 or 1] * min(1, (x.width / 128) ^ device.narrow)
  return x.flops / (rate_of(device, "bf16") * share)
end

local function memory(device, x)
  local share = device.streams[x.class] or device.streams.other
  return x.bytes / (device.bandwidth * share)
end

local by_kind = { product = product, attention = attention, memory = memory }

--- Seconds that a node computes on a device, from its first to its last block.
---@param device mrt.cluster.Device
---@param node mrt.cluster.Node
---@return number
function kernels.seconds(device, node)
  return device.least + by_kind[node.kind](device, node)
end

return kernels
