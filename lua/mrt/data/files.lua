--- files.lua -- rows of well-known data sets and of NumPy's arrays
---
--- Each returns nil, a message and a code for a file that cannot be read ("file")
--- or is not what it should be ("data").
---
--- SPDX-License-Identifier: MIT

local rows = require "mrt.data.rows"

local files = {}

--- Open an idx file, such as MNIST's, packed by gzip or not.
---
---     local images = assert(data.idx "train-images-idx3-ubyte.gz")  -- u8[60000,28,28]
---     local labels = assert(data.idx "train-labels-idx1-ubyte.gz")  -- u8[60000]
---     local loader = data.batches({images, labels}, {batch = 128})
---     for x, y in loader:epoch() do step(x:to "f32" / 255, y) end
---
--- Raises: what is no path; a file's faults are a message.
---@param paths string|string[]  several are joined
---@return mrt.data.Rows? array
---@return string? message
---@return string? code
function files.idx(paths) return rows.open("idx", paths, "idx") end

--- Open files of CIFAR-10's binary version: `data_batch_1.bin`, ...
---
---     local rows, message = mrt.data.cifar10 { "data_batch_1.bin" }
---
--- Raises: what is no list of paths; a file's faults are a message.
---@param paths string|string[]
---@return mrt.data.Rows? images  `u8[n,3,32,32]`
---@return mrt.data.Rows|string|nil labels  `u8[n]`, 0 to 9
---@return string? code
function files.cifar10(paths)
  local labels, images, code = rows.open("cifar10", paths, "cifar10")
  if not labels then return nil, images, code end
  return images, labels
end

--- Open files of CIFAR-100's binary version: `train.bin`.
---
---     local rows, message = mrt.data.cifar100 { "train.bin" }
---
--- Raises: what is no list of paths; a file's faults are a message.
---@param paths string|string[]
---@return mrt.data.Rows? images  `u8[n,3,32,32]`
---@return mrt.data.Rows|string|nil fine    `u8[n]`, 0 to 99
---@return mrt.data.Rows|string|nil coarse  `u8[n]`, 0 to 19
function files.cifar100(paths)
  local coarse, fine, images = rows.open("cifar100", paths, "cifar100")
  if not coarse then return nil, fine, images end
  return images, fine, coarse
end

--- Open files of NumPy, one array each, whose first dimension counts rows.
---
---     local rows, message = mrt.data.npy { "x.npy", "y.npy" }
---
--- Raises: what is no list of paths; a file's faults are a message.
---@param paths string|string[]
---@return mrt.data.Rows? array
---@return string? message
---@return string? code
function files.npy(paths) return rows.open("npy", paths, "npy") end

return files
