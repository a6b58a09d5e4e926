--- software.lua -- what programs do that people trained with
---
--- What a row of published figures was run by decides which kernels there are, which
--- collectives, what overlaps and how quickly a host launches: facts of the program, not of
--- the machine.
---
---     attention      "scores": stored; "fused": one kernel (Dao et al. 2022)
---     fused_softmax  longest sequence of the kernel that scales, masks and normalises
---     loss           "steps": a kernel for each step, in f32; "softmax": log_softmax in f32;
---                    "fused": one kernel
---     early_stop     recomputation ends with the last value that is needed
---     attention_share  of what the device's best kernels of attention reach
---     metrics        how many times more the loss is computed, to be shown
---     dropout, padded (vocabulary to so many times the ranks of tensor)
---     host           launches take so much of what they take in eager PyTorch
---     blocking       the host waits for the device at both ends of a pass, and for sends
---     sends_shares   each rank of tensor sends its share to the next stage
---     sequence       norms and residuals for a share of the tokens (Korthikanti et al. 2022)
---     gradient       bytes of an element in which gradients are added and reduced
---     update         bytes that the optimizer moves for an element of its state
---     hidden_data    share of the reduction of gradients that is behind the backward pass
---     hidden_backward, hidden_tensor  share of the collectives of tensor that is behind products
---     one_card       shards are gathered and scattered over one card of a node
---     alone          and nothing is computed meanwhile
---     narrow         dtype of products with weights
---
--- SPDX-License-Identifier: MIT

local software = {}

local function with(base, more)
  local out = {}
  for k, v in pairs(base) do out[k] = v end
  for k, v in pairs(more) do out[k] = v end
  return out
end

-- Gradients to f32 6, unscaled and looked through 8, norm 4, Adam 28, weights 6, zeroed 2;
-- in kernels over lists of tensors.
local ADAM <const> = 54

-- Megatron and Megatron-DeepSpeed of 2020 to 2022: kernels launched one by one, scores that
-- are stored, gradients reduced when all are there.
software.megatron = { attention = "scores", fused_softmax = 2048, loss = "steps",
  dropout = 0.1, padded = 128, host = 1, gradient = 2, update = ADAM, blocking = true,
  sends_shares = true, hidden_data = 0, hidden_backward = 0.14, sequence = false }

-- The same with sequence parallelism, whose collectives are partly behind products.
software.megatron_sp = with(software.megatron, { sequence = true, hidden_tensor = 0.2 })

-- DeepSpeed's pipeline: each rank sends all of what the next stage reads.
software.megatron_deepspeed = with(software.megatron, { sends_shares = false })

-- DeepSpeed's ZeRO 3 of 2021 gathers parameter by parameter, over one card of a node.
software.zero3_2021 = with(software.megatron, { one_card = true, alone = true })

-- Before dropout, bias and residual were one kernel, and losses split.
software.megatron_2020 = with(software.megatron, { sends_shares = false })

-- Megatron-Core and Transformer Engine: fused attention, kernels recorded or launched by
-- C++, reductions behind the backward pass.
software.megatron_core = { attention = "fused", loss = "fused", dropout = 0, padded = 128,
  host = 0.35, gradient = 2, update = ADAM, blocking = false, sends_shares = true,
  hidden_data = 0.85, sequence = true, hidden_tensor = 0.8, fused_accumulation = true,
  untied = true }

-- Fully sharded PyTorch, eager, with fused attention.
software.fsdp = { attention = "fused", loss = "softmax", early_stop = true, dropout = 0,
  padded = 1, host = 1,
  gradient = 2, update = ADAM, blocking = false, hidden_data = 0.8, sequence = false,
  gathered = 2 }

-- Composer's MPT: attention in Triton of 2022, two metrics of each micro-batch.
software.composer = with(software.fsdp, { attention_share = 0.45, metrics = 2 })

-- torchtitan's and YaFSDP's: heads of their own, gradients reduced in f32.
software.fsdp_eager = with(software.fsdp, { untied = true, gradient = 4, sequence = true })

-- Gradients of 16 bits, in place.
software.yafsdp = with(software.fsdp_eager, { gradient = 2 })

-- XLA: one launch a step.
software.xla = with(software.fsdp, { host = 0.02, untied = true, loss = "fused",
  early_stop = false })

-- llm.c: kernels of C++, launched by C.
software.llmc = with(software.fsdp, { host = 0.1, loss = "fused", padded = 128 })

return software
