--- profiles.lua -- machines that need not be here
---
--- A profile is a table as lua/mrt/device/read.lua describes it; a user's own is
--- a Lua file that returns one.  Figures are the vendors' published ones, dense
--- (no sparsity); `efficiency` is the share of them that real kernels reach:
--- large bf16 products 0.78 to 0.81 of the peak, memory-bound kernels 0.77 of
--- the bandwidth, both measured on an H200.
---
--- SPDX-License-Identifier: MIT

local GB, GiB, TFLOPS = 1e9, 2 ^ 30, 1e12

local pcie4 = { name = "host memory over PCIe 4.0 x16", read = 25 * GB,
  write = 25 * GB, latency = 1e-5 }
local pcie5 = { name = "host memory over PCIe 5.0 x16", read = 55 * GB,
  write = 55 * GB, latency = 1e-5 }

-- What the cards have in common: a launch as a replayed graph makes it, tiles
-- of 128 by 128 half empty on average, attention at half the rate of products.
local function gpu(p)
  p.align, p.efficiency, p.launch, p.call = 256, 0.77, 3e-6, 1e-5
  p.threads, p.serial, p.epilogues = 1, 0, true
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
    swap = pcie4,
    flops = { f32 = 19.5 * TFLOPS, f64 = 19.5 * TFLOPS, f16 = 312 * TFLOPS,
      bf16 = 312 * TFLOPS } }
end

local function hopper(name, about, capacity, bandwidth, source)
  return gpu { name = name, about = about, source = source,
    memory = { name = "HBM3", capacity = capacity, bandwidth = bandwidth },
    swap = pcie5,
    flops = { f32 = 67 * TFLOPS, f64 = 67 * TFLOPS, f16 = 989.4 * TFLOPS,
      bf16 = 989.4 * TFLOPS } }
end

local function ampere_desktop(name, about, capacity, bandwidth, f32, half)
  return gpu { name = name, about = about,
    source = "NVIDIA Ampere GA102 GPU Architecture whitepaper, appendix A "
      .. "(f16 and bf16 with f32 sums)",
    memory = { name = "GDDR6X", capacity = capacity, bandwidth = bandwidth },
    swap = pcie4,
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

return list
