--- stream_spec.lua -- batches end by rows, by the clock and by windows of event time
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local random_graph = require "support.random_graph"
local data = mrt.data

-- A source of these rows; a row is a list of values, `data.idle`, or a function, which
-- is called instead.  What time it is, is `now.t`.
local function source(rows)
  local i = 0
  return function()
    i = i + 1
    local row = rows[i]
    if type(row) == "function" then return row() end
    if row == data.idle then return row end
    if row then return table.unpack(row) end
  end
end

local function lists(stream)
  local out = {}
  for x in stream:epoch() do out[#out + 1] = x:totable() end
  return out
end

local function refused(words, fn)
  local ok, err = pcall(fn)
  assert.is_false(ok)
  assert.truthy(tostring(err):find(words, 1, true), tostring(err))
end

describe("a stream by the clock", function()
  local now
  local function clock() return now end
  local function at(t, ...)
    local values = table.pack(...)
    return function() now = t return table.unpack(values, 1, values.n) end
  end
  before_each(function() now = 0 end)

  it("ends a batch after so many rows or seconds, whichever is first", function()
    local stream = data.stream(source {
      at(0, 1), at(1, 2), at(1, 3),              -- full
      at(2, 4), at(6.9, 5), at(7, 6),            -- 5 s after row 4: before row 6
      at(11, data.idle), at(12, data.idle),      -- 5 s after row 6, and no row comes
      at(99, data.idle), at(100, 7) }, { batch = 3, seconds = 5, clock = clock })
    assert.same({ 1, 2, 3 }, stream:next():totable())
    assert.same({ 4, 5 }, stream:next():totable())
    assert.equal(1, stream.waiting)
    assert.same({ 6 }, stream:next():totable())
    assert.equal(12, now)
    assert.same({ { 7 } }, lists(stream))
    assert.is_nil(stream:next())
  end)

  it("needs no number of rows, and leaves out only what the end cuts short", function()
    local function made(drop)
      return lists(data.stream(source { at(0, 1), at(1, 2), at(2, 3), at(3, 4) },
        { seconds = 2, clock = clock, drop_last = drop }))
    end
    assert.same({ { 1, 2 }, { 3, 4 } }, made(false))
    now = 0
    assert.same({ { 1, 2 } }, made(true))
  end)

  it("looks at a clock of its own", function()
    local began, n = os.time(), 0
    local stream = data.stream(function()
      n = n + 1
      return n == 1 and 1 or data.idle
    end, { seconds = 0.05 })
    assert.same({ 1 }, stream:next():totable())
    assert.is_true(os.time() - began < 10)
  end)
end)

local function stamp(_, t) return t end

describe("a stream by event time", function()
  it("gives a batch for each window, of at most so many rows", function()
    local rows = source { { 1, 0 }, { 2, 9.5 }, { 3, 10 }, { 4, 11 }, { 5, 12 },
      { 6, 45 }, { 7, 45 } }
    local stream, from, all = data.stream(rows, { window = 10, batch = 2, time = stamp }),
      {}, {}
    for x in stream:epoch() do
      from[#from + 1], all[#all + 1] = stream.from, x:totable()
    end
    assert.same({ { 1, 2 }, { 3, 4 }, { 5 }, { 6, 7 } }, all)
    assert.same({ 0, 10, 10, 40 }, from)
  end)

  it("waits for rows out of order, and tells those that come late", function()
    local function rows()
      return source { { 1, 1 }, { 2, 11 }, { 3, 9 }, { 4, 12.9 }, { 5, 8 }, { 6, 13 },
        { 7, 7 }, { 8, 14 }, { 9, -5 } }
    end
    local came = {}
    local stream = data.stream(rows(), { window = 10, lateness = 3, time = stamp,
      late = function(x, t) came[#came + 1] = { x, t } end })
    assert.same({ { 1, 3, 5 }, { 2, 4, 6, 8 } }, lists(stream))
    assert.same({ { 7, 7 }, { 9, -5 } }, came)
    assert.equal(2, stream.late)
    stream = data.stream(rows(), { window = 10, lateness = 3, time = stamp, late = "drop" })
    assert.equal(2, #lists(stream))
    assert.equal(2, stream.late)
    stream = data.stream(rows(), { window = 10, lateness = 3, time = stamp })
    assert.same({ 1, 3, 5 }, stream:next():totable())
    refused("row 7: of time 7, its window has been given out", function() stream:next() end)
    refused("row 9: of time -5", function() stream:next() end)
    assert.same({ 2, 4, 6, 8 }, stream:next():totable()) -- nothing else is lost
  end)

  it("gives a window out by the clock too, and what comes after it again", function()
    local now = 0
    local function at(t, ...)
      local values = table.pack(...)
      return function() now = t return table.unpack(values) end
    end
    local stream = data.stream(source { at(0, 1, 0), at(1, 2, 12), at(4, data.idle),
      at(5, 3, 1), at(6, 4, 13) }, { window = 10, lateness = 20, seconds = 3, time = stamp,
      clock = function() return now end })
    assert.same({ { 1 }, { 2 }, { 3 }, { 4 } }, lists(stream))
  end)

  it("puts each row of any order into its window, once", function()
    for seed = 1, 40 do
      local random, rows, wanted = random_graph.generator(seed), {}, {}
      local width, batch = random(20) / 4, random(2) == 1 and random(6) or nil
      for i = 1, random(120) do
        rows[i] = { i, (i * 3 + random(40) - 80) / 8 } -- out of order by at most 5
        local w = math.floor(rows[i][2] / width)
        wanted[w] = (wanted[w] or 0) + 1
      end
      local stream = data.stream(source(rows), { window = width, batch = batch,
        lateness = 5, time = stamp })
      local seen = {}
      for x in stream:epoch() do
        assert.is_true(not batch or x:size(1) <= batch)
        for _, i in ipairs(x:totable()) do
          local t = rows[i][2]
          assert.is_nil(seen[i])
          seen[i] = true
          assert.is_true(stream.from <= t and t < stream.from + width)
          wanted[stream.from // width] = wanted[stream.from // width] - 1
        end
      end
      for _, left in pairs(wanted) do assert.equal(0, left) end
      assert.equal(0, stream.waiting)
    end
  end)
end)

describe("a source that fails", function()
  it("loses no row: they are there when it is asked again, or flushed", function()
    local rows = { { 1 }, { 2 }, function() error "the line is cut" end, { 3 },
      function() return nil, "disk is gone", "file" end, { 4 } }
    local stream = data.stream(source(rows), { batch = 3 })
    refused("the line is cut", function() stream:next() end)
    assert.equal(2, stream.waiting)
    assert.same({ 1, 2, 3 }, stream:next():totable())
    local ok, err = pcall(stream.next, stream)
    assert.is_false(ok)
    assert.equal("file", err.code)
    assert.truthy(err.text:find("after row 3 the source failed: disk is gone", 1, true))
    assert.same({ { 4 } }, lists(stream))

    stream = data.stream(source(rows), { batch = 3 })
    refused("the line is cut", function() stream:next() end)
    assert.same({ 1, 2 }, stream:flush():totable())
    assert.is_nil(stream:flush())
    assert.equal(0, stream.waiting)
  end)

  it("is told which row is unlike the others", function()
    refused("row 2 has 1 values, those before it 2", function()
      data.stream(source { { 1, 2 }, { 1 } }, { batch = 4 }):next()
    end)
    refused("row 1: value 2 is nil", function()
      data.stream(function() return 1, nil, 3 end, { batch = 4 }):next()
    end)
    for _, t in ipairs { 0 / 0, math.huge, "soon" } do
      refused("row 1: 'time' returned", function()
        data.stream(source { { 1, t } }, { window = 1, time = stamp }):next()
      end)
    end
  end)

  it("is not asked with options that say nothing", function()
    local function never() error "asked" end
    for words, o in pairs {
      ["batch is missing"] = {},
      ["'window' and 'time' go together, 'time' is missing"] = { window = 1 },
      ["'time' is missing"] = { batch = 1, window = 1 },
      ["'window' is missing"] = { batch = 1, time = stamp },
      ["option 'seconds': a positive, finite number wanted, got 0"] = { seconds = 0 },
      ["option 'seconds': a number wanted"] = { seconds = "5s" },
      ["option 'window': a positive, finite number wanted"] = { window = 0 / 0, time = stamp },
      ["option 'lateness': a finite, not negative number wanted, got -1"] = { window = 1,
        time = stamp, lateness = -1 },
      ["option 'late' is of windows"] = { batch = 1, late = "drop" },
      ["\"drop\" or a function wanted"] = { window = 1, time = stamp, late = "keep" } } do
      refused(words, function() data.stream(never, o) end)
    end
    local _, err = pcall(data.stream, never, {})
    assert.truthy(tostring(err):find("stream_spec.lua", 1, true)) -- the caller's line
  end)
end)

describe("a step over windows", function()
  -- Sums of squares over the windows of 24 rows, however they are cut, under
  -- micro-batches, a budget and bf16.
  local function total(given, o)
    local w = mrt.variable(mrt.tensor { { 0.5 }, { -0.25 }, { 1 } })
    local step = mrt.compile(function(x)
      local loss = x:matmul(w):pow(2):sum()
      return loss, mrt.grad(loss, { w })[1]
    end, o)
    given.dtypes = { "f32", "i64" }
    local rows = {}
    for i = 1, 24 do rows[i] = { { i % 4, i % 3, i % 2 }, i } end
    local loss, gradient, sizes = 0, mrt.zeros(3, 1), {}
    for x in data.stream(source(rows), given):epoch() do
      local l, g = step(x)
      loss, gradient = loss + l:to "f32":item(), gradient + g:to "f32"
      sizes[#sizes + 1] = x:size(1)
    end
    return loss, gradient:totable(), sizes
  end

  it("adds up to what one batch of all rows gives", function()
    local loss, gradient = total { batch = 24 }
    for _, o in ipairs { {}, { accumulate = 2 }, { memory = "1MiB" },
      { precision = mrt.policy.precision.bf16() } } do
      local l, g, sizes = total({ window = 8, batch = 6,
        time = function(_, t) return t - 1 end }, o)
      assert.same({ 6, 2, 6, 2, 6, 2 }, sizes)
      assert.same({ loss, gradient }, { l, g }) -- small whole numbers: exact
    end
  end)
end)
