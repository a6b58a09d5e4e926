--- peft.lua -- LoRA adapters in peft's files, both ways
---
---     adapter_config.json, adapter_model.safetensors:
---     base_model.model.NAME.lora_A.weight [rank, inputs], lora_B.weight [outputs, rank]
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local config = require "mrt.pretrained.peft_config"
local json = require "mrt.util.json"
local families = require "mrt.pretrained.families"
local file = require "mrt.io.file"
local lora = require "mrt.nn.lora"
local names = require "mrt.pretrained.peft_names"
local options = require "mrt.util.options"

local peft = {}

local PREFIX <const> = "base_model.model."
local MOST <const> = 40 -- problems that one message lists

local function family_of(who, model)
  local name = type(model) == "table" and rawget(model, "family")
  local family = name and families.find(name)
  if family then return family end
  core.fail("value", who, "a model of a family wanted (nn.load), got " .. options.show(model))
end

-- ---- reading -----------------------------------------------------------------

-- What a tensor is that is not as wanted; nil: nothing, or it is not there.
local function misfit(info, shape)
  local text = info and table.concat(info.shape, ",")
  if not info then return nil end
  if text ~= table.concat(shape, ",") then
    return ("%s is [%s], [%s] wanted"):format(info.name, text, table.concat(shape, ","))
  elseif not (info.dtype or ""):find "^b?f%d" then
    return ("%s is of %s, a float wanted"):format(info.name, info.stored)
  end
end

local function too_high(target, rank, problems)
  for _, part in ipairs(target.parts) do
    if rank > math.min(part.rows, part.columns) then
      problems[#problems + 1] = ("%s%s: rank %d of %d x %d"):format(PREFIX, target.theirs, rank,
        part.rows, part.columns)
    end
  end
end

