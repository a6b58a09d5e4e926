--- file.lua -- tensors in files: safetensors, gguf, npy, npz
---
---     mrt.save("model.safetensors", model:state(), {step = "2000"})
---     model:load_state(assert(mrt.load "model.safetensors"))
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local gguf = require "mrt.io.gguf"
local options = require "mrt.util.options"

local file = {}

local formats, endings = {}, {}
for _, format in ipairs(core.formats()) do
  formats[format.name] = format
  if format.ending ~= "" then endings[#endings + 1] = format end
end

-- The format of a path, by its ending.
local function format_of(who, path, wanted)
  if type(path) ~= "string" then
    core.fail("value", who, "a path wanted, got " .. options.show(path))
  end
  if wanted ~= nil then
    if formats[wanted] then return wanted end
    core.fail("value", who, ("there is no format '%s'"):format(tostring(wanted)))
  end
  local names = {}
  for i, format in ipairs(endings) do
    if path:sub(-#format.ending) == format.ending then return format.name end
    names[i] = format.ending
  end
  core.fail("value", who, ("'%s' ends in none of %s"):format(path,
    table.concat(names, ", ")))
end

---@class mrt.File
---@field names string[]                what is in it, in the order of the file
---@field metadata table<string, string>  of gguf: strings, numbers, booleans, lists of these
---@field types table<string, string>     of gguf: which type each of these is, "u32", "string[]"
local File = {}
File.__index = File

--- Return what is known of an array without reading it.
---
---     file:info "weight"
---
--- Returns nil: a name that there is not; that is no error.
---@param name string
---@return {name: string, stored: string, dtype: string?, shape: integer[]}? info
function File:info(name)
  local i = self.index[name]
  return i and self.source:get(i)
end

-- The array's number; raises where there is none.
local function number(self, who, name)
  local i = self.index[name]
  if i then return i end
  core.fail("value", who, ("there is no '%s' in %s"):format(tostring(name), self.path))
end

--- Read one array.
---
--- Returns nil: a dtype that no tensor has; a file that has become shorter; a wrong
--- checksum, of an npz member or of safetensors that mrt wrote.
--- Raises: there is no such array.
---
---     file:read "weight"
---
--- Shapes: as the file has it.
---@param name string
---@return mrt.Tensor? tensor
---@return string? message
---@return string? code
function File:read(name) return self.source:read(number(self, "read", name)) end

--- Compare an array with its checksum, if the file has one, keeping nothing of it.
---
--- Returns nil: as `read`.
--- Raises: there is no such array.
---
---     file:verify "weight"
---@param name string
---@return true? done
---@return string? message
---@return string? code
function File:verify(name) return self.source:verify(number(self, "verify", name)) end

--- Close the file; tensors that were read stay.
---
---     file:close()
function File:close() self.source:close() end
File.__close = File.close

local function open(who, path, format)
  local source, message, code = core.open_source(path, format_of(who, path, format))
  if not source then return nil, message, code end
  local self = setmetatable({ path = path, source = source, names = {},
    index = {}, metadata = source:metadata(), types = {} }, File)
  local metas = source:metas()
  if #metas > 0 then self.metadata, self.types = gguf.decode(metas) end
  for i = 1, source:count() do
    local name = source:get(i).name
    self.names[i], self.index[name] = name, i
  end
  return self
end

--- Open a file and read what is in it, but no numbers: for models that are
--- larger than memory.
---
---     local model <close> = assert(mrt.open "model.safetensors.index.json")
---     for _, name in ipairs(model.names) do print(name, model:info(name).dtype) end
---     local w = assert(model:read "wte.weight")
---
--- Returns nil: a file that cannot be read, or is not what its format says.
---
--- Raises: what is no path; a file's faults are a message.
---@param path string
---@param format? string  default: by the ending of the path
---@return mrt.File? file
---@return string? message
---@return string? code
function file.open(path, format) return open("open", path, format) end

--- Read all tensors of a file: by name, with the metadata beside; of `.npy` the
--- one tensor.
---
---     local tensors, metadata = assert(mrt.load "model.safetensors")
---     local x = assert(mrt.load "x.npy")
---
--- Formats: safetensors; `.safetensors.index.json`, a model in several of them;
--- npy and npz of NumPy; gguf, whose blocks (Q8_0, Q4_0, Q4_K ...) become f32.  Numbers keep
--- their dtype where tensors have it; of NumPy's others i1, i2 and u2 become i32, u4 becomes i64.
---
--- Returns nil: a file that cannot be read (code "file"), or that is not what
--- its format says or holds dtypes that no tensor has (code "data").
---
--- Shapes: tensors as the file has them.
--- Raises: what is no path; a file's faults are a message.
---@param path string
---@param format? string  default: by the ending of the path
---@return table<string, mrt.Tensor>|mrt.Tensor|nil tensors
---@return table<string, string>|string metadata_or_message
---@return string? code
function file.load(path, format)
  local opened <close>, message, code = open("load", path, format)
  if not opened then return nil, message, code end
  if format_of("load", path, format) == "npy" then return opened.source:read(1) end
  local tensors = {}
  for i, name in ipairs(opened.names) do
    local tensor, why, kind = opened.source:read(i)
    if not tensor then return nil, why, kind end
    tensors[name] = tensor
  end
  return tensors, opened.metadata
end

local writers = {
  safetensors = core.save_safetensors,
  npz = function(path, tensors, given)
    local o = options.read("save", given, { compress = false })
    return core.save_npz(path, tensors, o.compress)
  end,
  npy = core.save_npy,
  gguf = gguf.save,
}

--- Write tensors to a file; its ending says the format.
---
---     assert(mrt.save("both.safetensors", {w = w, b = b}, {author = "me"}))
---     assert(mrt.save("xs.npz", {x = x, y = y}, {compress = true}))
---     assert(mrt.save("x.npy", x))
---
--- Safetensors have a checksum of all that is in them, as `mrt.crc32` in the metadata:
--- `mrt.load` and `read` refuse a file that has been damaged.  A `format` is written
--- there too, "pt" unless you give one, which other programs want to see.
---
---     mrt.save("x.gguf", { w = w }, { ["general.architecture"] = "llama" }, { type = "q4_0" })
---
--- Of gguf, metadata are strings, numbers, booleans and lists of these (lua/mrt/io/gguf.lua
--- says how to say their types); `type` is a type, a table of types by name, or a function of
--- name and tensor: f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q5_k, q6_k.
---
--- The file appears whole or not at all: it is written beside its place, brought
--- to the disk, then renamed, and a reader of the old one keeps it.  Who may read and
--- write the old one, may the new one.  Where the path is a symbolic link, what it names
--- is replaced, on its disk, and the link stays.  Tensors
--- are computed one after the other, so that pending ones need not all be in
--- memory.
---
--- Returns nil: the file cannot be written, or there is a pipe, a device or a folder
--- (code "file").
--- Raises: names or metadata that are no strings; another ending; of gguf, a type that a shape
--- does not fit, numbers that it cannot hold.
---@param path string
---@param tensors table<string, mrt.Tensor>|mrt.Tensor  of npy, one tensor
---@param metadata? table<string, any>  safetensors: strings; gguf; npz: {compress: boolean}
---@param o? {type: string|table<string, string>|function}  gguf
---@return true? done
---@return string? message
---@return string? code
function file.save(path, tensors, metadata, o)
  local format = format_of("save", path)
  if type(tensors) == "table" and type(tensors.state) == "function" then
    core.fail("value", "save", "tensors by name wanted, got what has them: model:state()")
  end
  if metadata ~= nil and format == "npy" then
    core.fail("value", "save", "metadata: none in npy files, got " .. options.show(metadata))
  end
  local write = writers[format]
  if not write then
    core.fail("value", "save", ("%s files are only read"):format(format))
  end
  if o ~= nil and format ~= "gguf" then
    core.fail("value", "save", ("%s files have no options"):format(format))
  end
  return write(path, tensors, metadata, o)
end

return file
