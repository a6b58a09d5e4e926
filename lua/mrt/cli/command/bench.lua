--- bench.lua -- `mrt bench NAME [args]`: measure, never in tests.
--
-- A benchmark is a file lua/mrt/bench/NAME.lua that returns a function of the
-- remaining arguments.  Every table names the machine's part in it: threads
-- and instruction set.
--
-- SPDX-License-Identifier: MIT

local benches = {
  { "step", "training steps: time and memory, beside PyTorch" },
  { "time", "steps predicted and measured" },
  { "start", "start-up and planning time" },
  { "plan", "plans beside their bounds; planning time" },
  { "packing", "offsets of public instances: a folder of them" },
  { "recompute", "public instances within a budget: a folder of them" },
  { "budget", "a step in less memory: how much more time" },
  { "conv", "convolutions beside matrix products" },
  { "matmul", "matrix products in f32, bf16, f16" },
  { "attention", "attention in narrow floats beside f32" },
  { "quantize", "products with weights in 8 and 4 bits" },
  { "precision", "steps in bf16, f16, fp8: time, memory, loss" },
  { "ways", "budgets met by recomputing, by swapping, by both: predicted time" },
  { "gpu", "GPT-2 steps on a CUDA device, beside PyTorch" },
  { "collectives", "ranks add up, by memory and messages, beside a copy and MPI" },
  { "shard", "data parallel and ZeRO on 1 to 4 ranks, beside their formulas" },
  { "swap", "a training run three times its memory: predicted and real stall" },
}

local function usage(out)
  out:write "mrt bench NAME [args]\n"
  for _, b in ipairs(benches) do out:write(("  %-11s %s\n"):format(b[1], b[2])) end
end

local function known(name)
  for _, b in ipairs(benches) do
    if b[1] == name then return true end
  end
  return false
end

return function(name, ...)
  if not known(name) then
    usage(name and io.stderr or io.stdout)
    if name then os.exit(1, true) end
    return
  end
  return require("mrt.bench." .. name)(...)
end
