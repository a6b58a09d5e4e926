--- damage_spec.lua -- snapshots that have been damaged: never wrong bits
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local json = require "mrt.util.json"
local files = require "support.files"
local nn, optim, data, train = mrt.nn, mrt.optim, mrt.data, mrt.train

local COUNT <const> = 400

local function new_parts()
  local model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.3))
  local opt = optim.adamw(model:parameters(), { lr = 0.1 })
  local step = mrt.compile(function(x)
    local loss = (model(x) ^ 2):mean()
    opt:step(mrt.grad(loss, opt:parameters()))
    return loss
  end)
  return { model = model, optimizer = opt, step = step,
    loader = data.batches({ mrt.ones(9, 3) }, { batch = 2, seed = 1 }) }
end

-- All that a run goes on from, as text.
local function bits(parts)
  local list = { mrt.get_rng_state().seed, mrt.get_rng_state().next }
  for name, part in pairs(parts) do
    for key, value in pairs(part:state()) do
      local text = mrt.is_tensor(value) and value:bytes()
        or json.encode(value, { order = { "signature", "key", "runs" } })
      list[#list + 1] = ("%s.%s=%s"):format(name, key, text)
    end
  end
  for i, entry in ipairs(list) do list[i] = tostring(entry) end
  table.sort(list)
  return table.concat(list, "\n")
end

-- A folder with snapshots of steps 1 and 2, and the bits at each.
local function new_run()
  local parts, at = new_parts(), {}
  local kept = train.snapshots { folder = files.folder(), parts = parts }
  for i = 1, 2 do
    parts.step(parts.loader:next())
    assert(kept:save(i))
    at[i] = bits(parts)
  end
  return kept, parts, at
end

local function path_of(kept, step)
  return ("%s/step-%08d.safetensors"):format(kept.folder, step)
end

-- A source of numbers below n that is the same every time.
local function new_dice(seed)
  return function(n)
    seed = seed * 6364136223846793005 + 1442695040888963407
    return (seed >> 33) % n
  end
end

local HEADER <const> = 1500 -- where mutations are most of interest

-- Some bytes changed, taken out, put in, or moved.
local function mutate(bytes, dice)
  for _ = 1, 1 + dice(3) do
    local at = 1 + dice(dice(2) == 0 and #bytes or math.min(HEADER, #bytes))
    local kind, old = dice(7), bytes:byte(at)
    local before, after = bytes:sub(1, at - 1), bytes:sub(at + 1)
    if kind == 0 then
      bytes = before .. string.char(old ~ 1 << dice(8)) .. after
    elseif kind == 1 then
      bytes = before .. string.char(dice(256)) .. after
    elseif kind == 2 then
      bytes = before .. after
    elseif kind == 3 then
      bytes = before .. bytes:sub(at, at + dice(40)) .. bytes:sub(at)
    elseif kind == 4 then
      bytes = before .. bytes:sub(at + dice(40))
    elseif kind == 5 then
      bytes = bytes:gsub("%d", function(digit)
        if dice(60) == 0 then return tostring(dice(10)) end
        return digit
      end)
    elseif dice(8) == 0 then
      bytes = before
    end
  end
  return bytes
end

describe("a damaged snapshot", function()
  it("is passed over, and told: no wrong bit is gone on from", function()
    local kept, parts, at = new_run()
    local newest, dice = path_of(kept, 2), new_dice(1)
    local whole = files.read(newest)
    local passed = 0
    for i = 1, COUNT do
      local bytes = mutate(whole, dice)
      files.write(newest, bytes)
      local step, said = kept:resume()
      assert.equal(at[step], bits(parts), i)
      if step == 1 then
        passed = passed + 1
        assert.matches("step-00000002.safetensors: ", said, 1, true)
      else
        assert.is_nil(said)
      end
    end
    assert.is_true(passed > COUNT * 3 // 4, passed)
  end)

  it("is refused by name where there is none before it", function()
    local kept, parts, at = new_run()
    local newest, dice = path_of(kept, 2), new_dice(2)
    local whole = files.read(newest)
    os.remove(path_of(kept, 1))
    for i = 1, COUNT // 4 do
      files.write(newest, mutate(whole, dice))
      local step, said = kept:resume()
      if step then
        assert.equal(at[step], bits(parts), i)
      else
        assert.matches("step-00000002.safetensors: ", said, 1, true)
      end
    end
  end)

  it("is told by train.run", function()
    local kept, parts = new_run()
    files.write(path_of(kept, 2), "x")
    local out = files.name()
    local stdout = io.stdout
    io.stdout = assert(io.open(out, "w")) -- luacheck: ignore 122
    local ok, why = pcall(train.run, { model = parts.model, optimizer = parts.optimizer,
      step = parts.step, loader = parts.loader, steps = 2, snapshots = kept.folder,
      resume = true })
    io.stdout:close()
    io.stdout = stdout -- luacheck: ignore 122
    assert.is_true(ok, why)
    assert.matches("going on from step 1 of 2, saved in .*: .*step%-00000002.safetensors: 1 bytes",
      files.read(out))
  end)
end)

-- Write a snapshot as before there were checksums, its metadata changed.
local function write_old(path, tensors, metadata, changed)
  metadata["mrt.snapshot"] = "1"
  for key, value in pairs(changed) do metadata[key] = value or nil end
  assert(mrt.save(path, tensors, metadata))
  local bytes = files.read(path)
  local header, first = string.unpack("<s8", bytes)
  header = header:gsub('"mrt.crc32":"%x+",', "")
  files.write(path, string.pack("<s8", header) .. bytes:sub(first))
end

describe("a snapshot without checksums", function()
  it("is read, what it says is looked at", function()
    local kept, parts, at = new_run()
    local newest = path_of(kept, 2)
    local tensors, metadata = assert(mrt.load(newest))
    write_old(newest, tensors, metadata, {})
    assert.equal(2, kept:resume())
    assert.equal(at[2], bits(parts))
    local function state(change)
      local about = json.decode(metadata.state)
      change(about)
      return { state = json.encode(about) }
    end
    for why, changed in pairs {
      ["ranks cannot"] = { ranks = "abc" }, ["ranks cannot "] = { pieces = "1e18" },
      [" ranks cannot"] = { pieces = "-1" }, ["no such file"] = { pieces = "60000" },
      ["state cannot"] = { state = ("["):rep(200000) }, [" state cannot"] = { state = "7" },
      ["state cannot "] = { state = false }, ["no snapshot"] = { ["mrt.snapshot"] = "3" },
      ["checksums are gone"] = { ["mrt.snapshot"] = "2" },
      ["no step"] = state(function(s) s.step = "x" end),
      [" no step"] = state(function(s) s.step = -9 end),
      ["no step "] = state(function(s) s.step = {} end),
      ["random numbers"] = state(function(s) s.random = 7 end),
      [" random numbers"] = state(function(s) s.random = { seed = "x" } end),
      ["no parts"] = state(function(s) s.parts = nil end),
      [" no parts"] = state(function(s) s.parts.model = 7 end),
    } do
      local said = {}
      for key, value in pairs(metadata) do said[key] = value end
      write_old(newest, tensors, said, changed)
      local step, text = kept:resume()
      assert.equal(1, step, why)
      assert.equal(at[1], bits(parts))
      assert.matches("step-00000002", text, 1, true)
      assert.matches(why:match "^%s*(.-)%s*$", text:lower(), 1, true)
    end
  end)
end)
