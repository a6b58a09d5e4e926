--- fill.lua -- PyTorch's nn.init: recipes that fill a variable that is there
---
---     nn.init.kaiming_normal_(layer.weight)
---
--- Each assigns to its first argument and returns it; the numbers are those of nn.initial's
--- recipes, which models of one's own take as options.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local argument = require "mrt.util.argument"
local initial = require "mrt.nn.initial"
local options = require "mrt.util.options"

local fill = {}

-- Define name(variable, ...): recipe(o, dims) of its options gives the numbers.
local function define(name, names, defaults, recipe)
  fill[name] = function(variable, ...)
    if not core.is_variable(variable) then
      argument.refuse(name, "a variable wanted, got %s", options.show(variable))
    end
    local o = options.read(name, argument.read(name, names, ...), defaults)
    local dims = variable:size()
    local dtype = variable:get_dtype()
    variable:assign(recipe(o, dims, dtype):reshape(dims):to(dtype))
    return variable
  end
end

-- One of nn.initial's recipes, given what `pick` takes from the options.
local function by_recipe(name, names, defaults, make)
  define(name, names, defaults, function(o, dims) return make(o)(table.unpack(dims)) end)
end

by_recipe("uniform_", { "a", "b" }, { a = 0, b = 1 }, function(o)
  return initial.uniform(o.a, o.b)
end)
by_recipe("normal_", { "mean", "std" }, { mean = 0, std = 1 }, function(o)
  return initial.normal(o.std, o.mean)
end)
define("constant_", { "val" }, { val = options.want "number" }, function(o, dims, dtype)
  return mrt.full(dims, o.val, { dtype = dtype })
end)
by_recipe("zeros_", {}, {}, initial.zeros)
by_recipe("ones_", {}, {}, initial.ones)
by_recipe("xavier_uniform_", { "gain" }, { gain = 1 }, function(o)
  return initial.xavier_uniform(o.gain)
end)
by_recipe("xavier_normal_", { "gain" }, { gain = 1 }, function(o)
  return initial.xavier_normal(o.gain)
end)
by_recipe("orthogonal_", { "gain" }, { gain = 1 }, function(o)
  return initial.orthogonal(o.gain)
end)

local modes = { fan_in = "inputs", fan_out = "outputs" }

for _, way in ipairs { "uniform", "normal" } do
  local name = ("kaiming_%s_"):format(way)
  by_recipe(name, { "a", "mode", "nonlinearity" },
    { a = 0, mode = "fan_in", nonlinearity = "leaky_relu" }, function(o)
      if not modes[o.mode] then
        argument.refuse(name, "mode '%s', fan_in or fan_out wanted", o.mode)
      end
      return initial["kaiming_" .. way] { mode = modes[o.mode],
        gain = initial.gain(o.nonlinearity, o.a) }
    end)
end

define("trunc_normal_", { "mean", "std", "a", "b" }, { mean = 0, std = 1, a = -2, b = 2 },
  function(o, dims)
    if not (o.std > 0 and o.a < o.b) then
      argument.refuse("trunc_normal_", "std %g, a %g, b %g: std above 0 and a below b wanted",
        o.std, o.a, o.b)
    end
    -- the inverse of the distribution function, of what lies between the bounds
    local function share(x)
      return mrt.tensor((x - o.mean) / o.std / 2 ^ 0.5, "f64"):erf():item()
    end
    local low, high = share(o.a), share(o.b)
    local u = mrt.rand(dims) * (high - low) + low
    return (u:erfinv() * (2 ^ 0.5 * o.std) + o.mean):clamp(o.a, o.b)
  end)

local function want_rank(name, dims, least, most)
  if #dims >= least and #dims <= most then return end
  core.fail("shape", name, ("[%s], %d %sdimensions wanted"):format(table.concat(dims, ","), least,
    most > least and ("to %d "):format(most) or ""))
end

-- 1 where row and column are equal, f32 [rows, columns].
local function diagonal(rows, columns)
  local row = core.op.arange { stop = rows, dtype = "i64" }:unsqueeze(2)
  return row:eq(core.op.arange { stop = columns, dtype = "i64" }):to "f32"
end

define("eye_", {}, {}, function(_, dims)
  want_rank("eye_", dims, 2, 2)
  return diagonal(dims[1], dims[2])
end)

define("dirac_", { "groups" }, { groups = 1 }, function(o, dims)
  want_rank("dirac_", dims, 3, 5)
  options.size("dirac_", "groups", o.groups)
  if dims[1] % o.groups ~= 0 then
    argument.refuse("dirac_", "%d outputs in %d groups, a multiple wanted", dims[1], o.groups)
  end
  local sizes, centre = { table.unpack(dims, 3) }, 0
  for _, n in ipairs(sizes) do centre = centre * n + n // 2 end
  local cells = 1
  for _, n in ipairs(sizes) do cells = cells * n end
  local own = diagonal(dims[1] // o.groups, dims[2])
  local copies = {}
  for i = 1, o.groups do copies[i] = own end
  local middle = core.op.arange { stop = cells, dtype = "i64" }:eq(centre):to "f32"
  return mrt.cat(copies, 1):unsqueeze(3) * middle
end)

define("sparse_", { "sparsity", "std" }, { sparsity = options.want "number", std = 0.01 },
  function(o, dims)
    want_rank("sparse_", dims, 2, 2)
    if not (o.sparsity >= 0 and o.sparsity <= 1) then
      argument.refuse("sparse_", "sparsity %g, 0 to 1 wanted", o.sparsity)
    end
    -- in each column the rows of the smallest of random numbers are zero
    local zeros = math.ceil(o.sparsity * dims[1])
    local u = mrt.rand(dims)
    local rank = u:unsqueeze(1):lt(u:unsqueeze(2)):to("i64"):sum(2) -- how many are below it
    return core.op.where(rank:ge(zeros), mrt.randn(dims) * o.std, 0)
  end)

fill.calculate_gain = initial.gain

return fill
