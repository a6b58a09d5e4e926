---@meta

--- made.lua -- layers and losses that loops make, for editors and the reference
---
--- Never loaded.  What it says holds for what the files beside it make under these names.
---
--- SPDX-License-Identifier: MIT

--- max(x, 0).
---
---     nn.ReLU()(mrt.tensor{-1.0, 2.0})  --> [0.0 2.0]
---
--- Shapes: `[...]` -> the same.
---@class mrt.nn.ReLU: mrt.nn.Module
---@overload fun(): mrt.nn.ReLU

--- x from 0 to 6, flat outside.
---
---     nn.ReLU6()(mrt.tensor{-1.0, 8.0})  --> [0.0 6.0]
---
--- Shapes: `[...]` -> the same.
---@class mrt.nn.ReLU6: mrt.nn.Module
---@overload fun(): mrt.nn.ReLU6

--- x, and below 0 negative_slope x.
---
---     nn.LeakyReLU(0.5)(mrt.tensor{-1.0, 2.0})  --> [-0.5 2.0]
---
--- Shapes: `[...]` -> the same.
---@class mrt.nn.LeakyReLU: mrt.nn.Module
---@overload fun(negative_slope?: number): mrt.nn.LeakyReLU

--- x, and below 0 alpha (e^x - 1).
---
---     nn.ELU()(mrt.tensor{-1.0, 2.0})
---
--- Shapes: `[...]` -> the same.
---@class mrt.nn.ELU: mrt.nn.Module
---@overload fun(alpha?: number): mrt.nn.ELU

--- elu with the scale and alpha that keep mean 0 and variance 1 (Klambauer et al.,
--- arXiv:1706.02515).
---
---     nn.SELU()(mrt.tensor{-1.0, 2.0})
---
--- Shapes: `[...]` -> the same.
---@class mrt.nn.SELU: mrt.nn.Module
---@overload fun(): mrt.nn.SELU

--- x, and below 0 alpha (e^(x / alpha) - 1) (Barron, arXiv:1704.07483).
---
---     nn.CELU()(mrt.tensor{-1.0, 2.0})
---
--- Shapes: `[...]` -> the same.
---@class mrt.nn.CELU: mrt.nn.Module
---@overload fun(alpha?: number): mrt.nn.CELU

--- x P(x), P the normal distribution function; "tanh" for GPT-2's approximation.
---
---     nn.GELU "tanh"(mrt.tensor{-1.0, 2.0})
---
--- Shapes: `[...]` -> the same.
---@class mrt.nn.GELU: mrt.nn.Module
---@overload fun(approximate?: "none"|"tanh"): mrt.nn.GELU

--- x / (1 + e^-x).
---
---     nn.SiLU()(mrt.tensor{-1.0, 2.0})
---
--- Shapes: `[...]` -> the same.
---@class mrt.nn.SiLU: mrt.nn.Module
---@overload fun(): mrt.nn.SiLU

--- x tanh(log(1 + e^x)).
---
---     nn.Mish()(mrt.tensor{-1.0, 2.0})
---
--- Shapes: `[...]` -> the same.
---@class mrt.nn.Mish: mrt.nn.Module
---@overload fun(): mrt.nn.Mish

--- tanh x.
---
---     nn.Tanh()(mrt.tensor{-1.0, 2.0})
---
--- Shapes: `[...]` -> the same.
---@class mrt.nn.Tanh: mrt.nn.Module
---@overload fun(): mrt.nn.Tanh

--- x - tanh x.
---
---     nn.Tanhshrink()(mrt.tensor{-1.0, 2.0})
---
--- Shapes: `[...]` -> the same.
---@class mrt.nn.Tanhshrink: mrt.nn.Module
---@overload fun(): mrt.nn.Tanhshrink

--- 1 / (1 + e^-x).
---
---     nn.Sigmoid()(mrt.tensor{0.0})  --> [0.5]
---
--- Shapes: `[...]` -> the same.
---@class mrt.nn.Sigmoid: mrt.nn.Module
---@overload fun(): mrt.nn.Sigmoid

--- -log(1 + e^-x).
---
---     nn.LogSigmoid()(mrt.tensor{0.0})
---
--- Shapes: `[...]` -> the same.
---@class mrt.nn.LogSigmoid: mrt.nn.Module
---@overload fun(): mrt.nn.LogSigmoid

--- ln(1 + e^(beta x)) / beta; x itself where beta x exceeds the threshold.
---
---     nn.Softplus()(mrt.tensor{0.0})
---
--- Shapes: `[...]` -> the same.
---@class mrt.nn.Softplus: mrt.nn.Module
---@overload fun(beta?: number, threshold?: number): mrt.nn.Softplus

--- x / (1 + |x|).
---
---     nn.Softsign()(mrt.tensor{-1.0, 3.0})  --> [-0.50 0.75]
---
--- Shapes: `[...]` -> the same.
---@class mrt.nn.Softsign: mrt.nn.Module
---@overload fun(): mrt.nn.Softsign

--- x nearer to 0 by lambd, or 0.
---
---     nn.Softshrink()(mrt.tensor{-1.0, 0.2})  --> [-0.5 0.0]
---
--- Shapes: `[...]` -> the same.
---@class mrt.nn.Softshrink: mrt.nn.Module
---@overload fun(lambd?: number): mrt.nn.Softshrink

--- x where |x| > lambd, else 0.
---
---     nn.Hardshrink()(mrt.tensor{-1.0, 0.2})  --> [-1.0 0.0]
---
--- Shapes: `[...]` -> the same.
---@class mrt.nn.Hardshrink: mrt.nn.Module
---@overload fun(lambd?: number): mrt.nn.Hardshrink

--- x, at least min_val, at most max_val.
---
---     nn.Hardtanh()(mrt.tensor{-2.0, 0.5})  --> [-1.0 0.5]
---
--- Shapes: `[...]` -> the same.
---@class mrt.nn.Hardtanh: mrt.nn.Module
---@overload fun(min_val?: number, max_val?: number): mrt.nn.Hardtanh

--- (x + 3) / 6, from 0 to 1.
---
---     nn.Hardsigmoid()(mrt.tensor{0.0})  --> [0.5]
---
--- Shapes: `[...]` -> the same.
---@class mrt.nn.Hardsigmoid: mrt.nn.Module
---@overload fun(): mrt.nn.Hardsigmoid

--- x hardsigmoid(x).
---
---     nn.Hardswish()(mrt.tensor{-1.0, 3.0})
---
--- Shapes: `[...]` -> the same.
---@class mrt.nn.Hardswish: mrt.nn.Module
---@overload fun(): mrt.nn.Hardswish

--- x where x > threshold, else value.
---
---     nn.Threshold(0, 9)(mrt.tensor{-1.0, 2.0})  --> [9.0 2.0]
---
--- Shapes: `[...]` -> the same.
---@class mrt.nn.Threshold: mrt.nn.Module
---@overload fun(threshold: number, value: number): mrt.nn.Threshold

--- e^x over their sum along a dimension.
---
---     nn.Softmax(-1)(mrt.zeros(2, 4)):type()  --> f32[2,4]
---
--- Shapes: `[...]` -> the same.
---@class mrt.nn.Softmax: mrt.nn.Module
---@overload fun(dim: integer): mrt.nn.Softmax

