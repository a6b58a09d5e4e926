--- module_spec.lua -- where in a program and in which module a node was made
---
--- SPDX-License-Identifier: MIT

local files = require "support.files"
local json = require "mrt.util.json"
local mrt = require "mrt"
local nn = mrt.nn

local function line_here() return debug.getinfo(2, "l").currentline end

-- Modules of a plan's steps as a set; operators by module.
local function modules_of(plan)
  local found = {}
  for _, s in ipairs(plan:steps()) do
    local key = s.module or "-"
    found[key] = (found[key] and found[key] .. " " or "") .. s.op .. (s.backward and "'" or "")
  end
  return found
end

local Block = nn.Module "Block"
local SCALE_LINE
function Block:init(shared)
  self.fc, self.act = nn.Linear(8, 8), shared
  self.parts = { a = nn.Linear(8, 8) } -- named, in no list: it is not found
end
function Block:forward(x)
  SCALE_LINE = line_here() + 1
  return self.act(self.fc(x)) * 3
end

local Net = nn.Module "Net"
local CALL_LINE
function Net:init()
  local shared = nn.LayerNorm(8)
  self.blocks = { Block(shared), Block(shared) }
  self.head = nn.Linear(8, 2)
end
function Net:forward(x)
  for _, b in ipairs(self.blocks) do x = b(x) end
  CALL_LINE = line_here() + 1
  return self.head(x)
end

local off = { fuse = false, fuse_epilogue = false, cse = false, fold = false, simplify = false }

describe("a node", function()
  it("is of the module that is called and of the user's own line", function()
    local net = Net()
    local plan = mrt.compile(function(x) return net(x):sum() end, off):plan(mrt.ones(4, 8))
    local found = modules_of(plan)
    assert.equal("linear", found["blocks.1.fc"])
    assert.equal("linear", found["blocks.2.fc"])
    assert.equal("layer_norm layer_norm", found["blocks.1.act"]) -- shared: the first name
    assert.equal("full mul", found["blocks.1"])
    assert.equal("linear", found.head)
    assert.is_truthy(found["-"]:find "sum")
    for _, s in ipairs(plan:steps()) do
      assert.matches("module_spec.lua$", s.file)
      if s.module == "blocks.1" or s.module == "blocks.2.fc" then
        assert.equal(SCALE_LINE, s.line)
      elseif s.module == "head" then
        assert.equal(CALL_LINE, s.line)
      end
    end
  end)

  it("of a gradient or an update is of the forward pass's module or of the parameter", function()
    local net = Net()
    local opt = mrt.optim.adamw(net:parameters())
    local plan = mrt.compile(function(x)
      local loss = net(x):pow(2):mean()
      opt:step(mrt.grad(loss, net:parameters()))
      return loss
    end):plan(mrt.ones(4, 8))
    local found = modules_of(plan)
    assert.is_truthy(found["blocks.2.fc"]:find("linear", 1, true))
    assert.is_truthy(found["blocks.2.fc"]:find("'", 1, true))
    assert.equal("adamw", found["blocks.2.fc.weight"])
    assert.equal("adamw", found["head.bias"])
  end)

  it("is of a class where the module is in no other, of none outside", function()
    local fc, other = nn.Linear(8, 8), nn.Linear(8, 8)
    local plan = mrt.compile(function(x) return other(fc(x)) + fc.weight end, off)
      :plan(mrt.ones(8, 8))
    assert.same({ Linear = "linear linear", ["-"] = "add" }, modules_of(plan))
    -- From then on in another: the longer path.
    local net = nn.Sequential(nn.Sequential(fc), other)
    plan = mrt.compile(function(x) return net(x) end, off):plan(mrt.ones(8, 8))
    assert.same({ ["layers.1.layers.1"] = "linear", ["layers.2"] = "linear" }, modules_of(plan))
  end)

  it("is of no module that an error, or a coroutine, has left", function()
    local net = Net()
    local ok, e = pcall(net, mrt.ones(4, 7))
    assert.is_false(ok)
    assert.matches("module_spec.lua:%d+: Linear: linear: .* %(in blocks%.1%.fc%)$", tostring(e))
    local Waits = nn.Module "Waits"
    function Waits:forward(x) -- luacheck: ignore
      coroutine.yield()
      return x * 2
    end
    local waits = Waits()
    local found = modules_of(mrt.compile(function(x)
      local thread = coroutine.wrap(function() return waits(x) end)
      thread()
      local y = x + 1
      return thread() + y:exp()
    end, off):plan(mrt.ones(4)))
    assert.equal("full mul", found.Waits)
    assert.is_nil(found["-"]:find "mul")
  end)

  it("shows in reports, policies, profiles and files", function()
    local net = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8), nn.Linear(8, 8))
    local asked = {}
    local step = mrt.compile(function(x)
      local loss = net(x):pow(2):sum()
      return loss, mrt.grad(loss, net.layers[1].weight)
    end, { checkpoint = function(value) asked[value.module or "-"] = true return "keep" end })
    local x = mrt.ones(4, 8)
    local plan = step:plan(x)
    assert.is_true(asked["layers.1"] and asked["layers.3"])
    local path = files.name()
    local out = assert(io.open(path, "w"))
    plan:report(out)
    out:close()
    assert.matches("layers%.%*, [^\n]*module_spec.lua:%d+", files.read(path))
    for _, format in ipairs { "json", "trace.json", "snapshot.json" } do
      assert(plan:save(path .. "." .. format))
      assert.is_truthy(files.read(path .. "." .. format):find("layers.3", 1, true), format)
    end
    local steps = json.decode(files.read(path .. ".json")).steps
    assert.equal("string", type(steps[1].module))
    local profile = step:profile(x)
    local names = {}
    for _, g in ipairs(profile:by_module()) do names[g.name] = g.count end
    assert.is_true(names["layers.1"] > 0)
  end)

  it("are found however deep modules stand in each other", function()
    local net = nn.ReLU()
    for _ = 1, 100 do net = nn.Sequential(net) end
    for depth = 0, 200, 40 do -- of the stack above, each in a coroutine of its own
      local function within(n)
        local y = n == 0 and net(mrt.ones(2)) or within(n - 1)
        return y
      end
      local ok, y = coroutine.resume(coroutine.create(within), depth)
      assert.is_true(ok, y)
      assert.equal(2, y:sum():item())
    end
  end)
end)
