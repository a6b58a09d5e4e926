--- batches.lua -- rows of tensors in mini-batches
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local loader = require "mrt.data.loader"
local options = require "mrt.util.options"
local rows_of = require "mrt.data.rows"

local function count_rows(columns)
  if type(columns) ~= "table" or #columns == 0 then
    core.fail("value", "batches", "a list of tensors wanted")
  end
  for i, t in ipairs(columns) do
    if not core.is_tensor(t) and not rows_of.is(t) then
      core.fail("value", "batches", ("element %d of the list is a %s, a tensor or rows wanted")
        :format(i, type(t)))
    end
    if core.is_tensor(t) and t:dim() == 0 then
      core.fail("shape", "batches", ("tensor %d is %s, rows wanted"):format(i, t:type()))
    end
    if t:size(1) ~= columns[1]:size(1) then
      core.fail("shape", "batches", ("tensor %d is %s, %d rows wanted")
        :format(i, t:type(), columns[1]:size(1)))
    end
  end
  return columns[1]:size(1)
end

-- A function that gives some rows of a tensor as a new one.  They are read from
-- its own bytes: a handle of ours keeps them when the script lets its own go.  A
-- variable's numbers are those it has now.
local function row_reader(tensor)
  local held = core.same(core.is_variable(tensor) and tensor:copy() or tensor)
  mrt.eval(held)
  return function(indices) return core.rows(held, indices) end
end

---@class mrt.data.BatchOptions
---@field batch integer|"all"
---@field shuffle? boolean    default true
---@field seed? integer       default 0
---@field drop_last? boolean  default false

-- Whole columns as tensors.
local function whole(columns)
  local out = {}
  for i, t in ipairs(columns) do
    out[i] = core.is_tensor(t) and t or rows_of.present(t:tensor())
  end
  return table.unpack(out)
end

-- Functions that give some rows of each column, and those that are told which
-- come next.
local function readers_of(columns)
  local readers, expecting = {}, {}
  for i, t in ipairs(columns) do
    if core.is_tensor(t) then
      readers[i] = row_reader(t)
    else
      readers[i] = function(indices) return rows_of.present(t:read(indices)) end
      expecting[#expecting + 1] = t
    end
  end
  return readers, expecting
end

--- Make a loader of the rows of tensors, or of files, that belong together.
---
---     local loader = data.batches({images, labels}, {batch = 128, seed = 1})
---     for x, y in loader:epoch() do step(x, y) end
---
--- Rows of files (data.idx, data.cifar10, data.npy) are read from the disk when
--- they are wanted; those of the next mini-batch are read in the background while
--- this one is worked on.
---
--- `batch = "all"` is full-batch descent: every row, in order, each time.
---
--- Raises: tensors with different numbers of rows.
---@param columns (mrt.Tensor|mrt.data.Rows)[]  `[rows, ...]` each
---@param given mrt.data.BatchOptions
---@return mrt.data.Loader
return function(columns, given)
  local o = options.read("batches", given, { batch = options.none,
    shuffle = true, seed = options.of("integer", 0), drop_last = false })
  local rows = count_rows(columns)
  if o.batch == "all" then
    return loader.new { count = rows, batch = rows, shuffle = false, seed = 0,
      fetch = function() return whole(columns) end }
  end
  local readers, expecting = readers_of(columns)
  return loader.new { count = rows, batch = o.batch, shuffle = o.shuffle,
    seed = o.seed, drop_last = o.drop_last, fresh = true,
    expect = #expecting > 0 and function(indices)
      for _, t in ipairs(expecting) do t:expect(indices) end
    end or nil,
    fetch = function(indices)
      local out = {}
      for i, read in ipairs(readers) do out[i] = read(indices) end
      return table.unpack(out)
    end }
end
