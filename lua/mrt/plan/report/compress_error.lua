--- compress_error.lua -- how far gradients are off because of what is compressed
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local create = require "mrt.tensor.create"
local options = require "mrt.compile.options"
local runs = require "mrt.compile.runs"

---@class mrt.CompressError
---@field relative number  |g' - g| / |g| of all gradients, lengths of vectors
---@field gradients {name: string?, relative: number}[]  of each, in the order asked for

local CompressError = {}
CompressError.__index = CompressError

function CompressError:__tostring()
  local lines = { ("gradients are off by %.3g of their length"):format(self.relative) }
  local worst = { table.unpack(self.gradients) }
  table.sort(worst, function(a, b) return a.relative > b.relative end)
  for i = 1, math.min(5, #worst) do
    lines[#lines + 1] = ("  %-32s %.3g"):format(worst[i].name or "?", worst[i].relative)
  end
  return table.concat(lines, "\n")
end

-- No update happens.
local function recorder(found)
  return { name = "gradients",
    grad = function(_, next, ys, xs, o)
      local list = next(ys, xs, o)
      for i, g in ipairs(list) do
        found[#found + 1] = { name = xs[i]:get_name(), gradient = g }
      end
      return list
    end,
    gate = function() return create.full({}, 0):gt(1) end }
end

-- The gradients that a call of the function asks for.
local function gradients(step, compile, changes, ...)
  local found = {}
  local given = options.change(step.given, changes)
  given.transforms = { recorder(found), table.unpack(given.transforms or {}) }
  local probe = compile(function(...)
    for i = #found, 1, -1 do found[i] = nil end
    step.fn(...)
    local list = {}
    for i, f in ipairs(found) do list[i] = f.gradient end
    return list
  end, given)
  -- the random numbers of the function's next run
  probe.groups = runs.load(runs.state(step.groups))
  return probe(...), found
end

local function length(x) return (x:to "f64" ^ 2):sum():item() end

--- Compute the gradients of a call with and without what is compressed.
---@param step mrt.Compiled
---@param compile function  mrt.compile
---@param ... any  as for the call
---@return mrt.CompressError
return function(step, compile, ...)
  if step.options.pipeline then
    core.fail("value", "compress_error",
      "of a function in stages no rank has all gradients; one without 'pipeline' wanted")
  end
  local plain = { accumulate = false, memory = false, swap = false, checkpoint = false }
  step:plan(...)
  local off, found = gradients(step, compile, plain, ...)
  plain.compress = false
  local exact = gradients(step, compile, plain, ...)
  if #exact == 0 then core.fail("value", "compress_error", "the function asks for no gradients") end
  local far, all, list = 0, 0, {}
  for i, g in ipairs(exact) do
    local d, own = length(off[i] - g), length(g)
    far, all = far + d, all + own
    list[i] = { name = found[i].name, relative = own > 0 and (d / own) ^ 0.5 or 0 }
  end
  return setmetatable({ relative = all > 0 and (far / all) ^ 0.5 or 0, gradients = list },
    CompressError)
end
