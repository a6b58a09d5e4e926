--- module.lua -- losses as layers, with the options they were made with
---
---     local criterion = nn.CrossEntropyLoss{label_smoothing = 0.1}
---     local loss = criterion(model(x), targets)
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local Module = require "mrt.nn.module"
local options = require "mrt.util.options"
local read = require "mrt.nn.loss.read"

-- PyTorch's classes, each with the function that it calls.
local functions = {
  BCELoss = "bce", BCEWithLogitsLoss = "bce_with_logits", CTCLoss = "ctc_loss",
  CosineEmbeddingLoss = "cosine_embedding_loss", CrossEntropyLoss = "cross_entropy",
  GaussianNLLLoss = "gaussian_nll_loss", HingeEmbeddingLoss = "hinge_embedding_loss",
  HuberLoss = "huber", KLDivLoss = "kl_div", L1Loss = "l1", MSELoss = "mse",
  MarginRankingLoss = "margin_ranking_loss", MultiLabelMarginLoss = "multilabel_margin_loss",
  MultiLabelSoftMarginLoss = "multilabel_soft_margin_loss",
  MultiMarginLoss = "multi_margin_loss", NLLLoss = "nll_loss",
  PoissonNLLLoss = "poisson_nll_loss", SmoothL1Loss = "smooth_l1",
  SoftMarginLoss = "soft_margin_loss", TripletMarginLoss = "triplet_margin_loss",
  TripletMarginWithDistanceLoss = "triplet_margin_with_distance_loss",
}

-- The class `name` of losses f(tensors..., options).
local function class_of(name, f, names)
  local class = Module(name)
  local known = {}
  for _, option in ipairs(names) do known[option] = true end
  function class:init(...)
    local o = argument.read(name, names, ...)
    options.check_names(name, o, known)
    rawset(self, "options", o)
  end
  function class:forward(...)
    local list = table.pack(...)
    argument.tensor(name, "argument 1", list[1])
    list[list.n + 1] = next(self.options) and self.options or nil
    return f(table.unpack(list, 1, list.n + 1))
  end
  function class:describe()
    local words = {}
    for _, option in ipairs(names) do
      local value = self.options[option]
      if value ~= nil then
        words[#words + 1] = ("%s = %s"):format(option,
          core.is_tensor(value) and value:type() or tostring(value))
      end
    end
    return table.concat(words, ", ")
  end
  return class
end

--- Make the classes of these losses.
---@param loss table<string, function>
---@return table<string, table>
return function(loss)
  local classes = {}
  for name, key in pairs(functions) do
    classes[name] = class_of(name, loss[key], read.names(key))
  end
  return classes
end