--- Softmax of -x.
---
---     nn.Softmin(-1)(mrt.zeros(2, 4)):type()  --> f32[2,4]
---
--- Shapes: `[...]` -> the same.
---@class mrt.nn.Softmin: mrt.nn.Module
---@overload fun(dim: integer): mrt.nn.Softmin

--- The logarithm of softmax along a dimension.
---
---     nn.LogSoftmax(-1)(mrt.zeros(2, 4)):type()  --> f32[2,4]
---
--- Shapes: `[...]` -> the same.
---@class mrt.nn.LogSoftmax: mrt.nn.Module
---@overload fun(dim: integer): mrt.nn.LogSoftmax

--- The first half of a dimension times the sigmoid of the second (Dauphin et al.,
--- arXiv:1612.08083).
---
---     nn.GLU()(mrt.zeros(2, 6)):type()  --> f32[2,3]
---
--- Shapes: `[..., 2 n]` -> `[..., n]`.
---@class mrt.nn.GLU: mrt.nn.Module
---@overload fun(dim?: integer): mrt.nn.GLU

--- The largest of each window of signals; arguments of Tensor:max_pool1d, by place or by
--- name.
---
---     nn.MaxPool1d(2)(mrt.zeros(1, 2, 8)):type()  --> f32[1,2,4]
---
--- Shapes: `[N,C,L]` -> as Tensor:max_pool1d has it.
---@class mrt.nn.MaxPool1d: mrt.nn.Module
---@overload fun(kernel_size: integer|integer[], stride?: integer|integer[], padding?: integer|integer[], dilation?: integer|integer[], return_indices?: boolean, ceil_mode?: boolean): mrt.nn.MaxPool1d

--- The mean of each window of signals; arguments of Tensor:avg_pool1d, by place or by name.
---
---     nn.AvgPool1d(2)(mrt.zeros(1, 2, 8)):type()  --> f32[1,2,4]
---
--- Shapes: `[N,C,L]` -> as Tensor:avg_pool1d has it.
---@class mrt.nn.AvgPool1d: mrt.nn.Module
---@overload fun(kernel_size: integer|integer[], stride?: integer|integer[], padding?: integer|integer[], ceil_mode?: boolean, count_include_pad?: boolean): mrt.nn.AvgPool1d

--- (sum x^p)^(1/p) of each window of signals; arguments of Tensor:lp_pool1d, by place or by
--- name.
---
---     nn.LPPool1d(2, 2)(mrt.zeros(1, 2, 8)):type()  --> f32[1,2,4]
---
--- Shapes: `[N,C,L]` -> as Tensor:lp_pool1d has it.
---@class mrt.nn.LPPool1d: mrt.nn.Module
---@overload fun(norm_type: number, kernel_size: integer|integer[], stride?: integer|integer[], ceil_mode?: boolean): mrt.nn.LPPool1d

--- The mean of windows of signals so that output_size of them cover each.
---
---     nn.AdaptiveAvgPool1d(3)(mrt.zeros(1, 2, 8)):type()  --> f32[1,2,3]
---
--- Shapes: `[N,C,L]` -> `[N,C,output_size...]`.
---@class mrt.nn.AdaptiveAvgPool1d: mrt.nn.Module
---@overload fun(output_size: integer|integer[]): mrt.nn.AdaptiveAvgPool1d

--- The largest of windows of signals so that output_size of them cover each.
---
---     nn.AdaptiveMaxPool1d(3)(mrt.zeros(1, 2, 8)):type()  --> f32[1,2,3]
---
--- Shapes: `[N,C,L]` -> `[N,C,output_size...]`.
---@class mrt.nn.AdaptiveMaxPool1d: mrt.nn.Module
---@overload fun(output_size: integer|integer[], return_indices?: boolean): mrt.nn.AdaptiveMaxPool1d

--- Put zeros around signals: so many places at each end, or {left, right}.
---
---     nn.ZeroPad1d(1)(mrt.zeros(1, 2, 8)):type()  --> f32[1,2,10]
---
--- Shapes: `[N,C,L]` -> sides longer by the padding.
---@class mrt.nn.ZeroPad1d: mrt.nn.Module
---@overload fun(padding: integer|integer[]): mrt.nn.ZeroPad1d

--- Put what lies inside, mirrored at the edge around signals: so many places at each end,
--- or {left, right}.
---
---     nn.ReflectionPad1d(1)(mrt.zeros(1, 2, 8)):type()  --> f32[1,2,10]
---
--- Shapes: `[N,C,L]` -> sides longer by the padding.
---@class mrt.nn.ReflectionPad1d: mrt.nn.Module
---@overload fun(padding: integer|integer[]): mrt.nn.ReflectionPad1d

--- Put the edge, repeated around signals: so many places at each end, or {left, right}.
---
---     nn.ReplicationPad1d(1)(mrt.zeros(1, 2, 8)):type()  --> f32[1,2,10]
---
--- Shapes: `[N,C,L]` -> sides longer by the padding.
---@class mrt.nn.ReplicationPad1d: mrt.nn.Module
---@overload fun(padding: integer|integer[]): mrt.nn.ReplicationPad1d

--- Put the other end around signals: so many places at each end, or {left, right}.
---
---     nn.CircularPad1d(1)(mrt.zeros(1, 2, 8)):type()  --> f32[1,2,10]
---
--- Shapes: `[N,C,L]` -> sides longer by the padding.
---@class mrt.nn.CircularPad1d: mrt.nn.Module
---@overload fun(padding: integer|integer[]): mrt.nn.CircularPad1d

--- While training, each channel of signals is zero with chance p and scaled by 1 / (1 - p)
--- otherwise (Tompson et al., arXiv:1411.4280).
---
---     nn.Dropout1d(0.5)(mrt.zeros(1, 2, 8)):type()  --> f32[1,2,8]
---
--- Shapes: `[N,C,L]` -> the same.
---@class mrt.nn.Dropout1d: mrt.nn.Module
---@overload fun(p?: number): mrt.nn.Dropout1d

--- nn.BatchNorm that takes signals (or `[N,C]`) and nothing else.
---
---     nn.BatchNorm1d(2)(mrt.zeros(1, 2, 8)):type()  --> f32[1,2,8]
---
--- Shapes: `[N,C,L]` -> the same.
---@class mrt.nn.BatchNorm1d: mrt.nn.Module
---@overload fun(channels: integer, options?: mrt.nn.BatchNormOptions): mrt.nn.BatchNorm1d

--- Normalise each channel of each sample of signals (Ulyanov et al., arXiv:1607.08022).
---
---     nn.InstanceNorm1d(2)(mrt.zeros(1, 2, 8)):type()  --> f32[1,2,8]
---
--- Shapes: `[N,C,L]` -> the same.
---@class mrt.nn.InstanceNorm1d: mrt.nn.Module
---@overload fun(channels: integer, options?: mrt.nn.InstanceNormOptions): mrt.nn.InstanceNorm1d

