--- group.lua -- which parameters share a bucket
---
--- SPDX-License-Identifier: MIT

local Bucket = require "mrt.shard.bucket"
local owners = require "mrt.optim.owners"

local group = {}

--- What a policy sees of a parameter, the i-th that a gradient is asked for.
---@param p mrt.Tensor
---@param i integer
---@return mrt.ShardParameter
function group.describe(p, i)
  return { name = p:get_name(), index = i, elements = p:numel(), bytes = p:nbytes(),
    type = p:type(), dim = p:dim() }
end

-- "blocks.3" of "blocks.3.attention.weight"; of others, their first word.
local function layer_of(p)
  local name = p:get_name() or ""
  return name:match "^(.-%.%d+)%f[%D]" or name:match "^[^.]*"
end

-- What parameters of one bucket have in common.
local function kind_of(p, stage, experts)
  local optimizer = owners.of(p)
  return table.concat({ stage, p:get_dtype(), experts and "experts" or "",
    optimizer and optimizer:update_kind(p) or "" }, " ")
end

-- Where a parameter draws random bits among all of its optimizer's, and where the next
-- one does; nil: none are drawn.
local function place_of(p, stochastic)
  local optimizer = owners.of(p)
  if not optimizer or not (stochastic or optimizer:draws(p)) then return nil end
  local place = optimizer:place(p)
  return place, place + (p:numel() + Bucket.BLOCK - 1) // Bucket.BLOCK * Bucket.BLOCK
end

--- Put parameters into buckets: of one kind, and closed where a layer ends, or where
--- random bits do not go on.
---@param params mrt.Tensor[]
---@param sharding mrt.Sharding
---@param ranks mrt.Communicator
---@param stochastic boolean?  whether parameters are rounded at random
---@return mrt.Bucket[]
function group.make(params, sharding, ranks, stochastic)
  local buckets, open = {}, {}
  local function close(kind)
    local list = open[kind]
    if not list then return end
    local o = list.experts and sharding.options.experts or sharding.options
    buckets[#buckets + 1] = Bucket.new(list, list.stage, list.experts and o.comm or ranks, o)
    open[kind] = nil
  end
  local kinds = {}
  for i, p in ipairs(params) do
    local stage, layer = sharding.stage_of(group.describe(p, i)), layer_of(p)
    local experts = sharding.options.experts and Bucket.of_experts[p]
    local kind = kind_of(p, stage, experts)
    local list, place, beyond = open[kind], place_of(p, stochastic)
    local full = list and list.layer ~= layer and list.bytes >= sharding.options.bucket
    if full or list and list.place ~= place then
      close(kind)
      list = nil
    end
    if not list then
      list = { stage = stage, experts = experts, bytes = 0 }
      if not kinds[kind] then kinds[#kinds + 1], kinds[kind] = kind, true end
      open[kind] = list
    end
    list[#list + 1], list.layer, list.place = p, layer, beyond
    list.bytes = list.bytes + p:nbytes()
  end
  for _, kind in ipairs(kinds) do close(kind) end
  table.sort(buckets, function(a, b) return a.serial < b.serial end)
  return buckets
end

return group
