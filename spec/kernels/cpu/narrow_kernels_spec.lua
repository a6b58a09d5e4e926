--- narrow_kernels_spec.lua -- kernels that read and write narrow floats give the
--- bits of casts around them, and need no casts
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local rows = require "op.rows"
local random_graph = require "support.random_graph"

local dtypes = { "f32", "bf16", "f16", "f8_e4m3", "f8_e5m2" }

-- A float input of these sizes; `wide` ones are statistics and parameters.
local function x(...) return { dims = { ... } } end
local function wide(...) return { dims = { ... }, wide = true } end
local function ids(n, ...)
  return { dims = { ... }, ids = n, dtype = "i32" }
end
local function places(n, ...) return { dims = { ... }, ids = n, dtype = "u8" } end

-- Shapes that are more than the kernels' blocks; `writes`: so many results, from
-- the first on, are stored narrow.
local function case(op, writes, options, ...)
  return { op = op, writes = writes, options = options, inputs = { ... } }
end

local row, column = x(9, 1003), x(1003)
local logits, smooth = x(5, 5003), { label_smoothing = 0.1 }
local image, batch, gates, state = x(3, 50, 24), x(900, 70), x(5, 148), x(5, 37)
local pool = { kernel = { 3, 2 }, stride = { 2, 2 }, padding = { 1, 1 } }
local back = { kernel = { 3, 2 }, stride = { 2, 2 }, padding = { 1, 1 }, size = { 9, 8 } }

local cases = {
  case("layer_norm", 1, {}, row, column, column), case("layer_norm", 1, {}, row),
  case("layer_norm_grad", 1, {}, row, wide(9), wide(9), row, column),
  case("layer_norm_grad", 1, {}, row, wide(9), wide(9), row),
  case("rms_norm", 1, {}, row, column),
  case("rms_norm_grad", 1, {}, row, wide(9), row, column),
  case("softmax", 1, { dim = 2 }, row), case("softmax", 1, { dim = 1 }, row),
  case("log_softmax", 1, { dim = 2 }, row),
  case("log_softmax", 1, { dim = 2 }, x(2, 7, 300)),
  case("softmax_grad", 1, { dim = 2 }, row, row),
  case("softmax_grad", 1, { dim = 1 }, row, row),
  case("log_softmax_grad", 1, { dim = 2 }, row, row),
  case("log_softmax_grad", 1, { dim = 1 }, row, row),
  case("cross_entropy", 0, {}, logits, ids(5003, 5)),
  case("cross_entropy", 0, smooth, logits, ids(5003, 5)),
  case("cross_entropy_grad", 1, {}, logits, ids(5003, 5), wide(5), wide(5)),
  case("cross_entropy_grad", 1, smooth, logits, ids(5003, 5), wide(5), wide(5)),
  case("sum", 0, {}, x(2, 20000)), case("sum", 0, { dim = 2 }, row),
  case("sum", 0, { dim = 1 }, x(300, 1100)),
  case("sum", 0, { dim = { 1, 3 } }, x(40, 9, 600)),
  case("prod", 0, { dim = 1 }, row), case("amax", 0, { dim = 2 }, row),
  case("amin", 0, { dim = 1 }, x(300, 1100)), case("amax", 0, {}, row),
  case("global_norm", 0, {}, row, column, x(7)),
  case("embedding", 1, {}, x(30, 700), ids(30, 40)),
  case("embedding_grad", 0, { rows = 30 }, ids(30, 40), x(40, 700)),
  case("embedding_bag", 1, { mode = "mean" }, x(30, 700), ids(30, 8, 5)),
  case("embedding_bag", 1, { mode = "max" }, x(30, 700), ids(30, 8, 5)),
  case("embedding_bag_grad", 0, { mode = "mean", rows = 30 }, x(8, 700), ids(30, 8, 5)),
  case("scatter_add", 0, { dim = 1 }, wide(6, 40), ids(6, 9, 40), x(9, 40)),
  case("scatter_add", 0, { dim = 2 }, wide(9, 40), ids(40, 9, 20), x(9, 20)),
  case("cumsum", 0, { dim = 1 }, row), case("cumsum", 0, { dim = 2, reverse = true }, row),
  case("rope", 1, {}, x(2, 9, 3, 64)), case("rope", 1, { interleaved = true }, x(9, 3, 64)),
  case("batch_norm", 1, {}, batch, wide(70), wide(70)),
  case("batch_stats", 0, {}, batch),
  case("batch_norm_grad", 1, {}, batch, wide(70), wide(70), batch, wide(70)),
  case("group_norm", 1, { groups = 4 }, image, wide(24), wide(24)),
  case("group_norm_grad", 1, { groups = 4 }, image, wide(3, 4), wide(3, 4), image, wide(24)),
  case("lstm_cell", 3, {}, gates, gates, state),
  case("lstm_cell_grad", 2, {}, gates, state, state, state, state),
  case("gru_cell", 2, {}, x(5, 111), x(5, 111), state),
  case("gru_cell_grad", 3, {}, gates, state, state),
  case("max_pool2d", 1, pool, x(2, 9, 8, 300)), case("avg_pool2d", 1, pool, x(2, 9, 8, 300)),
  case("max_pool2d_pick", 1, pool, x(2, 9, 8, 300), places(6, 2, 5, 5, 300)),
  case("max_pool2d_grad", 1, back, x(2, 5, 5, 300), places(6, 2, 5, 5, 300)),
  case("avg_pool2d_grad", 1, back, x(2, 5, 5, 300)),
  case("adaptive_avg_pool2d", 1, { size = { 4, 3 } }, x(2, 9, 8, 300)),
  case("adaptive_avg_pool2d_grad", 1, { size = { 9, 8 } }, x(2, 4, 3, 300)),
}

