--- plateau.lua -- a rate that is lowered when a value stops falling
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local describe = require "mrt.util.describe"
local options = require "mrt.util.options"

---@class mrt.Plateau
---@field lr number        the present rate
---@field best number?     the smallest value seen
---@field waiting integer  how many values in a row were no better
---@field rate mrt.Schedule
---@field see fun(self: mrt.Plateau, value: number)

--- Lower the rate when a value (a validation loss) stops falling: after
--- `patience` values in a row that are not below the best by a share of
--- `threshold`, the rate is multiplied by `factor`, down to `min`.  Call `see`
--- with each value.
---
---     local plateau = optim.plateau{lr = 0.1, patience = 3}
---     opt.lr = plateau.rate
---     plateau:see(validation_loss)
---
--- Raises: an option that there is not.
---@param given {lr: number, factor: number?, patience: integer?, threshold: number?, min: number?}
---  default: factor 0.1, patience 10, threshold 1e-4, min 0
---@return mrt.Plateau
return function(given)
  local o = options.read("plateau", given, { lr = options.want "number", factor = 0.1,
    patience = 10, threshold = 1e-4, min = 0 })
  local plateau = { lr = o.lr, waiting = 0 }
  plateau.rate = describe.name(function() return plateau.lr end,
    function() return describe.options("plateau", { lr = plateau.lr }) end)
  function plateau:see(value)
    if type(value) ~= "number" then
      core.fail("value", "plateau:see", "a number wanted, got " .. options.show(value))
    end
    if not self.best or value < self.best - math.abs(self.best) * o.threshold then
      self.best, self.waiting = value, 0
      return
    end
    self.waiting = self.waiting + 1
    if self.waiting > o.patience then
      self.lr, self.waiting = math.max(o.min, self.lr * o.factor), 0
    end
  end
  return plateau
end
