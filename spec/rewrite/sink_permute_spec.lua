-- sink_permute_spec.lua -- permutations move past pointwise operators, meet and
-- cancel: fewer copies, the same bits
local mrt = require "mrt"
local random_graph = require "support.random_graph"
local bits = require("support.bits").of

local function copies(step, ...)
  local bytes = 0
  for _, node in ipairs(step:plan(...):steps()) do
    if node.op == "copy" then bytes = bytes + node.bytes end
  end
  return bytes
end

-- A network written on [N,C,H,W] around kernels that want the channels last.
local function residual(blocks)
  local n, c, h, w = 2, 8, 6, 5
  mrt.seed(1)
  local first, second = mrt.variable(mrt.randn(c, c)), mrt.variable(mrt.randn(c, c))
  mrt.eval { first, second }
  local function layer(x, weight)
    return x:permute(1, 3, 4, 2):linear(weight):layer_norm():permute(1, 4, 2, 3)
  end
  return function(x)
    local y = layer(x, first):relu()
    for _ = 1, blocks do
      y = (layer(layer(y, second):relu(), second) + y):relu()
    end
    local loss = (y:permute(1, 3, 4, 2):reshape(-1, c):sum(2) * 0.1):sin():sum()
    local grads = mrt.grad(loss, { first, second })
    first:assign(first - grads[1] * 0.1)
    second:assign(second - grads[2] * 0.1)
    return loss
  end, { first, second }, mrt.eval(mrt.randn(n, c, h, w))
end

describe("the pass permutes", function()
  it("leaves one copy of a channels-first network: its input", function()
    local function run(blocks, options)
      local f, variables, x = residual(blocks)
      local step = mrt.compile(f, options)
      local moved = copies(step, x)
      local shown = bits { step(x) } .. bits { step(x) }
      return moved, x:numel() * 8, shown .. bits(variables)
    end
    for _, blocks in ipairs { 1, 4 } do
      local moved, one, shown = run(blocks)
      local before, _, wanted = run(blocks, { sink_permute = false })
      assert.equal(one, moved)
      assert.is_true(before > 4 * blocks * one)
      assert.is_true(shown == wanted)
    end
  end)

  it("turns what is added to a turned value rather than both", function()
    local x, y = mrt.eval(mrt.randn(3, 4, 5)), mrt.eval(mrt.randn(5, 3, 4))
    local function f(a, b)
      local s = (a:permute(3, 1, 2) + b):tanh()
      return s:permute(2, 3, 1):softmax(3), s:permute(2, 3, 1):cumsum(3)
    end
    local step = mrt.compile(f)
    assert.equal(0, copies(step, x, y))
    assert.is_true(bits { step(x, y) } == bits { mrt.compile(f, { sink_permute = false })(x, y) })
  end)

  it("takes cats along, of one to four values, wherever their dimension goes", function()
    for count = 1, 4 do
      local xs = {}
      for i = 1, count do xs[i] = mrt.eval(mrt.randn(2, 3 + i, 5, 4)) end
      local function f(...)
        local turned = {}
        for i, x in ipairs { ... } do
          turned[i] = x:permute(1, 3, 4, 2):exp():permute(1, 4, 2, 3)
        end
        local all = mrt.cat(turned, 2)
        local loss = all:permute(1, 3, 4, 2):softmax(4):square():sum()
        return loss, all:tanh():permute(1, 3, 4, 2):cumsum(4), table.unpack(mrt.grad(loss, { ... }))
      end
      local step, plain = mrt.compile(f), mrt.compile(f, { sink_permute = false })
      assert.is_true(bits { step(table.unpack(xs)) } == bits { plain(table.unpack(xs)) })
      local moved, before = copies(step, table.unpack(xs)), copies(plain, table.unpack(xs))
      assert.is_true(moved < before, count .. ": " .. moved .. ", " .. before)
    end
  end)

  it("makes one view, or none, of views in a row", function()
    local x = mrt.eval(mrt.randn(2, 3, 4))
    local step = mrt.compile(function(a)
      return a:permute(2, 3, 1):transpose(1, 2):permute(3, 2, 1):softmax(3),
        a:permute(3, 1, 2):permute(3, 1, 2):exp()
    end)
    local views = 0
    for _, node in ipairs(step:plan(x):stage("dce").nodes) do
      if node.op == "permute" or node.op == "transpose" then views = views + 1 end
    end
    assert.equal(1, views)
  end)

  it("changes no bit of random programs", function()
    local orders = { { 1, 3, 2 }, { 2, 1, 3 }, { 2, 3, 1 }, { 3, 1, 2 }, { 3, 2, 1 } }
    local unary = {
      function(x) return x:relu() end,
      function(x) return x:to("f64"):tanh():to "f32" end,
      function(x) return x * mrt.full({ 1, 1, x.shape[3] }, 0.5) + 1 end,
      function(x) return x:softmax(-1) end,
      function(x) return x:sum(2, true) + x end,
      function(x) return mrt.where(x:gt(0), x, x * 0.1) end,
      function(x) return x:dropout(0.3) end,
    }
    local function program(random, w)
      local pool = { w, w:tanh() }
      for _ = 1, 6 + random(10) do
        local x, kind = pool[random(#pool)], random(5)
        if kind <= 2 then
          x = x:permute(table.unpack(orders[random(#orders)]))
        elseif kind <= 3 then
          x = unary[random(#unary)](x)
        else
          local y = pool[random(#pool)]
          if y.shape[1] == x.shape[1] and y.shape[2] == x.shape[2]
            and y.shape[3] == x.shape[3] then
            x = x + y:sin()
          end
        end
        pool[#pool + 1] = x
      end
      return pool
    end
    for seed = 1, tonumber(os.getenv "MRT_SPEC_GRAPHS") or 150 do
      local random = random_graph.generator(seed)
      local dims = { random(4), random(4), random(4) }
      local function run(options)
        local again = random_graph.generator(seed + 7)
        mrt.seed(seed)
        local w = mrt.eval(mrt.variable(mrt.randn(dims)))
        local step = mrt.compile(function()
          local pool = program(again, w)
          local loss = (pool[#pool] * pool[#pool // 2]:sum()):sum()
          local g = mrt.grad(loss, w)
          w:assign(w - g * 0.1)
          return loss, pool[#pool], pool[#pool - 1], w
        end, options)
        return bits { step() } .. bits { w }
      end
      assert(run {} == run { sink_permute = false }, ("seed %d"):format(seed))
    end
  end)
end)
