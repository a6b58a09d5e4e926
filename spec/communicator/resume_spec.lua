-- resume_spec.lua -- ranks that train, save, are killed, go on; ranks that end
local files = require "support.files"
local program = require "support.program"

-- Status, output and seconds of `mrt launch` with a script.
local function launch(options, text, arguments)
  local path, clock = files.temporary(text), require "mrt.core".clock
  local began = clock()
  local code, out = program.run(("launch %s %s %s"):format(options, path, arguments or ""))
  return code, out, clock() - began
end

-- Every rank has its own batches and random numbers, all the same parameters.
-- Arguments: a folder, a policy of sharding or "hand", then RESTART RANK STEP ..., at
-- which to be killed.
local training = [[
  local mrt = require "mrt"
  local nn, train, comm = mrt.nn, mrt.train, mrt.communicator.create()
  local kills = {}
  local sharded = arg[2] ~= "hand" and mrt.policy.shard[arg[2] ]()
  for i = 3, #arg, 3 do kills[table.concat(arg, " ", i, i + 2)] = true end
  mrt.seed(7)
  local model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3))
  local params = model:parameters()
  local opt = mrt.optim.adamw(params, { lr = function(t) return 0.01 / math.sqrt(t) end })
  local x = mrt.randn(21, 6)
  local y = x:slice(2, 1, 3):argmax(2):cast "i32"
  mrt.eval(x, y, params)
  mrt.seed(100 + comm.rank)
  local step = mrt.compile(function(a, b)
    local loss = nn.cross_entropy(model(a), b)
    local g = mrt.grad(loss, params)
    if not sharded then
      for i, d in ipairs(g) do g[i] = comm:allreduce(d, { op = "mean" }) end
    end
    opt:step(g, { clip = 1 })
    return comm:allreduce(loss, { op = "mean" })
  end, { shard = sharded or nil })
  train.run {
    model = model, optimizer = opt, step = step, steps = 12, log = arg[1],
    loader = mrt.data.batches({ x, y }, { batch = 4, seed = comm.rank }),
    snapshots = arg[1], snapshot_every = 3, keep = 2, resume = true, log_every = 4,
    on_step = function(now)
      if kills[("%s %d %d"):format(os.getenv "MRT_RESTART", comm.rank, now.step)] then
        os.execute "kill -9 $PPID"
      end
    end,
  }
  local bits = {}
  for name, t in pairs(model:state()) do
    bits[#bits + 1] = name .. t:bytes():gsub(".", function(c) return ("%02x"):format(c:byte()) end)
  end
  table.sort(bits)
  local all = table.concat(bits)
  local hash = 0
  for i = 1, #all do hash = (hash * 31 + all:byte(i)) & 0xffffffffffff end
  io.write("bits ", hash, "\n")]]

-- The bits that all ranks print; what was printed.
local function train(how, kills)
  local folder = files.name()
  local code, out = launch("-n 2 --restarts 3 --grace 5", training,
    ("%s %s %s"):format(folder, how, kills))
  assert.equal(0, code, out)
  local bits = out:match "%[0%] bits (%d+)"
  assert.equal(bits, out:match "%[1%] bits (%d+)")
  local _, names = program.shell("ls " .. folder)
  return bits, out, names
end

describe("ranks that are killed", function()
  local undisturbed, shown, names
  setup(function() undisturbed, shown, names = train("hand", "") end)

  it("go on from the snapshot that rank 0 wrote, bit for bit", function()
    for _, kills in ipairs { "0 1 5 1 0 10", "0 0 2" } do
      local bits, out = train("hand", kills)
      assert.equal(undisturbed, bits)
      assert.matches("was ended by signal 9; all start anew", out)
    end
  end)

  it("go on with weights and state in pieces", function()
    assert.equal(train("fsdp", ""), (train("fsdp", "0 1 8")))
  end)

  it("show and log on rank 0 only", function()
    assert.matches("%[0%] step 12/12", shown)
    assert.falsy(shown:find("[1] step", 1, true), shown)
    assert.matches("step%-00000009.*step%-00000012", names)
    assert.falsy(names:find("partial", 1, true))
  end)
end)

