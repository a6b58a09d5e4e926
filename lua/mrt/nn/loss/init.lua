--- loss -- what training makes small, and what people read: a file for each kind
---
---   numbers.lua  of numbers beside what they should be, element by element
---   classes.lua  of classifiers
---   margins.lua  of pairs, triplets and classes, 0 beyond a margin
---   ctc.lua      of sequences whose labels have no places
---   module.lua   the same as layers, under PyTorch's names
---
--- All take their options in a last table, or by place in PyTorch's order.
---
--- SPDX-License-Identifier: MIT

local loss = {}

for _, name in ipairs { "numbers", "classes", "margins", "ctc" } do
  for key, f in pairs(require("mrt.nn.loss." .. name)) do loss[key] = f end
end

-- PyTorch's names of those that have a shorter one here.
loss.mse_loss, loss.l1_loss, loss.huber_loss = loss.mse, loss.l1, loss.huber
loss.smooth_l1_loss = loss.smooth_l1
loss.binary_cross_entropy = loss.bce
loss.binary_cross_entropy_with_logits = loss.bce_with_logits

return loss
