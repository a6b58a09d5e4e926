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
--- A device with several swap tiers (host, disk) may be answered with a tier's name: the
--- variable lives there.  "swap" leaves which one to the planner.
---
--- Behind a device with memory of its own the CPU may update what is swapped to the host's
--- memory, there: gradients come to the host instead of state to the device (Ren et al.,
--- "ZeRO-Offload", USENIX ATC 2021).  The planner does so where it predicts less time; the
--- option `update_on_host` of mrt.compile says otherwise.
---
--- SPDX-License-Identifier: MIT

local ask = require "mrt.policy.ask"
local core = require "mrt.core"
local describe = require "mrt.util.describe"
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
---@field id integer      its own, in all plans
---@field first_use integer
---@field last_use integer
---@field file string
---@field line integer

---@alias mrt.SwapPolicy fun(v: mrt.SwapVariable): "keep"|"swap"|string

---@class mrt.SwapOptions
---@field least? integer|string  smaller variables stay in memory (default 64 KiB)

-- A policy that swaps variables of these roles.
local function of(name, roles)
  return function(given)
    local o = options.read(name, given, { least = 65536 }, true)
    local least, message = format.read_bytes(o.least)
    if not least then core.fail("value", name, "option 'least': " .. message) end
    return describe.name(function(v)
      return (not roles or roles[v.role]) and v.bytes >= least and "swap" or "keep"
    end, function() return describe.options("policy." .. name, { least = o.least }) end)
  end
end

local never = describe.name(function() return "keep" end, function()
  return "policy.swap.none()"
end)

--- Keep all in memory: nothing is swapped, within a budget neither.
---
---     local s = policy.swap.none()
---@return mrt.SwapPolicy
function swap.none() return never end

--- Whether this policy rules out swapping altogether.
---@param policy any
---@return boolean
function asked.is_none(policy) return policy == never end

--- Swap what the model or its gradient reads.
---
---     local s = policy.swap.weights()
---@type fun(o?: mrt.SwapOptions): mrt.SwapPolicy
swap.weights = of("swap.weights", { weight = true })

--- Swap what only updates read: moments.
---
---     local s = policy.swap.optimizer()
---@type fun(o?: mrt.SwapOptions): mrt.SwapPolicy
swap.optimizer = of("swap.optimizer", { optimizer = true })

--- Swap both.
---
---     local s = policy.swap.all()
---@type fun(o?: mrt.SwapOptions): mrt.SwapPolicy
swap.all = of("swap.all")

-- The number of the tier of that name; what to answer besides.
local function tier_of(name)
  local device = core.device()
  local tiers, words = { device.swap_name }, { '"keep"', '"swap"' }
  for i, t in ipairs(device.slower) do tiers[i + 1] = t.name end
  for i, own in ipairs(tiers) do
    if own == name and own ~= "" then return i end
    if own ~= "" then words[#words + 1] = ('"%s"'):format(own) end
  end
  local last = table.remove(words)
  return nil, table.concat(words, ", ") .. " or " .. last
end

-- Plans of one step's micro-batches, which share variables and tiers, have to agree on
-- where each lives: the first that asks takes the quickest tier with room.  Half of each is
-- left to what the plans swap besides.
local function first_with_room(device, used, v)
  local tiers = { { capacity = device.swap_capacity }, table.unpack(device.slower) }
  local bytes = (v.bytes + 4095) // 4096 * 4096
  for i, t in ipairs(tiers) do
    local room = t.capacity > 0 and t.capacity / 2 or math.huge
    if i == #tiers or (used[i] or 0) + bytes <= room then
      used[i] = (used[i] or 0) + bytes
      return i
    end
  end
end

--- What to ask for a step in `k` micro-batches.
---@param decider? fun(v: mrt.SwapVariable): boolean|integer
---@param k integer
---@return (fun(v: mrt.SwapVariable): boolean|integer)?
function asked.together(decider, k)
  local device = core.device()
  if k == 1 or not decider or #device.slower == 0 then return decider end
  local choices, used = {}, {}
  return function(v)
    if choices[v.id] == nil then
      local choice = decider(v)
      choices[v.id] = choice == true and first_with_room(device, used, v) or choice
    end
    return choices[v.id]
  end
end

local function answer(policy, v)
  local about = ("'%s' %s (%s:%d)"):format(v.name or "?", v.type, v.file, v.line)
  local choice = ask.call("swap", about, policy, ask.view(v))
  if choice == "swap" or choice == "keep" then return choice == "swap" end
  local tier, wanted = tier_of(choice)
  if tier then return tier end
  core.fail("value", "swap", ("%s answered %s for %s; %s wanted")
    :format(ask.name(policy), options.show(choice), about, wanted))
end

--- What the core asks, for a policy that the user gives.
---@param option any
---@return (fun(v: mrt.SwapVariable): boolean|integer)?
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
