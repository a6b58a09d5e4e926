--- windows.lua -- which layers see a window, in config.json
---
--- `sliding_window` counts a query's own position; ours are the keys before it.
---
--- SPDX-License-Identifier: MIT

local configs = require "mrt.pretrained.config"

local windows = {}

local known = { sliding_attention = true, full_attention = true }

local function want_types(c, types, layers)
  if #types ~= layers then c.refuse("layer_types: %d of them, %d layers", #types, layers) end
  for i, kind in ipairs(types) do
    if not known[kind] then
      c.refuse("layer_types: %q, of layer %d, is not known", tostring(kind), i - 1)
    end
  end
end

--- Take sliding_window and layer_types.
---@param c mrt.pretrained.Config
---@param layers integer
---@param on boolean  false: no layer has one
---@param which fun(layer: integer): boolean  has it one, where layer_types does not say
---@return (integer|false)[]
function windows.read(c, layers, on, which)
  local window = on and c:unless_null("sliding_window", "size", 4096)
  local types = c:maybe("layer_types", "list")
  c:ignore "sliding_window"
  if types then want_types(c, types, layers) end
  local out = {}
  for i = 1, layers do
    local has = which(i)
    if types then has = types[i] == "sliding_attention" end
    out[i] = has and window and window - 1 or false
  end
  return out
end

--- The fields that `read` reads.
---@param o mrt.nn.DecoderOptions
---@param out table
function windows.write(o, out)
  out.layer_types = {}
  for i, window in ipairs(o.windows) do
    out.layer_types[i] = window and "sliding_attention" or "full_attention"
    if window then out.sliding_window = window + 1 end
  end
end

--- Take sliding_window of a family whose layers all have it.
---@param c mrt.pretrained.Config
---@param default? integer  theirs, where the key is absent
---@return integer|false
function windows.read_one(c, default)
  local window = c:unless_null("sliding_window", "size", default)
  return window and window - 1 or false
end

--- The field that `read_one` reads.
---@param o mrt.nn.DecoderOptions
---@param out table
function windows.write_one(o, out)
  local window = o.windows[1]
  if window then
    out.sliding_window = window + 1
  else
    configs.null(out, "sliding_window")
  end
end

return windows
