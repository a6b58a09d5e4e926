-- random_program.lua -- programs of eager lines, prints, updates, gradients and
-- compiled steps, run in two worlds that must show the same bits: one lazy, one
-- that evaluates every line at once
local mrt = require "mrt"

local random_program = {}

local comm = mrt.communicator.create()

local unary = {
  function(x) return x:tanh() end,
  function(x) return -(-x) * 1 end,
  function(x) return (x * 0.3):exp() - 1 end,
  function(x) return x:t() end,
  function(x) return x:softmax(2) end,
  function(x) return x:gt(0):to "f32" - 0.5 end,
  function(x) return x:detach() * 0.5 + x end,
  function(x) return mrt.cat({ x:slice(1, 3, 4), x:slice(1, 1, 2) }, 1) end,
  function(x) return mrt.cat({ x:slice(1, 1, 2):slice(1, 2, 1), x }, 1) end,
  function(x) return x:reshape(2, 8):t():reshape(4, 4) end,
  function(x) return x:split(2, 1)[1]:expand(4, 4) end,
  function(x) return x:mean(1, true) + x end,
  function(x) return x:layer_norm() end,
  function(x) return x:to "f64":sin():to "f16":to "f32" end,
  function(x) return (x * 7):floor():to "i32":to "f32" * 0.1 end,
  function(x) return x:cumsum(1) * 0.2 end,
  function(x) return x:dropout(0.4) end,
  function(x) return comm:allreduce(x, { op = "mean" }) end,
  function(x) return comm:allgather(comm:reduce_scatter(x)) end,
  function(x) return comm:all_to_all(x * 0.9) end,
  function(x) return comm:shift(x) end,
  mrt.custom {
    forward = function(x) return x * x end,
    backward = function(dy, x) return dy * mrt.grad((x * x):sum(), x) end,
  },
}

local binary = {
  function(x, y) return x + y end,
  function(x, y) return x - y end,
  function(x, y) return x * y end,
  function(x, y) return mrt.where(x:gt(y), x, y * 2) end,
  function(x, y) return x:matmul(y):tanh() end,
}

-- A function of a list of n tensors, chosen now.
local function operation(random, n)
  local i, k = random(n), random(n)
  if random(3) > 1 then
    local f = unary[random(#unary)]
    return function(list) return f(list[i]) end
  end
  local f = binary[random(#binary)]
  return function(list) return f(list[i], list[k]) end
end

-- What a compiled step does with the variables and its argument.  A gradient
-- comes before the first update: after it, a variable means its newest version.
local function body(random, variables)
  local lines, n, updated = {}, variables + 1, false
  for i = 1, 2 + random(8) do
    local kind = random(10)
    if kind > 8 and not updated then
      lines[i] = { gradient = random(n), of = random(n) }
      n = n + 1
    elseif kind > 6 then
      lines[i] = { update = random(variables), with = random(n), when = random(3) == 1 }
      updated = true
    else
      lines[i] = { run = operation(random, n) }
      n = n + 1
    end
  end
  local results = {}
  for i = 1, random(4) - 1 do
    results[i] = random(n)
  end
  return lines, results
end

local function update(variable, value, when, each)
  local options = when and { when = each(value:sum():gt(0)) }
  variable:assign(each(value * 0.5), options)
end

local function step_of(lines, results, variables, each)
  return function(x)
    local list = { table.unpack(variables) }
    list[#list + 1] = x
    for _, line in ipairs(lines) do
      if line.run then
        list[#list + 1] = each(line.run(list))
      elseif line.update then
        update(variables[line.update], list[line.with], line.when, each)
      else
        local loss = each(list[line.gradient]:sum())
        list[#list + 1] = each(mrt.grad(loss, list[line.of], { allow_unused = true }))
      end
    end
    local out = {}
    for i, k in ipairs(results) do
      out[i] = list[k]
    end
    return table.unpack(out)
  end
end

local function bits(t)
  mrt.eval(t)
  return t:bytes()
end

-- One line of the program: a function of a world and its tensors that returns
-- a new tensor, what it shows, or both.
local function line(random, variables, n)
  local kind, i, k, seed = random(20), random(n), random(n), random(1000)
  local v = random(variables)
  if kind <= 8 then
    local run = operation(random, n)
    return function(world, list)
      mrt.seed(seed)
      return world.each(run(list))
    end
  elseif kind <= 10 then
    return function(world, list)
      update(world.variables[v], list[i], k % 3 == 0, world.each)
    end
  elseif kind <= 13 then
    return function(_, list) return nil, bits(list[i]) end
  elseif kind <= 15 then
    return function(world, list)
      local loss = world.each(list[i]:sum())
      return world.each(mrt.grad(loss, list[k], { allow_unused = true }))
    end
  elseif kind <= 18 then
    return function(world, list)
      mrt.seed(seed)
      local out = { world.steps[k % 2 + 1](world.each((list[i] * 1.5):detach())) }
      local shown = {}
      for r, t in ipairs(out) do
        shown[r] = bits(t)
      end
      return out[1] and world.each(out[1]:detach()), table.concat(shown)
    end
  elseif kind == 19 then
    return function(world)
      mrt.seed(seed)
      return world.each(mrt.randn(4, 4))
    end
  end
  return function(world, list) return world.each(mrt.variable(list[i])) end
end

local function new_world(each, variables)
  local world = { each = each, variables = {}, pool = {}, steps = {} }
  for i = 1, variables do
    mrt.seed(i)
    world.variables[i] = each(mrt.variable(each(mrt.randn(4, 4)), "v" .. i))
  end
  return world
end

-- Computing or differentiating through what an update has overwritten is
-- refused, which only the lazy world may have to do.
local function refused(err)
  return tostring(err):find "assigned since" ~= nil
end

local function same(a, b, where)
  local ok, shown = pcall(bits, a)
  if ok then
    assert(shown == bits(b), where)
  else
    assert(refused(shown), where .. ": " .. tostring(shown))
  end
end

--- Run the program of `random`, a function like math.random, with every
--- compiled step planned as `options` says; an error tells the first line where
--- the worlds part.
function random_program.run(random, options)
  local variables = random(3)
  local lazy = new_world(function(t) return t end, variables)
  local eager = new_world(mrt.eval, variables)
  for i = 1, 2 do
    local lines, results = body(random, variables)
    lazy.steps[i] = mrt.compile(step_of(lines, results, lazy.variables, lazy.each), options)
    eager.steps[i] = step_of(lines, results, eager.variables, mrt.eval)
  end
  local function tensors(world)
    local list = { table.unpack(world.variables) }
    return table.move(world.pool, 1, #world.pool, #list + 1, list)
  end
  for i = 1, 5 + random(25) do
    local run = line(random, variables, variables + #lazy.pool)
    local ok, t, shown = pcall(run, lazy, tensors(lazy))
    local eager_ok, u, wanted = pcall(run, eager, tensors(eager))
    if not (ok and eager_ok) then
      local err = ok and u or t
      assert(refused(err), ("line %d: %s"):format(i, tostring(err)))
      return
    end
    assert(shown == wanted, ("line %d shows other bits"):format(i))
    if t then
      lazy.pool[#lazy.pool + 1], eager.pool[#eager.pool + 1] = t, u
    end
    if #lazy.pool > 1 and random(10) == 1 then
      local gone = random(#lazy.pool)
      table.remove(lazy.pool, gone)
      table.remove(eager.pool, gone)
      collectgarbage()
    end
  end
  for i, v in ipairs(tensors(lazy)) do
    same(v, tensors(eager)[i], ("tensor %d differs at the end"):format(i))
  end
end

return random_program
