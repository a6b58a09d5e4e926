--- ctc.lua -- connectionist temporal classification
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local options = require "mrt.util.options"
local read = require "mrt.nn.loss.read"

local op = core.op
local loss = {}
local who <const> = "ctc_loss"

-- Lengths as a tensor `[N]`; of one sequence alone a number too.
local function lengths(what, value)
  if math.type(value) == "integer" then value = { value } end
  if type(value) == "table" and not core.is_tensor(value) then
    for i, n in ipairs(value) do
      if math.type(n) ~= "integer" then
        argument.refuse(who, "%s %d: an integer wanted, got %s", what, i, options.show(n))
      end
    end
    if #value > 0 then return core.tensor(value, "i64") end
    return op.full { shape = { 0 }, value = 0, dtype = "i64" }
  end
  return argument.tensor(who, what, value):reshape(-1)
end

-- Targets one behind the other, `[sum of lengths]`, as `[N, longest]`.
local function padded(targets, each)
  if core.tracing() then
    argument.refuse(who, "targets %s inside a compiled function, [N, S] wanted", targets:type())
  end
  local list, longest, from, rows = each:totable(), 1, 0, {}
  for _, n in ipairs(list) do longest = math.max(longest, n) end
  local most = targets:size(1)
  for i, n in ipairs(list) do
    if n < 0 or from + n > most then
      argument.refuse(who, "target_lengths want more than the %d targets of %s", most,
        targets:type())
    end
    local row = op.full { shape = { longest - n }, value = 0, dtype = targets:get_dtype() }
    if n > 0 then row = op.cat({ targets:slice(1, from + 1, from + n), row }, 1) end
    rows[i], from = row:unsqueeze(1), from + n
  end
  if #rows == 0 then return targets:reshape(0, 0) end
  return op.cat(rows, 1)
end

local given = read.options(who, { "blank", "reduction", "zero_infinity" },
  { blank = 0, zero_infinity = false })

---@class mrt.nn.CTCOptions
---@field blank? integer  the class that stands for no label, default 0
---@field reduction? mrt.nn.Reduction  "mean": each divided by its target_length, then averaged
---@field zero_infinity? boolean  0, and no gradient, where the labels cannot be had in so few
---  steps and the loss is infinite; default false

--- The loss of sequences of labels whose places are not known: -log of the probability of
--- all ways to say them, with blanks between and each label for one or more steps (Graves,
--- Fernandez, Gomez & Schmidhuber, ICML 2006).
---
---     nn.ctc_loss(model(x):log_softmax(-1), labels, steps, lengths)
---
--- Raises: shapes that do not fit, a reduction that there is not.
---@param log_probs mrt.Tensor  `[T, N, C]` or `[T, C]`, from log_softmax
---@param targets mrt.Tensor    `[N, S]`, or one behind the other, `[sum of target_lengths]`
---@param input_lengths mrt.Tensor|integer[]|integer   `[N]`, at most T
---@param target_lengths mrt.Tensor|integer[]|integer  `[N]`, at most S
---@param blank? integer|mrt.nn.CTCOptions
---@param ... any               reduction, zero_infinity
---@return mrt.Tensor           scalar, or `[N]`
function loss.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, ...)
  local o = given(blank, ...)
  if math.type(o.blank) ~= "integer" then
    argument.refuse(who, "blank: an integer wanted, got %s", options.show(o.blank))
  end
  read.tensors(who, { "log_probs", "targets" }, log_probs, targets)
  read.reduction(who, o)
  local steps = lengths("input_lengths", input_lengths)
  local labels = lengths("target_lengths", target_lengths)
  local alone = log_probs:dim() == 2
  if alone then log_probs, targets = log_probs:unsqueeze(2), targets:reshape(1, -1) end
  if targets:dim() == 1 then targets = padded(targets, labels) end
  local losses = op.ctc_loss(log_probs, targets, steps, labels, { blank = o.blank })
  if o.zero_infinity then losses = op.where(losses:eq(math.huge), 0, losses) end
  if o.reduction == "mean" then losses = losses / labels:maximum(1):to(losses:get_dtype()) end
  return read.reduce(who, o, alone and losses:reshape {} or losses)
end

return loss
