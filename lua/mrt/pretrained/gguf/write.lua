--- write.lua -- a model, or a folder's, into a GGUF file
---
--- Tensors are made one by one, in the order of the file: of a folder, each is read, turned into
--- what GGUF has, packed, written and let go, so that the largest is what memory takes.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local change = require "mrt.pretrained.gguf.change"
local core = require "mrt.core"
local families = require "mrt.pretrained.families"
local files = require "mrt.io.gguf"
local folder = require "mrt.pretrained.folder"
local archs = require "mrt.pretrained.gguf.archs"
local keys = require "mrt.pretrained.gguf.keys"
local load = require "mrt.pretrained.load"
local names = require "mrt.pretrained.gguf.names"
local tokens = require "mrt.pretrained.gguf.tokens_write"
local types = require "mrt.pretrained.gguf.types"
local weights = require "mrt.pretrained.weights"

local write = {}

local MOST <const> = 8 -- names that one message lists

-- Tensors of GGUF: name -> parts, in the order in which they come.
local function grouped(places, row)
  local list, by_name, strange = {}, {}, {}
  for _, place in ipairs(places) do
    local name, entry = names.to(row.names, place.theirs)
    if not name then
      strange[#strange + 1] = place.theirs
    else
      local one = by_name[name]
      if not one then
        one = { name = name, entry = entry, parts = {} }
        list[#list + 1], by_name[name] = one, one
      end
      one.parts[#one.parts + 1] = place
    end
  end
  return list, strange
end

local function shape_of(one)
  local shape = change.shape(one.entry, weights.shape(one.parts[1]))
  if one.parts[1].expert then return { #one.parts, table.unpack(shape) } end
  return shape
end

-- A function that makes the tensor.
local function maker(one, row, model, from)
  return function()
    local list = {}
    for i, place in ipairs(one.parts) do
      local x, message, code = from.get(place)
      if not x then return nil, message, code end
      list[i] = change.to(x, one.entry, row, model.options)
    end
    return one.parts[1].expert and mrt.stack(list, 1) or list[1]
  end
end

-- Bytes held while it is made and written: as it was, and as it becomes where that differs.
local function held_by(one, row, shape, from)
  local n = from.width(one.parts[1])
  for _, d in ipairs(shape) do n = n * d end
  if one.parts[1].expert then n = 2 * n end
  return change.any(one.entry, row) and 2 * n or n
end

local function without_place(row, list)
  return ("GGUF's architecture %s has no place for %s%s; adapters are merged first "
    .. "(nn.lora.merge), quantised weights are read anew"):format(row.arch,
    table.concat(list, ", ", 1, math.min(#list, MOST)),
    #list > MOST and (" and %d more"):format(#list - MOST) or "")
end

-- What the file has, but for extra tensors.
local function entries_of(model, row, places, from, type_)
  local list, strange = grouped(places, row)
  if #strange > 0 then return nil, without_place(row, strange) end
  local experts = model.options.experts
  local o = { layers = model.options.layers, tied = model.options.tie and not row.head,
    experts = experts and experts.count }
  local entries = {}
  local function add(one, name)
    local shape = shape_of(one)
    entries[#entries + 1] = { name = name, shape = shape, tensor = maker(one, row, model, from),
      type = types.of(name, shape, type_, o), held = held_by(one, row, shape, from) }
  end
  for _, one in ipairs(list) do
    add(one, one.name)
    if one.name == "token_embd.weight" and row.head and model.options.tie then
      add(one, "output.weight")
    end
  end
  return entries
end

local function add_extra(entries, extra)
  for name, values in pairs(extra) do
    entries[#entries + 1] = { name = name, shape = { #values }, type = "f32", held = 0,
      tensor = mrt.tensor(values, "f32") }
  end
  table.sort(entries, function(a, b) return a.name < b.name end)
end

local widths = core.dtypes()
local function width_of(dtype) return widths[dtype].bytes end

-- ---- the whole ---------------------------------------------------------------

---@class mrt.pretrained.gguf.Report
---@field bytes integer    of the file's tensors
---@field held integer     of tensors in memory at most, beside a model that is there already
---@field tensors integer

local function measure(entries)
  local report = { bytes = 0, held = 0, tensors = #entries }
  for _, entry in ipairs(entries) do
    report.bytes = report.bytes + core.gguf_bytes(entry)
    report.held = math.max(report.held, entry.held)
  end
  return report
end

-- Metadata and entries of a model: `source(family)` says where its tensors are from.
local function prepare(model, source, o)
  local row = archs.of_type(model.family)
  if not row then
    return nil, ("model_type %s has no architecture in GGUF here"):format(tostring(model.family))
  end
  local family = families.find(model.family)
  local places, odd = weights.places(model, family)
  if #odd > 0 then return nil, without_place(row, odd) end
  local metadata, extra = keys.write(row, model.options)
  if not metadata then return nil, extra end
  local entries, message = entries_of(model, row, places, source(family), o.type)
  if not entries then return nil, message end
  add_extra(entries, extra)
  local done, why, code = tokens.write(metadata, o.tokenizer, model)
  if not done then return nil, why, code end
  metadata["general.name"] = o.name
  metadata["general.file_type"] = types.code(o.type)
  metadata["general.quantization_version"] = 2
  return entries, metadata
end

local function save(model, path, source, o)
  local entries, metadata, code = prepare(model, source, o)
  if not entries then return nil, ("%s: %s"):format(path, metadata), code or "data" end
  local report = measure(entries)
  if o.report then o.report(report, metadata) end
  local done, message, kind = files.write(path, entries, metadata)
  if not done then return nil, message, kind end
  return report
end

--- Write a model in memory, with the tokenizer of the folder that it was read from.
---@param model mrt.nn.Decoder
---@param path string
---@param o {type: string, name: string?, report: fun(report: table, metadata: table)?}
---@return mrt.pretrained.gguf.Report? report
---@return string? message
---@return string? code
function write.model(model, path, o)
  o.tokenizer = model.folder
  return save(model, path, function()
    return { get = function(place) return weights.give(place, model) end,
      width = function(place) return width_of(place.parts[1].variable:get_dtype()) end }
  end, o)
end

--- Write the model of a folder, tensor by tensor.
---@param from string
---@param path string
---@param o {type: string, name: string?, report: fun(report: table, metadata: table)?}
---@return mrt.pretrained.gguf.Report? report
---@return string? message
---@return string? code
function write.folder(from, path, o)
  local model, message, code = load.folder(from, { weights = false })
  if not model then return nil, message, code end
  local opened <close>, why, kind = folder.open(from)
  if not opened then return nil, why, kind end
  o.tokenizer = from
  return save(model, path, function(family)
    local function name(place) return load.name(opened, place.theirs, family.prefix) end
    return { get = function(place) return opened:read(name(place)) end,
      width = function(place) return width_of(opened:info(name(place)).dtype) end }
  end, o)
end

return write