--- The largest of each window of images; arguments of Tensor:max_pool2d, by place or by
--- name.
---
---     nn.MaxPool2d(2)(mrt.zeros(1, 2, 8, 8)):type()  --> f32[1,2,4,4]
---
--- Shapes: `[N,C,H,W]` -> as Tensor:max_pool2d has it.
---@class mrt.nn.MaxPool2d: mrt.nn.Module
---@overload fun(kernel_size: integer|integer[], stride?: integer|integer[], padding?: integer|integer[], dilation?: integer|integer[], return_indices?: boolean, ceil_mode?: boolean): mrt.nn.MaxPool2d

--- The mean of each window of images; arguments of Tensor:avg_pool2d, by place or by name.
---
---     nn.AvgPool2d(2)(mrt.zeros(1, 2, 8, 8)):type()  --> f32[1,2,4,4]
---
--- Shapes: `[N,C,H,W]` -> as Tensor:avg_pool2d has it.
---@class mrt.nn.AvgPool2d: mrt.nn.Module
---@overload fun(kernel_size: integer|integer[], stride?: integer|integer[], padding?: integer|integer[], ceil_mode?: boolean, count_include_pad?: boolean): mrt.nn.AvgPool2d

--- (sum x^p)^(1/p) of each window of images; arguments of Tensor:lp_pool2d, by place or by
--- name.
---
---     nn.LPPool2d(2, 2)(mrt.zeros(1, 2, 8, 8)):type()  --> f32[1,2,4,4]
---
--- Shapes: `[N,C,H,W]` -> as Tensor:lp_pool2d has it.
---@class mrt.nn.LPPool2d: mrt.nn.Module
---@overload fun(norm_type: number, kernel_size: integer|integer[], stride?: integer|integer[], ceil_mode?: boolean): mrt.nn.LPPool2d

--- The mean of windows of images so that output_size of them cover each.
---
---     nn.AdaptiveAvgPool2d(3)(mrt.zeros(1, 2, 8, 8)):type()  --> f32[1,2,3,3]
---
--- Shapes: `[N,C,H,W]` -> `[N,C,output_size...]`.
---@class mrt.nn.AdaptiveAvgPool2d: mrt.nn.Module
---@overload fun(output_size: integer|integer[]): mrt.nn.AdaptiveAvgPool2d

--- The largest of windows of images so that output_size of them cover each.
---
---     nn.AdaptiveMaxPool2d(3)(mrt.zeros(1, 2, 8, 8)):type()  --> f32[1,2,3,3]
---
--- Shapes: `[N,C,H,W]` -> `[N,C,output_size...]`.
---@class mrt.nn.AdaptiveMaxPool2d: mrt.nn.Module
---@overload fun(output_size: integer|integer[], return_indices?: boolean): mrt.nn.AdaptiveMaxPool2d

--- Put zeros around images: so many places at each end, or {left, right, top, bottom}.
---
---     nn.ZeroPad2d(1)(mrt.zeros(1, 2, 8, 8)):type()  --> f32[1,2,10,10]
---
--- Shapes: `[N,C,H,W]` -> sides longer by the padding.
---@class mrt.nn.ZeroPad2d: mrt.nn.Module
---@overload fun(padding: integer|integer[]): mrt.nn.ZeroPad2d

--- Put what lies inside, mirrored at the edge around images: so many places at each end, or
--- {left, right, top, bottom}.
---
---     nn.ReflectionPad2d(1)(mrt.zeros(1, 2, 8, 8)):type()  --> f32[1,2,10,10]
---
--- Shapes: `[N,C,H,W]` -> sides longer by the padding.
---@class mrt.nn.ReflectionPad2d: mrt.nn.Module
---@overload fun(padding: integer|integer[]): mrt.nn.ReflectionPad2d

--- Put the edge, repeated around images: so many places at each end, or {left, right, top,
--- bottom}.
---
---     nn.ReplicationPad2d(1)(mrt.zeros(1, 2, 8, 8)):type()  --> f32[1,2,10,10]
---
--- Shapes: `[N,C,H,W]` -> sides longer by the padding.
---@class mrt.nn.ReplicationPad2d: mrt.nn.Module
---@overload fun(padding: integer|integer[]): mrt.nn.ReplicationPad2d

--- Put the other end around images: so many places at each end, or {left, right, top,
--- bottom}.
---
---     nn.CircularPad2d(1)(mrt.zeros(1, 2, 8, 8)):type()  --> f32[1,2,10,10]
---
--- Shapes: `[N,C,H,W]` -> sides longer by the padding.
---@class mrt.nn.CircularPad2d: mrt.nn.Module
---@overload fun(padding: integer|integer[]): mrt.nn.CircularPad2d

--- While training, each channel of images is zero with chance p and scaled by 1 / (1 - p)
--- otherwise (Tompson et al., arXiv:1411.4280).
---
---     nn.Dropout2d(0.5)(mrt.zeros(1, 2, 8, 8)):type()  --> f32[1,2,8,8]
---
--- Shapes: `[N,C,H,W]` -> the same.
---@class mrt.nn.Dropout2d: mrt.nn.Module
---@overload fun(p?: number): mrt.nn.Dropout2d

--- nn.BatchNorm that takes images and nothing else.
---
---     nn.BatchNorm2d(2)(mrt.zeros(1, 2, 8, 8)):type()  --> f32[1,2,8,8]
---
--- Shapes: `[N,C,H,W]` -> the same.
---@class mrt.nn.BatchNorm2d: mrt.nn.Module
---@overload fun(channels: integer, options?: mrt.nn.BatchNormOptions): mrt.nn.BatchNorm2d

--- Normalise each channel of each sample of images (Ulyanov et al., arXiv:1607.08022).
---
---     nn.InstanceNorm2d(2)(mrt.zeros(1, 2, 8, 8)):type()  --> f32[1,2,8,8]
---
--- Shapes: `[N,C,H,W]` -> the same.
---@class mrt.nn.InstanceNorm2d: mrt.nn.Module
---@overload fun(channels: integer, options?: mrt.nn.InstanceNormOptions): mrt.nn.InstanceNorm2d

--- The largest of each window of volumes; arguments of Tensor:max_pool3d, by place or by
--- name.
---
---     nn.MaxPool3d(2)(mrt.zeros(1, 2, 8, 8, 8)):type()  --> f32[1,2,4,4,4]
---
--- Shapes: `[N,C,D,H,W]` -> as Tensor:max_pool3d has it.
---@class mrt.nn.MaxPool3d: mrt.nn.Module
---@overload fun(kernel_size: integer|integer[], stride?: integer|integer[], padding?: integer|integer[], dilation?: integer|integer[], return_indices?: boolean, ceil_mode?: boolean): mrt.nn.MaxPool3d

--- The mean of each window of volumes; arguments of Tensor:avg_pool3d, by place or by name.
---
---     nn.AvgPool3d(2)(mrt.zeros(1, 2, 8, 8, 8)):type()  --> f32[1,2,4,4,4]
---
--- Shapes: `[N,C,D,H,W]` -> as Tensor:avg_pool3d has it.
---@class mrt.nn.AvgPool3d: mrt.nn.Module
---@overload fun(kernel_size: integer|integer[], stride?: integer|integer[], padding?: integer|integer[], ceil_mode?: boolean, count_include_pad?: boolean): mrt.nn.AvgPool3d

