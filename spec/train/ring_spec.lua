--- ring_spec.lua -- a run takes its plan, its inputs and little else
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local files = require "support.files"
local program = require "support.program"
local nn, optim, data, train = mrt.nn, mrt.optim, mrt.data, mrt.train

local MOST = 16 << 20

local function numbers(script)
  local out, text = {}, program.script(script)
  for n in text:gmatch "%S+" do
    out[#out + 1] = assert(math.tointeger(tonumber(n)), text)
  end
  return table.unpack(out)
end

local head = [[
local mrt = require "mrt"
local function status(name)
  return assert(io.open "/proc/self/status"):read "a":match(name .. ":%s*(%d+)") * 1024 // 1
end
]]

describe("data.batches", function()
  it("reads the rows of its tensors where they are #process", function()
    local grown = numbers(head .. [[
      local x = mrt.full({ 40 << 20 }, 1.5):reshape(1 << 16, 640)
      mrt.eval(x)
      collectgarbage()
      local before = status "VmRSS"
      local loader, sum = mrt.data.batches({ x }, { batch = 64 }), 0
      for _ = 1, 40 do sum = sum + loader:next():sum():item() end
      assert(sum == 40 * 64 * 640 * 1.5)
      print(status "VmHWM" - before)]])
    assert(grown <= MOST, grown)
  end)

  it("keeps what the script lets go, and the numbers of a variable", function()
    local x = mrt.arange(6):to "f32":reshape(3, 2)
    local w = mrt.variable(mrt.ones(3))
    local loader = data.batches({ x, w }, { batch = 3, shuffle = false })
    x:free()
    w:assign(mrt.zeros(3))
    local a, b = loader:next()
    assert.same({ { 0, 1 }, { 2, 3 }, { 4, 5 } }, a:totable())
    assert.same({ 1, 1, 1 }, b:totable())
  end)
end)

-- A small model on large mini-batches; what a run takes beyond its plan.
local function run(loader, more)
  local model = nn.Sequential(nn.Linear(512, 4))
  local given = { model = model, optimizer = optim.sgd(model:parameters(), { lr = 0.01 }),
    loader = loader, steps = 60, loss = function(m, x) return m(x):square():mean() end }
  for name, value in pairs(more or {}) do given[name] = value end
  local stdout, capture = io.stdout, io.tmpfile()
  io.stdout = capture -- luacheck: ignore 122
  local ok, message = pcall(train.run, given)
  io.stdout = stdout -- luacheck: ignore 122
  capture:close()
  assert(ok, message)
end

local rows = mrt.eval(mrt.ones(4096, 512))
local INPUT <const> = 2048 * 512 * 4

local function batches() return data.batches({ rows }, { batch = 2048 }) end

local function grown(...)
  collectgarbage()
  local before = mrt.memory { reset = true }.now
  run(...)
  return mrt.memory().peak - before
end

describe("a training run", function()
  it("has one mini-batch at a time", function()
    assert(grown(batches()) < 2 * INPUT, grown(batches()))
  end)

  it("has one of them in evaluations too", function()
    local loss = train.evaluator { model = nn.Linear(512, 4), loader = batches(),
      loss = function(m, x) return m(x):square():mean() end }
    assert(grown(batches(), { eval = loss, eval_every = 2 }) < 3 * INPUT)
  end)

  it("leaves alone what a loader of the script's may keep, and still is bounded", function()
    local own, kept, count = batches(), {}, 0
    local loader = { next = function()
      local x = own:next()
      count = count + 1
      if count % 20 == 1 then kept[#kept + 1] = { x, x:sum():item() } end
      return x
    end }
    local most = grown(loader)
    assert.equal(3, #kept)
    for _, pair in ipairs(kept) do assert.equal(pair[2], pair[1]:sum():item()) end
    assert(most < 4 * INPUT + MOST, most)
  end)

  it("leaves alone what was taken from its own loader by other ways", function()
    local loader, kept = batches(), {}
    local fetch = loader.fetch
    loader.fetch = function(...)
      local x = fetch(...)
      kept[#kept + 1] = x
      return x
    end
    run(loader, { steps = 3 })
    assert.equal(2048 * 512, kept[1]:sum():item())
    local all = data.batches({ rows }, { batch = "all" })
    run(all, { steps = 3 })
    assert.equal(4096 * 512, rows:sum():item())
  end)

  it("is drawn under what was planned, with what was there before", function()
    local folder = files.name()
    collectgarbage() -- what earlier runs have left counts to neither side
    collectgarbage()
    mrt.memory { reset = true }
    run(batches(), { log = folder })
    local about, records = assert(train.read_log(folder))
    -- numbers that the step reads anew, such as rates, are tensors of a few bytes
    local most = about.peak + about.inputs + about.beside + 1024
    for _, r in ipairs(records) do assert(r.memory <= most, r.memory - most) end
  end)

  it("takes what was planned between evaluations that take more, too", function()
    local folder, model = files.name(), nn.Sequential(nn.Linear(512, 4))
    local loss = train.evaluator { model = model, loader = data.batches({ rows },
      { batch = 4096 }), loss = function(m, x) return (m(x):exp() + x:sum()):mean() end }
    loss()
    collectgarbage()
    collectgarbage()
    mrt.memory { reset = true }
    run(batches(), { log = folder, eval = loss, eval_every = 7 })
    local about, records = assert(train.read_log(folder))
    local most = about.peak + about.inputs + about.beside + 1024
    for _, r in ipairs(records) do assert(r.memory <= most, r.memory - most) end
  end)
end)
