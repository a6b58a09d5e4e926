--- machines.lua -- clusters that need not be here
---
--- SPDX-License-Identifier: MIT

local GB, GiB, TFLOPS = 1e9, 2 ^ 30, 1e12

local machines = {}

-- What kernels of a generation have in common.
local function device(p)
  p.tiles = p.tiles or { { 256, 128, 0.82 }, { 128, 256, 0.82 }, { 128, 128, 0.76 },
    { 128, 64, 0.62 }, { 64, 128, 0.62 }, { 64, 64, 0.45 } }
  p.loop = p.loop or 64
  p.tail = p.tail or 0.3
  p.unaligned = p.unaligned or 1.6
  p.narrow = p.narrow or 0.5
  p.least = p.least or 2e-6
  p.attention = p.attention or { 0.5, 0.4 }
  p.streams = p.streams or { other = 0.75, product = 0.85, softmax = 0.7, dropout = 0.7,
    norm = 0.6, reduce = 0.5, update = 0.7 }
  return p
end

local function a100(memory, bandwidth)
  return device { name = "A100", flops = { f32 = 19.5 * TFLOPS, bf16 = 312 * TFLOPS,
    f16 = 312 * TFLOPS }, units = 108, bandwidth = bandwidth, memory = memory }
end

local host = { forward = 40e-6, backward = 30e-6, collective = 40e-6, jitter = 100e-6,
  checkpoint = 200e-6, step = 5e-3 }

local nvlink3 = { name = "NVLink 3", size = 8, bandwidth = 229 * GB, latency = 2.5e-6,
  start = 30e-6, ramp = 0.4e-8, pair = 0.88 }

local function cluster(name, d, levels, overlap)
  return { name = name, device = d, host = host, levels = levels, overlap = overlap or 0.05 }
end

machines["dgx-a100"] = cluster("dgx-a100", a100(80 * GiB, 2039 * GB), { nvlink3,
  { name = "HDR", bandwidth = 25 * GB * 0.9, latency = 14e-6, start = 30e-6 } })
machines["vtrain"] = cluster("vtrain", a100(80 * GiB, 2039 * GB), { nvlink3,
  { name = "HDR, four a node", bandwidth = 12.5 * GB * 0.9, latency = 14e-6, start = 30e-6 } })

return machines