--- (sum x^p)^(1/p) of each window of volumes; arguments of Tensor:lp_pool3d, by place or by
--- name.
---
---     nn.LPPool3d(2, 2)(mrt.zeros(1, 2, 8, 8, 8)):type()  --> f32[1,2,4,4,4]
---
--- Shapes: `[N,C,D,H,W]` -> as Tensor:lp_pool3d has it.
---@class mrt.nn.LPPool3d: mrt.nn.Module
---@overload fun(norm_type: number, kernel_size: integer|integer[], stride?: integer|integer[], ceil_mode?: boolean): mrt.nn.LPPool3d

--- The mean of windows of volumes so that output_size of them cover each.
---
---     nn.AdaptiveAvgPool3d(3)(mrt.zeros(1, 2, 8, 8, 8)):type()  --> f32[1,2,3,3,3]
---
--- Shapes: `[N,C,D,H,W]` -> `[N,C,output_size...]`.
---@class mrt.nn.AdaptiveAvgPool3d: mrt.nn.Module
---@overload fun(output_size: integer|integer[]): mrt.nn.AdaptiveAvgPool3d

--- The largest of windows of volumes so that output_size of them cover each.
---
---     nn.AdaptiveMaxPool3d(3)(mrt.zeros(1, 2, 8, 8, 8)):type()  --> f32[1,2,3,3,3]
---
--- Shapes: `[N,C,D,H,W]` -> `[N,C,output_size...]`.
---@class mrt.nn.AdaptiveMaxPool3d: mrt.nn.Module
---@overload fun(output_size: integer|integer[], return_indices?: boolean): mrt.nn.AdaptiveMaxPool3d

--- Put zeros around volumes: so many places at each end, or {left, right, top, bottom,
--- front, back}.
---
---     nn.ZeroPad3d(1)(mrt.zeros(1, 2, 8, 8, 8)):type()  --> f32[1,2,10,10,10]
---
--- Shapes: `[N,C,D,H,W]` -> sides longer by the padding.
---@class mrt.nn.ZeroPad3d: mrt.nn.Module
---@overload fun(padding: integer|integer[]): mrt.nn.ZeroPad3d

--- Put what lies inside, mirrored at the edge around volumes: so many places at each end,
--- or {left, right, top, bottom, front, back}.
---
---     nn.ReflectionPad3d(1)(mrt.zeros(1, 2, 8, 8, 8)):type()  --> f32[1,2,10,10,10]
---
--- Shapes: `[N,C,D,H,W]` -> sides longer by the padding.
---@class mrt.nn.ReflectionPad3d: mrt.nn.Module
---@overload fun(padding: integer|integer[]): mrt.nn.ReflectionPad3d

--- Put the edge, repeated around volumes: so many places at each end, or {left, right, top,
--- bottom, front, back}.
---
---     nn.ReplicationPad3d(1)(mrt.zeros(1, 2, 8, 8, 8)):type()  --> f32[1,2,10,10,10]
---
--- Shapes: `[N,C,D,H,W]` -> sides longer by the padding.
---@class mrt.nn.ReplicationPad3d: mrt.nn.Module
---@overload fun(padding: integer|integer[]): mrt.nn.ReplicationPad3d

--- Put the other end around volumes: so many places at each end, or {left, right, top,
--- bottom, front, back}.
---
---     nn.CircularPad3d(1)(mrt.zeros(1, 2, 8, 8, 8)):type()  --> f32[1,2,10,10,10]
---
--- Shapes: `[N,C,D,H,W]` -> sides longer by the padding.
---@class mrt.nn.CircularPad3d: mrt.nn.Module
---@overload fun(padding: integer|integer[]): mrt.nn.CircularPad3d

--- While training, each channel of volumes is zero with chance p and scaled by 1 / (1 - p)
--- otherwise (Tompson et al., arXiv:1411.4280).
---
---     nn.Dropout3d(0.5)(mrt.zeros(1, 2, 8, 8, 8)):type()  --> f32[1,2,8,8,8]
---
--- Shapes: `[N,C,D,H,W]` -> the same.
---@class mrt.nn.Dropout3d: mrt.nn.Module
---@overload fun(p?: number): mrt.nn.Dropout3d

--- nn.BatchNorm that takes volumes and nothing else.
---
---     nn.BatchNorm3d(2)(mrt.zeros(1, 2, 8, 8, 8)):type()  --> f32[1,2,8,8,8]
---
--- Shapes: `[N,C,D,H,W]` -> the same.
---@class mrt.nn.BatchNorm3d: mrt.nn.Module
---@overload fun(channels: integer, options?: mrt.nn.BatchNormOptions): mrt.nn.BatchNorm3d

--- Normalise each channel of each sample of volumes (Ulyanov et al., arXiv:1607.08022).
---
---     nn.InstanceNorm3d(2)(mrt.zeros(1, 2, 8, 8, 8)):type()  --> f32[1,2,8,8,8]
---
--- Shapes: `[N,C,D,H,W]` -> the same.
---@class mrt.nn.InstanceNorm3d: mrt.nn.Module
---@overload fun(channels: integer, options?: mrt.nn.InstanceNormOptions): mrt.nn.InstanceNorm3d

--- The windows of images as columns; arguments of Tensor:im2col.
---
---     nn.Unfold(2)(mrt.zeros(1, 1, 3, 3)):type()  --> f32[1,4,4]
---
--- Shapes: `[N,C,H,W]` -> `[N, C kh kw, windows]`.
---@class mrt.nn.Unfold: mrt.nn.Module
---@overload fun(kernel_size: integer|integer[], dilation?: integer|integer[], padding?: integer|integer[], stride?: integer|integer[]): mrt.nn.Unfold

--- Columns added up to images; arguments of Tensor:col2im.
---
---     nn.Fold(3, 2)(mrt.zeros(1, 4, 4)):type()  --> f32[1,1,3,3]
---
--- Shapes: `[N, C kh kw, windows]` -> `[N,C,H,W]`.
---@class mrt.nn.Fold: mrt.nn.Module
---@overload fun(output_size: integer|integer[], kernel_size: integer|integer[], dilation?: integer|integer[], padding?: integer|integer[], stride?: integer|integer[]): mrt.nn.Fold

--- Divide by (k + alpha m)^beta, m the mean of the squares of `size` channels (Krizhevsky
--- et al. 2012).
---
---     nn.LocalResponseNorm(2)(mrt.ones(1, 4, 2, 2)):type()  --> f32[1,4,2,2]
---
--- Shapes: `[N,C,...]` -> the same.
---@class mrt.nn.LocalResponseNorm: mrt.nn.Module
---@overload fun(size: integer, alpha?: number, beta?: number, k?: number): mrt.nn.LocalResponseNorm

--- Make channels pixels (Shi et al., arXiv:1609.05158).
---
---     nn.PixelShuffle(2)(mrt.zeros(1, 4, 2, 2)):type()  --> f32[1,1,4,4]
---
--- Shapes: `[N, C r^2, H, W]` -> `[N, C, H r, W r]`.
---@class mrt.nn.PixelShuffle: mrt.nn.Module
---@overload fun(upscale_factor: integer): mrt.nn.PixelShuffle

