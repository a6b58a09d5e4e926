--- stream.lua -- the tokens of a request, one after the other
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local Stops = require "mrt.generate.stops"
local beside = require "mrt.generate.beside"
local draws = require "mrt.generate.draws"
local mode = require "mrt.nn.mode"
local sampler = require "mrt.generate.sampler"

---@class mrt.generate.Row
---@field ids integer[]      prompt and what followed
---@field prompt integer     how many of them were given
---@field pieces string[]    text so far
---@field decoder table?     of the tokenizer
---@field stops mrt.generate.Stops
---@field reason string?     "eos", "stop", "count" or "context", once it has ended

--- What a model generates.  Called, it gives the next piece: of text, or an id where
--- there is no tokenizer; and the row that it belongs to.
---
---     for piece in model:generate { prompt = "Once", count = 100 } do io.write(piece) end
---@class mrt.generate.Stream
---@field rows mrt.generate.Row[]
---@overload fun(): string|integer|nil, integer?
local Stream = {}
Stream.__index = Stream
Stream.__name = "mrt.generate.Stream"

---@param engine mrt.generate.Engine
---@param o mrt.generate.Request
---@return mrt.generate.Stream
function Stream.new(engine, o)
  local tokenizer = beside.tokenizer(engine.model)
  local self = setmetatable({ engine = engine, request = o, rows = {}, queue = {}, next = 1,
    alive = 0, known = tokenizer and tokenizer.vocab or 0,
    kind = sampler.kind(o, engine.model.vocab), numbers = sampler.numbers(o) }, Stream)
  for b, ids in ipairs(o.rows) do
    self.rows[b] = { ids = ids, prompt = #ids, pieces = {}, stops = Stops.new(o.stops),
      decoder = tokenizer and tokenizer:stream { skip_special = true } }
    self.alive = self.alive + 1
  end
  for b, row in ipairs(self.rows) do
    if o.count == 0 then self:finish(b, row, "count") end
  end
  return self
end

-- ---- tokens become pieces ----------------------------------------------------

function Stream:give(b, row, piece)
  if piece == "" then return end
  row.pieces[#row.pieces + 1] = piece
  self.queue[#self.queue + 1] = { piece, b }
end

function Stream:finish(b, row, reason)
  row.reason, self.alive = reason, self.alive - 1
  if not row.decoder or reason == "stop" then return end
  local text, stopped = row.stops:push(row.decoder:finish())
  self:give(b, row, text)
  if stopped then row.reason = "stop" end
  self:give(b, row, row.stops:finish())
end

-- The next token of a row that has not ended.
function Stream:accept(b, row, id)
  local o = self.request
  if o.ends[id] then return self:finish(b, row, "eos") end
  row.ids[#row.ids + 1] = id
  if row.decoder then
    -- a model may have rows for more ids than the tokenizer has tokens
    local text, stopped = row.stops:push(id < self.known and row.decoder:push(id) or "")
    self:give(b, row, text)
    if stopped then return self:finish(b, row, "stop") end
  else
    self:give(b, row, id)
  end
  if #row.ids - row.prompt >= o.count then
    self:finish(b, row, "count")
  elseif #row.ids > o.most - 1 then
    self:finish(b, row, "context")
  end
end

-- ---- steps -------------------------------------------------------------------

-- A number for each row, of its seed and of how many tokens it has got.
function Stream:draw()
  if self.kind.greedy then return nil end
  local list = {}
  for b, row in ipairs(self.rows) do
    list[b] = draws.at(self.request.seed + b - 1, #row.ids - row.prompt)
  end
  return mrt.tensor(list, "f32")
end

-- The next token of all rows: from what the engine has, or, where another stream has
-- used it meanwhile, from the beginning.
local function step(self)
  local engine, drawn = self.engine, self:draw()
  local own = engine.owner == self
  if own and not engine:outgrown() then
    engine.owner = nil -- a step that is interrupted is done anew
    local ids = engine:decode(self.kind, self.numbers, drawn)
    engine.owner = self
    return ids
  end
  local rows, begin = {}, {}
  for b, row in ipairs(self.rows) do rows[b], begin[b] = row.ids, row.prompt end
  local done = engine:kept(rows, own or self.request.keep)
  engine.owner = nil
  local ids = engine:prefill(rows, done, begin, self.kind, self.numbers, drawn)
  engine.owner = self
  return ids
end

local function advance(self)
  local ids
  if self.engine.model.training then
    local _ <close> = mode.evaluating(self.engine.model)
    ids = step(self)
  else
    ids = step(self)
  end
  for b, row in ipairs(self.rows) do
    if not row.reason then self:accept(b, row, ids[b]) end
  end
end

function Stream:__call()
  while not self.queue[self.next] do
    if self.alive == 0 then return nil end
    self.queue, self.next = {}, 1
    advance(self)
  end
  local piece = self.queue[self.next]
  self.next = self.next + 1
  return piece[1], piece[2]
end

-- ---- whole results -----------------------------------------------------------

-- f(row) of the row, or of all where a list was given.
local function each(self, f)
  while self.alive > 0 do advance(self) end
  if self.request.single then return f(self.rows[1]) end
  local list = {}
  for b, row in ipairs(self.rows) do list[b] = f(row) end
  return list
end

--- Generate to the end: the new text, or a list of them for a list of prompts.
---@return string|string[]
function Stream:text()
  return each(self, function(row) return table.concat(row.pieces) end)
end

--- Generate to the end: the new ids, what ends a text not among them.
---@return integer[]|integer[][]
function Stream:ids()
  return each(self, function(row)
    return table.move(row.ids, row.prompt + 1, #row.ids, 1, {})
  end)
end

--- Why each row has ended: "eos", "stop", "count" or "context".
---@return string|string[]
function Stream:reason()
  return each(self, function(row) return row.reason end)
end

--- What its steps take, before any runs.
---@return mrt.generate.Plan
function Stream:plan()
  local _ <close> = mode.evaluating(self.engine.model)
  return self.engine:plan(self.kind, self.request.rows)
end

return Stream