-- The case's inputs, floats in a dtype that `choose` gives.
local function inputs_of(c, choose)
  local list = {}
  for i, input in ipairs(c.inputs) do
    if input.ids then
      list[i] = mrt.randint(0, input.ids, input.dims, { dtype = input.dtype })
    else
      list[i] = mrt.randn(input.dims):to(input.wide and "f32" or choose())
    end
  end
  mrt.eval(list)
  return list
end

local function widened(list)
  local all = {}
  for i, t in ipairs(list) do
    all[i] = mrt.dtype_info(t.dtype).floating and t:to "f32" or t
  end
  return all
end

-- The results of a case, the first ones rounded to the dtypes of `to`.
local function apply(c, list, to)
  local out = rows.apply(c, list, c.options)
  for i, dtype in ipairs(to) do out[i] = out[i]:to(dtype) end
  return out
end

-- One plan of casts and operator, which stays whole; the same, each computed by itself.
local function planned(c, list, to)
  local step = mrt.compile(function(...)
    return table.unpack(apply(c, widened { ... }, to))
  end, { split_batch_norm = false })
  return { step(table.unpack(list)) }, step:plan(table.unpack(list))
end
local function apart(c, list, to)
  local all = widened(list)
  mrt.eval(all)
  local out = apply(c, all, {})
  mrt.eval(out)
  for i, dtype in ipairs(to) do out[i] = out[i]:to(dtype) end
  return out
end

describe("a kernel for narrow floats", function()
  it("gives the bits of casts around it, in any mixture of dtypes", function()
    local random = random_graph.generator(7)
    local function any() return dtypes[random(#dtypes)] end
    mrt.seed(5)
    for k, c in ipairs(cases) do
      for trial = 1, 6 do
        local one = dtypes[trial]
        local list = inputs_of(c, one and function() return one end or any)
        local to = {}
        for i = 1, c.writes do to[i] = one or any() end
        local got, wanted = planned(c, list, to), apart(c, list, to)
        for i, t in ipairs(wanted) do
          assert(t:bytes() == got[i]:bytes(),
            ("case %d, %s, trial %d: output %d differs"):format(k, c.op, trial, i))
        end
      end
    end
  end)

  it("needs no casts", function()
    for k, c in ipairs(cases) do
      local to = {}
      for i = 1, c.writes do to[i] = "bf16" end
      local list = inputs_of(c, function() return "bf16" end)
      local _, plan = planned(c, list, to)
      for _, s in ipairs(plan:steps()) do
        assert(not s.op:find "cast", ("case %d, %s: %s"):format(k, c.op, s.op))
      end
    end
  end)

  it("may write over what it reads", function()
    for _, name in ipairs { "softmax", "layer_norm", "rope" } do
      local function step_of(options)
        return mrt.compile(function(v)
          local y = (v * 1.5):to "bf16"
          local f = y:to "f32"
          local out = name == "rope" and rows.apply({ op = name }, { f }, {})[1]
            or f[name](f, name == "softmax" and -1 or nil)
          return (out:to "bf16":to "f32" + 1):to "bf16"
        end, options)
      end
      local v = mrt.randn(3, 5, 64)
      local a, b = step_of {}, step_of { inplace = false, fuse = false, share = false }
      assert.equal(b(v):bytes(), a(v):bytes(), name)
    end
  end)
end)

describe("an update", function()
  local function bits(list)
    mrt.eval(list)
    local all = {}
    for i, t in ipairs(list) do all[i] = t:bytes() end
    return table.concat(all)
  end

  it("reads a narrow gradient as its widening", function()
    local optim = mrt.optim
    for name, new in pairs {
      adamw = function(p) return optim.adamw(p, { lr = 0.1 }) end,
      sgd = function(p) return optim.sgd(p, { lr = 0.1, momentum = 0.9 }) end,
      rmsprop = function(p) return optim.rmsprop(p, { lr = 0.1 }) end,
      lion = function(p) return optim.lion(p, { lr = 0.1 }) end,
      assign = function(p)
        return { step = function(_, g) p[1]:assign(g[1]) end }
      end,
    } do
      for _, dtype in ipairs { "bf16", "f16", "f8_e4m3" } do
        mrt.seed(3)
        local start, g = mrt.randn(3001), mrt.randn(3001):to(dtype)
        mrt.eval { start, g }
        local function run(narrow)
          local p = mrt.variable(start)
          local opt = new { p }
          local step = mrt.compile(function(v) opt:step { v:to "f32" } end)
          for _ = 1, 3 do step(narrow and g or mrt.eval(g:to "f32")) end
          return bits { p }, step:plan(narrow and g or mrt.eval(g:to "f32"))
        end
        local got, plan = run(true)
        assert(run(false) == got, name .. " " .. dtype)
        for _, s in ipairs(plan:steps()) do assert(not s.op:find "cast", name) end
      end
    end
  end)
end)
