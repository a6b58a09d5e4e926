-- random_graph.lua -- programs made at random, the same for the same seed
--
-- A program is a function of a list of leaf tensors that returns a list of
-- results.  `each(t)` is called with every tensor it makes and returns what to
-- go on with: identity to build one graph, mrt.eval to compute step by step.
local mrt = require "mrt"

local random_graph = {}

--- A function like math.random(n), the same for the same seed.
function random_graph.generator(seed)
  local state = seed % 2147483646 + 1
  return function(n)
    state = state * 48271 % 2147483647
    return state % n + 1
  end
end

local unary = {
  function(x) return x:tanh() end,
  function(x) return x:sigmoid() end,
  function(x) return x:relu() end,
  function(x) return (x * 0.5):exp() end,
  function(x) return -x end,
  function(x) return -(-x) * 1 end,
  function(x) return x:gelu() end,
  function(x) return x * 2 + 0.25 end,
  function(x) return x:softmax(-1) end,
  function(x) return x:layer_norm() end,
  function(x) return x:cumsum(1) end,
  function(x) return x:dropout(0.3) end,
  function(x) return x:copy() end,
  function(x) return x:transpose(1, 2) end,
  function(x) return x:transpose(1, 2):relu():transpose(1, 2) end,
  function(x) return x:t() * 2 + x:t():tanh() end,
  function(x) return x:detach() + x end,
  function(x) return x:sum(2, true):expand(x.shape) end,
  function(x) return x:mean(1, true) + x end,
  function(x) return x:abs():sqrt() end,
  function(x) return x:to "f64":sin():to "f32" end,
  function(x) return x:slice(1, 1, -1) end,
  function(x) return x:slice(2, 1, -2) end,
  function(x) return x:reshape(-1, 2) end,
  function(x) return x:gather(1, mrt.zeros({ 1, x.shape[2] }, { dtype = "i64" })) end,
}

local binary = {
  function(x, y) return x + y end,
  function(x, y) return x - y end,
  function(x, y) return x * y end,
  function(x, y) return x:maximum(y) end,
  function(x, y) return mrt.where(x:gt(y), x, y * 2) end,
}

-- Bring y to x's shape, or to x's columns.
local function fit(x, y)
  if x.shape[1] == y.shape[1] and x.shape[2] == y.shape[2] then
    return y
  end
  return y:sum(2, true):sum(1, true)
end

local function grow(random, pool, each)
  local x = pool[random(#pool)]
  local kind = random(10)
  if kind <= 5 then
    return each(unary[random(#unary)](x))
  elseif kind <= 8 then
    local y = each(fit(x, pool[random(#pool)]))
    return each(binary[random(#binary)](x, y))
  elseif kind == 9 then
    return each(x:matmul(x:t()))
  end
  return each(mrt.cat({ x, x * 0.5 }, random(2)))
end

local function too_large(t)
  return t:numel() > 600 or t:numel() == 0 or t.shape[2] % 2 == 1
end

--- The program of a seed: `run(leaves, each)` gives {loss, tensors...}.
function random_graph.program(seed, size)
  return function(leaves, each)
    local random = random_graph.generator(seed)
    local pool = { table.unpack(leaves) }
    for _ = 1, size do
      local t = grow(random, pool, each)
      if not too_large(t) then
        pool[#pool + 1] = each(t * 0.5)
      end
    end
    local loss = each((pool[1] * 0):sum())
    for i = math.max(1, #pool - 4), #pool do
      loss = each(loss + each((pool[i] * pool[i]):mean()))
    end
    return { loss, pool[#pool], pool[random(#pool)] }
  end
end

return random_graph
