--- tokens.lua -- a text that is numbers already, in a file
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local describe = require "mrt.util.describe"
local loader = require "mrt.data.loader"
local rows = require "mrt.data.rows"
local windows = require "mrt.data.windows"

---@class mrt.data.Tokens
---@field tokens integer        how many there are
---@field dtype "i32"|"i64"     of the tensors that loaders give
local Tokens = {}
Tokens.__index = Tokens

local function part(self, first, last)
  return setmetatable({ source = self.source, dtype = self.dtype,
    first = first, tokens = last - first }, Tokens)
end

--- Cut the tokens in two.
---
---     local train, test = tokens:split(0.9)
---
--- Raises: a share outside of 0 to 1.
---@param share number  of the first part, in (0, 1)
---@return mrt.data.Tokens first
---@return mrt.data.Tokens second
function Tokens:split(share)
  local border = self.first + loader.border(self.tokens, share)
  return part(self, self.first, border), part(self, border, self.first + self.tokens)
end

local function moved(starts, by)
  local out = {}
  for i, at in ipairs(starts) do out[i] = math.type(at) == "integer" and at + by or at end
  return out
end

--- Read windows: `length` tokens from each start on, counted from 0.
---
---     tokens:read({ 0, 64 }, 64)
---
--- Shapes: `[starts, length]`.
--- Raises: a place that there is not.
---@param starts integer[]
---@param length integer
---@return mrt.Tensor? windows  `[#starts, length]`
---@return string? message
---@return string? code
function Tokens:read(starts, length)
  local rows_wanted = type(starts) == "table" and moved(starts, self.first) or starts
  return self.source:rows(1, rows_wanted, length)
end

--- Make a loader of windows: see `data.windows`.
---
--- Raises: too few tokens for one mini-batch.
---
---     local loader = tokens:loader { context = 64, batch = 12 }
---@param given mrt.data.WindowOptions
---@return mrt.data.Loader
function Tokens:loader(given)
  return windows({ tokens = self.tokens, fresh = true,
    read = function(starts, context) return rows.present(self:read(starts, context)) end,
    expect = function(starts, length)
      self.source:expect(1, moved(starts, self.first), length)
    end }, given)
end

function Tokens:__tostring()
  return ("%s in a file, as %s"):format(describe.count(self.tokens, "token"), self.dtype)
end

--- Open a file of tokens: llm.c's, with a header, or nanoGPT's, 16 bits each and
--- nothing else.  It stays in its file, so it may be larger than memory.
---
---     local tokens = assert(data.tokens "train.bin")
---     local loader = tokens:loader{batch = 12, context = 1024, seed = 1}
---     local x, y = loader:next()                      -- i32[12,1024] each
---
--- Returns nil: a file that cannot be read, or whose size is not what it says.
---
--- Raises: what is no path; a file's faults are a message.
---@param path string
---@return mrt.data.Tokens? tokens
---@return string? message
---@return string? code
return function(path)
  if type(path) ~= "string" then
    core.fail("value", "tokens", ("a path wanted, got %s"):format(type(path)))
  end
  local source, message, code = core.open_source(path, "tokens")
  if not source then return nil, message, code end
  local info = source:get(1)
  return setmetatable({ source = source, dtype = info.dtype, first = 0,
    tokens = info.shape[1] }, Tokens)
end