--- Make pixels channels.
---
---     nn.PixelUnshuffle(2)(mrt.zeros(1, 1, 4, 4)):type()  --> f32[1,4,2,2]
---
--- Shapes: `[N, C, H r, W r]` -> `[N, C r^2, H, W]`.
---@class mrt.nn.PixelUnshuffle: mrt.nn.Module
---@overload fun(downscale_factor: integer): mrt.nn.PixelUnshuffle

--- Take channels of groups in turn (Zhang et al., arXiv:1707.01083).
---
---     nn.ChannelShuffle(2)(mrt.zeros(1, 4, 2, 2)):type()  --> f32[1,4,2,2]
---
--- Shapes: `[N,C,...]` -> the same.
---@class mrt.nn.ChannelShuffle: mrt.nn.Module
---@overload fun(groups: integer): mrt.nn.ChannelShuffle

--- nn.bce as a layer, with the options it is made with, by place or by name.
---
---     nn.BCELoss()(mrt.tensor{0.2, 0.9}, mrt.tensor{0.0, 1.0})
---
--- Shapes: x and y `[...]` of one shape -> scalar, or `[...]` with reduction "none".
---@class mrt.nn.BCELoss: mrt.nn.Module
---@overload fun(weight?: mrt.Tensor, reduction?: "mean"|"sum"|"none"): mrt.nn.BCELoss

--- nn.bce_with_logits as a layer, with the options it is made with, by place or by name.
---
---     nn.BCEWithLogitsLoss()(mrt.tensor{-1.0, 2.0}, mrt.tensor{0.0, 1.0})
---
--- Shapes: x and y `[...]` of one shape -> scalar, or `[...]` with reduction "none".
---@class mrt.nn.BCEWithLogitsLoss: mrt.nn.Module
---@overload fun(weight?: mrt.Tensor, reduction?: "mean"|"sum"|"none", pos_weight?: number|mrt.Tensor): mrt.nn.BCEWithLogitsLoss

--- nn.mse as a layer, with the options it is made with, by place or by name.
---
---     nn.MSELoss()(mrt.tensor{-1.0, 2.0}, mrt.tensor{0.0, 1.0})  --> 1
---
--- Shapes: x and y `[...]` of one shape -> scalar, or `[...]` with reduction "none".
---@class mrt.nn.MSELoss: mrt.nn.Module
---@overload fun(reduction?: "mean"|"sum"|"none"): mrt.nn.MSELoss

--- nn.l1 as a layer, with the options it is made with, by place or by name.
---
---     nn.L1Loss()(mrt.tensor{-1.0, 2.0}, mrt.tensor{0.0, 1.0})  --> 1
---
--- Shapes: x and y `[...]` of one shape -> scalar, or `[...]` with reduction "none".
---@class mrt.nn.L1Loss: mrt.nn.Module
---@overload fun(reduction?: "mean"|"sum"|"none"): mrt.nn.L1Loss

--- nn.huber as a layer, with the options it is made with, by place or by name.
---
---     nn.HuberLoss()(mrt.tensor{-1.0, 2.0}, mrt.tensor{0.0, 1.0})  --> 0.5
---
--- Shapes: x and y `[...]` of one shape -> scalar, or `[...]` with reduction "none".
---@class mrt.nn.HuberLoss: mrt.nn.Module
---@overload fun(reduction?: "mean"|"sum"|"none", delta?: number): mrt.nn.HuberLoss

--- nn.smooth_l1 as a layer, with the options it is made with, by place or by name.
---
---     nn.SmoothL1Loss()(mrt.tensor{-1.0, 2.0}, mrt.tensor{0.0, 1.0})  --> 0.5
---
--- Shapes: x and y `[...]` of one shape -> scalar, or `[...]` with reduction "none".
---@class mrt.nn.SmoothL1Loss: mrt.nn.Module
---@overload fun(reduction?: "mean"|"sum"|"none", beta?: number): mrt.nn.SmoothL1Loss

--- nn.soft_margin_loss as a layer, with the options it is made with, by place or by name.
---
---     nn.SoftMarginLoss()(mrt.tensor{-1.0, 2.0}, mrt.tensor{-1.0, 1.0})
---
--- Shapes: x and y `[...]` of one shape -> scalar, or `[...]` with reduction "none".
---@class mrt.nn.SoftMarginLoss: mrt.nn.Module
---@overload fun(reduction?: "mean"|"sum"|"none"): mrt.nn.SoftMarginLoss

--- nn.hinge_embedding_loss as a layer, with the options it is made with, by place or by
--- name.
---
---     nn.HingeEmbeddingLoss()(mrt.tensor{0.5, 2.0}, mrt.tensor{-1.0, 1.0})
---
--- Shapes: x and y `[...]` of one shape -> scalar, or `[...]` with reduction "none".
---@class mrt.nn.HingeEmbeddingLoss: mrt.nn.Module
---@overload fun(margin?: number, reduction?: "mean"|"sum"|"none"): mrt.nn.HingeEmbeddingLoss

--- nn.poisson_nll_loss as a layer, with the options it is made with, by place or by name.
---
---     nn.PoissonNLLLoss()(mrt.tensor{0.0, 1.0}, mrt.tensor{1.0, 3.0})
---
--- Shapes: x and y `[...]` of one shape -> scalar, or `[...]` with reduction "none".
---@class mrt.nn.PoissonNLLLoss: mrt.nn.Module
---@overload fun(log_input?: boolean, full?: boolean, eps?: number, reduction?: "mean"|"sum"|"none"): mrt.nn.PoissonNLLLoss

--- nn.kl_div as a layer, with the options it is made with, by place or by name.
---
---     nn.KLDivLoss "batchmean"(mrt.zeros(2, 2):log_softmax(), mrt.full({2, 2}, 0.5))
---
--- Shapes: x and y `[...]` of one shape -> scalar, or `[...]` with reduction "none".
---@class mrt.nn.KLDivLoss: mrt.nn.Module
---@overload fun(reduction?: string, log_target?: boolean): mrt.nn.KLDivLoss

--- nn.cross_entropy as a layer, with the options it is made with, by place or by name.
---
---     nn.CrossEntropyLoss()(mrt.zeros(2, 4), mrt.tensor{0, 3})
---
--- Shapes: logits `[...,C]`, targets `[...]` -> scalar.
---@class mrt.nn.CrossEntropyLoss: mrt.nn.Module
---@overload fun(weight?: mrt.Tensor, ignore_index?: integer, reduction?: "mean"|"sum"|"none", label_smoothing?: number): mrt.nn.CrossEntropyLoss

--- nn.nll_loss as a layer, with the options it is made with, by place or by name.
---
---     nn.NLLLoss()(mrt.zeros(2, 4):log_softmax(), mrt.tensor{0, 3})
---
--- Shapes: `[N,C]`, targets `[N]` -> scalar.
---@class mrt.nn.NLLLoss: mrt.nn.Module
---@overload fun(weight?: mrt.Tensor, ignore_index?: integer, reduction?: "mean"|"sum"|"none"): mrt.nn.NLLLoss

