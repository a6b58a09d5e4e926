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
--- whole, and a process that is killed while saving loses nothing.  All of it has
--- checksums, so that one that the disk has damaged since is passed over for the one
--- before.  The run that goes on takes the steps that the first would have taken, bit
--- for bit.
---
--- Several ranks save and go on together, in one folder that all of them see.
--- Rank 0 writes for all what is the same on all ranks, and each rank's random
--- numbers and plain values (a loader's place).  Of variables in pieces every rank
--- writes its own, `step-00000100.rank-2-of-4.safetensors`, before; any number of
--- ranks goes on from them, where random numbers and plain values are the same on
--- all; else as many, or fewer, which leave out the places of the others.  What a
--- part raises on one rank, saving or loading, all raise at once.  Plan the step
--- before `resume`: what is in pieces then is read in pieces.
---
--- A part is anything with `state()`, a table by name of variables and plain
--- values (numbers, strings, booleans and tables of them), and
--- `load_state(plain)` if it has such values.  `expect_state(plain)`, if it is
--- there, makes variables that only a snapshot knows of before their numbers come.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local options = require "mrt.util.options"
local json = require "mrt.util.json"
local plain_values = require "mrt.io.json"
local pieces = require "mrt.shard.pieces"
local saved = require "mrt.train.saved"
local state = require "mrt.io.load_state"
local together = require "mrt.communicator.sync"

local snapshot = {}

---@class mrt.Snapshots
---@field folder string
local Snapshots = {}
Snapshots.__index = Snapshots

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
local function steps_in(folder)
  local names = core.list_folder(folder)
  local steps = {}
  for _, name in ipairs(names or {}) do
    local digits = name:match "^step%-(%d+)%.safetensors$"
    steps[#steps + 1] = digits and math.tointeger(tonumber(digits))
  end
  table.sort(steps, function(a, b) return a > b end)
  return steps
end

-- The metadata of a file: `states` are JSON, of rank 0 first.  Where they say the
-- same, any number of ranks can go on from it.
local function metadata_of(states)
  local out = { ["mrt.snapshot"] = saved.FORMAT, state = states[1] }
  local first, differ = json.decode(states[1]), false
  for r = 2, #states do
    differ = differ or not plain_values.alike(first, json.decode(states[r]))
  end
  for r = 2, differ and #states or 0 do out["state." .. r - 1] = states[r] end
  if differ then out.ranks = tostring(#states) end
  return out
end

local function piece_path(self, step, rank, size)
  return ("%s/step-%08d.rank-%d-of-%d.safetensors"):format(self.folder, step, rank, size)
end

-- Forget all but the newest snapshots, and what belongs to none of them or to one whose
-- file is still to come: pieces, and files that a killed process has left half written.
local function prune(self, coming)
  local kept = { [coming] = true }
  for i, step in ipairs(steps_in(self.folder)) do
    if i > self.keep then os.remove(path_of(self, step)) else kept[step] = true end
  end
  for _, name in ipairs(core.list_folder(self.folder) or {}) do
    local digits = name:match "^step%-(%d+)%.rank%-%d+%-of%-%d+%.safetensors$"
      or name:match "^step%-(%d+)%..*safetensors%.partial"
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

-- A rank writes its pieces of variables.
local function write_pieces(self, step, parts, token)
  local rank, size = together.rank()
  core.make_folders(self.folder)
  return pieces.save(piece_path(self, step, rank, size), parts, token)
end

-- What there is to write: variables that are whole, those in pieces, and the rest as
-- JSON.
local function collect(self, step)
  if math.type(step) ~= "integer" or step < 0 then
    core.fail("value", "save", ("step %s, an integer from 0 wanted")
      :format(tostring(step)))
  end
  if self.broken then
    core.fail("state", "save", "the parts are between two states, since this was raised "
      .. "while a snapshot was loaded: " .. self.broken)
  end
  local variables, plain = split(self.parts)
  local whole, parts = pieces.split(variables)
  return { whole = whole, parts = parts, text = json.encode { step = step,
    random = mrt.get_rng_state(), parts = plain_values.pack(plain, "parts") } }
end

--- Save the run as it is after a step, and forget the oldest snapshots.  Of several
--- ranks all call it, and return when the file is there; what a part raises on one of
--- them all raise, and no file is written.
---
---     snapshots:save(100)
---@param step integer
---@return string? path
---@return string? message  a full disk, a folder that is gone
function Snapshots:save(step)
  local found = together.all(collect, self, step)
  local parts = found.parts
  local token = parts and together.first(function()
    return ("%x-%a"):format(os.time(), core.clock())
  end)
  if parts then
    local done, problem = together.all(write_pieces, self, step, parts, token)
    if not done then return nil, problem end
  end
  local states = together.gather(found.text)
  local metadata = metadata_of(states)
  metadata.pieces, metadata.token = parts and tostring(#states), token
  local said = together.first(function()
    local path, message = write(self, step, found.whole, metadata)
    return path and "=" .. path or "!" .. message
  end)
  if said:sub(1, 1) == "!" then return nil, said:sub(2) end
  return said:sub(2)
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

local function sorted_names(map)
  local names = {}
  for name in pairs(map) do names[#names + 1] = name end
  table.sort(names)
  return names
end

-- What a load holds open, until it has ended here, however it went on other ranks.
local Opened = { __close = function(opened)
  if opened.stored then opened.stored:close() end
end }

-- Read a snapshot and look whether it fits, changing nothing: what to set.
local function prepare(self, path, opened)
  local found, message = saved.read(path)
  if not found then return nil, message end
  for _, name in ipairs(sorted_names(self.parts)) do
    local part, values = self.parts[name], found.about.parts[name]
    if part.expect_state and values then part:expect_state(plain_values.unpack(values)) end
  end
  local variables, plain = split(self.parts)
  for name in pairs(plain) do
    if not found.about.parts[name] then
      core.fail("value", "load", ("%s has no part '%s'"):format(path, name))
    end
  end
  local paths = {}
  for r = 1, found.pieces do
    paths[r] = piece_path(self, found.about.step, r - 1, found.pieces)
  end
  local stored, problem = pieces.open(paths, found.token, found.summed)
  if not stored then return nil, problem end
  opened.stored, found.names = stored, sorted_names(plain)
  local whole_there, why = stored:verify(variables)
  if not whole_there then return nil, why end
  found.whole, found.parts = pieces.split(variables)
  found.values, found.given = sort_out(found, variables, found.parts or {}, stored)
  state.check(found.whole, found.values)
  return found
end

-- Set all parts to what has been prepared.
local function apply(self, found, stored)
  state.load(found.whole, found.values)
  stored:load(found.parts or {}, found.given)
  mrt.set_rng_state(found.about.random)
  for _, name in ipairs(found.names) do
    local values = plain_values.unpack(found.about.parts[name])
    if next(values) then self.parts[name]:load_state(values) end
  end
  return true
end

--- Bring all parts to where a snapshot left them.  Of several ranks all call it: it is
--- done on all of them or, where it fails on one, fails on all.
---
--- Raises: parts that are not those of the snapshot; then nothing has changed, but for
--- what `expect_state` has made.  And what a part's `load_state` raises: then some parts
--- are as in the snapshot, variables among them, and others as they were; such a run is
--- not saved (`save` raises) before a load has come to its end.
---
---     snapshots:save(100)
---     snapshots:load "runs/one/step-00000100.safetensors"
---@param path string
---@return integer? step
---@return string? message  the file cannot be read
function Snapshots:load(path)
  local opened <close> = setmetatable({}, Opened)
  local found, message = together.all(prepare, self, path, opened)
  if not found then return nil, message end
  local ok, raised = pcall(together.all, apply, self, found, opened.stored)
  self.broken = not ok and tostring(raised) or nil
  if not ok then error(raised, 0) end
  return found.about.step
end

--- Go on from the last snapshot that can be read; of several ranks, by all of them,
--- who call it together.
---
---     local done, skipped = snapshots:resume()
---     if not done then error(skipped) end          -- there are some, all damaged
---     if skipped then print(skipped) end           -- which were passed over, and why
---
--- Raises: as `load`.
---@return integer? step     0 where there is none
---@return string? message  what was wrong with those that were passed over; without a
---  step, with all there are
function Snapshots:resume()
  local problems = {}
  local steps = together.first(function() return table.concat(steps_in(self.folder), " ") end)
  for digits in steps:gmatch "%d+" do
    local done, message = self:load(path_of(self, math.tointeger(tonumber(digits))))
    if done then return done, problems[1] and table.concat(problems, "; ") end
    problems[#problems + 1] = message
  end
  if problems[1] then return nil, table.concat(problems, "; ") end
  return 0
end

---@class mrt.SnapshotOptions
---@field folder string
---@field parts table<string, table>  model, optimizer, loader, step, ..
---@field keep? integer  how many there are at most; default 3

--- Keep snapshots of a run in a folder.
---
---     local snapshots = mrt.train.snapshots { folder = "runs/one",
---       parts = { model = model, optimizer = opt } }
---
--- Raises: an option that there is not.
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
