--- swap.lua -- which variables live in a file between their uses
---
---     mrt.compile(step, { swap = policy.swap.optimizer() })
---
--- A swapped variable is copied to memory for its uses, and back when they have
--- updated it, beside the computation.  No bit of a result changes; the step
--- takes longer where copies take longer than what runs beside them.
---
--- A policy is asked once for each variable, while planning:
---
---     swap = function(v)
---       return v.bytes > 2^20 and v.role == "optimizer" and "swap" or "keep"
---     end
---
--- SPDX-License-Identifier: MIT

local ask = require "mrt.policy.ask"
local core = require "mrt.core"
local format = require "mrt.util.format"
local options = require "mrt.util.options"

---@class mrt.policy.swap
local swap = {}
local asked = {} -- by the compiler

--- What a policy sees of a variable; steps count from 1, without copies.
---@class mrt.SwapVariable
---@field name? string
---@field role "weight"|"optimizer"  only updates depend on optimizer state
---@field type string      "f32[384,384]"
---@field bytes integer
---@field first_use integer
---@field last_use integer
---@field file string
---@field line integer

---@alias mrt.SwapPolicy fun(v: mrt.SwapVariable): "keep"|"swap"

---@class mrt.SwapOptions
---@field least? integer|string  smaller variables stay in memory (default 64 KiB)

-- A policy that swaps variables of these roles.
local function of(name, roles)
  return function(given)
    local o = options.read(name, given, { least = 65536 }, true)
    local least, message = format.read_bytes(o.least)
    if not least then core.fail("value", name, "option 'least': " .. message) end
    return function(v)
      return (not roles or roles[v.role]) and v.bytes >= least and "swap" or "keep"
    end
  end
end

local function never() return "keep" end

--- Keep all in memory: nothing is swapped, within a budget neither.
---@return mrt.SwapPolicy
function swap.none() return never end

--- Whether this policy rules out swapping altogether.
---@param policy any
---@return boolean
function asked.is_none(policy) return policy == never end

--- Swap what the model or its gradient reads.
---@type fun(o?: mrt.SwapOptions): mrt.SwapPolicy
swap.weights = of("swap.weights", { weight = true })

--- Swap what only updates read: moments.
---@type fun(o?: mrt.SwapOptions): mrt.SwapPolicy
swap.optimizer = of("swap.optimizer", { optimizer = true })

--- Swap both.
---@type fun(o?: mrt.SwapOptions): mrt.SwapPolicy
swap.all = of("swap.all")

local function answer(policy, v)
  local about = ("'%s' %s (%s:%d)"):format(v.name or "?", v.type, v.file, v.line)
  local choice = ask.call("swap", about, policy, ask.view(v))
  if choice == "swap" or choice == "keep" then return choice == "swap" end
  core.fail("value", "swap", ("%s answered %s for %s; \"keep\" or \"swap\" wanted")
    :format(ask.name(policy), options.show(choice), about))
end

--- What the core asks, for a policy that the user gives.
---@param option any
---@return (fun(v: mrt.SwapVariable): boolean)?
function asked.decider(option)
  if option == nil then return nil end
  ask.refuse_uncalled("compile", "swap", option, swap)
  if type(option) ~= "function" then
    core.fail("value", "compile", ("option 'swap': a policy or a function wanted, got %s")
      :format(options.show(option)))
  end
  return function(v) return answer(option, v) end
end

return ask.hide(swap, asked)
