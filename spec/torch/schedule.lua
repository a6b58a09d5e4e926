--- schedule.lua -- PyTorch's schedules of learning rates, beside those of mrt.optim
---
--- A case is the rates of the first steps.  Schedules count steps from 1 here.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local optim = mrt.optim

local STEPS <const> = 40

-- The rates of PyTorch's schedule, which `made` makes of the optimizer o.
local function rates(made)
  return ("(lambda o: (lambda s: torch.tensor([(o.param_groups[0]['lr'], o.step(), s.step())[0] "
    .. "for _ in range(%d)], dtype=torch.float64))(%s))"
    .. "(torch.optim.SGD([torch.zeros(1)], lr=0.1, momentum=0.5))"):format(STEPS, made)
end

local S = "torch.optim.lr_scheduler."

-- A schedule of base rate 0.1: draw(r) gives ours and PyTorch's keywords.
local function row(name, ours, args, draw, differs)
  local out = { torch = S .. name, ours = "optim." .. ours, args = args, dtypes = { "f64" },
    differs = differs }
  if draw then
    out.draw = function(r)
      local given, keywords = draw(r)
      return { _given = given, _keywords = keywords }
    end
    out.call = function(v)
      local schedule, list = optim[ours](v._given), {}
      for step = 1, STEPS do list[step] = schedule(step) end
      return mrt.tensor(list, "f64")
    end
    out.expression = function(v)
      return rates(v._keywords:find "^torch" and v._keywords
        or ("torch.optim.lr_scheduler.%s(o, %s)"):format(name, v._keywords))
    end
  end
  return out
end

local lr = { "lr", "number" }
local function int(name) return { name, "int" } end
local function number(name, default) return { name, "number", default } end

return {
  row("ConstantLR", "chain", { { "phases", "table" } }, function(r)
    local steps, factor = r(1, 20), r.real(0.1, 1)
    return { { steps = steps, lr = 0.1 * factor }, { lr = 0.1 } },
      ("factor=%.17g, total_iters=%d"):format(factor, steps)
  end, "phases of numbers"),
  row("LinearLR", "ramp", { lr, int "steps", number("start", 1 / 3), number("finish", 1) },
    function(r)
      local steps, start, finish = r(1, 20), r.real(0.1, 1), r.real(0.1, 1)
      return { lr = 0.1, steps = steps, start = start, finish = finish },
        ("start_factor=%.17g, end_factor=%.17g, total_iters=%d"):format(start, finish, steps)
    end),
  row("SequentialLR", "chain", { { "phases", "table" } }, function(r)
    local first, fall = r(2, 10), r(5, 20)
    return { { steps = first, lr = optim.ramp { lr = 0.1, steps = first, start = 0.25 } },
        { lr = optim.polynomial { lr = 0.1, steps = fall, power = 2 } } },
      ("torch.optim.lr_scheduler.SequentialLR(o, [torch.optim.lr_scheduler.LinearLR(o, 0.25, 1, "
        .. "%d), torch.optim.lr_scheduler.PolynomialLR(o, %d, 2)], [%d])"):format(first, fall,
        first)
  end, "phases with their lengths"),
  row("StepLR", "step", { lr, int "every", number("factor", 0.1) }, function(r)
    local every, factor = r(1, 15), r.real(0.1, 0.9)
    return { lr = 0.1, every = every, factor = factor },
      ("step_size=%d, gamma=%.17g"):format(every, factor)
  end),
  row("MultiStepLR", "multistep", { lr, { "at", "shape" }, number("factor", 0.1) }, function(r)
    local a = r(1, 10)
    local b = a + r(1, 10)
    return { lr = 0.1, at = { a, b }, factor = 0.5 },
      ("milestones=[%d, %d], gamma=0.5"):format(a, b)
  end),
  row("ExponentialLR", "exponential", { lr, number "factor", number("min", 0), int "warmup" },
    function(r)
      local factor = r.real(0.5, 1)
      return { lr = 0.1, factor = factor }, ("gamma=%.17g"):format(factor)
    end),
  row("PolynomialLR", "polynomial", { lr, int "steps", number("power", 1), number("min", 0),
    int "warmup" }, function(r)
    local steps, power = r(1, 50), r.pick { 1, 2, 0.5 }
    return { lr = 0.1, steps = steps, power = power },
      ("total_iters=%d, power=%g"):format(steps, power)
  end),
  row("CosineAnnealingLR", "cosine", { lr, int "steps", number("min", 0), int "warmup" },
    function(r)
      local steps, min = r(STEPS, 80), r.real(0, 0.05)
      return { lr = 0.1, steps = steps, min = min }, ("T_max=%d, eta_min=%.17g"):format(steps, min)
    end, "it stays at `min` (PyTorch: rises again)"),
  row("CosineAnnealingWarmRestarts", "cosine_restarts", { lr, int "steps", int "factor",
    number("min", 0), int "warmup" }, function(r)
    local steps, factor, min = r(1, 15), r(1, 3), r.real(0, 0.05)
    return { lr = 0.1, steps = steps, factor = factor, min = min },
      ("T_0=%d, T_mult=%d, eta_min=%.17g"):format(steps, factor, min)
  end),
  row("CyclicLR", "cyclic", { lr, number "min", int "up", int "down", { "mode", "string" },
    number("factor", 1) }, function(r)
    local up, down, mode = r(1, 12), r(1, 12), r.pick { "triangular", "triangular2", "exp_range" }
    local factor = mode == "exp_range" and 0.95 or 1
    return { lr = 0.1, min = 0.01, up = up, down = down, mode = mode, factor = factor },
      ("base_lr=0.01, max_lr=0.1, step_size_up=%d, step_size_down=%d, mode='%s', gamma=%g, "
        .. "cycle_momentum=False"):format(up, down, mode, factor)
  end, "of the rate alone: momentum stays"),
  row("OneCycleLR", "one_cycle", { lr, int "steps", number("rise", 0.3), number("start", 25),
    number("finish", 1e4) }, function(r)
    local steps, rise = r(STEPS, 80), r.real(0.1, 0.6)
    return { lr = 0.2, steps = steps, rise = rise },
      ("max_lr=0.2, total_steps=%d, pct_start=%.17g, cycle_momentum=False"):format(steps, rise)
  end, "of the rate alone: momentum stays"),
  row("ReduceLROnPlateau", "plateau", { lr, number("factor", 0.1), int "patience",
    number("threshold", 1e-4), number("min", 0) }),
  { torch = S .. "LambdaLR", absent = "a function of the step is a schedule" },
  { torch = S .. "MultiplicativeLR", absent = "a function of the step is a schedule" },
  { torch = S .. "ChainedScheduler", absent = "schedules are functions: multiply what they give" },
}
