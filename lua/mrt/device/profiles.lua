--- profiles.lua -- machines that need not be here
---
--- A profile is a table as lua/mrt/device/read.lua describes it; a user's own is
--- a Lua file that returns one.  Figures are the vendors' published ones, dense
--- (no sparsity); `efficiency` is the share of them that real kernels reach:
--- large bf16 products 0.78 to 0.81 of the peak (cuBLAS, 8192 cubed), memory-bound
--- kernels 0.77 of the bandwidth (cuDNN's norms), as others saw them on an H200, assumed
--- of the rest.
---
--- `kernels` of Hopper are fitted to one H100: GPT-2's steps in bf16, 124M and 1558M at
--- 16 x 1,024 tokens, node by node (scripts/gpu_check; its ten microseconds a node of waiting
--- taken off).  Gradients of attention to theirs, norms and their gradients to
--- theirs, sums to those of biases, updates to AdamW, activations to what GELU adds to a
--- product.  So the two steps are predicted as 35.4 and 345 ms and took 34.7 and 353.  No
--- step of mrt was timed on the other machines.
---
--- Links are those of a node of eight and, between nodes, of a network card for each
--- device; "h100+25gbe" has one Ethernet card a node instead.  Figures of NVLink are
--- fitted to NCCL's collectives as stas00/ml-engineering measured them (network/README.md
--- @744d01e1).  On eight A100, allreduce of 32 KiB to 16 GiB is predicted to 12 % (root
--- mean square; on vTrain's, of two to eight, to 18 %); on eight H200 rings of large sizes
--- to 2 %, allreduce of which the switch adds up takes 3/4 of what is predicted.  Cards of
--- networks give 0.9 of what they are sold as (Isaev et al., "Calculon", SC 2023), a step
--- taking what NCCL 2.28 assumes; Ethernet what its frames leave for TCP, 0.94.  PCIe is
--- half of what it is sold as: bytes go to the host's memory and back.
---
--- SPDX-License-Identifier: MIT

local GB, GiB, TFLOPS = 1e9, 2 ^ 30, 1e12

local pcie4 = { name = "host memory over PCIe 4.0 x16", read = 25 * GB,
  write = 25 * GB, latency = 1e-5 }
local pcie5 = { name = "host memory over PCIe 5.0 x16", read = 55 * GB,
  write = 55 * GB, latency = 1e-5 }

local function network(name, bits, latency, share)
  return { name = name, bandwidth = bits / 8 * share, latency = latency }
end

-- Eight devices of a node, and a card for each between nodes.
local function server(name, bandwidth, latency, ramp, card)
  return { { name = name, ranks = 8, bandwidth = bandwidth, latency = latency, ramp = ramp },
    card }
end

local nvlink3 = server("NVLink 3, 8 x A100", 245 * GB, 7.5e-6, 1.1e-8,
  network("InfiniBand HDR, a card for each device", 200e9, 1.4e-5, 0.9))
local nvlink4 = server("NVLink 4, 8 x H100", 367 * GB, 6e-6, 0,
  network("InfiniBand NDR, a card for each device", 400e9, 1.4e-5, 0.9))
-- Bytes go through the host's memory: no card writes into another.
local box = { { name = "PCIe 4.0 x16 and host memory", ranks = 4, bandwidth = 12.5 * GB,
  latency = 1e-5 }, { name = "10 Gbit Ethernet", bandwidth = 10e9 / 8 * 0.94 / 4,
  latency = 3e-5 } }

-- What the cards have in common: a launch as a replayed graph makes it, tiles
-- of 128 by 128 half empty on average, attention at half the rate of products.
local function gpu(p)
  p.align, p.efficiency, p.launch, p.call = 256, 0.77, 3e-6, 1e-5
  p.threads, p.serial, p.epilogues, p.records = 1, 0, true, true
  p.overhead = 512 * 2 ^ 20 -- a context and its libraries take 300 MB to 1 GB
  p.edge = { matmul = { 64, 64, 32 }, convolution = { 64, 64, 32 },
    convolution_dx = { 64, 64, 32 }, convolution_dw = { 64, 64, 32 }, attention = { 64, 64, 0 } }
  p.rate = { attention = p.flops.f32 / 2 }
  return p
end

local function ampere_server(name, about, capacity, bandwidth)
  return gpu { name = name, about = about,
    source = "NVIDIA A100 Tensor Core GPU: data sheet; architecture whitepaper "
      .. "(L2: 40 MB, 5120 bytes per clock at 1.41 GHz)",
    cache = { name = "L2", capacity = 40e6, bandwidth = 5120 * 1.41e9 },
    memory = { name = "HBM2", capacity = capacity, bandwidth = bandwidth },
    swap = pcie4, links = nvlink3,
    flops = { f32 = 19.5 * TFLOPS, f64 = 19.5 * TFLOPS, f16 = 312 * TFLOPS,
      bf16 = 312 * TFLOPS } }
end

-- flop/s as rows count them, before `efficiency`: shares of figures of the data sheet.
local function kernels(p)
  local f32, bandwidth = p.flops.f32, p.memory.bandwidth
  p.rate.attention_grad = p.rate.attention / 1.76
  p.rate.activation = f32 * 0.35
  p.rate.norm = bandwidth * 0.99
  p.rate.reduce = bandwidth * 0.38
  p.rate.update = bandwidth * 0.54
  return p
end

local function hopper(name, about, capacity, bandwidth, source)
  return kernels(gpu { name = name, about = about, source = source,
    cache = { name = "L2", capacity = 40e6, bandwidth = 3 * bandwidth }, -- assumed
    memory = { name = "HBM3", capacity = capacity, bandwidth = bandwidth },
    swap = pcie5, links = nvlink4,
    flops = { f32 = 67 * TFLOPS, f64 = 67 * TFLOPS, f16 = 989.4 * TFLOPS,
      bf16 = 989.4 * TFLOPS } })
end

local function ampere_desktop(name, about, capacity, bandwidth, f32, half)
  return gpu { name = name, about = about,
    source = "NVIDIA Ampere GA102 GPU Architecture whitepaper, appendix A "
      .. "(f16 and bf16 with f32 sums)",
    memory = { name = "GDDR6X", capacity = capacity, bandwidth = bandwidth },
    swap = pcie4, links = box,
    flops = { f32 = f32 * TFLOPS, f64 = f32 / 64 * TFLOPS, f16 = half * TFLOPS,
      bf16 = half * TFLOPS } }
end

local list = {
  ampere_desktop("rtx3080", "GeForce RTX 3080 10 GB", 10 * GiB, 760 * GB,
    29.8, 59.5),
  ampere_desktop("rtx3090", "GeForce RTX 3090 24 GB", 24 * GiB, 936 * GB,
    35.6, 71),
  ampere_server("a100-40", "A100 40 GB", 40 * GiB, 1555 * GB),
  ampere_server("a100-80", "A100 80 GB SXM", 80 * GiB, 2039 * GB),
  hopper("h100", "H100 80 GB SXM", 80 * GiB, 3350 * GB,
    "NVIDIA H100 Tensor Core GPU data sheet"),
  hopper("h200", "H200 141 GB SXM", 141 * GB, 4800 * GB,
    "NVIDIA H200 Tensor Core GPU data sheet"),
  { name = "three-tiers", about = "an A100 as lectures draw it",
    source = "Dao, Fu, Ermon, Rudra, Re, FlashAttention, NeurIPS 2022, figure 1",
    align = 256, launch = 0,
    cache = { name = "SRAM", capacity = 20e6, bandwidth = 19e12 },
    memory = { name = "HBM", capacity = 40e9, bandwidth = 1.5e12 },
    swap = { name = "DRAM", capacity = 1e12, bandwidth = 12.8 * GB },
    flops = { f32 = 19.5 * TFLOPS, f16 = 312 * TFLOPS, bf16 = 312 * TFLOPS } },
}

-- One card a node, which its devices share: what "NAME+KEY" has between nodes.
list.ethernet = {}
for _, gigabits in ipairs { 10, 25, 100 } do
  list.ethernet[gigabits .. "gbe"] = network(gigabits .. " Gbit Ethernet, a card a node",
    gigabits * 1e9, 3e-5, 0.94)
end

return list
