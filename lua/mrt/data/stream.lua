--- stream.lua -- mini-batches from any Lua iterator, by rows and by time
---
--- Rows wait in open batches: one, or with event time one for each window that
--- may still grow.  A batch that is full, whose time is over, or whose window no
--- row can come to any more is closed and given out, in that order.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local argument = require "mrt.util.argument"
local describe = require "mrt.util.describe"
local options = require "mrt.util.options"

-- One column of samples as a tensor with a dimension in front.
local function stack(column, dtype)
  if not core.is_tensor(column[1]) then return mrt.tensor(column, dtype) end
  local rows = {}
  for i, t in ipairs(column) do rows[i] = t:unsqueeze(1) end
  return mrt.cat(rows, 1)
end

local function stack_all(columns, dtypes)
  local out = {}
  for i, column in ipairs(columns) do out[i] = stack(column, dtypes[i]) end
  return table.unpack(out)
end

---@class mrt.data.Stream
---@field from number?    start of the event-time window of the last batch given
---@field late integer    rows that came after their window was given out
---@field waiting integer rows read from the source and not yet given out
local Stream = {}
Stream.__index = Stream

--- What a source returns where it has no row at the moment: the stream looks at
--- the clock and asks again.  The source itself waits a little first.
local idle = setmetatable({}, { __name = "mrt.data.idle",
  __tostring = function() return "mrt.data.idle" end })

-- ---- open batches ------------------------------------------------------------

