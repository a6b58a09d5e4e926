--- software.lua -- what programs do that people trained with
---
--- SPDX-License-Identifier: MIT

local software = {}

-- Megatron and Megatron-DeepSpeed of 2020 to 2022: kernels launched one by one, scores that
-- are stored, gradients reduced when all are there.
software.megatron = { attention = "scores", fused_softmax = 2048, dropout = 0.1, padded = 128,
  host = 1, gradient = 2, update = 52, blocking = true, sends_shares = true, loss_by_steps = true, hidden_data = 0, sequence = false }

return software
