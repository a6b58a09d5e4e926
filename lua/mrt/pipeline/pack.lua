--- pack.lua -- what a part holds for its backward pass, kept smaller (option `compress`)
---
--- A policy answers for all that the backward pass of a micro-batch reads of the forward
--- pass: it is asked once, with all of it in view (narrow.lua).  What has a format is held
--- as codes, and scales where it has them, that B and W unpack.  What these compute again, or
--- get as it came, their own plans pack and unpack as the answers say, so that gradients
--- are the same whatever is held.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

local op = core.op

local pack = {}

-- As core/rewrite/compress.c has them, whose bits these are.
local CASTS <const> = { bf16 = "bf16", f16 = "f16", f8 = "f8_e4m3" }
local BLOCK <const> = 64

-- Rows of at least a block, if there are as many elements.
local function rows_of(shape, count)
  local columns, k = 1, #shape
  while k > 1 and columns < BLOCK do columns, k = columns * shape[k], k - 1 end
  if #shape == 1 then columns = count end
  return { columns > 0 and count // columns or 0, columns }
end

--- A value as it is held.
---@param x mrt.Tensor
---@param format? mrt.Format  nil: as it is
---@return mrt.Tensor[] forms  codes, and scales if the format has them
function pack.forms(x, format)
  if not format then return { x } end
  if CASTS[format] then return { op.cast(x, CASTS[format]) } end
  local flat = op.reshape(x, rows_of(x:get_shape(), x:numel()))
  return { op.quantize(op.cast(flat, "f32"), { kind = format, block = BLOCK }) }
end

--- What was held.
---@param forms mrt.Tensor[]
---@param format? mrt.Format
---@param like mrt.Tensor  of its shape and dtype
---@return mrt.Tensor
function pack.whole(forms, format, like)
  if not format then return forms[1] end
  local shape, dtype = like:get_shape(), like:get_dtype()
  if CASTS[format] then return op.cast(forms[1], dtype) end
  local columns = rows_of(shape, like:numel())[2]
  local flat = op.dequantize(forms[1], forms[2], { kind = format, block = BLOCK,
    columns = columns })
  return op.reshape(op.cast(flat, dtype), shape)
end

-- ---- what the policy has said -----------------------------------------------------

local function dtype_of(value) return value.type:match "^%w+" end

--- The policy, shown the names that it knows, whose answers are noted, and then a policy
--- that gives these.
---@param policy? fun(all: mrt.Compressible[])
---@param names table<string, {name: string?}>  of what is handed on: what it was called
---@return (fun(all: mrt.Compressible[]))? probing
---@return (fun(all: mrt.Compressible[]))? planning
---@return table<string, table<mrt.DType|"plain", mrt.Format|true>> answers  by name, of what is
---  stored in a dtype; plain: something of that name is read as it is
function pack.watched(policy, names)
  local answers = {}
  if not policy then return nil, nil, answers end
  local function probing(all)
    local keys = {}
    for i, value in ipairs(all) do
      if names[value.name] then keys[i], value.name = value.name, names[value.name].name end
    end
    policy(all)
    for i, key in pairs(keys) do
      answers[key] = answers[key] or {}
      answers[key][all[i].format and dtype_of(all[i]) or "plain"] = all[i].format or true
    end
  end
  local function planning(all)
    for _, value in ipairs(all) do
      local own = answers[value.name]
      value.format = own and not value.refused and own[dtype_of(value)] or nil
    end
  end
  return probing, planning, answers
end

local function is_float(x) return x:get_dtype():find "^b?f%d" ~= nil end

-- What the function itself casts is one value with its casts where these are packed.
local function join_casts(list, answers)
  local by_id, joined = {}, {}
  for _, item in ipairs(list) do by_id[item.id] = item end
  for _, item in ipairs(list) do
    local name, inputs = core.maker(item.x)
    local from = name == "cast" and is_float(inputs[1]) and by_id[core.id(inputs[1])]
    if from then
      joined[from], joined[item] = true, true
      local all = answers[from.key] or {}
      for dtype, format in pairs(answers[item.key] or {}) do all[dtype] = format end
      answers[from.key], answers[item.key] = all, all
    end
  end
  return joined
end

--- Note what is saved in a format, which the forward pass has read as it was: `maker.formats`
--- by id.  What is packed in two dtypes, or read as it is too, or cast by the function, is
--- saved as it is: B and W pack it, which know who reads what of it.
---@param maker mrt.PipelineMaker
---@param list {id: integer, key: string, x: mrt.Tensor, saved: boolean?}[]  what is handed on
---@param answers table<string, table<mrt.DType, mrt.Format>>
function pack.note(maker, list, answers)
  local joined = join_casts(list, answers)
  for _, item in ipairs(list) do
    local of = item.saved and not joined[item] and answers[item.key] or {}
    local format = of[maker.kept[item.id] or maker.dtypes[item.id] or item.x:get_dtype()]
    if format and next(of, next(of)) == nil then
      maker.formats[item.id], maker.unrounded[item.id] = format, true
    end
  end
end

return pack
