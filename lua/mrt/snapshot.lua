--- snapshot.lua -- a training run in files, to go on from after any end
---
---     local snapshots = train.snapshots{folder = "runs/a", keep = 3,
---       parts = {model = model, optimizer = opt, loader = loader, step = step}}
---     local done = assert(snapshots:resume())   -- 0: there is none yet
---     for i = done + 1, 1000 do
---       step(loader:next())
---       if i % 100 == 0 then assert(snapshots:save(i)) end
---     end
---
--- A snapshot is one safetensors file, `step-00000100.safetensors`: the tensors
--- of every part by name ("model.fc.weight"), and in its metadata the plain
--- values and how far the random numbers have got.  It is written beside its
--- place and moved there once it is on the disk, so that one that is there is
--- whole, and a process that is killed while saving loses nothing.  The run that
--- goes on takes the steps that the first would have taken, bit for bit.
---
--- Several ranks save and go on together, in one folder that all of them see.
--- Rank 0 writes for all what is the same on all ranks, and each rank's random
--- numbers and plain values (a loader's place).  Of variables in pieces every rank
--- writes its own, `step-00000100.rank-2-of-4.safetensors`, before; any number of
--- ranks goes on from them, where random numbers and plain values are the same on
--- all; else as many, or fewer, which leave out the places of the others.
--- Plan the step before `resume`: what is in pieces then
--- is read in pieces.
---
--- A part is anything with `state()`, a table by name of variables and plain
--- values (numbers, strings, booleans and tables of them), and
--- `load_state(plain)` if it has such values.  `expect_state(plain)`, if it is
--- there, makes variables that only a snapshot knows of before their numbers come.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local dkjson = require "dkjson"
local options = require "mrt.options"
local pieces = require "mrt.shard.pieces"
local state = require "mrt.state"
local together = require "mrt.together"

local snapshot = {}

---@class mrt.Snapshots
---@field folder string
local Snapshots = {}
Snapshots.__index = Snapshots

local FORMAT <const> = "1"

local plain_types = { number = true, string = true, boolean = true, table = true }

-- JSON keeps 14 digits of a float, so floats go as text with all their bits.
local function pack(value, name)
  if not plain_types[type(value)] then
    core.fail("value", "snapshots", ("%s is %s, a variable or plain value wanted")
      :format(name, options.show(value)))
  end
  if math.type(value) == "float" then return ("float %a"):format(value) end
  if type(value) ~= "table" then return value end
  local out = {}
  for k, v in pairs(value) do out[k] = pack(v, ("%s.%s"):format(name, k)) end
  return out
end

local odd = { inf = math.huge, ["-inf"] = -math.huge, nan = 0 / 0,
  ["-nan"] = 0 / 0 }

local function unpack(value)
  if type(value) == "string" then
    local digits = value:match "^float (.*)$"
    return digits and (odd[digits] or tonumber(digits)) or value
  end
  if type(value) ~= "table" then return value end
  local out = {}
  for k, v in pairs(value) do out[k] = unpack(v) end
  return out
end

-- What parts are made of, split: all variables by "part.name", and the plain
-- values of each part.
local function split(parts)
  local variables, plain = {}, {}
  for name, part in pairs(parts) do
    plain[name] = {}
    local held = part:state()
    if type(held) ~= "table" then
      core.fail("value", "snapshots", ("part '%s': state() gave %s, a table wanted")
        :format(name, options.show(held)))
    end
    for key, value in pairs(held) do
      if core.is_tensor(value) then
        variables[name .. "." .. key] = value
      else
        plain[name][key] = value
      end
    end
  end
  return variables, plain
end

local function path_of(self, step)
  return ("%s/step-%08d.safetensors"):format(self.folder, step)
end

-- The steps of which there are snapshots, the last one first.
local function saved(folder)
  local names = core.list_folder(folder)
  local steps = {}
  for _, name in ipairs(names or {}) do
    local digits = name:match "^step%-(%d+)%.safetensors$"
    steps[#steps + 1] = digits and math.tointeger(tonumber(digits))
  end
  table.sort(steps, function(a, b) return a > b end)
  return steps
end

local function alike(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then return a == b end
  for k, v in pairs(a) do
    if not alike(v, b[k]) then return false end
  end
  for k in pairs(b) do
    if a[k] == nil then return false end
  end
  return true
end

-- The metadata of a file: `states` are JSON, of rank 0 first.  Where they say the
-- same, any number of ranks can go on from it.
local function metadata_of(states)
  local out = { ["mrt.snapshot"] = FORMAT, state = states[1] }
  local first, differ = dkjson.decode(states[1]), false
  for r = 2, #states do
    differ = differ or not alike(first, (dkjson.decode(states[r])))
  end
  for r = 2, differ and #states or 0 do out["state." .. r - 1] = states[r] end
  if differ then out.ranks = tostring(#states) end
  return out
end

-- What the first rank says that failed; nil: none did.
local function failure(message)
  for r, said in ipairs(together.gather(message or "")) do
    if said ~= "" then return r == 1 and said or ("rank %d: %s"):format(r - 1, said) end
  end
end

local function piece_path(self, step, rank, size)
  return ("%s/step-%08d.rank-%d-of-%d.safetensors"):format(self.folder, step, rank, size)
end

-- Forget all but the newest snapshots, and pieces that belong to none or to one whose
-- file is still to come.
local function prune(self, coming)
  local kept = { [coming] = true }
  for i, step in ipairs(saved(self.folder)) do
    if i > self.keep then os.remove(path_of(self, step)) else kept[step] = true end
  end
  for _, name in ipairs(core.list_folder(self.folder) or {}) do
    local digits = name:match "^step%-(%d+)%.rank%-%d+%-of%-%d+%.safetensors$"
    if digits and not kept[math.tointeger(tonumber(digits))] then
      os.remove(self.folder .. "/" .. name)
    end
  end
end

-- However often it is killed here, one more than are kept is the most there are.
local function write(self, step, variables, metadata)
  core.make_folders(self.folder)
  prune(self, step)
  local path = path_of(self, step)
  local ok, message = mrt.save(path, variables, metadata)
  if not ok then return nil, message end
  prune(self, step)
  return path
end

-- Every rank writes its pieces of variables; what the first says that cannot.
local function write_pieces(self, step, parts, token)
  local rank, size = together.rank()
  core.make_folders(self.folder)
  local _, message = pieces.save(piece_path(self, step, rank, size), parts, token)
  return failure(message)
end

--- Save the run as it is after a step, and forget the oldest snapshots.  Of several
--- ranks all call it, and return when the file is there.
---@param step integer
---@return string? path
---@return string? message  a full disk, a folder that is gone
function Snapshots:save(step)
  if math.type(step) ~= "integer" or step < 0 then
    core.fail("value", "save", ("step %s, an integer from 0 wanted")
      :format(tostring(step)))
  end
  local variables, plain = split(self.parts)
  local whole, parts = pieces.split(variables)
  local token = parts and together.first(function()
    return ("%x-%a"):format(os.time(), core.clock())
  end)
  local problem = parts and write_pieces(self, step, parts, token)
  if problem then return nil, problem end
  local states = together.gather(dkjson.encode { step = step,
    random = mrt.get_rng_state(), parts = pack(plain, "parts") })
  local metadata = metadata_of(states)
  metadata.pieces, metadata.token = parts and tostring(#states), token
  local said = together.first(function()
    local path, message = write(self, step, whole, metadata)
    return path and "=" .. path or "!" .. message
  end)
  if said:sub(1, 1) == "!" then return nil, said:sub(2) end
  return said:sub(2)
end

local function read(path)
  local tensors, metadata = mrt.load(path)
  if not tensors then return nil, metadata end
  local rank = together.rank()
  local own = rank > 0 and metadata["state." .. rank] or metadata.state
  if metadata.ranks and rank >= tonumber(metadata.ranks) then
    return nil, ("%s: saved by %s ranks, each at a place of its own; this is rank %d")
      :format(path, metadata.ranks, rank)
  end
  local about = own and dkjson.decode(own)
  if metadata["mrt.snapshot"] ~= FORMAT or type(about) ~= "table" then
    return nil, path .. ": no snapshot of a training run"
  end
  return { tensors = tensors, about = about, pieces = tonumber(metadata.pieces) or 0,
    token = metadata.token }
end

-- What a snapshot has of variables, by where it is and where it goes: values of those
-- that are whole here, and of those in pieces what the file has whole.
local function sort_out(found, variables, parts, stored)
  local values, given = {}, {}
  for name, x in pairs(found.tensors) do
    if parts[name] then given[name] = x else values[name] = x end
  end
  for name in pairs(stored:list()) do
    if not variables[name] then
      core.fail("value", "load", ("there is no '%s' here"):format(name))
    end
    stored:check(name, variables[name])
    if not parts[name] then values[name] = stored:whole(name, variables[name]) end
  end
  for name, v in pairs(parts) do
    if not given[name] then
      stored:check(name, v)
    elseif given[name]:type() ~= v:type() then
      core.fail("shape", "load", ("'%s' is %s, wanted %s"):format(name,
        given[name]:type(), v:type()))
    end
  end
  return values, given
end

-- Set variables, all or none, wherever they are in pieces: there or here.
local function load_variables(self, found, variables)
  local paths = {}
  for r = 1, found.pieces do
    paths[r] = piece_path(self, found.about.step, r - 1, found.pieces)
  end
  local stored <close>, message = pieces.open(paths, found.token)
  if not stored then return nil, message end
  local whole, parts = pieces.split(variables)
  local values, given = sort_out(found, variables, parts or {}, stored)
  state.load(whole, values)
  stored:load(parts or {}, given)
  return true
end

--- Bring all parts to where a snapshot left them.
---
--- Raises: parts that are not those of the snapshot; then nothing has changed.
---@param path string
---@return integer? step
---@return string? message  the file cannot be read
function Snapshots:load(path)
  local found, message = read(path)
  if not found then return nil, message end
  for name, part in pairs(self.parts) do
    local values = found.about.parts[name]
    if part.expect_state and values then part:expect_state(unpack(values)) end
  end
  local variables, plain = split(self.parts)
  for name in pairs(plain) do
    if not found.about.parts[name] then
      core.fail("value", "load", ("%s has no part '%s'"):format(path, name))
    end
  end
  local done, problem = load_variables(self, found, variables)
  if not done then return nil, problem end
  mrt.set_rng_state(found.about.random)
  for name in pairs(plain) do
    local values = unpack(found.about.parts[name])
    if next(values) then self.parts[name]:load_state(values) end
  end
  return found.about.step
end

--- Go on from the last snapshot that can be read; of several ranks, by all of them,
--- who call it together.
---@return integer? step    0 where there is none
---@return string? message  there are some, and none can be read
function Snapshots:resume()
  local problem
  local steps = together.first(function() return table.concat(saved(self.folder), " ") end)
  for digits in steps:gmatch "%d+" do
    local done, message = self:load(path_of(self, math.tointeger(tonumber(digits))))
    message = failure(not done and message or nil)
    if not message then return done end
    problem = problem or message
  end
  if problem then return nil, problem end
  return 0
end

---@class mrt.SnapshotOptions
---@field folder string
---@field parts table<string, table>  model, optimizer, loader, step, ..
---@field keep? integer  how many there are at most; default 3

--- Keep snapshots of a run in a folder.
---@param given mrt.SnapshotOptions
---@return mrt.Snapshots
function snapshot.new(given)
  local o = options.read("snapshots", given, { folder = options.want "string",
    parts = options.want "table", keep = options.of("size", 3) })
  for name, part in pairs(o.parts) do
    if type(name) ~= "string" then
      core.fail("value", "snapshots", ("parts: a name is %s, a string wanted")
        :format(options.show(name)))
    elseif type(part) ~= "table" or not options.is_callable(part.state) then
      core.fail("value", "snapshots", ("part '%s' has no state"):format(name))
    end
  end
  return setmetatable(o, Snapshots)
end

return snapshot
