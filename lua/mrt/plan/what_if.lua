--- what_if.lua -- what a script could say otherwise, for plans of it
---
--- Transforms under which a function is traced as if its script had another optimizer
--- or another loss: what that would take is planned without a change of the script.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local retrace = require "mrt.compile.retrace"

local what_if = {}

--- Optimizers store their state so.
---@param how "bf16"|"8bit"
---@return mrt.Transform
---@return fun(): boolean  whether there was one that can, in what has been traced
function what_if.state(how)
  local others, found = {}, false
  local transform = { name = "state in " .. how }
  function transform.optimizer(_, next, optimizer)
    if others[optimizer] == nil then
      retrace.request(function() others[optimizer] = optimizer:stored(how) or false end)
    end
    found = found or others[optimizer] and true
    return next(others[optimizer] or optimizer)
  end
  return transform, function() return found end
end

-- What makes logits of features: the features, and how; nil where it is not seen.
local function head_of(logits)
  local name, inputs = core.maker(logits)
  if name == "reshape" then
    local x, head = head_of(inputs[1])
    local shape, vocab = logits:size(), inputs[1]:size()
    if not x or shape[#shape] ~= vocab[#vocab] then return nil end
    local width = x:size()
    shape[#shape] = width[#width]
    return x:reshape(shape), head
  end
  if name ~= "linear" then return nil end
  return inputs[1], function(rows) return rows:linear(inputs[2], inputs[3]) end
end

--- The loss of logits that a layer makes is taken of a few rows after the other, as
--- nn.linear_cross_entropy takes it.
---@param chunks integer
---@return mrt.Transform
---@return fun(): boolean  whether there was such a loss, in what has been traced
function what_if.chunked_head(chunks)
  local within, found = false, false
  local transform = { name = "chunked head" }
  function transform.cross_entropy(_, next, logits, targets, o)
    local x, head
    if not within and logits:dim() == targets:dim() + 1 and targets:dim() > 0 then
      x, head = head_of(logits)
    end
    if not x then return next(logits, targets, o) end
    within, found = true, true
    local loss = require "mrt.nn.loss".linear_cross_entropy(x, head, targets,
      { chunks = chunks, reduction = o.reduction, ignore_index = o.ignore_index,
        label_smoothing = o.label_smoothing })
    within = false
    return loss
  end
  return transform, function() return found end
end

return what_if
