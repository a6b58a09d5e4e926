--- image.lua -- images at other sizes, channels and places exchanged, windows as columns
---
--- SPDX-License-Identifier: MIT

local F = "torch.nn.functional."

local function image(n)
  local batch = n >= 1e6 and 4 or 1
  local side = math.max(4, math.floor(math.sqrt(n / batch / 16)) // 4 * 4)
  return { dims = { batch, 16, side, side } }
end

local function option(r, n, low, high)
  if r.bool() then return r(low, high) end
  local out = {}
  for i = 1, n do out[i] = r(low, high) end
  return out
end

local modes = { { "nearest", "nearest-exact", "linear" },
  { "nearest", "nearest-exact", "bilinear", "bicubic" },
  { "nearest", "nearest-exact", "trilinear" } }

local resize_args = { { "input", "tensor" }, { "size", "shape" }, { "scale_factor", "number" },
  { "mode", "string", "nearest" }, { "align_corners", "bool" },
  { "recompute_scale_factor", "bool" } }

local function draw_resize(r)
  local n = r(1, 3)
  local dims = { r(1, 3), r(1, 4) }
  for i = 1, n do dims[2 + i] = r(1, 7) end
  local v = { input = { dims = dims }, mode = r.pick(modes[n]) }
  if not v.mode:find "nearest" and r.bool() then v.align_corners = r.bool() end
  if r.bool() then
    v.size = option(r, n, 1, 9)
  else
    local odd = n == 2 or v.mode ~= "nearest"
    v.scale_factor = r.pick { 1.0, 1.5, 2.0, odd and 2.3 or 2.0, 3.0 }
    if r.bool() then v.recompute_scale_factor = r.bool() end
  end
  return v
end

local pads = {}
for _, kind in ipairs { "Zero", "Reflection", "Replication", "Circular" } do
  for n = 1, 3 do
    local name = ("%sPad%dd"):format(kind, n)
    pads[#pads + 1] = { torch = "torch.nn." .. name, ours = "nn." .. name,
      differs = "paddings from 0", args = { { "padding", "shape" } } }
  end
end

local columns = { { "dilation", "shape", 1 }, { "padding", "shape", 0 }, { "stride", "shape", 1 } }

local rows = {
  { torch = F .. "interpolate", ours = "Tensor.interpolate", args = resize_args,
    differs = "no antialias; nearest by a scale_factor whose sides come out twice as long repeats "
      .. "each place of signals and volumes, as PyTorch does for images",
    grad = true, draw = draw_resize, as_given = true, tolerance = 1e-4,
    size = function(n)
      return { input = image(n // 4), scale_factor = 2.0, mode = "bilinear" }
    end },
  { torch = F .. "pixel_shuffle", ours = "Tensor.pixel_shuffle", grad = true,
    args = { { "input", "tensor" }, { "upscale_factor", "int" } },
    draw = function(r)
      local k = r(1, 3)
      return { input = { dims = { r(1, 3), r(1, 3) * k * k, r(1, 5), r(1, 5) } },
        upscale_factor = k }
    end,
    size = function(n) return { input = image(n), upscale_factor = 2 } end },
  { torch = F .. "pixel_unshuffle", ours = "Tensor.pixel_unshuffle", grad = true,
    args = { { "input", "tensor" }, { "downscale_factor", "int" } },
    draw = function(r)
      local k = r(1, 3)
      return { input = { dims = { r(1, 3), r(1, 3), k * r(1, 4), k * r(1, 4) } },
        downscale_factor = k }
    end,
    size = function(n) return { input = image(n), downscale_factor = 2 } end },
  { torch = F .. "channel_shuffle", ours = "Tensor.channel_shuffle", grad = true,
    args = { { "input", "tensor" }, { "groups", "int" } },
    draw = function(r)
      local g = r(1, 4)
      return { input = { dims = { r(1, 3), g * r(1, 4), r(1, 5), r(1, 5) } }, groups = g }
    end,
    size = function(n) return { input = image(n), groups = 4 } end },
  { torch = F .. "unfold", ours = "Tensor.im2col", grad = true,
    differs = "the method is called im2col",
    args = { { "input", "tensor" }, { "kernel_size", "shape" }, table.unpack(columns) },
    draw = function(r)
      return { input = { dims = { r(1, 3), r(1, 3), r(5, 8), r(5, 8) } },
        kernel_size = option(r, 2, 1, 3), dilation = r.bool() and option(r, 2, 1, 2) or nil,
        padding = r.bool() and option(r, 2, 0, 2) or nil,
        stride = r.bool() and option(r, 2, 1, 3) or nil }
    end,
    size = function(n) return { input = image(n // 9), kernel_size = 3, padding = 1 } end },
  { torch = F .. "fold", ours = "Tensor.col2im", grad = true,
    differs = "the method is called col2im",
    args = { { "input", "tensor" }, { "output_size", "shape" }, { "kernel_size", "shape" },
      table.unpack(columns) },
    draw = function(r)
      local h, w, kh, kw = r(4, 7), r(4, 7), r(1, 3), r(1, 3)
      local p, s = r(0, 1), r(1, 2)
      local places = ((h + 2 * p - kh) // s + 1) * ((w + 2 * p - kw) // s + 1)
      return { input = { dims = { r(1, 2), r(1, 3) * kh * kw, places } }, output_size = { h, w },
        kernel_size = { kh, kw }, padding = p, stride = s }
    end,
    size = function(n)
      local x = image(n // 9).dims
      return { input = { dims = { x[1], x[2] * 9, x[3] * x[4] } }, output_size = { x[3], x[4] },
        kernel_size = 3, padding = 1 }
    end },
  { torch = F .. "local_response_norm", ours = "Tensor.local_response_norm", grad = true,
    args = { { "input", "tensor" }, { "size", "int" }, { "alpha", "number", 1e-4 },
      { "beta", "number", 0.75 }, { "k", "number", 1.0 } },
    draw = function(r)
      return { input = { dims = { r(1, 3), r(1, 6), r(1, 5), r(1, 5) } }, size = r(1, 5),
        alpha = r.pick { 1e-4, 0.3 }, k = r.pick { 1, 2 } }
    end,
    size = function(n) return { input = image(n), size = 5 } end },
  { torch = F .. "grid_sample", ours = "Tensor.grid_sample", grad = true, as_given = true,
    differs = "modes bilinear and nearest, images only", tolerance = 1e-4,
    args = { { "input", "tensor" }, { "grid", "tensor" }, { "mode", "string", "bilinear" },
      { "padding_mode", "string", "zeros" }, { "align_corners", "bool", false } },
    draw = function(r)
      local n = r(1, 3)
      return { input = { dims = { n, r(1, 3), r(1, 5), r(1, 5) } },
        grid = { dims = { n, r(1, 5), r(1, 5), 2 }, low = -1.7, high = 1.7 },
        mode = r.pick { "bilinear", "nearest" }, align_corners = r.bool(),
        padding_mode = r.pick { "zeros", "border", "reflection" } }
    end,
    size = function(n)
      local x = image(n).dims
      return { input = { dims = x }, grid = { dims = { x[1], x[3], x[4], 2 } },
        align_corners = false }
    end },
  { torch = F .. "affine_grid", ours = "Tensor.affine_grid", grad = true,
    args = { { "theta", "tensor" }, { "size", "shape" }, { "align_corners", "bool", false } },
    draw = function(r)
      local n, sides = r(1, 3), r(2, 3)
      local size = { n, r(1, 3) }
      for i = 1, sides do size[2 + i] = r(1, 5) end
      return { theta = { dims = { n, sides, sides + 1 } }, size = size,
        align_corners = r.bool() }
    end,
    size = function(n)
      local x = image(n).dims
      return { theta = { dims = { x[1], 2, 3 } }, size = x, align_corners = false }
    end },
  { torch = "torch.nn.Upsample", ours = "nn.Upsample", args = { { "size", "shape" },
    { "scale_factor", "number" }, { "mode", "string", "nearest" } },
    differs = "Upsample(2) is a factor" },
  { torch = "torch.nn.PixelShuffle", ours = "nn.PixelShuffle",
    args = { { "upscale_factor", "int" } } },
  { torch = "torch.nn.PixelUnshuffle", ours = "nn.PixelUnshuffle",
    args = { { "downscale_factor", "int" } } },
  { torch = "torch.nn.ChannelShuffle", ours = "nn.ChannelShuffle", args = { { "groups", "int" } } },
  { torch = "torch.nn.Unfold", ours = "nn.Unfold", args = { { "kernel_size", "shape" } } },
  { torch = "torch.nn.Fold", ours = "nn.Fold", args = { { "output_size", "shape" },
    { "kernel_size", "shape" } } },
  { torch = "torch.nn.LocalResponseNorm", ours = "nn.LocalResponseNorm",
    args = { { "size", "int" } } },
}
table.move(pads, 1, #pads, #rows + 1, rows)
return rows
