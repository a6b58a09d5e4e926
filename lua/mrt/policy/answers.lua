--- answers.lua -- what a precision policy says of a node, checked
---
--- SPDX-License-Identifier: MIT

local ask = require "mrt.policy.ask"
local core = require "mrt.core"
local options = require "mrt.util.options"

local answers = {}

--- Operators that can add up in a narrow float.
answers.sums_narrow = { matmul = true, linear = true, conv2d = true, conv2d_dx = true,
  conv2d_dw = true }

local dtypes = core.dtypes()
local fields = { compute = true, gradient = true, scaled = true, output = true,
  accumulate = true }

local function about(node)
  return ("%s %s (%s%s:%d)"):format(node.op, node.type, node.module and node.module .. ", " or "",
    node.file, node.line)
end

local function refuse(policy, node, answer, wanted)
  core.fail("value", "precision", ("%s answered %s for %s; %s"):format(
    ask.name(policy), answer, about(node), wanted))
end

local function check_dtype(policy, node, dtype, what)
  if dtype == nil or dtypes[dtype] and dtypes[dtype].floating then return dtype end
  if dtypes[dtype] then
    core.fail("dtype", "precision", ("%s answered %s for %s: %s does not compute in %s")
      :format(ask.name(policy), what .. options.show(dtype), about(node), node.op, dtype))
  end
  refuse(policy, node, what .. options.show(dtype),
    "a float dtype wanted: f32, bf16, f16, f8_e4m3, f8_e5m2 or f64")
end

-- Products of the largest numbers must fit f32.
local function check_scaled(policy, node)
  for _, field in ipairs { "compute", "gradient" } do
    local dtype = node[field]
    local info = dtypes[dtype] or {}
    if not info.narrow or info.exponent == dtypes.f32.exponent then
      refuse(policy, node, ("scaled with %s = %s"):format(field, options.show(dtype)),
        "f8_e4m3, f8_e5m2 or f16 wanted")
    end
  end
end

-- Sums are f32 unless a product shall lose in them.
local function read_accumulate(policy, node, answer)
  local sums = answer.accumulate
  if sums == nil or sums == "f32" then return nil end
  local shown = "accumulate = " .. options.show(sums)
  if not (dtypes[sums] and dtypes[sums].narrow) then
    refuse(policy, node, shown, "f32, bf16, f16 or an f8 wanted")
  elseif not answers.sums_narrow[node.op] then
    refuse(policy, node, shown, ("%s adds up in f32, only matmul, linear and conv2d in what "
      .. "is asked for"):format(node.op))
  elseif answer.scaled or answer.compute == "f64" then
    refuse(policy, node, shown, ("%s adds up in %s"):format(answer.scaled
      and "what is scaled" or "f64", answer.scaled and "f32" or "f64"))
  end
  return sums
end

local function read_table(policy, node, answer)
  for name in pairs(answer) do
    if not fields[name] then
      refuse(policy, node, ("a field '%s'"):format(tostring(name)),
        "compute, output or accumulate wanted")
    end
  end
  node.accumulate = read_accumulate(policy, node, answer)
  if answer.scaled ~= nil and type(answer.scaled) ~= "boolean" then
    refuse(policy, node, "scaled = " .. options.show(answer.scaled),
      "true or false wanted")
  end
  if answer.output == "f64" then
    refuse(policy, node, 'output = "f64"', "f32 or narrower wanted")
  end
  node.compute = check_dtype(policy, node, answer.compute, "compute = ")
  node.scaled = answer.scaled and node.compute ~= nil
  node.gradient = check_dtype(policy, node, answer.gradient, "gradient = ")
    or node.compute
  node.output = check_dtype(policy, node, answer.output, "output = ")
  if answer.scaled then check_scaled(policy, node) end
end

local function decide(policy, node)
  local answer = ask.call("precision", about(node), policy, ask.view(node))
  if type(answer) == "table" then return read_table(policy, node, answer) end
  if answer ~= nil and type(answer) ~= "string" then
    refuse(policy, node, options.show(answer), "a dtype, a table or nil wanted")
  end
  node.compute = check_dtype(policy, node, answer, "")
end

-- f32 is what nodes compute in anyway.
local function settle(node)
  if node.accumulate then node.compute = node.compute or "f32" return end
  if node.compute == "f32" then node.compute = nil end
  if node.output and not node.compute then
    node.compute = node.output ~= "f32" and "f32" or nil
  end
end

--- Ask about one node, and note the answer in it.
---
--- Raises: an answer that makes no sense; the message names the node and its line.
---@param policy function
---@param node mrt.Computation
function answers.decide(policy, node)
  decide(policy, node)
  settle(node)
end

return answers