describe("a snapshot of ranks", function()
  it("is refused by a rank that has no place in it", function()
    local folder = files.name()
    local text = [[
      local mrt = require "mrt"
      local comm = mrt.communicator.create()
      local w = mrt.variable(mrt.zeros(2))
      local saver = mrt.train.snapshots { folder = arg[1], parts = { w = { state = function()
        return { w = w } end } } }
      if arg[2] == "save" then
        mrt.seed(arg[3] == "alike" and 1 or comm.rank)
        w:assign(w + 1)
        print(saver:save(5))
      else
        print(saver:resume())
      end]]
    launch("-n 2", text, folder .. " save apart")
    local _, out = launch("-n 3", text, folder .. " load")
    for r = 0, 2 do
      assert.matches("%[" .. r .. "%] nil[^\n]*saved by 2 ranks, each at a place of its own; "
        .. "this is rank 2", out)
    end
    launch("-n 2", text, folder .. " save alike")
    _, out = launch("-n 3", text, folder .. " load")
    assert.matches("%[2%] 5", out)
    os.execute("rm -r " .. folder)
    files.write(folder, "") -- no folder
    _, out = launch("-n 2", text, folder .. " save apart")
    for r = 0, 1 do assert.matches("%[" .. r .. "%] nil\t", out) end
  end)
end)

describe("a rank that ends", function()
  it("takes the others with it, saying how and where", function()
    local text = [[
      local mrt = require "mrt"
      local comm = mrt.communicator.create()
      local step = mrt.compile(function(x) return comm:allreduce(x) end)
      step(mrt.ones(3))
      if comm.rank == 1 then
        %s
      end
      step(mrt.ones(3))]]
    local ways = {
      { "error 'gone wrong'", ":6: gone wrong" },
      { "assert(nil, 'no data')", "no data" },
      { "mrt.ones(2):reshape(3)", ":6: reshape" },
      { "os.exit(3)", ":6: os.exit(3)", "has ended", 3 },
      { "os.exit(0)", "", "has ended", 75 },
      { "return", "", "has ended", 75 },
      { "os.execute '(sleep 0.1; kill -INT $PPID) &' while true do end", "interrupted", nil,
        130 },
      { "os.execute 'kill -9 $PPID'", "", "died", 128 + 9 },
    }
    for _, way in ipairs(ways) do
      local code, out, seconds = launch("-n 3 --grace 200", text:format(way[1]))
      assert.equal(way[4] or 1, code, out)
      if code ~= 75 then assert.matches("mrt launch: rank 1", out) end
      local wanted = way[2] == "" and way[3] or "ended: "
      for _, r in ipairs { 0, 2 } do
        local said = out:match(("%%[%d%%] mrt: ([^\n]*)"):format(r))
        assert.matches(":8: allreduce %([^\n]*:3%), run 2: rank 1 %(pid %d+ on [^\n]*%) ", said)
        assert.truthy(said:find(wanted, 1, true) and said:find(way[2], 1, true), out)
      end
      assert.is_true(seconds < 150, way[1] .. ": " .. seconds .. " s")
    end
  end)
end)

describe("ranks of several machines", function()
  it("plan with rank 0's figures, and with what it measured", function()
    local code, out = launch("-n 2", [[
      local mrt = require "mrt"
      if os.getenv "RANK" == "0" then mrt.device.use "a100-40" end
      local comm = mrt.communicator.create()
      print("plans for", mrt.device.current().name)
      local step = mrt.compile(function(x) return comm:allreduce(x):sin() end)
      print("took", step:profile(mrt.ones(1000)).total)]])
    assert.equal(0, code, out)
    local own, took = {}, {}
    for r = 0, 1 do
      own[r] = out:match("%[" .. r .. "%] plans for\t([^\n]*)")
      took[r] = out:match("%[" .. r .. "%] took\t([^\n]*)")
    end
    assert.same({ [0] = "a100-40", "a100-40" }, own)
    assert.equal(took[0], took[1])
  end)
end)
