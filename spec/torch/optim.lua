--- optim.lua -- PyTorch's optimizers and schedules, beside those of mrt.optim
---
--- A case is some steps on a function of one parameter, and where they have led.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local optim = mrt.optim

local function literal(value)
  if type(value) == "boolean" then return value and "True" or "False" end
  if type(value) ~= "table" then return ("%.17g"):format(value) end
  local parts = {}
  for i, x in ipairs(value) do parts[i] = x and literal(x) or "None" end
  return "(" .. table.concat(parts, ", ") .. ",)"
end

local STEPS <const> = 6

-- The gradient of sum(0.3 p^3 - 0.5 p + c p), which changes its sign.
local function gradient(p, c) return p * p * 0.9 - 0.5 + c end

-- An optimizer: its options, PyTorch's names and order, those that are drawn.
local function row(name, ours, options, draw, more)
  local args = { { "params", "tensor" }, { "_c", "tensor" } }
  for _, o in ipairs(options) do args[#args + 1] = o end
  local shown = { { "params", "tensor" } }
  table.move(options, 1, #options, 2, shown)
  local out = { torch = "torch.optim." .. name, ours = "optim." .. ours, args = shown,
    dtypes = { "f64" }, tolerance = 2e-6 }
  if draw then
    out.args = args
    out.draw = function(r)
      local dims = r.pick { { 3, 4 }, { 5 }, {}, { 2, 3, 2 } }
      local o = draw(r)
      o.params, o._c = { dims = dims, low = -2, high = 2 }, { dims = dims, low = -0.3, high = 0.3 }
      if r.bool() and o.maximize == nil then o.maximize = true end
      if r.bool() and o.weight_decay == nil then o.weight_decay = 0.1 end
      if o.weight_decay == false then o.weight_decay = nil end
      return o
    end
    out.call = function(v, tensors)
      local given = {}
      for _, o in ipairs(options) do given[o[1]] = v[o[1]] end
      local p = mrt.parameter(tensors[1])
      local opt = optim[ours]({ p }, given)
      for _ = 1, STEPS do opt:step { gradient(p, tensors[2]) } end
      return p
    end
    out.expression = function(v)
      local parts = {}
      for _, o in ipairs(options) do
        local value = v[o[1]]
        if value ~= nil then
          parts[#parts + 1] = ("%s=%s"):format(o.python or o[1], literal(value))
        end
      end
      return ("(lambda p, o: ([(setattr(p, 'grad', p * p * 0.9 - 0.5 + b), o.step()) "
        .. "for _ in range(%d)], p)[1])(*(lambda p: (p, torch.optim.%s([p], %s)))(a.clone()))")
        :format(STEPS, name, table.concat(parts, ", "))
    end
  end
  for key, value in pairs(more or {}) do out[key] = value end
  return out
end

local function lr(default) return { "lr", "number", default } end
local betas = { "betas", "table" }
local function eps(default) return { "eps", "number", default } end
local function decay(default) return { "weight_decay", "number", default } end
local maximize = { "maximize", "bool", false }
local function some_betas(r) return r.pick { { 0.9, 0.999 }, { 0.8, 0.95 }, { 0.5, 0.9 } } end

return {
  row("SGD", "sgd", { lr(0.001), { "momentum", "number", 0 }, decay(0),
    { "nesterov", "bool", false }, maximize }, function(r)
    local momentum = r.pick { 0, 0.9 }
    return { lr = r.real(0.001, 0.1), momentum = momentum,
      nesterov = momentum > 0 and r.bool() or nil }
  end, { differs = "no `dampening`" }),
  row("Adam", "adam", { lr(0.001), betas, eps(1e-8), decay(0), maximize }, function(r)
    return { lr = r.real(0.001, 0.1), betas = some_betas(r) }
  end, { differs = "no `amsgrad`" }),
  row("AdamW", "adamw", { lr(0.001), betas, eps(1e-8), decay(0.01), maximize }, function(r)
    return { lr = r.real(0.001, 0.1), betas = some_betas(r) }
  end, { differs = "no `amsgrad`" }),
  row("RMSprop", "rmsprop", { lr(0.01), { "alpha", "number", 0.99 }, eps(1e-8), decay(0),
    { "momentum", "number", 0 }, { "centered", "bool", false }, maximize }, function(r)
    return { lr = r.real(0.001, 0.1), alpha = r.pick { 0.99, 0.9 }, momentum = r.pick { 0, 0.9 },
      centered = r.bool(), eps = 1e-4 }
  end),
  row("Adagrad", "adagrad", { lr(0.01), { "lr_decay", "number", 0 }, decay(0),
    { "initial", "number", 0, python = "initial_accumulator_value" }, eps(1e-10),
    maximize }, function(r)
    return { lr = r.real(0.001, 0.1), lr_decay = r.pick { 0, 0.1 }, initial = r.pick { 0, 0.2 },
      maximize = false, eps = 1e-6 }
  end),
  row("NAdam", "nadam", { lr(0.002), betas, eps(1e-8), decay(0),
    { "momentum_decay", "number", 0.004 }, { "decoupled_weight_decay", "bool", false },
    maximize }, function(r)
    return { lr = r.real(0.001, 0.1), betas = some_betas(r), decoupled_weight_decay = r.bool(),
      momentum_decay = r.pick { 0.004, 0.1 } }
  end),
  row("RAdam", "radam", { lr(0.001), betas, eps(1e-8), decay(0),
    { "decoupled_weight_decay", "bool", false }, maximize }, function(r)
    return { lr = r.real(0.001, 0.1), betas = some_betas(r), decoupled_weight_decay = r.bool() }
  end),
  row("Adamax", "adamax", { lr(0.002), betas, eps(1e-8), decay(0), maximize }, function(r)
    return { lr = r.real(0.001, 0.1), betas = some_betas(r) }
  end),
  row("Adadelta", "adadelta", { lr(1), { "rho", "number", 0.9 }, eps(1e-6), decay(0), maximize },
    function(r) return { lr = r.real(0.1, 1), rho = r.pick { 0.9, 0.5 } } end),
  row("ASGD", "asgd", { lr(0.01), { "lambd", "number", 1e-4 }, { "alpha", "number", 0.75 },
    { "t0", "number", 1e6 }, decay(0), maximize }, function(r)
    return { lr = r.real(0.001, 0.1), lambd = r.pick { 1e-4, 0.1 }, alpha = r.pick { 0.75, 0.5 },
      t0 = r.pick { 1e6, 2 } }
  end, { differs = "averages are `opt:state()['1.ax']`" }),
  row("Rprop", "rprop", { lr(0.01), { "etas", "table" }, { "step_sizes", "table" }, maximize },
    function(r)
      return { lr = r.real(0.01, 0.5), etas = r.pick { { 0.5, 1.2 }, { 0.3, 2 } },
        step_sizes = r.pick { { 1e-6, 50 }, { 0.01, 0.3 } }, weight_decay = false }
    end),
  row("Adafactor", "adafactor", { lr(0.01), { "beta2_decay", "number", -0.8 },
    { "eps", "table" }, { "d", "number", 1 }, decay(0), maximize }, function(r)
    return { lr = r.real(0.01, 0.5), beta2_decay = r.pick { -0.8, -0.5 }, d = r.pick { 1, 2 },
      eps = r.pick { { false, 1e-3 }, { 1e-4, 0.1 } } }
  end, { differs = "`eps[1]` is false where PyTorch's is None", tolerance = 5e-5 }),
  { torch = "torch.optim.LBFGS", ours = "optim.lbfgs", args = { { "params", "tensor" }, lr(1),
    { "max_iter", "int", 20 }, { "max_eval", "int" }, { "tolerance_grad", "number", 1e-7 },
    { "tolerance_change", "number", 1e-9 }, { "history_size", "int", 100 },
    { "line_search_fn", "string" } }, dtypes = { "f64" }, tolerance = 1e-5,
    differs = "the line search narrows a bracket in its own way, to the same conditions",
    draw = function(r)
      return { params = { dims = { r(1, 4) }, low = -2, high = 2 }, lr = r.pick { 0.5, 0.1 },
        max_iter = r(1, 6), history_size = r(1, 5) }
    end,
    call = function(v, tensors)
      local p = mrt.parameter(tensors[1])
      local opt = optim.lbfgs({ p }, { lr = v.lr, max_iter = v.max_iter,
        history_size = v.history_size })
      for _ = 1, 3 do opt:step(function() return ((p * p - 1) ^ 2 + p * 0.3):sum() end) end
      return p
    end,
    expression = function(v)
      return ("(lambda p, o: ([o.step(lambda: (o.zero_grad(), (lambda l: (l.backward(), l)[1])"
        .. "(((p * p - 1) ** 2 + p * 0.3).sum()))[1]) for _ in range(3)], p.detach())[1])"
        .. "(*(lambda p: (p, torch.optim.LBFGS([p], lr=%g, max_iter=%d, history_size=%d)))"
        .. "(a.clone().requires_grad_()))"):format(v.lr, v.max_iter, v.history_size)
    end },
  { torch = "torch.optim.SparseAdam", ours = "optim.adam", args = { { "params", "tensor" },
    { "lr", "number", 1e-3 }, { "betas", "list" }, { "eps", "number", 1e-8 } },
    differs = "`lazy = true` is the option; `eps` is added as Adam does" },
}
