--- snapshot_spec.lua -- a run goes on where it was, however it ended
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local files = require "support.files"
local nn, optim, data, train = mrt.nn, mrt.optim, mrt.data, mrt.train
local core = require "mrt.core"

local STEPS <const> = 40
local program = os.getenv "MRT" or "build/mrt"

-- Run the script; what it printed of its bits, or nil when it was killed.
local function run(folder, mode, seconds)
  local command = ("MRT_THREADS=1 %s%s spec/train/killed.lua %s %d %s 2>&1"):format(
    seconds and ("timeout -s KILL %.3f "):format(seconds) or "", program, folder,
    STEPS, mode or "")
  local pipe = assert(io.popen(command))
  local text = pipe:read "a"
  pipe:close()
  return text:match "\nbits ([^\n]*) loss", text
end

local function names(folder)
  local list = {}
  for _, name in ipairs(assert(core.list_folder(folder))) do
    if name:find "^step" then list[#list + 1] = name end
  end
  table.sort(list)
  return list
end

describe("a run that is killed", function()
  it("ends with the same bits as one that is not", function()
    local wanted, text = run(files.folder())
    assert.truthy(wanted, text)
    -- Killed as soon as it has got a little further, wherever it then is.
    local folder, kills, seconds = files.folder(), 0, 0.02
    local got
    repeat
      local before = names(folder)
      got = run(folder, "save", seconds)
      if not got then kills = kills + 1 end
      local further = table.concat(before) ~= table.concat(names(folder))
      seconds = seconds * (further and 0.85 or 1.2)
    until got or kills == 500
    -- dozens of times; where the machine is busy, less often
    assert.is_true(kills > 2, "killed only " .. kills .. " times")
    assert.equal(wanted, got)
    local last = names(folder)
    assert.equal("step-00000040.safetensors", last[#last])
    assert.is_true(#last <= 3) -- killed before it forgot the oldest
    local _, records = train.read_log(folder)
    for i = 1, STEPS do assert.equal(i, records[i].step) end
    assert.equal(STEPS, #records)
    local same, said = run(folder, "save")
    assert.equal(wanted, same)
    assert.matches("nothing to do: .* has step 40 of 40", said)
  end)
end)

describe("snapshots", function()
  local function parts()
    local model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.3))
    local opt = optim.adamw(model:parameters(), { lr = 0.1 })
    local loader = data.batches({ mrt.ones(9, 3) }, { batch = 2, seed = 1 })
    local step = mrt.compile(function(x)
      local loss = (model(x) ^ 2):mean()
      opt:step(mrt.grad(loss, opt:parameters()))
      return loss
    end)
    return { model = model, optimizer = opt, loader = loader, step = step }
  end

  local function train_on(p, n)
    local losses = {}
    for i = 1, n do losses[i] = p.step(p.loader:next()):item() end
    return losses
  end

  it("go back within one process too, with a plan already made", function()
    local p = parts()
    local kept = train.snapshots { folder = files.folder(), parts = p }
    assert.equal(0, kept:resume())
    train_on(p, 3)
    assert(kept:save(3))
    local first = train_on(p, 6)
    assert.equal(3, kept:resume())
    assert.same(first, train_on(p, 6))
  end)

  it("keep plain values of other parts to the last bit", function()
    local p = parts()
    local odd = { a = 0.1 + 0.2, b = math.huge, c = { 1, 2.5, "float x" }, d = true,
      e = math.mininteger }
    local got
    p.more = { state = function() return odd end,
      load_state = function(_, values) got = values end }
    local kept = train.snapshots { folder = files.folder(), parts = p }
    assert(kept:save(1))
    assert(kept:resume())
    assert.same(odd, got)
    assert.equal("integer", math.type(got.c[1]))
    assert.equal("float", math.type(got.c[2]))
  end)

  it("that are damaged are passed over for the one before", function()
    local p = parts()
    local folder = files.folder()
    local kept = train.snapshots { folder = folder, parts = p }
    assert(kept:save(1))
    local path = assert(kept:save(2))
    local file = assert(io.open(path, "r+b"))
    file:write(("\xff"):rep(64))
    file:close()
    assert.equal(1, kept:resume())
    os.remove(folder .. "/step-00000001.safetensors")
    local done, message = kept:resume()
    assert.is_nil(done)
    assert.matches("step%-00000002", message)
  end)

  it("of another model are refused, and nothing changes", function()
    local p = parts()
    local folder = files.folder()
    assert(train.snapshots { folder = folder, parts = p }:save(1))
    local other = parts()
    other.model = nn.Sequential(nn.Linear(3, 5))
    local before = other.model:state()["layers.1.weight"]:bytes()
    local kept = train.snapshots { folder = folder, parts = other }
    assert.error_matches(function() kept:resume() end, "f32%[4%], wanted f32%[5%]")
    assert.equal(before, other.model:state()["layers.1.weight"]:bytes())
    other = parts()
    other.ema = { state = function() return {} end }
    kept = train.snapshots { folder = folder, parts = other }
    assert.error_matches(function() kept:resume() end, "no part 'ema'")
    assert.error_matches(function()
      train.snapshots { folder = folder, parts = { x = {} } }
    end, "'x' has no state")
  end)

  it("that cannot be written are told, and the old ones stay", function()
    local p = parts()
    local folder = files.folder()
    local kept = train.snapshots { folder = folder, parts = p }
    files.write(folder .. "/step-00000007.safetensors.partial-0123456789abcdef", "")
    assert(kept:save(1)) -- what was left of another goes
    local path, message = train.snapshots { folder = "/proc/none", parts = p }:save(1)
    assert.is_nil(path)
    assert.matches("/proc/none", message)
    assert.same({ "step-00000001.safetensors" }, names(folder))
  end)
end)
