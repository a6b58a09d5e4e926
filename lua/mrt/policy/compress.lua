--- compress.lua -- the option `compress`: what the backward pass reads is kept smaller
---
--- What is compressed is part of the program, as a precision is: order, recomputation,
--- swapping and sharding change no bit of a step that compresses, and gradients are those
--- of what was unpacked.
---
--- SPDX-License-Identifier: MIT

local ask = require "mrt.policy.ask"
local core = require "mrt.core"
local show = require "mrt.util.options".show

---@alias mrt.Format "bf16"|"f16"|"f8"|"int8"|"nf4"

---@class mrt.Compressible a value of the forward pass that the backward pass reads
---@field op string       the operator that makes it
---@field name string?
---@field type string     "f32[8,1024]"
---@field dtype mrt.DType
---@field bytes integer
---@field layer integer   which call of a module it belongs to; 0: none
---@field file string
---@field line integer
---@field module string?   the path of the module that was called
---@field refused string? why it stays as it is; nil: it may be compressed

---@alias mrt.CompressPolicy mrt.Format|number|(fun(value: mrt.Compressible): mrt.Format?)

local compress = {}

-- What a format loses: how far values are off, root of the mean square, as a part of
-- their own, at most, where they spread as normal numbers do.
local losses <const> = { f16 = 0.0003, bf16 = 0.002, int8 = 0.01, f8 = 0.03, nf4 = 0.1 }
-- Those that take less first.
local smallest <const> = { "nf4", "int8", "f8", "bf16" }

local FORMATS <const> = '"bf16", "f16", "f8", "int8" or "nf4"'

local function about(value)
  return ("%s %s (%s%s:%d)"):format(value.op, value.type,
    value.module and value.module .. ", " or "", value.file, value.line)
end

local function refuse(policy, value, answer, why)
  core.fail("value", "compress", ("%s answered %s for %s: %s"):format(ask.name(policy),
    show(answer), about(value), why))
end

local function decide(policy, value)
  local answer = ask.call("compress", about(value), policy, ask.view(value))
  if answer == nil then return nil end
  if not losses[answer] then refuse(policy, value, answer, FORMATS .. " or nil wanted") end
  if value.refused then refuse(policy, value, answer, value.refused) end
  if value.dtype ~= "f32" and (answer == "bf16" or answer == "f16") then
    refuse(policy, value, answer, ("it takes no less than %s"):format(value.dtype))
  end
  return answer
end

-- The format that takes least of those that lose no more than `tolerance`.
local function allowed(tolerance)
  for _, format in ipairs(smallest) do
    if losses[format] <= tolerance then return format end
  end
end

local function by_function(policy)
  return function(all)
    for _, value in ipairs(all) do value.format = decide(policy, value) end
  end
end

local function fail(text, ...) core.fail("value", "compile", text:format(...)) end

local function all_in(format)
  return function(all)
    for _, value in ipairs(all) do
      if not value.refused then value.format = format end
    end
  end
end

--- Refuse plans of a function, none of which keeps anything smaller, where the option
--- says that all shall be.
---@param option mrt.CompressPolicy?
---@param plans mrt.CorePlan[]
function compress.check(option, plans)
  if not losses[option] then return end
  for _, plan in ipairs(plans) do
    if plan:info().compressed then return end
  end
  fail("option 'compress': nothing here is kept for a backward pass that could be %s", option)
end

--- What the core asks, for the largest values that make up a part of all.
---@param format mrt.Format
---@param part number  above 0 to 1
---@return fun(all: mrt.Compressible[])
function compress.part(format, part)
  return function(all)
    local list, bytes = {}, 0
    for i, value in ipairs(all) do
      if not value.refused then
        list[#list + 1], bytes = { i = i, value = value }, bytes + value.bytes
      end
    end
    table.sort(list, function(a, b)
      if a.value.bytes ~= b.value.bytes then return a.value.bytes > b.value.bytes end
      return a.i < b.i
    end)
    local left = part * bytes
    for _, item in ipairs(list) do
      if left <= 0 then break end
      item.value.format, left = format, left - item.value.bytes
    end
  end
end

--- Read the option: what the core asks, or the format that a budget may use.
---@param option mrt.CompressPolicy?
---@return (fun(all: mrt.Compressible[]))? decider
---@return mrt.Format? tolerated
function compress.read(option)
  if option == nil then return nil end
  if type(option) == "function" then return by_function(option) end
  if losses[option] then return all_in(option) end
  if type(option) ~= "number" then
    fail("option 'compress': %s, a function or a tolerance wanted, got %s", FORMATS, show(option))
  end
  local format = option > 0 and option <= 1 and allowed(option)
  if not format then
    fail("option 'compress': a tolerance from %g (bf16) to 1 wanted, got %s", losses.bf16,
      show(option))
  end
  return nil, format
end

return compress