-- Look at a target's two tensors; whether there are any.
local function check_pair(opened, target, c, problems)
  local rank = config.of(c, target.theirs)
  local prefix = PREFIX .. target.theirs
  local a, b = opened:info(prefix .. ".lora_A.weight"), opened:info(prefix .. ".lora_B.weight")
  if not a and not b then return false end
  problems[#problems + 1] = misfit(a, { rank, target.parts[1].columns })
  problems[#problems + 1] = misfit(b, { names.rows(target), rank })
  too_high(target, rank, problems)
  if not (a and b) then
    problems[#problems + 1] = prefix .. ": one of lora_A and lora_B is missing"
  end
  return true
end

local function is_target(c, theirs)
  for _, name in ipairs(c.targets or {}) do
    if theirs == name or theirs:sub(-#name - 1) == "." .. name then return true end
  end
  return false
end

-- The targets that the file has adapters for, and all that does not fit.
local function compare(opened, model, family, c)
  local list, found, known, problems = names.targets(model, family), {}, {}, {}
  for _, target in ipairs(list) do
    if check_pair(opened, target, c, problems) then
      found[#found + 1] = target
      known[PREFIX .. target.theirs .. ".lora_A.weight"] = true
      known[PREFIX .. target.theirs .. ".lora_B.weight"] = true
    elseif is_target(c, target.theirs) and target.theirs ~= "lm_head" then
      problems[#problems + 1] = PREFIX .. target.theirs .. ": target_modules names it, and its "
        .. "tensors are missing"
    end
  end
  for _, name in ipairs(opened.names) do
    if not known[name] then problems[#problems + 1] = name .. " has no place in the model" end
  end
  if #found == 0 and #problems == 0 then problems[1] = "no tensor of an adapter" end
  return found, problems
end

local function described(problems)
  table.sort(problems)
  local n = #problems
  if n > MOST then
    problems = table.move(problems, 1, MOST, 1, {})
    problems[MOST + 1] = ("and %d more"):format(n - MOST)
  end
  return table.concat(problems, "\n  ")
end

-- All numbers of the adapters, by our names.
local function read_all(opened, found, heads)
  local values = {}
  for _, target in ipairs(found) do
    local prefix = PREFIX .. target.theirs
    local a, message, code = opened:read(prefix .. ".lora_A.weight")
    if not a then return nil, message, code end
    local b, why, kind = opened:read(prefix .. ".lora_B.weight")
    if not b then return nil, why, kind end
    for i, part in ipairs(names.cut(target, b, heads)) do
      values[target.parts[i].name] = { a = a, b = part, theirs = target.theirs }
    end
  end
  return values
end

-- Put adapters beside the layers that have values: those alike in one go.
local function attach(model, values, c)
  local groups = {}
  for name, value in pairs(values) do
    local rank, scale = config.of(c, value.theirs)
    local key = ("%d %a"):format(rank, scale)
    groups[key] = groups[key] or { rank = rank, scale = scale, names = {} }
    groups[key].names[name] = true
  end
  for _, group in pairs(groups) do
    lora(model, { rank = group.rank, alpha = group.scale * group.rank, dropout = c.dropout,
      layers = function(name) return group.names[name] == true end })
  end
  local state = {}
  for name, value in pairs(values) do
    state[name .. ".a"], state[name .. ".b"] = value.a, value.b
  end
  local wanted = lora.state(model)
  for name, x in pairs(state) do state[name] = x:to(wanted[name]:get_dtype()) end
  lora.load_state(model, state)
  return model
end

local function want_bare(model)
  for name, layer in model:modules() do
    if names.is_adapter(layer) then
      core.fail("state", "load_adapter", ("'%s' has an adapter already: nn.lora.merge first")
        :format(name))
    end
  end
end

--- Put the adapters of a folder that peft wrote beside the layers of a model, which is
--- frozen but for them.
---
--- Returns nil: files that cannot be read (code "file"); what peft may do and is not
--- there, by name; tensors that are missing, of another shape or without a place, all of
--- them listed (code "data").  Then the model is as it was.
--- Raises: a model of no family, or with adapters.
---@param model mrt.nn.Decoder
---@param path string   a folder with adapter_config.json and adapter_model.safetensors
---@return mrt.nn.Decoder? model
---@return string? message
---@return string? code
function peft.load(model, path)
  local family = family_of("load_adapter", model)
  if type(path) ~= "string" then
    core.fail("value", "load_adapter", "a path wanted, got " .. options.show(path))
  end
  want_bare(model)
  local c, message, code = config.read(path .. "/adapter_config.json")
  if not c then return nil, message, code end
  local weights_path = path .. "/adapter_model.safetensors"
  local opened <close>, why, kind = file.open(weights_path)
  if not opened then return nil, why, kind end
  local found, problems = compare(opened, model, family, c)
  if #problems > 0 then
    return nil, ("%s:\n  %s"):format(weights_path, described(problems)), "data"
  end
  local values
  values, message, code = read_all(opened, found, model.options.heads)
  if not values then return nil, message, code end
  return attach(model, values, c)
end

-- ---- writing -----------------------------------------------------------------

local function leaf(name) return name:match "[^%.]+$" end

-- Names that tell the layers with adapters from those without: their last parts, or,
-- where that does not do, all of each.
local function target_names(found, list)
  local has, lacks, leaves = {}, {}, {}
  for _, one in ipairs(found) do has[one.theirs] = true end
  for _, target in ipairs(list) do
    if not has[target.theirs] then lacks[leaf(target.theirs)] = true end
  end
  local seen = {}
  for _, one in ipairs(found) do
    local name = lacks[leaf(one.theirs)] and one.theirs or leaf(one.theirs)
    if not seen[name] then leaves[#leaves + 1], seen[name] = name, true end
  end
  table.sort(leaves)
  return leaves
end

-- What most layers have, and by name what others have instead.
local function usual(found, field)
  local counts, best = {}, nil
  for _, one in ipairs(found) do
    local value = one[field]
    counts[value] = (counts[value] or 0) + 1
    if not best or counts[value] > counts[best] then best = value end
  end
  local others = json.object {}
  for _, one in ipairs(found) do
    if one[field] ~= best then others[one.theirs] = one[field] end
  end
  return best, others
end

local function config_of(model, found, list, dropout)
  for _, one in ipairs(found) do one.alpha = one.scale * one.rank end
  local rank, ranks = usual(found, "rank")
  local alpha, alphas = usual(found, "alpha")
  return { peft_type = "LORA", task_type = "CAUSAL_LM", r = rank, lora_alpha = alpha,
    rank_pattern = ranks, alpha_pattern = alphas, lora_dropout = dropout, bias = "none",
    target_modules = target_names(found, list), use_rslora = false, use_dora = false,
    fan_in_fan_out = found[1].turn, inference_mode = true, init_lora_weights = true,
    base_model_name_or_path = rawget(model, "folder") }
end

local function collect(model, family)
  local list, strange = names.targets(model, family)
  local found, tensors, odd = {}, {}, {}
  for _, name in ipairs(strange) do
    for path, layer in model:modules() do
      if path == name and names.is_adapter(layer) then odd[#odd + 1] = name end
    end
  end
  if #odd > 0 then names.refuse("save_adapter", odd) end
  for _, target in ipairs(list) do
    local one = names.adapter(target, model.options.heads)
    if one then
      one.theirs, one.turn = target.theirs, target.entry.turn == true
      found[#found + 1] = one
      tensors[PREFIX .. target.theirs .. ".lora_A.weight"] = one.a
      tensors[PREFIX .. target.theirs .. ".lora_B.weight"] = one.b
    end
  end
  if #found == 0 then core.fail("state", "save_adapter", "the model has no adapters: nn.lora") end
  return found, tensors, list
end

--- Raise where `save` would: before a long run, not after it.
---@param model mrt.nn.Decoder
function peft.check(model) collect(model, family_of("save_adapter", model)) end

local function dropout_of(model)
  for _, layer in model:modules() do
    if names.is_adapter(layer) then return layer.dropout.p or 0.0 end
  end
end

--- Write the adapters of a model as peft has them: adapter_config.json and
--- adapter_model.safetensors, which `peft.PeftModel.from_pretrained` reads.
---
--- Returns nil: a folder that cannot be written.
--- Raises: a model of no family, or without adapters.
---@param model mrt.nn.Decoder
---@param path string  a folder, which is made
---@return string? path
---@return string? message
---@return string? code
function peft.save(model, path)
  local family = family_of("save_adapter", model)
  local found, tensors, list = collect(model, family)
  local text = json.encode(config_of(model, found, list, dropout_of(model)),
    { indent = 2 })
  core.make_folders(path)
  local ok, message, code = mrt.save(path .. "/adapter_model.safetensors", tensors,
    { format = "pt" })
  if not ok then return nil, message, code end
  local out, why = io.open(path .. "/adapter_config.json", "w")
  if not out then return nil, why, "file" end
  local written, problem = out:write(text, "\n")
  local closed, other = out:close()
  if not written or not closed then return nil, problem or other, "file" end
  return path
end

return peft
