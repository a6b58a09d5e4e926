--- machines.lua -- clusters that need not be here
---
--- Figures of devices and networks are the vendors' published ones, dense: data sheets and
--- whitepapers of NVIDIA V100, DGX-2H, A100, H100, H200, DGX B200, GB200 and GB300 NVL72
--- (two GPUs share NVLink-C2C's 450 GB/s a direction to one host processor);
--- Google Cloud's pages of TPU v4 (Jouppi et al., ISCA 2023), v5e and v5p.  What kernels and
--- links reach of them, and what hosts take, is fitted, a set for each kind of device
--- (README.md says to what).  Links: to NCCL's collectives as stas00/ml-engineering
--- (network/README.md @744d01e1) and vTrain measured them.
---
--- SPDX-License-Identifier: MIT

local GB, GiB, TFLOPS = 1e9, 2 ^ 30, 1e12

local function with(base, more)
  local out = {}
  for k, v in pairs(base) do out[k] = v end
  for k, v in pairs(more) do out[k] = v end
  return out
end

-- ---- what kernels reach ---------------------------------------------------------

-- A tile: rows, columns, share of a unit's peak in its loop.
local function tiles(large, middle, small, least)
  return { { 256, 128, large }, { 128, 256, large }, { 128, 128, middle }, { 128, 64, small },
    { 64, 128, small }, { 64, 64, least } }
end

local ampere = { tiles = tiles(0.84, 0.77, 0.40, 0.35), loop = 28, tail = 0.17, unaligned = 10,
  narrow = 0.46, least = 4.6e-6, attention = { 0.62, 0.6 },
  streams = { other = 0.92, product = 0.95, activation = 0.95, softmax = 0.42, dropout = 0.67,
    norm = 0.7, reduce = 0.72, update = 0.8 } }
local volta = with(ampere, { unaligned = 1.6 })
local hopper = { tiles = tiles(0.75, 0.68, 0.4, 0.3), loop = 16, tail = 0.23, unaligned = 4,
  narrow = 0.5, least = 4e-6, attention = { 0.42, 0.32 },
  streams = { other = 0.75, product = 0.9, softmax = 0.4, dropout = 0.79, norm = 0.4,
    reduce = 0.63, update = 0.8 } }
-- Held to 500 W.
local hopper_500w = with(hopper, { tiles = tiles(0.57, 0.54, 0.35, 0.28),
  attention = { 0.35, 0.28 } })
local blackwell = with(hopper, { tiles = tiles(0.69, 0.64, 0.4, 0.3), attention = { 0.5, 0.42 },
  streams = with(hopper.streams, { other = 0.8, norm = 0.5 }) })
local tpu = with(ampere, { tiles = { { 128, 128, 0.8 } }, least = 1e-6, tail = 0.5 })

local function device(kind, p) return with(kind, p) end

local devices = {
  v100 = device(volta, { name = "V100 32 GB", units = 80, bandwidth = 900 * GB,
    memory = 32 * GiB, flops = { f32 = 15.7 * TFLOPS, f16 = 125 * TFLOPS, bf16 = 125 * TFLOPS } }),
  a100_40 = device(ampere, { name = "A100 40 GB", units = 108, bandwidth = 1555 * GB,
    memory = 40 * GiB, flops = { f32 = 19.5 * TFLOPS, f16 = 312 * TFLOPS, bf16 = 312 * TFLOPS } }),
  a100 = device(ampere, { name = "A100 80 GB", units = 108, bandwidth = 2039 * GB,
    memory = 80 * GiB, flops = { f32 = 19.5 * TFLOPS, f16 = 312 * TFLOPS, bf16 = 312 * TFLOPS } }),
  -- All runs there are as if kernels were this much slower, those of one node too.
  a100_jean_zay = device(ampere, { name = "A100 80 GB", units = 108, bandwidth = 2039 * GB,
    memory = 80 * GiB, clock = 0.79, flops = { f32 = 19.5 * TFLOPS, f16 = 312 * TFLOPS,
      bf16 = 312 * TFLOPS } }),
  h100 = device(hopper, { name = "H100 80 GB", units = 132, bandwidth = 3350 * GB,
    memory = 80 * GiB, flops = { f32 = 67 * TFLOPS, f16 = 989.4 * TFLOPS, bf16 = 989.4 * TFLOPS,
      f8 = 1978.9 * TFLOPS } }),
  h100_500w = device(hopper_500w, { name = "H100 96 GB, 500 W", units = 132, bandwidth = 2400 * GB,
    memory = 96 * GB, flops = { f32 = 67 * TFLOPS, f16 = 989.4 * TFLOPS, bf16 = 989.4 * TFLOPS,
      f8 = 1978.9 * TFLOPS } }),
  h200 = device(hopper, { name = "H200", units = 132, bandwidth = 4800 * GB, memory = 141 * GB,
    flops = { f32 = 67 * TFLOPS, f16 = 989.4 * TFLOPS, bf16 = 989.4 * TFLOPS,
      f8 = 1978.9 * TFLOPS } }),
  b200 = device(blackwell, { name = "B200", units = 148, bandwidth = 8000 * GB, memory = 180 * GB,
    flops = { f32 = 75 * TFLOPS, f16 = 2250 * TFLOPS, bf16 = 2250 * TFLOPS, f8 = 4500 * TFLOPS,
      f4 = 9000 * TFLOPS } }),
  gb200 = device(blackwell, { name = "GB200", units = 148, bandwidth = 8000 * GB,
    memory = 186 * GB, flops = { f32 = 80 * TFLOPS, f16 = 2500 * TFLOPS, bf16 = 2500 * TFLOPS,
      f8 = 5000 * TFLOPS, f4 = 10000 * TFLOPS } }),
  gb300 = device(blackwell, { name = "GB300", units = 148, clock = 1.12, bandwidth = 8000 * GB,
    memory = 279 * GB, flops = { f32 = 80 * TFLOPS, f16 = 2500 * TFLOPS, bf16 = 2500 * TFLOPS,
      f8 = 5000 * TFLOPS, f4 = 15000 * TFLOPS } }), -- and 1,400 W: of GB200's 1,200
  rtx4090 = device(ampere, { name = "GeForce RTX 4090", units = 128, bandwidth = 1008 * GB,
    memory = 24 * GiB, flops = { f32 = 82.6 * TFLOPS, f16 = 165.2 * TFLOPS,
      bf16 = 165.2 * TFLOPS, f8 = 330.3 * TFLOPS } }),
  tpu_v4 = device(tpu, { name = "TPU v4", units = 8, bandwidth = 1228 * GB, memory = 32 * GiB,
    flops = { f32 = 275 / 8 * TFLOPS, bf16 = 275 * TFLOPS } }),
  tpu_v5e = device(tpu, { name = "TPU v5e", units = 4, bandwidth = 819 * GB, memory = 16 * GiB,
    flops = { f32 = 197 / 8 * TFLOPS, bf16 = 197 * TFLOPS } }),
  tpu_v5p = device(tpu, { name = "TPU v5p", units = 8, bandwidth = 2765 * GB, memory = 95 * GiB,
    flops = { f32 = 459 / 8 * TFLOPS, bf16 = 459 * TFLOPS } }),
}

-- ---- links ----------------------------------------------------------------------

local nvlink = {
  [2] = { name = "NVLink 2", size = 16, bandwidth = 130 * GB, latency = 3e-6, start = 30e-6,
    ramp = 4e-9 },
  [3] = { name = "NVLink 3", size = 8, bandwidth = 229 * GB, latency = 2.5e-6, start = 30e-6,
    ramp = 4e-9, pair = 0.88 },
  [4] = { name = "NVLink 4", size = 8, bandwidth = 367 * GB, latency = 2.5e-6, start = 23e-6,
    ramp = 2.7e-9, switch = { least = 5, bandwidth = 487 * GB, latency = 52e-6, ramp = 3.9e-9 } },
  [5] = { name = "NVLink 5", size = 8, bandwidth = 695 * GB, latency = 3.5e-6, start = 24e-6,
    ramp = 3.8e-9, switch = { least = 6, bandwidth = 849 * GB, latency = 79e-6, ramp = 5.8e-9 } },
}

-- Cards between nodes: gigabits a second for each device, and how many devices a level of
-- switches joins without leaving it.
local function cards(name, gigabits, more)
  return with({ name = name, bandwidth = gigabits / 8 * GB * 0.9, latency = 14e-6,
    start = 30e-6, rail = true }, more or {})
end

-- Links of a torus: all axes at once, so many chips along each.
local function torus(axes, bytes)
  local size = 1
  for _, n in ipairs(axes) do size = size * n end
  return { name = "torus", size = size, axes = axes, bandwidth = bytes * 0.85, latency = 1e-6,
    start = 5e-6 }
end

-- Seconds that a host takes to launch a kernel of eager PyTorch in the forward and the
-- backward pass, a collective; how unequal hosts are; a layer's checkpoint, a step.
local host = { forward = 49e-6, backward = 28.5e-6, collective = 12e-6, jitter = 33e-6,
  checkpoint = 300e-6, step = 5.8e-3 }

-- The host's memory, for each device, and bytes a second from and to it, both at once: what
-- is swapped.  PCIe gives 0.8 of its rate (taken, not fitted).
local function swap(rate, terabytes, among)
  return { bandwidth = rate * GB * 0.8, memory = terabytes * 1e12 / among }
end

local function cluster(name, about, d, levels, more)
  return with({ name = name, about = about, device = devices[d], host = host, levels = levels,
    overlap = 0.06 }, more or {})
end

local list = {
  cluster("dgx-2h", "16 V100 a node on NVSwitch, 8 cards of 100 Gbit", "v100",
    { nvlink[2], cards("InfiniBand EDR", 50) }, { swap = swap(15.75, 1.5, 16) }),
  cluster("dgx-a100", "8 A100 80 GB a node, a card of 200 Gbit for each", "a100",
    { nvlink[3], cards("InfiniBand HDR", 200) }, { swap = swap(31.5, 2, 8) }),
  cluster("dgx-a100-40", "8 A100 40 GB a node, a card of 200 Gbit for each", "a100_40",
    { nvlink[3], cards("InfiniBand HDR", 200) }, { swap = swap(31.5, 1, 8) }),
  cluster("a100-800g", "8 A100 80 GB a node, 800 Gbit a node", "a100",
    { nvlink[3], cards("InfiniBand HDR, four a node", 100) }),
  cluster("jean-zay", "8 A100 80 GB a node, four Omni-Path cards of 100 Gbit", "a100_jean_zay",
    { nvlink[3], cards("Omni-Path", 50) }),
  cluster("dgx-h100", "8 H100 80 GB a node, a card of 400 Gbit for each", "h100",
    { nvlink[4], cards("InfiniBand NDR", 400) }, { overlap = 0.35, swap = swap(63, 2, 8) }),
  cluster("dgx-h100-500w", "the same, held to 500 W, memory of 2.4 TB/s", "h100_500w",
    { nvlink[4], cards("InfiniBand NDR", 400) }, { overlap = 0.35 }),
  cluster("dgx-h200", "8 H200 a node, a card of 400 Gbit for each", "h200",
    { nvlink[4], cards("InfiniBand NDR", 400) }, { overlap = 0.35, swap = swap(63, 2, 8) }),
  cluster("dgx-b200", "8 B200 a node, a card of 400 Gbit for each", "b200",
    { nvlink[5], cards("InfiniBand NDR", 400) }, { swap = swap(63, 2, 8) }),
  cluster("gb200-nvl72", "72 GB200 on one NVSwitch, a card of 400 Gbit for each", "gb200",
    { with(nvlink[5], { size = 72 }), cards("InfiniBand NDR", 400) },
    { swap = swap(225, 17, 72) }),
  cluster("gb300-nvl72", "72 GB300 on one NVSwitch, a card of 800 Gbit for each", "gb300",
    { with(nvlink[5], { size = 72 }), cards("InfiniBand XDR", 800) },
    { swap = swap(225, 17, 72) }),
  cluster("tpu-v4", "TPU v4: tori of 16 x 16 x 16", "tpu_v4",
    { torus({ 16, 16, 16 }, 150 * GB), cards("data-centre network", 25) }),
  cluster("tpu-v5e", "TPU v5e: tori of 16 x 16", "tpu_v5e",
    { torus({ 16, 16 }, 100 * GB), cards("data-centre network", 25) }),
  cluster("tpu-v5p", "TPU v5p: tori of 16 x 16 x 24", "tpu_v5p",
    { torus({ 16, 16, 24 }, 300 * GB), cards("data-centre network", 25) }),
  cluster("box-4090", "four RTX 4090 a box on PCIe 4.0, 10 Gbit Ethernet", "rtx4090",
    { { name = "PCIe 4.0 and host memory", size = 4, bandwidth = 12.5 * GB, latency = 10e-6,
      start = 20e-6 }, { name = "10 Gbit Ethernet", bandwidth = 10 / 8 * GB * 0.94 / 4,
      latency = 30e-6, start = 30e-6 } }),
  cluster("generic", "8 devices a node, two tiers of switches, the upper one 2:1", "h100",
    { nvlink[4], cards("leaf switches", 400, { size = 256 }),
      cards("spine", 400, { oversubscription = 2, rail = false }) }),
}

return list
