--- windows.lua -- pieces of a long row of tokens, for language models
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local loader = require "mrt.data.loader"
local options = require "mrt.util.options"
local random = require "mrt.data.random"

---@class mrt.data.WindowOptions
---@field batch integer
---@field context integer     tokens in a window
---@field shuffle? boolean    default true
---@field seed? integer       default 0
---@field drop_last? boolean  default true

--- Make a loader of windows: `x` is `context` tokens, `y` the same one later,
--- both `[batch, context]`.
---
--- An epoch cuts the tokens into windows side by side and visits each once;
--- shuffled epochs begin cutting at different places, so that in the long run
--- every token stands at every place.
---
--- Raises: too few tokens for one mini-batch.
---
---     local numbers = { tokens = 100, read = function(starts, context)
---       return mrt.tensor(starts):unsqueeze(2) + mrt.arange(context)
---     end }
---     local loader = mrt.data.windows(numbers, { context = 8, batch = 4 })
---@param source {tokens: integer, read: function, expect: function?, fresh: boolean?}
---  read(starts, context) gives `[#starts, context]`; starts count from 0; fresh: it
---  keeps nothing of what it gives
---@param given mrt.data.WindowOptions
---@return mrt.data.Loader
return function(source, given)
  local o = options.read("loader", given, { batch = options.want "size",
    context = options.want "size", shuffle = true, seed = options.of("integer", 0),
    drop_last = true })
  if type(source) ~= "table" or math.type(source.tokens) ~= "integer"
    or type(source.read) ~= "function" then
    core.fail("value", "loader", "{tokens = integer, read = function} wanted")
  end
  local context, tokens = o.context, source.tokens
  local phases = o.shuffle and tokens >= 2 * context and context or 1

  local function starts_of(indices, key)
    local phase = key and random.new(key):integer(phases) or 0
    local starts, later = {}, {}
    for i, index in ipairs(indices) do
      starts[i] = phase + index * context
      later[i] = starts[i] + 1
    end
    return starts, later
  end
  local function fetch(indices, key)
    local starts, later = starts_of(indices, key)
    return source.read(starts, context), source.read(later, context)
  end
  local function expect(indices, key)
    local starts, later = starts_of(indices, key)
    source.expect(starts, context)
    source.expect(later, context)
  end

  return loader.new { count = math.max(0, (tokens - phases) // context),
    batch = o.batch, fetch = fetch, expect = source.expect and expect,
    shuffle = o.shuffle, seed = o.seed, drop_last = o.drop_last,
    fresh = source.fresh }
end