--- nn.gaussian_nll_loss as a layer, with the options it is made with, by place or by name.
---
---     nn.GaussianNLLLoss()(mrt.zeros(3), mrt.ones(3), mrt.ones(3))  --> 0.5
---
--- Shapes: x, y and var `[...]` -> scalar.
---@class mrt.nn.GaussianNLLLoss: mrt.nn.Module
---@overload fun(full?: boolean, eps?: number, reduction?: "mean"|"sum"|"none"): mrt.nn.GaussianNLLLoss

--- nn.ctc_loss as a layer, with the options it is made with, by place or by name.
---
---     nn.CTCLoss()(mrt.zeros(5, 1, 3):log_softmax(), mrt.tensor{{1, 2}}, mrt.tensor{5}, mrt.tensor{2})
---
--- Shapes: `[T,N,C]`, `[N,S]`, `[N]`, `[N]` -> scalar.
---@class mrt.nn.CTCLoss: mrt.nn.Module
---@overload fun(blank?: integer, reduction?: "mean"|"sum"|"none", zero_infinity?: boolean): mrt.nn.CTCLoss

--- nn.cosine_embedding_loss as a layer, with the options it is made with, by place or by
--- name.
---
---     nn.CosineEmbeddingLoss()(mrt.ones(2, 3), mrt.ones(2, 3), mrt.tensor{1, -1})
---
--- Shapes: `[N,D]`, `[N,D]`, targets `[N]` -> scalar.
---@class mrt.nn.CosineEmbeddingLoss: mrt.nn.Module
---@overload fun(margin?: number, reduction?: "mean"|"sum"|"none"): mrt.nn.CosineEmbeddingLoss

--- nn.margin_ranking_loss as a layer, with the options it is made with, by place or by
--- name.
---
---     nn.MarginRankingLoss()(mrt.zeros(2), mrt.ones(2), mrt.tensor{1, -1})
---
--- Shapes: `[N]` three times -> scalar.
---@class mrt.nn.MarginRankingLoss: mrt.nn.Module
---@overload fun(margin?: number, reduction?: "mean"|"sum"|"none"): mrt.nn.MarginRankingLoss

--- nn.multilabel_margin_loss as a layer, with the options it is made with, by place or by
--- name.
---
---     nn.MultiLabelMarginLoss()(mrt.zeros(1, 3), mrt.tensor{{2, -1, -1}})
---
--- Shapes: `[N,C]`, targets `[N,C]` -> scalar.
---@class mrt.nn.MultiLabelMarginLoss: mrt.nn.Module
---@overload fun(reduction?: "mean"|"sum"|"none"): mrt.nn.MultiLabelMarginLoss

--- nn.multilabel_soft_margin_loss as a layer, with the options it is made with, by place or
--- by name.
---
---     nn.MultiLabelSoftMarginLoss()(mrt.zeros(1, 3), mrt.tensor{{1.0, 0.0, 1.0}})
---
--- Shapes: `[N,C]`, targets `[N,C]` -> scalar.
---@class mrt.nn.MultiLabelSoftMarginLoss: mrt.nn.Module
---@overload fun(weight?: mrt.Tensor, reduction?: "mean"|"sum"|"none"): mrt.nn.MultiLabelSoftMarginLoss

--- nn.multi_margin_loss as a layer, with the options it is made with, by place or by name.
---
---     nn.MultiMarginLoss()(mrt.zeros(2, 3), mrt.tensor{0, 2})
---
--- Shapes: `[N,C]`, targets `[N]` -> scalar.
---@class mrt.nn.MultiMarginLoss: mrt.nn.Module
---@overload fun(p?: number, margin?: number, weight?: mrt.Tensor, reduction?: "mean"|"sum"|"none"): mrt.nn.MultiMarginLoss

--- nn.triplet_margin_loss as a layer, with the options it is made with, by place or by
--- name.
---
---     nn.TripletMarginLoss()(mrt.zeros(2, 3), mrt.zeros(2, 3), mrt.ones(2, 3))
---
--- Shapes: `[N,D]` three times -> scalar.
---@class mrt.nn.TripletMarginLoss: mrt.nn.Module
---@overload fun(margin?: number, p?: number, eps?: number, swap?: boolean, reduction?: "mean"|"sum"|"none"): mrt.nn.TripletMarginLoss

--- nn.triplet_margin_with_distance_loss as a layer, with the options it is made with, by
--- place or by name.
---
---     nn.TripletMarginWithDistanceLoss()(mrt.zeros(2, 3), mrt.zeros(2, 3), mrt.ones(2, 3))
---
--- Shapes: `[N,D]` three times -> scalar.
---@class mrt.nn.TripletMarginWithDistanceLoss: mrt.nn.Module
---@overload fun(distance_function?: (fun(x: mrt.Tensor, y: mrt.Tensor): mrt.Tensor), margin?: number, swap?: boolean, reduction?: "mean"|"sum"|"none"): mrt.nn.TripletMarginWithDistanceLoss

---@class mrt.nn
local nn = {}

--- Binary cross entropy of probabilities: -(y log x + (1 - y) log(1 - x)), averaged.
--- Neither logarithm is taken of less than the smallest f32, so the loss is finite.
---
---     nn.bce(mrt.tensor{0.2, 0.9}, mrt.tensor{0.0, 1.0})
---
--- Shapes: x and y `[...]` of one shape -> scalar, or `[...]` with reduction "none".
--- Raises: shapes that differ, a reduction that there is not.
---@param x mrt.Tensor
---@param y mrt.Tensor
---@param o? mrt.nn.LossOptions  by name, or by place in PyTorch's order
---@return mrt.Tensor
function nn.bce(x, y, o) end

--- Binary cross entropy of logits, p = 1 / (1 + e^-x): -(pos_weight y log p + (1 - y) log(1
--- - p)), averaged; exact for logits of any size.
---
---     nn.bce_with_logits(mrt.tensor{-1.0, 2.0}, mrt.tensor{0.0, 1.0})
---
--- Shapes: x and y `[...]` of one shape -> scalar, or `[...]` with reduction "none".
--- Raises: shapes that differ, a reduction that there is not.
---@param x mrt.Tensor
---@param y mrt.Tensor
---@param o? mrt.nn.LossOptions  by name, or by place in PyTorch's order
---@return mrt.Tensor
function nn.bce_with_logits(x, y, o) end

--- The mean of (x - y)^2.
---
---     nn.mse(mrt.tensor{1.0, 2.0}, mrt.tensor{0.0, 2.0})  --> 0.5
---
--- Shapes: x and y `[...]` of one shape -> scalar, or `[...]` with reduction "none".
--- Raises: shapes that differ, a reduction that there is not.
---@param x mrt.Tensor
---@param y mrt.Tensor
---@param o? mrt.nn.LossOptions  by name, or by place in PyTorch's order
---@return mrt.Tensor
function nn.mse(x, y, o) end

--- The mean of |x - y|.
---
---     nn.l1(mrt.tensor{1.0, 2.0}, mrt.tensor{0.0, 2.0})  --> 0.5
---
--- Shapes: x and y `[...]` of one shape -> scalar, or `[...]` with reduction "none".
--- Raises: shapes that differ, a reduction that there is not.
---@param x mrt.Tensor
---@param y mrt.Tensor
---@param o? mrt.nn.LossOptions  by name, or by place in PyTorch's order
---@return mrt.Tensor
function nn.l1(x, y, o) end

