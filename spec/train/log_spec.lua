--- log_spec.lua -- what a run writes of itself
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local log = require "mrt.train.log"
local tensorboard = require "mrt.train.log.tensorboard"
local core = require "mrt.core"
local files = require "support.files"

-- The numbers and strings of a message of a protocol buffer, by field.
local function fields(data)
  local out, at = {}, 1
  local function varint()
    local n, shift = 0, 0
    repeat
      local byte = data:byte(at)
      n, shift, at = n | (byte & 127) << shift, shift + 7, at + 1
    until byte < 128
    return n
  end
  while at <= #data do
    local key = varint()
    local kind = key & 7
    local value
    if kind == 0 then
      value = varint()
    elseif kind == 1 then
      value, at = string.unpack("<d", data, at)
    elseif kind == 5 then
      value, at = string.unpack("<f", data, at)
    else
      local n = varint()
      value, at = data:sub(at, at + n - 1), at + n
    end
    out[key >> 3] = out[key >> 3] or {}
    table.insert(out[key >> 3], value)
  end
  return out
end

-- The events in a file; checksums are verified.
local function events(path)
  local data, at, list = files.read(path), 1, {}
  local function masked(s)
    local c = tensorboard.crc(s)
    return ((c >> 15 | c << 17) + 0xa282ead8) & 0xffffffff
  end
  while at <= #data do
    local head = data:sub(at, at + 7)
    local n, check = string.unpack("<I8I4", data, at)
    assert.equal(masked(head), check)
    local body = data:sub(at + 12, at + 11 + n)
    assert.equal(masked(body), (string.unpack("<I4", data, at + 12 + n)))
    list[#list + 1] = fields(body)
    at = at + 16 + n
  end
  return list
end

local function event_file(folder)
  for _, name in ipairs(assert(core.list_folder(folder))) do
    if name:find "^events%.out%.tfevents%.%d+%." then return folder .. "/" .. name end
  end
end

describe("a log", function()
  it("checks with the checksum of RFC 3720", function()
    assert.equal(0xe3069283, tensorboard.crc "123456789")
    assert.equal(0x8a9136aa, tensorboard.crc(("\0"):rep(32)))
    assert.equal(0x62a8ab43, tensorboard.crc(("\xff"):rep(32)))
  end)

  it("writes lines, events and a page, odd numbers included", function()
    local folder = files.name()
    do
      local l <close> = assert(log.open(folder, { name = "<a & b>",
        run = { unit = "tokens", peak = 4096 } }))
      for i = 1, 700 do
        assert.is_true(l:write(i, { loss = i == 3 and 0 / 0 or 1 / i, lr = 0.5,
          eval = i % 350 == 0 and 2 or nil, throughput = math.huge }))
      end
    end
    local run, records = log.read(folder)
    assert.equal("<a & b>", run.name)
    assert.equal(700, #records)
    assert.equal("nan", records[3].loss)
    assert.equal("inf", records[9].throughput)
    assert.is_true(math.abs(1 / 7 - records[7].loss) < 1e-13)
    local list = events(event_file(folder))
    assert.equal("brain.Event:2", list[1][3][1])
    assert.equal(701, #list)
    local seen = {}
    for _, value in ipairs(fields(list[8][5][1])[1]) do
      local v = fields(value)
      seen[v[1][1]] = v[2][1]
    end
    assert.equal(7, list[8][2][1])
    assert.is_true(math.abs(seen.loss - 1 / 7) < 1e-7 and seen.lr == 0.5)
    local page = files.read(folder .. "/report.html")
    assert.truthy(page:find("&lt;a &amp; b&gt;", 1, true))
    local _, charts = page:gsub("<polyline", "")
    assert.equal(3, charts) -- loss, validation, rate
  end)

  it("goes on after a step, past a line that was cut off", function()
    local folder = files.name()
    local l = assert(log.open(folder, { tensorboard = false }))
    for i = 1, 10 do l:write(i, { loss = i }) end
    l:close()
    local file = assert(io.open(folder .. "/run.jsonl", "ab"))
    file:write '{"step":11,"lo'
    file:close()
    l = assert(log.open(folder, { tensorboard = false, after = 6 }))
    l:write(7, { loss = 70 })
    l:close()
    local _, records = log.read(folder)
    local losses = {}
    for i, r in ipairs(records) do losses[i] = r.loss end
    assert.same({ 1, 2, 3, 4, 5, 6, 70 }, losses)
  end)

  it("puts the log of an earlier run aside, whole", function()
    local folder = files.folder()
    for run = 1, 3 do
      local l <close> = assert(log.open(folder, { name = "run " .. run }))
      assert.equal(run > 1 and ("%s/earlier-%d"):format(folder, run - 1) or nil, l.aside)
      assert(l:write(1, { loss = run }))
    end
    for run, where in ipairs { "/earlier-1", "/earlier-2", "" } do
      local known, records = log.read(folder .. where)
      assert.equal("run " .. run, known.name)
      assert.equal(run, records[1].loss)
      local count = 0
      for _, name in ipairs(core.list_folder(folder .. where)) do
        count = count + (name:find "tfevents" and 1 or 0)
      end
      assert.equal(1, count)
    end
    local l <close> = assert(log.open(folder, { after = 1 }))
    assert.is_nil(core.list_folder(folder .. "/earlier-3"))
    assert(l:write(2, { loss = 4 }))
    assert.equal(2, #select(2, log.read(folder)))
  end)

  it("says what the world has against it", function()
    local none, message = log.open "/proc/nowhere"
    assert.is_nil(none)
    assert.matches("/proc/nowhere", message)
    assert.error_matches(function() log.open(7) end, "a folder wanted")
    assert.error_matches(function() log.open(files.name(), { names = 1 }) end, "names")
  end)
end)

describe("a trace", function()
  it("has a slice for every node, one after the other", function()
    local path = files.name ".trace.json"
    local w = mrt.parameter(mrt.randn(4, 4))
    local plan = mrt.compile(function(x)
      local loss = x:matmul(w):tanh():sum()
      w:assign(w - mrt.grad(loss, w))
      return loss
    end):plan(mrt.ones(3, 4))
    assert.is_true(plan:save(path))
    local trace = require "mrt.util.json".decode(files.read(path))
    local slices, at = {}, 0
    for _, e in ipairs(trace.traceEvents) do
      if e.ph == "X" then
        slices[#slices + 1] = e.tid
        assert.is_true(math.abs(e.ts - at) < 1e-6)
        at = e.ts + e.dur
      end
    end
    assert.equal(#plan:steps(), #slices)
    assert.equal(1, slices[1])
    assert.equal(4, slices[#slices])
  end)
end)
