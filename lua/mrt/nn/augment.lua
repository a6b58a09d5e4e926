--- augment.lua -- images moved, mirrored and normalised
---
--- What CIFAR-10's papers do to training images (He et al. 2016, arXiv:1512.03385,
--- section 4.2): pad all sides, cut out a random piece of the old size, mirror
--- every other one.  It is part of the step: its random numbers are those of the
--- step, so a resumed run sees the same images, micro-batches too.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local options = require "mrt.util.options"
local Module = require "mrt.nn.module"

---@class mrt.nn.AugmentOptions
---@field padding? integer  zeros around an image before it is cut, default 0
---@field flip? boolean     mirror left and right with chance 1/2, default false
---@field mean? number[]    of each channel, subtracted at the end
---@field std? number[]     of each channel, divided by at the end

--- Make a layer that augments images while training; in evaluation mode it only
--- normalises.  u8 becomes f32 in [0, 1].
---
---     local augment = nn.Augment { padding = 4, flip = true,
---       mean = { 0.491, 0.482, 0.447 }, std = { 0.247, 0.243, 0.262 } }
---     local y = model(augment(images))
---@class mrt.nn.Augment: mrt.nn.Module
---@overload fun(options: mrt.nn.AugmentOptions): mrt.nn.Augment
local Augment = Module "Augment"

local function check_list(name, list)
  for i = 1, list and #list or 0 do
    if type(list[i]) ~= "number" or (name == "std" and list[i] == 0) then
      core.fail("value", "Augment", ("%s[%d] = %s"):format(name, i, tostring(list[i])))
    end
  end
end

function Augment:init(given)
  local o = options.read("Augment", given, { padding = 0, flip = false,
    mean = options.none, std = options.none })
  if math.type(o.padding) ~= "integer" or o.padding < 0 then
    core.fail("value", "Augment", ("padding = %s, an integer from 0 wanted")
      :format(tostring(o.padding)))
  end
  check_list("mean", o.mean)
  check_list("std", o.std)
  rawset(self, "options", o)
end

-- Each image cut out at a place of its own: one gather from the padded ones.
local function move(x, o)
  local n, channels, height, width = table.unpack(x:size())
  local p = o.padding
  local wide = width + 2 * p
  local rows = mrt.arange(height):reshape(1, height, 1)
  local columns = mrt.arange(width):reshape(1, 1, width)
  if o.flip then
    local mirrored = mrt.randint(0, 2, n, 1, 1):eq(1)
    columns = mrt.where(mirrored, width - 1 - columns, columns)
  end
  if p > 0 then
    rows = rows + mrt.randint(0, 2 * p + 1, n, 1, 1)
    columns = columns + mrt.randint(0, 2 * p + 1, n, 1, 1)
    x = x:pad { dim = 3, before = p, after = p }:pad { dim = 4, before = p, after = p }
  end
  local ids = (rows * wide + columns):to "i32":reshape(n, 1, height * width)
  return x:reshape(n, channels, (height + 2 * p) * wide)
    :gather(3, ids:expand(n, channels, height * width))
    :reshape(n, channels, height, width)
end

local function of_channels(name, list, x)
  if #list ~= x:size(2) then
    core.fail("shape", "Augment", ("%d values of %s for %s"):format(#list, name, x:type()))
  end
  return mrt.tensor(list, x.dtype):reshape(1, #list, 1, 1)
end

---@param x mrt.Tensor  `[N,C,H,W]`
---@return mrt.Tensor   the same shape, real
function Augment:forward(x)
  local o = self.options
  if not core.is_tensor(x) or x:dim() ~= 4 then
    core.fail("shape", "Augment", "images [N,C,H,W] wanted")
  end
  if x.dtype == "u8" then x = x:to "f32" / 255 end
  if self.training and (o.flip or o.padding > 0) then x = move(x, o) end
  if o.mean then x = x - of_channels("mean", o.mean, x) end
  if o.std then x = x / of_channels("std", o.std, x) end
  return x
end

function Augment:describe()
  return ("padding %d%s"):format(self.options.padding, self.options.flip and ", flip" or "")
end

return Augment
