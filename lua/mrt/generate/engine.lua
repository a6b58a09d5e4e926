--- engine.lua -- the steps that generate, of one model and one size of cache
---
---   prefill   tokens [B,T] into the cache; what the head reads of each row's last
---   first     the token that follows these, from the head
---   decode    each row's newest token into the cache, and the next one
---   room      what layers of a window keep moves to the front, where it is full
---
--- They are one compiled function, whose plans take turns in one arena.  A prompt goes
--- in by chunks of a few lengths, the last one padded, so that prompts of all lengths
--- need few plans.  Between decodes nothing is given to the device but, where tokens
--- are drawn, a number for each row: the newest tokens and their positions are
--- variables, which the step writes.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local Plan = require "mrt.generate.plan"
local sampler = require "mrt.generate.sampler"

---@class mrt.generate.Engine
---@field model mrt.nn.Module
---@field cache mrt.nn.decoder.Cache
---@field batch integer
---@field length integer  tokens of each row
---@field step mrt.Compiled
---@field held integer[][]  the tokens of each row that the cache has
---@field owner any       whose rows they are
---@field bases integer[][]  of layers that keep a window: where each row's begins
local Engine = {}
Engine.__index = Engine

local CHUNKS <const> = { 8, 16, 32, 64, 128, 256 }
local WORTH <const> = 16 -- rows whose products take as long as reading the weights

local function variable(name, ...)
  local x = mrt.variable(mrt.zeros({ ... }, { dtype = "i32" }))
  x.name = name
  return x
end

-- ---- the three steps ---------------------------------------------------------

local steps = {}

-- Row `lengths - 1` of each sample's [T,dim].
local function last_of(features, lengths)
  local B, T, W = features:size(1), features:size(2), features:size(3)
  if T == 1 then return features:reshape(B, W) end
  local rows = (lengths - 1):clamp(0, T - 1) + mrt.arange(0, B * T, T, { dtype = "i32" })
  return features:reshape(B * T, W):embedding(rows)
end

function steps.prefill(self, tokens, start, lengths, whole)
  core.update("write_rows", { self.history, tokens, start })
  local x = self.model:features(tokens,
    { cache = self.cache, start = start, lengths = lengths, whole = whole })
  return last_of(x, lengths)
end

-- The tokens that follow, of rows that are `due`; they stand at `place`.
function steps.first(self, features, due, place, begin, kind, numbers, drawn)
  local logits = self.model:logits(features)
  local ids = sampler.next(logits, kind, numbers, drawn, self.history, place, begin)
  self.begin:assign(begin)
  self.newest:assign(mrt.where(due, ids, self.newest))
  self.place:assign(mrt.where(due, place, self.place))
  return ids
end

function steps.decode(self, kind, numbers, drawn)
  local B, place = self.batch, self.place + 1
  local tokens = self.newest:reshape(B, 1)
  core.update("write_rows", { self.history, tokens, self.place })
  local x = self.model:features(tokens, { cache = self.cache, start = self.place })
  local logits = self.model:logits(x:reshape(B, x:size(3)))
  local ids = sampler.next(logits, kind, numbers, drawn, self.history, place, self.begin)
  self.newest:assign(ids)
  self.place:assign(place)
  return ids
end

function steps.room(self, bases, by) self.cache:move(bases, by) end

