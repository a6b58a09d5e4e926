--- gguf.lua -- GGUF files: metadata with types, tensors packed while they are written
---
---     mrt.save("x.gguf", tensors, {
---       ["general.architecture"] = "llama",           -- string
---       ["llama.block_count"] = 2,                     -- u32; i32 where negative
---       ["llama.rope.freq_base"] = 1e4,                -- f32
---       ["tokenizer.ggml.add_bos_token"] = true,       -- bool
---       ["tokenizer.ggml.tokens"] = { "a", "b" },      -- a list of strings
---       ["tokenizer.ggml.token_type"] = { type = "i32", values = { 1, 1 } },
---       ["x.count"] = { type = "u64", value = 7 },     -- the type said
---     }, { type = "q4_0" })
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local options = require "mrt.util.options"

local gguf = {}

local formats = { u8 = "<I1", i8 = "<i1", u16 = "<I2", i16 = "<i2", u32 = "<I4", i32 = "<i4",
  f32 = "<f", bool = "<B", string = "<s8", u64 = "<I8", i64 = "<i8", f64 = "<d" }
local codes = {}
for _, type_ in ipairs(core.meta_types()) do codes[type_.name] = type_.code end

-- ---- reading ------------------------------------------------------------------

-- What is at `at`, and where the next begins.
local function value_at(type_, bytes, at)
  local value, after = string.unpack(formats[type_], bytes, at)
  if type_ == "bool" then return value ~= 0, after end
  if type_ == "u64" and value < 0 then return value + 0x1p64, after end
  return value, after
end

local function decode(meta)
  if not meta.count then return (value_at(meta.type, meta.bytes, 1)) end
  local list, at = {}, 1
  for i = 1, meta.count do list[i], at = value_at(meta.type, meta.bytes, at) end
  return list
end

--- The metadata of a file, and of which type each value is: "u32", "string[]".
---@param metas {key: string, type: string, count: integer?, bytes: string}[]
---@return table<string, any> metadata  strings, integers, floats, booleans, lists of these
---@return table<string, string> types
function gguf.decode(metas)
  local metadata, types = {}, {}
  for _, meta in ipairs(metas) do
    metadata[meta.key] = decode(meta)
    types[meta.key] = meta.type .. (meta.count and "[]" or "")
  end
  return metadata, types
end

-- ---- writing ------------------------------------------------------------------

local function fail(message, ...) core.fail("value", "save", message:format(...)) end

-- The type that a Lua value has where none is said.
local function type_of(value, key)
  local kind = math.type(value) or type(value)
  if kind == "string" then return "string" end
  if kind == "boolean" then return "bool" end
  if kind == "float" then return "f32" end
  if kind ~= "integer" then
    fail("metadata '%s' is %s: a string, a number, a boolean or a list of one of them wanted",
      key, options.show(value))
  end
  if value < 0 then return value >= -0x80000000 and "i32" or "i64" end
  return value <= 0xffffffff and "u32" or "u64"
end

local function pack(type_, value, key)
  if type_ == "bool" then
    if type(value) == "boolean" then return value and "\1" or "\0" end
  elseif type_ == "string" then
    if type(value) == "string" then return string.pack("<s8", value) end
  else
    local float = type_ == "f32" or type_ == "f64"
    local number = math.type(value) and (float and value or math.tointeger(value))
    local ok, bytes = pcall(string.pack, formats[type_], number)
    if ok then return bytes end
  end
  fail("metadata '%s': %s is no %s", key, options.show(value), type_)
end

local exact = { string = true, bool = true }

-- The type of values of both types.
local function common(a, b, key)
  if a == nil or a == b then return b end
  if exact[a] or exact[b] then fail("metadata '%s': a list of values of one type wanted", key) end
  return (a == "f32" or b == "f32") and "f32" or "i64"
end

-- One type for all of a list: small integers are i32, as llama.cpp wants them.
local function list_type(values, key)
  local all
  for _, value in ipairs(values) do
    local one = type_of(value, key)
    if one == "u32" and value <= 0x7fffffff then one = "i32" end
    all = common(all, one, key)
  end
  return all or fail("metadata '%s': an empty list, whose type must be said", key)
end