local function close(self, batch)
  self.open[batch.window] = nil
  self.closed[#self.closed + 1] = batch
end

-- Close the open batches that `over` says it of, windows in order of time.
local function close_those(self, over)
  local list = {}
  for _, batch in pairs(self.open) do
    if over(batch) then list[#list + 1] = batch end
  end
  table.sort(list, function(a, b) return a.window < b.window end)
  for _, batch in ipairs(list) do close(self, batch) end
end

local function look_at_clock(self)
  if not self.seconds then return end
  local now = self.clock()
  close_those(self, function(batch) return now - batch.since >= self.seconds end)
end

local function add(self, window, sample)
  local batch = self.open[window]
  if not batch then
    batch = { window = window, columns = {}, count = 0,
      since = self.seconds and self.clock() }
    for i = 1, sample.n do batch.columns[i] = {} end
    self.open[window] = batch
  end
  batch.count, self.waiting = batch.count + 1, self.waiting + 1
  for i = 1, sample.n do batch.columns[i][batch.count] = sample[i] end
  if batch.count == self.batch then close(self, batch) end
end

-- ---- event time --------------------------------------------------------------

local function event_time(self, sample)
  local t = self.time(table.unpack(sample, 1, sample.n))
  if type(t) ~= "number" or t ~= t or t - t ~= 0 then
    argument.refuse("stream", "row %d: 'time' returned %s, a finite number wanted",
      self.rows, options.show(t))
  end
  return t
end

local function come_late(self, t, sample)
  self.late = self.late + 1
  if self.on_late == "drop" then return end
  if self.on_late then return self.on_late(table.unpack(sample, 1, sample.n)) end
  argument.refuse("stream", "row %d: of time %s, its window has been given out (rows "
    .. "before %s are late; 'lateness' waits longer, late = \"drop\" or a function takes "
    .. "such rows)", self.rows, t, self.next_window * self.window)
end

-- A window is over when its end is `lateness` behind the latest row.
local function add_by_time(self, sample)
  local t = event_time(self, sample)
  local window = t // self.window
  if window < self.next_window then return come_late(self, t, sample) end
  local reached = (t - self.lateness) // self.window
  if reached > self.next_window then
    self.next_window = reached
    close_those(self, function(batch) return batch.window < reached end)
  end
  add(self, window, sample)
end

-- ---- the source --------------------------------------------------------------

local function check(self, sample)
  self.width = self.width or sample.n
  if sample.n ~= self.width then
    argument.refuse("stream", "row %d has %d values, those before it %d",
      self.rows, sample.n, self.width)
  end
  for i = 2, sample.n do
    if sample[i] == nil then
      argument.refuse("stream", "row %d: value %d is nil", self.rows, i)
    end
  end
end

-- Nothing is left but what waits; nil and a message is a source that failed, and
-- what waits is there when it is asked again.
local function finish(self, message, code)
  if type(message) == "string" then
    core.fail(type(code) == "string" and code or "data", "stream",
      ("after row %d the source failed: %s"):format(self.rows, message))
  end
  self.ended = true
  close_those(self, function(batch)
    if not self.drop_last then return true end
    self.open[batch.window], self.waiting = nil, self.waiting - batch.count
    return false
  end)
end

local function read(self)
  local sample = table.pack(self.iterator())
  look_at_clock(self)
  if sample[1] == idle then return end
  if sample[1] == nil then return finish(self, sample[2], sample[3]) end
  self.rows = self.rows + 1
  check(self, sample)
  if self.window then add_by_time(self, sample) else add(self, 0, sample) end
end

-- ---- what a user calls -------------------------------------------------------

local function give(self)
  local batch = table.remove(self.closed, 1)
  if not batch then return end
  self.waiting = self.waiting - batch.count
  self.from = self.window and batch.window * self.window
  return stack_all(batch.columns, self.dtypes)
end

--- Return the next mini-batch, or nothing when the iterator has ended.
---
--- Raises what the source raises, or that it failed (it returned nil and a
--- message); a row unlike those before it; a row whose window has been given out,
--- unless `late` takes such rows.  Rows read before wait: ask again, or flush.
---
---     local x, y = stream:next()
---
--- Shapes: `[batch,...]` of each column.
---@return mrt.Tensor ...
function Stream:next()
  while not self.closed[1] and not self.ended do read(self) end
  return give(self)
end

--- Return the oldest batch as far as it has come, without asking the source; nothing
--- where no row waits.  What comes later of its window is another batch.
---
---     stream:flush()
---@return mrt.Tensor ...
function Stream:flush()
  if not self.closed[1] then
    local first
    for window in pairs(self.open) do first = math.min(first or window, window) end
    if not first then return end
    close(self, self.open[first])
  end
  return give(self)
end

--- Iterate over what is left.
---
---     for x, y in stream:epoch() do end
---
--- Shapes: `[batch,...]` of each column.
---@return fun(): mrt.Tensor ...
function Stream:epoch()
  return function() return self:next() end
end

---@class mrt.data.StreamOptions
---@field batch? integer      most rows of a batch
---@field seconds? number     a batch is given out when its first row is so old
---@field clock? fun(): number  seconds, for `seconds`; default one that only goes forward
---@field window? number      seconds of event time: batches are of [k window, (k + 1) window)
---@field time? fun(...): number  event time of a row, from its values; with `window`
---@field lateness? number    a window waits until rows are so much later than its end,
---                           default 0: rows come in order
---@field late? "drop"|fun(...)  what becomes of a row whose window has been given out;
---                           default an error
---@field drop_last? boolean  leave out what the end of the source cuts short, default false
---@field dtypes? string[]    of a sample's values, where they are numbers

local function positive(name, value, zero)
  if value == nil or value > 0 and value < math.huge or zero and value == 0 then return end
  argument.refuse("stream", "option '%s': a %s number wanted, got %s", name,
    zero and "finite, not negative" or "positive, finite", options.show(value))
end

-- Windows of event time: what of them is given goes together.
local function check_windows(o)
  if (o.window == nil) ~= (o.time == nil) then
    argument.refuse("stream", "options 'window' and 'time' go together, '%s' is missing",
      o.window and "time" or "window")
  elseif not o.window and (o.late ~= nil or o.lateness ~= nil) then
    argument.refuse("stream", "option '%s' is of windows of event time, 'window' is missing",
      o.late ~= nil and "late" or "lateness")
  elseif o.late ~= nil and o.late ~= "drop" and not options.is_callable(o.late) then
    argument.refuse("stream", "option 'late': \"drop\" or a function wanted, got %s",
      options.show(o.late))
  end
end

local function check_options(o)
  positive("seconds", o.seconds)
  positive("window", o.window)
  positive("lateness", o.lateness, true)
  if not (o.batch or o.seconds or o.window) then
    argument.refuse("stream", "batch is missing (or seconds, or window): when does a batch end?")
  end
  check_windows(o)
end

--- Gather the samples of an iterator into mini-batches.  A sample is one or
--- more values: numbers, nested lists or tensors, of one shape.
---
---     local lines = coroutine.wrap(function()
---       for line in io.lines "points.csv" do
---         local x, y = line:match "(%S+),(%S+)"
---         coroutine.yield({tonumber(x)}, tonumber(y))
---       end
---     end)
---     for x, y in data.stream(lines, {batch = 32}):epoch() do step(x, y) end
---
--- A batch ends after `batch` rows or `seconds`, whichever is first.  The clock is
--- looked at when the source answers, so a source that waits for rows returns
--- `data.idle` now and then.  No batch is empty.
---
---     data.stream(next_reading, {batch = 256, seconds = 0.5})
---
--- By event time, each batch is of one window, and of at most `batch` rows where that
--- is given; `stream.from` is the start of the last one's window.
---
---     data.stream(next_reading, {window = 60, lateness = 5, late = "drop",
---       time = function(x, y, stamp) return stamp end})
---
--- Raises: what is no iterator, a batch below 1.
---@param iterator fun(): ...  nil at the end, nil and a message where it fails
---@param given mrt.data.StreamOptions
---@return mrt.data.Stream
local function stream(iterator, given)
  local o = options.read("stream", given, { batch = options.of "size",
    seconds = options.of "number", clock = options.of "function",
    window = options.of "number", time = options.of "function",
    lateness = options.of "number", late = options.none, drop_last = false,
    dtypes = {} })
  argument.callable("stream", iterator)
  check_options(o)
  return setmetatable({ iterator = iterator, batch = o.batch, seconds = o.seconds,
    clock = o.clock or core.clock, window = o.window, time = o.time,
    lateness = o.lateness or 0, on_late = o.late, drop_last = o.drop_last,
    dtypes = o.dtypes, open = {}, closed = {}, rows = 0, waiting = 0, late = 0,
    next_window = -math.huge }, Stream)
end

function Stream:__tostring()
  return ("stream in mini-batches%s: %s taken, %d waiting, %d late"):format(
    self.batch and " of " .. self.batch or "", describe.count(self.rows, "row"), self.waiting,
    self.late)
end

return { stream = stream, idle = idle }