--- Make what generates for `batch` rows of at most `length` tokens.
---@param model mrt.nn.Module  with `features`, `logits` and `cache`
---@param o {batch: integer, length: integer, dtype: mrt.DType?, memory: any}
---@return mrt.generate.Engine
function Engine.new(model, o)
  local self = setmetatable({ model = model, batch = o.batch, length = o.length, held = {} },
    Engine)
  self.cache = model:cache { batch = o.batch, length = o.length, dtype = o.dtype,
    slack = CHUNKS[#CHUNKS] }
  self.bases = {}
  for i in ipairs(self.cache.shorts) do
    self.bases[i] = {}
    for b = 1, o.batch do self.bases[i][b] = 0 end
  end
  self.history = variable("generate.history", o.batch, o.length)
  self.newest = variable("generate.newest", o.batch)
  self.place = variable("generate.place", o.batch)
  self.begin = variable("generate.begin", o.batch)
  self.step = mrt.compile(function(name, ...) return steps[name](self, ...) end,
    { name = "generate", memory = o.memory })
  return self
end

-- ---- prompts -----------------------------------------------------------------

-- How many of `left` tokens go in at once, and in a chunk of which length: the padding
-- of a chunk costs its rows, each chunk more that the weights are read.
local function chunk(left, most)
  local below, above = 1, nil
  for _, n in ipairs(CHUNKS) do
    if n <= most and n <= left then below = n end
    if n <= most and n >= left then
      above = n
      break
    end
  end
  if above and above - left <= WORTH + (left - below) then return left, above end
  return below, below
end

-- The next `n` tokens of each row from `done` on, padded to `T`.
local function cut(rows, done, n, T)
  local tokens, start, lengths = {}, {}, {}
  for b, ids in ipairs(rows) do
    local first, row = done[b], {}
    local count = math.min(n, #ids - first)
    table.move(ids, first + 1, first + count, 1, row)
    for t = count + 1, T do row[t] = 0 end
    tokens[b], start[b], lengths[b] = row, first, count
  end
  return tokens, start, lengths
end

-- The rows whose last tokens are among these.
local function due(rows, start, lengths)
  local list, places, any = {}, {}, false
  for b, ids in ipairs(rows) do
    list[b] = lengths[b] > 0 and start[b] + lengths[b] == #ids
    places[b] = #ids
    any = any or list[b]
  end
  return list, places, any
end

local function ints(list) return mrt.tensor(list, "i32") end

local function lengths_of(rows)
  local list = {}
  for b, ids in ipairs(rows) do list[b] = #ids end
  return list
end

-- Let layers of a window have room for `counts[b]` tokens from `starts[b]` on.
local function make_room(self, starts, counts)
  local bases, by, any = {}, {}, false
  for i, short in ipairs(self.cache.shorts) do
    bases[i], by[i] = {}, {}
    for b, start in ipairs(starts) do
      local old = self.bases[i][b]
      local base = math.max(0, start - short.window)
      if start > 0 and start + counts[b] - old <= short.rows then base = old end
      bases[i][b], by[i][b] = base, math.max(0, base - old)
      any = any or base ~= old
    end
  end
  if not any then return end
  local held = self.held
  self.held = {} -- where this is interrupted nobody knows where rows lie
  for _, list in ipairs(self.bases) do
    for b in ipairs(list) do list[b] = -1 end
  end
  self.step("room", ints(bases), ints(by))
  self.held, self.bases = held, bases
end

--- Read the rows from `done` on into the cache, and give the token that follows each.
---@param rows integer[][]  ids of each row, at least one of which is new
---@param done integer[]    how many of each row are in the cache already
---@param begin integer[]   how many of each row were given
---@param kind mrt.generate.Kind
---@param numbers mrt.Tensor
---@param drawn mrt.Tensor?
---@return integer[] ids
function Engine:prefill(rows, done, begin, kind, numbers, drawn)
  local found, whole = {}, ints(lengths_of(rows))
  self.held, self.found = {}, nil
  while true do
    local left = 0
    for b, ids in ipairs(rows) do left = math.max(left, #ids - done[b]) end
    if left == 0 then break end
    local n, T = chunk(left, self.length)
    local tokens, start, lengths = cut(rows, done, n, T)
    make_room(self, start, lengths)
    local x = self.step("prefill", ints(tokens), ints(start), ints(lengths), whole)
    local list, places, any = due(rows, start, lengths)
    if any then
      local ids = self.step("first", x, mrt.tensor(list, "bool"), ints(places), ints(begin),
        kind, numbers, drawn):totable()
      for b, is in ipairs(list) do if is then found[b] = ids[b] end end
    end
    for b in ipairs(rows) do done[b] = done[b] + lengths[b] end
  end
  for b, ids in ipairs(rows) do self.held[b] = table.move(ids, 1, #ids, 1, {}) end
  self.found = found
  return found
end

-- How many of a row's first `n` tokens, which the cache has, are of use to a longer row.
local function usable(self, b, n, length)
  local switch = self.cache.switch
  if switch and (#self.held[b] > switch) ~= (length > switch) then return 0 end
  for i, short in ipairs(self.cache.shorts) do
    local base = self.bases[i][b]
    if base > 0 and n - short.window < base then return 0 end
  end
  return n
end

--- How many tokens of each row the cache has already, of all but the last of them.
---@param rows integer[][]
---@param keep boolean  false: as if it had none
---@return integer[]
function Engine:kept(rows, keep)
  local done = {}
  for b, ids in ipairs(rows) do
    local held, n = keep and self.held[b] or {}, 0
    while n < #ids - 1 and held[n + 1] == ids[n + 1] do n = n + 1 end
    done[b] = n > 0 and usable(self, b, n, #ids) or 0
  end
  return done
end

--- Do rows become so long that what the cache has of them is of no more use?
---@return boolean
function Engine:outgrown()
  local switch = self.cache.switch
  for _, held in ipairs(switch and self.held or {}) do
    if #held == switch then return true end
  end
  return false
end

local one = setmetatable({}, { __index = function() return 1 end })

--- The next token of each row.
---@param kind mrt.generate.Kind
---@param numbers mrt.Tensor
---@param drawn mrt.Tensor?
---@return integer[] ids
function Engine:decode(kind, numbers, drawn)
  if self.bases[1] then make_room(self, lengths_of(self.held), one) end
  local ids = self.step("decode", kind, numbers, drawn):totable()
  for b, id in ipairs(self.found) do
    local held = self.held[b]
    if #held < self.length then held[#held + 1] = id end
  end
  self.found = ids
  return ids
end

-- ---- before it runs ----------------------------------------------------------

-- The lengths of the chunks that rows go in by.
local function chunks(rows, most)
  local left, list = 0, {}
  for _, ids in ipairs(rows) do left = math.max(left, #ids) end
  while left > 0 do
    local n, T = chunk(left, most)
    list[T], left = true, left - n
  end
  return list
end

--- What the steps take for these rows.
---@param kind mrt.generate.Kind
---@param rows integer[][]
---@return mrt.generate.Plan
function Engine:plan(kind, rows)
  local B, prefill = self.batch, {}
  local function zeros(...) return core.op.full { shape = { ... }, value = 0, dtype = "i32" } end
  for T in pairs(chunks(rows, self.length)) do
    prefill[T] = self.step:plan("prefill", zeros(B, T), zeros(B), zeros(B), zeros(B))
  end
  local numbers, drawn = sampler.numbers { temperature = 1 }, not kind.greedy
    and mrt.zeros(B) or nil
  local x = self.model:features(zeros(B, 1)) -- for its type alone: nobody computes it
  local first = self.step:plan("first", x:reshape(B, x:size(3)),
    mrt.zeros({ B }, { dtype = "bool" }), zeros(B), zeros(B), kind, numbers, drawn)
  local decode, room = self.step:plan("decode", kind, numbers, drawn), nil
  local shorts = #self.cache.shorts
  if shorts > 0 then room = self.step:plan("room", zeros(shorts, B), zeros(shorts, B)) end
  return Plan.new(self, prefill, first, decode, room)
end

return Engine