local function encode_list(key, values, type_)
  if type(values) ~= "table" then fail("metadata '%s': no value", key) end
  type_ = type_ or list_type(values, key)
  local parts = {}
  for i, one in ipairs(values) do parts[i] = pack(type_, one, key) end
  return { key = key, code = codes[type_], count = #parts, bytes = table.concat(parts) }
end

local function encode(key, value)
  if type(key) ~= "string" then fail("a key of metadata is %s", options.show(key)) end
  local type_ = type(value) == "table" and value.type or nil
  if type_ ~= nil and not codes[type_] then
    fail("metadata '%s': there is no type %s", key, options.show(type_))
  end
  if type(value) == "table" then
    if not type_ or value.value == nil then
      return encode_list(key, type_ and value.values or value, type_)
    end
    value = value.value
  end
  type_ = type_ or type_of(value, key)
  return { key = key, code = codes[type_], bytes = pack(type_, value, key) }
end

-- By their keys, but what the file is about first: llama.cpp wants to see it early.
local function before(a, b)
  local first, second = a.key == "general.architecture", b.key == "general.architecture"
  if first ~= second then return first end
  return a.key < b.key
end

--- Values of metadata as `core.gguf_writer` takes them.
---
--- Raises: what is no plain value, a list of values of several types.
---@param metadata table<string, any>?
---@return table[]
function gguf.encode(metadata)
  local list = {}
  for key, value in pairs(metadata or {}) do list[#list + 1] = encode(key, value) end
  table.sort(list, before)
  return list
end

--- Write entries one after the other: what is held is one tensor at a time.
---
--- Returns nil: the file cannot be written, or a tensor could not be read.
--- Raises: a type that is not there or not written; a shape that does not fit it; numbers
--- that it cannot hold.
---@param path string
---@param entries table[]  { name, type, shape, tensor }, where tensor may be a function that
---                         returns it, or nil, message, code
---@param metadata table<string, any>?
---@return true? done
---@return string? message
---@return string? code
function gguf.write(path, entries, metadata)
  local file <close>, message, code = core.gguf_writer(path, entries, gguf.encode(metadata))
  if not file then return nil, message, code end
  for _, entry in ipairs(entries) do
    local tensor, why, kind = entry.tensor, nil, nil
    if type(tensor) == "function" then tensor, why, kind = tensor() end
    if not tensor then return nil, why, kind end
    local done, wrong, what = file:put(tensor)
    if not done then return nil, wrong, what end
  end
  return file:commit()
end

local plain = { f32 = "f32", f16 = "f16", bf16 = "bf16", f64 = "f64", i32 = "i32", i64 = "i64" }

-- The type of a tensor in the file: what is asked for where it fits, else its own.
local function type_for(name, tensor, wanted)
  if type(wanted) == "table" then wanted = wanted[name] end
  if type(wanted) == "function" then wanted = wanted(name, tensor) end
  local own = plain[tensor:get_dtype()]
  if wanted == nil then
    return own or fail("'%s' is %s, for which GGUF has no type", name, tensor:get_dtype())
  end
  if type(wanted) ~= "string" then
    fail("type of '%s': a name wanted, got %s", name, options.show(wanted))
  end
  return wanted
end

--- `mrt.save` of a GGUF file.
---@param path string
---@param tensors table<string, mrt.Tensor>
---@param metadata table<string, any>?
---@param given {type: string|table<string, string>|fun(name: string, tensor: mrt.Tensor): string?}?
---@return true? done
---@return string? message
---@return string? code
function gguf.save(path, tensors, metadata, given)
  local o = options.read("save", given, { type = options.none })
  if type(tensors) ~= "table" then fail("tensors by name wanted, got %s", options.show(tensors)) end
  if metadata ~= nil and type(metadata) ~= "table" then
    fail("metadata is %s, a table wanted", options.show(metadata))
  end
  local entries = {}
  for name, tensor in pairs(tensors) do
    if type(name) ~= "string" or not core.is_tensor(tensor) then
      fail("'%s' is %s, a tensor wanted", tostring(name), options.show(tensor))
    end
    entries[#entries + 1] = { name = name, tensor = tensor, shape = tensor.shape,
      type = type_for(name, tensor, o.type) }
  end
  table.sort(entries, function(a, b) return a.name < b.name end)
  return gguf.write(path, entries, metadata)
end

return gguf
