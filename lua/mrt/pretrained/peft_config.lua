--- peft_config.lua -- adapter_config.json, as peft writes it
---
--- What an adapter's config asks beside plain LoRA is refused by name, so is a key that
--- nobody knows and that asks for something.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local json = require "mrt.util.json"
local options = require "mrt.util.options"

local config = {}

---@class mrt.peft.Config
---@field rank integer
---@field alpha number
---@field dropout number
---@field rslora boolean            the scale is alpha / sqrt(rank), not alpha / rank
---@field ranks table<string, integer>  of modules whose names end so
---@field alphas table<string, number>
---@field targets string[]?         names or their ends; nil: a pattern, or none is said

-- Who made it, how it was trained and begun: nothing that its numbers do not say.
local beside = {}
for name in ([[
  arrow_config auto_mapping base_model_name_or_path corda_config ensure_weight_tying
  eva_config exclude_modules inference_mode layers_pattern layers_to_transform loftq_config
  lora_ga_config megatron_core peft_version qalora_group_size revision task_type
]]):gmatch "%S+" do
  beside[name] = true
end

local taken = { peft_type = true, r = true, lora_alpha = true, lora_dropout = true, bias = true,
  use_rslora = true, rank_pattern = true, alpha_pattern = true, target_modules = true,
  fan_in_fan_out = true, init_lora_weights = true }

local function asks(value)
  return not (value == nil or value == false or value == 0 or value == ""
    or type(value) == "table" and next(value) == nil)
end

-- What an adapter begins as says nothing once it is trained, unless the base model was
-- changed with it.
local beginnings = { gaussian = true, eva = true, orthogonal = true }

local function is_size(v) return math.type(v) == "integer" and v >= 1 and v < 2 ^ 31 end
local function is_positive(v) return type(v) == "number" and v > 0 and v < math.huge end

local checks = {
  { "peft_type", '"LORA"', function(v) return v == "LORA" end },
  { "r", "a positive integer", is_size },
  { "lora_alpha", "a positive number", function(v) return v == nil or is_positive(v) end },
  { "lora_dropout", "a number from 0, below 1",
    function(v) return v == nil or type(v) == "number" and v >= 0 and v < 1 end },
  { "bias", '"none"', function(v) return v == nil or v == "none" end },
  { "init_lora_weights", "what leaves the base model as it is",
    function(v) return type(v) ~= "string" or beginnings[v] == true end },
}

-- The first thing that cannot be taken.
local function problem_of(c)
  for _, check in ipairs(checks) do
    local name, wanted, fits = table.unpack(check)
    if not fits(c[name]) then
      return ("%s = %s is not there, %s is"):format(name, options.show(c[name]), wanted)
    end
  end
  local names = {}
  for name, value in pairs(c) do
    if not taken[name] and not beside[name] and asks(value) then names[#names + 1] = name end
  end
  table.sort(names)
  return names[1] and ("%s = %s is not there"):format(names[1], options.show(c[names[1]])) or nil
end

-- A pattern that is a name, or the end of one; what is more of a regular expression is
-- refused.
local function name_of(key)
  local name = key:gsub("^%^", ""):gsub("%$$", ""):gsub("\\%.", ".")
  return not name:find "[^%w_%.%-]" and name or nil
end

local function read_pattern(c, key, check, what)
  local out = {}
  if c[key] ~= nil and type(c[key]) ~= "table" then
    return nil, ("%s: an object wanted, got %s"):format(key, options.show(c[key]))
  end
  for pattern, value in pairs(c[key] or {}) do
    local name = type(pattern) == "string" and name_of(pattern)
    if not name then
      return nil, ("%s: names wanted, got the pattern %s"):format(key, options.show(pattern))
    elseif not check(value) then
      return nil, ("%s: %s of %s, %s wanted"):format(key, options.show(value), pattern, what)
    end
    out[name] = value
  end
  return out
end

local function targets_of(c)
  local list = c.target_modules
  if type(list) ~= "table" then return nil end
  local out = {}
  for i, name in ipairs(list) do out[i] = type(name) == "string" and name or nil end
  return c.layers_to_transform == nil and not asks(c.exclude_modules) and out or nil
end

--- Read a config.
---@param path string
---@return mrt.peft.Config? config
---@return string? message
---@return string? code
function config.read(path)
  local text, message, code = core.read_file(path)
  if not text then return nil, message, code end
  local c, why = json.decode(text)
  if type(c) ~= "table" then
    return nil, path .. ": no JSON object" .. (why and " (" .. why .. ")" or ""), "data"
  end
  local problem, ranks, alphas = problem_of(c), nil, nil
  if not problem then ranks, problem = read_pattern(c, "rank_pattern", is_size, "a size") end
  if ranks then
    alphas, problem = read_pattern(c, "alpha_pattern", is_positive, "a positive number")
  end
  if problem then return nil, ("%s: %s"):format(path, problem), "data" end
  return { rank = c.r, alpha = c.lora_alpha or 8, dropout = c.lora_dropout or 0.0, ranks = ranks,
    alphas = alphas, rslora = c.use_rslora == true, targets = targets_of(c) }
end

-- The value of the longest name that a module's ends with.
local function of(map, name)
  local best, length = nil, -1
  for key, value in pairs(map) do
    if (name == key or name:sub(-#key - 1) == "." .. key) and #key > length then
      best, length = value, #key
    end
  end
  return best
end

--- The rank of a module, and the factor of what its adapter adds.
---@param c mrt.peft.Config
---@param name string  theirs
---@return integer rank
---@return number scale
function config.of(c, name)
  local rank, alpha = of(c.ranks, name) or c.rank, of(c.alphas, name) or c.alpha
  return rank, alpha / (c.rslora and math.sqrt(rank) or rank)
end

return config