--- Huber's loss (Ann. Math. Statist. 35, 1964): (x - y)^2 / 2 where |x - y| is at most
--- `delta` (1), delta (|x - y| - delta / 2) beyond; averaged.
---
---     nn.huber(mrt.tensor{1.0, 5.0}, mrt.tensor{0.0, 2.0})  --> 1.5
---
--- Shapes: x and y `[...]` of one shape -> scalar, or `[...]` with reduction "none".
--- Raises: shapes that differ, a reduction that there is not. Also a delta that is not
--- above 0.
---@param x mrt.Tensor
---@param y mrt.Tensor
---@param o? mrt.nn.LossOptions  by name, or by place in PyTorch's order
---@return mrt.Tensor
function nn.huber(x, y, o) end

--- Huber's loss divided by its width `beta` (1): the absolute error where that is 0.
---
---     nn.smooth_l1(mrt.tensor{1.0, 5.0}, mrt.tensor{0.0, 2.0})  --> 1.5
---
--- Shapes: x and y `[...]` of one shape -> scalar, or `[...]` with reduction "none".
--- Raises: shapes that differ, a reduction that there is not. Also a beta below 0.
---@param x mrt.Tensor
---@param y mrt.Tensor
---@param o? mrt.nn.LossOptions  by name, or by place in PyTorch's order
---@return mrt.Tensor
function nn.smooth_l1(x, y, o) end

--- log(1 + e^(-y x)), of targets -1 and 1, averaged.
---
---     nn.soft_margin_loss(mrt.tensor{-1.0, 2.0}, mrt.tensor{-1.0, 1.0})
---
--- Shapes: x and y `[...]` of one shape -> scalar, or `[...]` with reduction "none".
--- Raises: shapes that differ, a reduction that there is not.
---@param x mrt.Tensor
---@param y mrt.Tensor
---@param o? mrt.nn.LossOptions  by name, or by place in PyTorch's order
---@return mrt.Tensor
function nn.soft_margin_loss(x, y, o) end

--- x where the target is 1, max(0, margin - x) where it is -1, averaged: of distances.
---
---     nn.hinge_embedding_loss(mrt.tensor{0.5, 2.0}, mrt.tensor{-1.0, 1.0})  --> 1.25
---
--- Shapes: x and y `[...]` of one shape -> scalar, or `[...]` with reduction "none".
--- Raises: shapes that differ, a reduction that there is not.
---@param x mrt.Tensor
---@param y mrt.Tensor
---@param o? mrt.nn.LossOptions  by name, or by place in PyTorch's order
---@return mrt.Tensor
function nn.hinge_embedding_loss(x, y, o) end

--- Of counts y that have a Poisson distribution of mean e^x (x itself with `log_input`
--- false): e^x - y x, with `full` plus Stirling's approximation of log y! where y > 1;
--- averaged.
---
---     nn.poisson_nll_loss(mrt.tensor{1.0, 3.0}, mrt.tensor{1.0, 3.0}, { log_input = false })
---
--- Shapes: x and y `[...]` of one shape -> scalar, or `[...]` with reduction "none".
--- Raises: shapes that differ, a reduction that there is not.
---@param x mrt.Tensor
---@param y mrt.Tensor
---@param o? mrt.nn.LossOptions  by name, or by place in PyTorch's order
---@return mrt.Tensor
function nn.poisson_nll_loss(x, y, o) end

--- PyTorch's name of nn.bce.
---
---     nn.binary_cross_entropy(mrt.tensor{0.2, 0.9}, mrt.tensor{0.0, 1.0})
---
--- Shapes: x and y `[...]` of one shape -> scalar, or `[...]` with reduction "none".
--- Raises: shapes that differ, a reduction that there is not.
---@param x mrt.Tensor
---@param y mrt.Tensor
---@param o? mrt.nn.LossOptions  by name, or by place in PyTorch's order
---@return mrt.Tensor
function nn.binary_cross_entropy(x, y, o) end

--- PyTorch's name of nn.bce_with_logits.
---
---     nn.binary_cross_entropy_with_logits(mrt.tensor{-1.0, 2.0}, mrt.tensor{0.0, 1.0})
---
--- Shapes: x and y `[...]` of one shape -> scalar, or `[...]` with reduction "none".
--- Raises: shapes that differ, a reduction that there is not.
---@param x mrt.Tensor
---@param y mrt.Tensor
---@param o? mrt.nn.LossOptions  by name, or by place in PyTorch's order
---@return mrt.Tensor
function nn.binary_cross_entropy_with_logits(x, y, o) end

--- PyTorch's name of nn.mse.
---
---     nn.mse_loss(mrt.tensor{-1.0, 2.0}, mrt.tensor{0.0, 1.0})
---
--- Shapes: x and y `[...]` of one shape -> scalar, or `[...]` with reduction "none".
--- Raises: shapes that differ, a reduction that there is not.
---@param x mrt.Tensor
---@param y mrt.Tensor
---@param o? mrt.nn.LossOptions  by name, or by place in PyTorch's order
---@return mrt.Tensor
function nn.mse_loss(x, y, o) end

--- PyTorch's name of nn.l1.
---
---     nn.l1_loss(mrt.tensor{-1.0, 2.0}, mrt.tensor{0.0, 1.0})
---
--- Shapes: x and y `[...]` of one shape -> scalar, or `[...]` with reduction "none".
--- Raises: shapes that differ, a reduction that there is not.
---@param x mrt.Tensor
---@param y mrt.Tensor
---@param o? mrt.nn.LossOptions  by name, or by place in PyTorch's order
---@return mrt.Tensor
function nn.l1_loss(x, y, o) end

--- PyTorch's name of nn.huber.
---
---     nn.huber_loss(mrt.tensor{-1.0, 2.0}, mrt.tensor{0.0, 1.0})
---
--- Shapes: x and y `[...]` of one shape -> scalar, or `[...]` with reduction "none".
--- Raises: shapes that differ, a reduction that there is not.
---@param x mrt.Tensor
---@param y mrt.Tensor
---@param o? mrt.nn.LossOptions  by name, or by place in PyTorch's order
---@return mrt.Tensor
function nn.huber_loss(x, y, o) end

--- PyTorch's name of nn.smooth_l1.
---
---     nn.smooth_l1_loss(mrt.tensor{-1.0, 2.0}, mrt.tensor{0.0, 1.0})
---
--- Shapes: x and y `[...]` of one shape -> scalar, or `[...]` with reduction "none".
--- Raises: shapes that differ, a reduction that there is not.
---@param x mrt.Tensor
---@param y mrt.Tensor
---@param o? mrt.nn.LossOptions  by name, or by place in PyTorch's order
---@return mrt.Tensor
function nn.smooth_l1_loss(x, y, o) end

--- Make a list of modules: `for i, layer in ipairs(list)`. A Lua list in a field does as
--- well.
---
---     #nn.ModuleList { nn.Linear(2, 3), nn.ReLU() }  --> 2
---
--- Raises: what is no module.
---@param modules? mrt.nn.Module[]
---@return mrt.nn.Module[]
function nn.ModuleList(modules) end

