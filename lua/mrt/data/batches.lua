--- batches.lua -- rows of tensors in mini-batches
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local loader = require "mrt.data.loader"
local options = require "mrt.options"

local function count_rows(tensors)
  if #tensors == 0 then
    core.fail("value", "batches", "a list of tensors wanted")
  end
  for i, t in ipairs(tensors) do
    if t:size(1) ~= tensors[1]:size(1) then
      core.fail("shape", "batches", ("tensor %d is %s, %d rows wanted")
        :format(i, t:type(), tensors[1]:size(1)))
    end
  end
  return tensors[1]:size(1)
end

-- A function that gives some rows of a tensor as a new one.
local function row_reader(tensor)
  local bytes, dtype, shape = tensor:bytes(), tensor.dtype, tensor:size()
  local width = #bytes // math.max(1, shape[1])
  return function(indices)
    local rows = {}
    for i, index in ipairs(indices) do
      rows[i] = bytes:sub(index * width + 1, (index + 1) * width)
    end
    local dims = table.move(shape, 1, #shape, 1, {})
    dims[1] = #indices
    return mrt.from_bytes(table.concat(rows), dtype, dims)
  end
end

---@class mrt.data.BatchOptions
---@field batch integer|"all"
---@field shuffle? boolean    default true
---@field seed? integer       default 0
---@field drop_last? boolean  default false

--- Make a loader of the rows of tensors that belong together.
---
---     local loader = data.batches({images, labels}, {batch = 128, seed = 1})
---     for x, y in loader:epoch() do step(x, y) end
---
--- `batch = "all"` is full-batch descent: every row, in order, each time.
---
--- Raises: tensors with different numbers of rows.
---@param tensors mrt.Tensor[]  `[rows, ...]` each
---@param given mrt.data.BatchOptions
---@return mrt.data.Loader
return function(tensors, given)
  local o = options.read("batches", given, { batch = options.none,
    shuffle = true, seed = 0, drop_last = false })
  local rows = count_rows(tensors)
  if o.batch == "all" then
    return loader.new { count = rows, batch = rows, shuffle = false, seed = 0,
      fetch = function() return table.unpack(tensors) end }
  end
  mrt.eval(tensors)
  local readers = {}
  for i, t in ipairs(tensors) do readers[i] = row_reader(t) end
  return loader.new { count = rows, batch = o.batch, shuffle = o.shuffle,
    seed = o.seed, drop_last = o.drop_last,
    fetch = function(indices)
      local out = {}
      for i, read in ipairs(readers) do out[i] = read(indices) end
      return table.unpack(out)
    end }
end
