--- tensorboard.lua -- scalars in a file that TensorBoard reads
---
--- The file is a row of records: the length of the data (u64), a checksum of
--- those eight bytes, the data, a checksum of it.  A checksum is CRC-32C, turned
--- right by 15 bits, plus a constant.  The data is a protocol buffer, Event:
--- 1 wall time (double), 2 step, 3 version, 5 Summary, 7 SessionLog; a Summary
--- has Values: 1 tag, 2 a float.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

local tensorboard = {}

local POLYNOMIAL <const> = 0x82f63b78 -- Castagnoli's, bits reversed
local remainders = {}
for byte = 0, 255 do
  local r = byte
  for _ = 1, 8 do r = r & 1 == 1 and r >> 1 ~ POLYNOMIAL or r >> 1 end
  remainders[byte] = r
end

--- CRC-32C of a string (RFC 3720).
---@param s string
---@return integer
function tensorboard.crc(s)
  local r = 0xffffffff
  for i = 1, #s do r = remainders[(r ~ s:byte(i)) & 255] ~ r >> 8 end
  return r ~ 0xffffffff
end

local function masked(s)
  local c = tensorboard.crc(s)
  return string.pack("<I4", ((c >> 15 | c << 17) + 0xa282ead8) & 0xffffffff)
end

local function record(data)
  local length = string.pack("<I8", #data)
  return length .. masked(length) .. data .. masked(data)
end

-- ---- protocol buffers ------------------------------------------------------

local function varint(n)
  local out = {}
  while n >> 7 ~= 0 do
    out[#out + 1] = string.char(n & 127 | 128)
    n = n >> 7
  end
  out[#out + 1] = string.char(n)
  return table.concat(out)
end

local function double(field, x) return varint(field << 3 | 1) .. string.pack("<d", x) end
local function float(field, x) return varint(field << 3 | 5) .. string.pack("<f", x) end
local function integer(field, n) return varint(field << 3) .. varint(n) end
local function bytes(field, s) return varint(field << 3 | 2) .. varint(#s) .. s end

-- ---- the file --------------------------------------------------------------

---@class mrt.log.TensorBoard
local Writer = {}
Writer.__index = Writer

local function host()
  local file <close> = io.open "/proc/sys/kernel/hostname"
  return file and file:read() or "localhost"
end

--- Begin a file in a folder.
---@param folder string
---@param step? integer  the run goes on after this one: later ones of files
---  before are no longer shown
---@return mrt.log.TensorBoard?
---@return string? message
function tensorboard.open(folder, step)
  local now = os.time()
  local name = ("%s/events.out.tfevents.%010d.%s"):format(folder, now, host())
  -- one of the same second goes on; what is no file is refused
  local ok, problem = core.write_file(name, core.read_file(name) or "")
  if not ok then return nil, problem end
  local file, message = io.open(name, "ab")
  if not file then return nil, message end
  local self = setmetatable({ file = file }, Writer)
  self:event(now, 0, bytes(3, "brain.Event:2"))
  if step then self:event(now, step + 1, bytes(7, integer(1, 1))) end
  return self
end

function Writer:event(time, step, what)
  return self.file:write(record(double(1, time) .. integer(2, step) .. what))
end

--- Write the scalars of a step.
---@param time number    seconds since 1970
---@param step integer
---@param scalars table<string, number>
---@return true? done
---@return string? message
function Writer:write(time, step, scalars)
  local tags, values = {}, {}
  for tag in pairs(scalars) do tags[#tags + 1] = tag end
  table.sort(tags)
  for i, tag in ipairs(tags) do
    values[i] = bytes(1, bytes(1, tag) .. float(2, scalars[tag]))
  end
  local ok, message = self:event(time, step, bytes(5, table.concat(values)))
  if not ok then return nil, message end
  ok, message = self.file:flush()
  return ok and true, message
end

function Writer:close() self.file:close() end

return tensorboard
