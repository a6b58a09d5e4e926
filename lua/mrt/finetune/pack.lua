--- pack.lua -- samples side by side in rows of the context, as mini-batches
---
--- The longest sample that still fits goes into a row next (best fit decreasing), among
--- those of one length the one that comes first by the seed.  Each has a number in its
--- row, its *segment*: attention stays within it, and its positions begin anew.
---
--- A mini-batch is tokens, targets, segments and positions, i32 `[batch, context]` each;
--- targets that are not learned are `ignored`, as nn.cross_entropy leaves them out.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local loader = require "mrt.data.loader"
local options = require "mrt.util.options"
local random = require "mrt.data.random"

local pack = {}

local WIDE <const> = 4 -- bytes of an id

--- Targets that do not count.
pack.IGNORED = -100

local function positions_of(sample) return #sample.ids // WIDE - 1 end

-- Samples by how many positions they take; of one length in the order of the seed,
-- the last one first to go.
local function by_length(samples, seed)
  local shelves, order = {}, random.order(#samples, seed)
  for i = #samples - 1, 0, -1 do
    local sample = samples[order(i) + 1]
    local n = positions_of(sample)
    shelves[n] = shelves[n] or {}
    table.insert(shelves[n], sample)
  end
  return shelves
end

-- The longest there is of at most `room` positions; `longest` remembers how far the
-- shelves above are empty.
local function take(shelves, room)
  for n = room, 1, -1 do
    local shelf = shelves[n]
    if shelf then
      local sample = table.remove(shelf)
      if #shelf == 0 then shelves[n] = nil end
      return sample
    end
  end
end

--- Put samples into rows.
---@param samples mrt.finetune.Sample[]  none longer than the context + 1
---@param context integer
---@param seed integer
---@return mrt.finetune.Sample[][] rows
function pack.rows(samples, context, seed)
  local shelves, rows = by_length(samples, seed), {}
  local sample = take(shelves, context)
  while sample do
    local row, room = {}, context
    repeat
      row[#row + 1] = sample
      room = room - positions_of(sample)
      sample = take(shelves, room)
    until not sample
    rows[#rows + 1] = row
    sample = take(shelves, context)
  end
  return rows
end

--- One sample a row, in their order.
---@param samples mrt.finetune.Sample[]
---@return mrt.finetune.Sample[][] rows
function pack.single(samples)
  local rows = {}
  for i, sample in ipairs(samples) do rows[i] = { sample } end
  return rows
end

-- ---- rows as bytes -----------------------------------------------------------

local ignored = string.pack("<i4", pack.IGNORED)
local zero = string.pack("<i4", 0)

-- The targets of a sample: its tokens from the second on, but for those that are not
-- learned.
local function targets_of(sample)
  local ids = sample.ids
  if not sample.learn then return ids:sub(WIDE + 1) end
  local parts, at = {}, 2
  for i = 1, #sample.learn, 2 do
    local first, last = math.max(sample.learn[i], 2), sample.learn[i + 1]
    parts[#parts + 1] = ignored:rep(first - at)
    parts[#parts + 1] = ids:sub(WIDE * (first - 1) + 1, WIDE * last)
    at = last + 1
  end
  parts[#parts + 1] = ignored:rep(#ids // WIDE - at + 1)
  return table.concat(parts)
end

-- The numbers 0 to context - 1.
local function counted(context)
  local parts = {}
  for i = 1, context do parts[i] = string.pack("<i4", i - 1) end
  return table.concat(parts)
end

-- Put a row at the end of the four lists of bytes.
local function write(out, row, context, count)
  local room = context
  for i, sample in ipairs(row) do
    local n = positions_of(sample)
    table.insert(out[1], sample.ids:sub(1, WIDE * n))
    table.insert(out[2], targets_of(sample))
    table.insert(out[3], string.pack("<i4", i):rep(n))
    table.insert(out[4], count:sub(1, WIDE * n))
    room = room - n
  end
  table.insert(out[1], zero:rep(room))
  table.insert(out[2], ignored:rep(room))
  table.insert(out[3], zero:rep(room))
  table.insert(out[4], count:sub(1, WIDE * room))
end

---@class mrt.finetune.LoaderOptions
---@field batch integer
---@field context integer
---@field seed? integer      default 0
---@field pack? boolean      several samples to a row; default true
---@field shuffle? boolean   default true
---@field fill? boolean      the last mini-batch is filled up with empty rows; default: it
---  is left out

--- Make a loader of mini-batches; without packing, of tokens and targets alone.
---
--- Raises: samples that do not fill a mini-batch.
---
---     local loader = mrt.finetune.loader(samples, { batch = 4, context = 512 })
---@param samples mrt.finetune.Sample[]
---@param given mrt.finetune.LoaderOptions
---@return mrt.data.Loader
function pack.loader(samples, given)
  local o = options.read("finetune.loader", given, { batch = options.want "size",
    context = options.want "size", seed = options.of("integer", 0), pack = true,
    shuffle = true, fill = false })
  local rows = o.pack and pack.rows(samples, o.context, o.seed) or pack.single(samples)
  if #rows < o.batch and not o.fill then
    core.fail("data", "finetune", ("%d samples fill %d rows of %d positions, a mini-batch has %d: "
      .. "fewer wanted"):format(#samples, #rows, o.context, o.batch))
  end
  local count, shape = counted(o.context), nil
  local function fetch(indices)
    local out = { {}, {}, {}, {} }
    for _, index in ipairs(indices) do write(out, rows[index + 1] or {}, o.context, count) end
    shape = { #indices, o.context }
    local tensors = {}
    for i = 1, o.pack and 4 or 2 do
      tensors[i] = mrt.from_bytes(table.concat(out[i]), "i32", shape)
    end
    return table.unpack(tensors)
  end
  local all = o.fill and -(-#rows // o.batch) * o.batch or #rows
  local self = loader.new { count = all, batch = o.batch, fetch = fetch, shuffle = o.shuffle,
    seed = o.seed, drop_last = true, fresh = true }
  self.rows = #rows
  return self
end

return pack
