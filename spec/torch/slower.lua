--- slower.lua -- where more than twice PyTorch's time is taken, and why
---
--- `mrt bench operators` shows these reasons; what is above 2 without one is a finding.
---
--- SPDX-License-Identifier: MIT

local calls = "at 10^3 elements calls are counted: %s"
local function composed(n) return calls:format(n .. " operators here, one kernel there") end

return {
  addcdiv = composed "two or three" .. "; of many elements, the quotient goes through a "
    .. "buffer in the first cache",
  addcmul = composed "two or three" .. "; of many elements, the product goes through a "
    .. "buffer in the first cache",
  bmm = calls:format "a product is prepared for any size",
  dot = composed "a product and a sum,",
  min = "value and position, which are two operators and two passes",
  norm = "squares go through a buffer in the first cache, short rows some at a time",
  dist = composed "three", einsum = calls:format "subscripts are read in Lua",
  equal = calls:format "two operators and an item; of many elements, the first 4096 are compared "
    .. "before the rest, there one by one",
  frac = composed "two", heaviside = composed "four",
  index_copy = composed "a scatter between two views,",
  index_fill = composed "a full tensor and a scatter,",
  index_put = calls:format "several indices are joined to one in Lua",
  kron = composed "views, a product and a view,",
  logical_and = composed "three (truth of each, then both)",
  logical_or = composed "three (truth of each, then both)",
  logical_xor = composed "three (truth of each, then both)",
  masked_scatter = composed "a count, a sum, a gather and a choice,",
  outer = composed "two views and a product," .. "; of many elements, both vectors are "
    .. "gathered row by row before they are multiplied",
  renorm = composed "a dozen", searchsorted = calls:format "arguments are checked in Lua",
  std_mean = calls:format "two results asked for together are a plan",
  var_mean = calls:format "two results asked for together are a plan",
  aminmax = "two results asked for together are a plan; the largest and the smallest are found "
    .. "in two passes",
  bincount = calls:format "the largest id is read before the result has a shape",
  mvlgamma = composed "lgamma of p terms and a sum,",
  ["Tensor.repeat"] = composed "an expansion, a copy and a reshape,"
    .. "; of many elements, rows are copied one by one",
  ["linalg.vector_norm"] = calls:format "options are read in Lua" .. "; of many elements, "
    .. "squares go through a buffer in the first cache",
  ["nn.functional.embedding_bag"] = "bags of few short rows: the work of a bag is its bounds",
  ["nn.functional.glu"] = "its halves are gathered into buffers before they are computed",
  ["nn.functional.normalize"] = composed "a norm, a maximum and a quotient,",
  tile = composed "an expansion, a copy and a reshape,",
  ["nn.functional.one_hot"] = composed "two",
  ["nn.functional.cross_entropy"] = calls:format "losses of rows, then their mean",
  ["nn.functional.group_norm"] = "channels are last in the kernel: two transpositions around it",
  ["nn.functional.conv1d"] = "as a conv2d of one line: views, and transpositions to channels last",
  ["nn.functional.grid_sample"] = calls:format "transpositions to channels last and back",
  ["nn.functional.pad"] = composed "one a dimension",
  ["nn.functional.pixel_shuffle"] = composed "three views and a copy,",
  ["nn.functional.pixel_unshuffle"] = composed "three views and a copy,",
  ["nn.functional.huber_loss"] = composed "eight in two passes",
  ["nn.functional.smooth_l1_loss"] = composed "eight in two passes",
  ["nn.functional.max_pool1d"] = "planes as images of one line: options are read in Lua, and a "
    .. "vector's lanes are windows, not channels",
  ["nn.functional.max_pool2d"] = composed "options, views and a kernel,",
  ["nn.functional.max_pool3d"] = composed "two passes and their views,",
  ["nn.functional.avg_pool2d"] = composed "options, views and a kernel,",
  ["nn.functional.avg_pool3d"] = composed "two passes and their views,",
  ["nn.functional.adaptive_avg_pool2d"] = composed "options, views and a kernel,",
  ["nn.functional.adaptive_avg_pool3d"] = composed "two passes and their views,",
  ["nn.functional.adaptive_max_pool2d"] = composed "options, views and a kernel,",
  ["nn.functional.adaptive_max_pool3d"] = "two passes and their views, there one",
}
