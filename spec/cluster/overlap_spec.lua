-- overlap_spec.lua -- collectives beside kernels, held against events, and in plans
local mrt = require "mrt"
local Events = require "mrt.cluster.events"
local overlap = require "mrt.cluster.overlap"
local parts = require "mrt.cluster.parts"
local program = require "support.program"
local random_graph = require "support.random_graph"

local cluster = mrt.cluster "dgx-h100:16"
local job = { cluster = cluster, mesh = { tensor = 1, context = 1, data = 16, pipeline = 1 },
  software = { host = 1 } }

local function kernel(bytes)
  return { phase = "forward", kind = "memory", class = "pointwise", bytes = bytes, flops = 0 }
end

local function collective(bytes, value)
  return { phase = "forward", kind = "collective", collective = "allreduce", bytes = bytes,
    flops = 0, group = "data", value = value }
end

local function arrive(value) return { kind = "arrive", value = value, flops = 0, bytes = 0 } end

-- The same by events: three streams, and tasks of no length that wait.
local function by_events(list)
  local sim, done, last, awaited = Events.new(), {}, nil, {}
  local host, device = sim:stream "host", sim:stream "device"
  local links = sim:stream("links", { slows = device, by = cluster.overlap })
  for _, n in ipairs(list) do
    if n.kind == "arrive" then awaited[n.value] = true end
  end
  for _, n in ipairs(list) do
    if n.kind == "arrive" then
      last = sim:task(device, 0, { done[n.value] })
    else
      local launch = parts.launched(job, n)
      local launched = sim:task(host, launch.host)
      if n.kind ~= "collective" then
        last = sim:task(device, launch.device, { launched })
      else
        done[n.value] = sim:task(links, launch.device, { launched, last })
        if not awaited[n.value] then last = sim:task(device, 0, { done[n.value] }) end
      end
    end
  end
  return sim:run()
end

describe("a rank's streams", function()
  it("take as long as events say, whatever is drawn", function()
    local r = random_graph.generator(7)
    for _ = 1, 200 do
      local list, open = {}, {}
      for value = 1, r(30) do
        for _ = 2, r(4) do list[#list + 1] = kernel(2.0 ^ (9 + r(21))) end
        list[#list + 1] = collective(2.0 ^ (9 + r(21)), value)
        if r(3) > 1 then open[#open + 1] = value end
        while #open > 0 and r(2) == 1 do
          list[#list + 1] = arrive(table.remove(open, 1))
        end
      end
      local wanted = by_events(list)
      local got = overlap.seconds(job, list)
      assert(math.abs(got / wanted - 1) < 1e-9, ("%.9f, %.9f by events"):format(got, wanted))
    end
  end)

  it("hide what is awaited late, and nothing that is not", function()
    local work, sum = kernel(2.0 ^ 33), collective(2.0 ^ 20, 1)
    local apart = overlap.seconds(job, { kernel(1), sum, work })
    local beside = overlap.seconds(job, { kernel(1), sum, work, arrive(1) })
    local alone = overlap.seconds(job, { kernel(1), work })
    assert.is_true(apart > alone and beside < apart)
    assert.is_true(beside >= alone)
  end)
end)

describe("a plan of many ranks", function()
  it("has its lazy collectives beside what stands before their arrival", function()
    local out = program.script [[
      local mrt = require "mrt"
      local nodes, overlap = require "mrt.cluster.nodes", require "mrt.cluster.overlap"
      require "mrt.core".communicator.alone(0, 16)
      local comm = mrt.communicator.create()
      local model = mrt.nn.GPT { vocab = 64, dim = 512, layers = 4, heads = 8, context = 256 }
      local opt = mrt.optim.adamw(model:parameters(), { lr = 1e-3 })
      local step = mrt.compile(function(x, y)
        local loss = mrt.nn.cross_entropy(model(x), y)
        opt:step(mrt.grad(loss, model:parameters()))
        return loss
      end, { shard = mrt.policy.shard.ddp { comm = comm } })
      local ids = mrt.zeros(64, 256, { dtype = "i32" })
      local job = { cluster = mrt.cluster "dgx-a100:16", software = { host = 0.02 },
        mesh = { tensor = 1, context = 1, data = 16, pipeline = 1 } }
      local ahead, begun, met = {}, {}, 0
      local list = nodes.of_plan(step:plan(ids, ids), true)
      for _, node in ipairs(list) do
        if node.kind ~= "arrive" then ahead[#ahead + 1] = node end
        if node.kind == "collective" then begun[node.value] = true end
        if node.kind == "arrive" then assert(begun[node.value]) met = met + 1 end
      end
      print(met > 0, overlap.seconds(job, list) < overlap.seconds(job, ahead))
    ]]
    assert.equal("true\ttrue\n", out)
  end)

  it("says of each collective which ranks of a mesh share in it", function()
    local out = program.script [[
      local mrt = require "mrt"
      local mesh, nodes = require "mrt.mesh", require "mrt.cluster.nodes"
      require "mrt.core".communicator.alone(0, 16)
      local model = mrt.nn.Decoder { vocab = 64, dim = 32, layers = 2, heads = 2, hidden = 64,
        context = 16, experts = { count = 4, top = 2 } }
      local opt = mrt.optim.adamw(model:parameters(), { lr = 1e-3 })
      local step = mrt.compile(function(x, y)
        local loss = model:loss(x, y)
        opt:step(mrt.grad(loss, model:parameters()))
        return loss
      end, { mesh = { expert = 4, shard = 2, data = 2 } })
      local ids = mrt.zeros(4, 16, { dtype = "i32" })
      local met = {}
      for _, node in ipairs(nodes.of_plan(step:plan(ids, ids), true)) do
        if node.kind == "collective" then
          local m = mesh.members(node.comm)
          met[node.collective .. " " .. m.size .. " " .. m.stride] = true
        end
      end
      print(met["all_to_all 4 1"], met["allgather 2 4"], met["allreduce 8 2"])
    ]]
    assert.equal("true\ttrue\ttrue\n", out)
  end)
end)