--- Make a list of parameters. A Lua list in a field does as well.
---
---     #nn.ParameterList { mrt.parameter(mrt.zeros(2)) }  --> 1
---
--- Raises: what is no variable.
---@param parameters? mrt.Tensor[]  of any shapes
---@return mrt.Tensor[]
function nn.ParameterList(parameters) end

---@class mrt.nn.init
local init = {}

--- Fill with numbers uniform in [a, b).
---
---     local w = mrt.variable(mrt.zeros(3, 3))
---     nn.init.uniform_(w, -0.1, 0.1)
---
--- Shapes: `[...]` of any shape.
--- Raises: a tensor that is no variable.
---@param variable mrt.Tensor  filled in place
---@param a? number  default 0
---@param b? number  default 1
---@return mrt.Tensor variable
function init.uniform_(variable, a, b) end

--- Fill with normal numbers.
---
---     local w = mrt.variable(mrt.zeros(3, 3))
---     nn.init.normal_(w, 0, 0.02)
---
--- Shapes: `[...]` of any shape.
--- Raises: a tensor that is no variable.
---@param variable mrt.Tensor  filled in place
---@param mean? number  default 0
---@param std? number  default 1
---@return mrt.Tensor variable
function init.normal_(variable, mean, std) end

--- Fill with normal numbers that lie in [a, b].
---
---     local w = mrt.variable(mrt.zeros(3, 3))
---     nn.init.trunc_normal_(w, 0, 0.02)
---
--- Shapes: `[...]` of any shape.
--- Raises: a tensor that is no variable, a std that is not above 0, a not below b.
---@param variable mrt.Tensor  filled in place
---@param mean? number  default 0
---@param std? number  default 1
---@param a? number  default -2
---@param b? number  default 2
---@return mrt.Tensor variable
function init.trunc_normal_(variable, mean, std, a, b) end

--- Fill with one number.
---
---     local w = mrt.variable(mrt.zeros(3, 3))
---     nn.init.constant_(w, 0.5)
---
--- Shapes: `[...]` of any shape.
--- Raises: a tensor that is no variable.
---@param variable mrt.Tensor  filled in place
---@param val number
---@return mrt.Tensor variable
function init.constant_(variable, val) end

--- Fill with zeros.
---
---     local w = mrt.variable(mrt.zeros(3, 3))
---     nn.init.zeros_(w)
---
--- Shapes: `[...]` of any shape.
--- Raises: a tensor that is no variable.
---@param variable mrt.Tensor  filled in place
---@return mrt.Tensor variable
function init.zeros_(variable) end

--- Fill with ones.
---
---     local w = mrt.variable(mrt.zeros(3, 3))
---     nn.init.ones_(w)
---
--- Shapes: `[...]` of any shape.
--- Raises: a tensor that is no variable.
---@param variable mrt.Tensor  filled in place
---@return mrt.Tensor variable
function init.ones_(variable) end

--- Fill a matrix with the identity.
---
---     local w = mrt.variable(mrt.zeros(3, 3))
---     nn.init.eye_(w)
---
--- Shapes: `[...]` of any shape.
--- Raises: a tensor that is no variable or no matrix.
---@param variable mrt.Tensor  filled in place
---@return mrt.Tensor variable
function init.eye_(variable) end

--- Fill the weights `[O,C,k...]` of a convolution so that it hands its inputs on.
---
---     local w = mrt.variable(mrt.zeros(2, 2, 3))
---     nn.init.dirac_(w)
---
--- Shapes: `[O,C,k]` to `[O,C,k,k,k]`.
--- Raises: a tensor of another rank, outputs that groups do not divide.
---@param variable mrt.Tensor  filled in place
---@param groups? integer  default 1
---@return mrt.Tensor variable
function init.dirac_(variable, groups) end

--- Fill as Glorot & Bengio 2010 have it, uniform.
---
---     local w = mrt.variable(mrt.zeros(3, 3))
---     nn.init.xavier_uniform_(w)
---
--- Shapes: `[...]` of any shape.
--- Raises: a tensor that is no variable.
---@param variable mrt.Tensor  filled in place
---@param gain? number  default 1
---@return mrt.Tensor variable
function init.xavier_uniform_(variable, gain) end

--- Fill as Glorot & Bengio 2010 have it, normal.
---
---     local w = mrt.variable(mrt.zeros(3, 3))
---     nn.init.xavier_normal_(w)
---
--- Shapes: `[...]` of any shape.
--- Raises: a tensor that is no variable.
---@param variable mrt.Tensor  filled in place
---@param gain? number  default 1
---@return mrt.Tensor variable
function init.xavier_normal_(variable, gain) end

--- Fill as He et al. 2015 (arXiv:1502.01852) have it, uniform.
---
---     local w = mrt.variable(mrt.zeros(3, 3))
---     nn.init.kaiming_uniform_(w)
---
--- Shapes: `[...]` of any shape.
--- Raises: a tensor that is no variable, a mode or a nonlinearity that there is not.
---@param variable mrt.Tensor  filled in place
---@param a? number  the slope below 0 of a leaky_relu, default 0
---@param mode? "fan_in"|"fan_out"  default "fan_in"
---@param nonlinearity? string  default "leaky_relu"
---@return mrt.Tensor variable
function init.kaiming_uniform_(variable, a, mode, nonlinearity) end

--- Fill as He et al. 2015 (arXiv:1502.01852) have it, normal.
---
---     local w = mrt.variable(mrt.zeros(3, 3))
---     nn.init.kaiming_normal_(w)
---
--- Shapes: `[...]` of any shape.
--- Raises: a tensor that is no variable, a mode or a nonlinearity that there is not.
---@param variable mrt.Tensor  filled in place
---@param a? number  the slope below 0 of a leaky_relu, default 0
---@param mode? "fan_in"|"fan_out"  default "fan_in"
---@param nonlinearity? string  default "leaky_relu"
---@return mrt.Tensor variable
function init.kaiming_normal_(variable, a, mode, nonlinearity) end

--- Fill with a matrix whose rows, or columns, are orthogonal (Saxe et al.,
--- arXiv:1312.6120).
---
---     local w = mrt.variable(mrt.zeros(3, 3))
---     nn.init.orthogonal_(w)
---
--- Shapes: `[...]` of any shape.
--- Raises: a tensor that is no variable, or of one dimension.
---@param variable mrt.Tensor  filled in place
---@param gain? number  default 1
---@return mrt.Tensor variable
function init.orthogonal_(variable, gain) end

--- Fill a matrix with normal numbers, a share of each column with zeros.
---
---     local w = mrt.variable(mrt.zeros(3, 3))
---     nn.init.sparse_(w, 0.5)
---
--- Shapes: `[...]` of any shape.
--- Raises: a tensor that is no variable or no matrix, a share outside of 0 to 1.
---@param variable mrt.Tensor  filled in place
---@param sparsity number  the share
---@param std? number  default 0.01
---@return mrt.Tensor variable
function init.sparse_(variable, sparsity, std) end
