--- log -- what a run did, step by step, in a folder
---
---     local log <close> = assert(mrt.train.log("runs/a", {name = "a"}))
---     log:write(step, {loss = loss, lr = opt:rate()})
---
--- run.jsonl      a line about the run, then one for each step written: step,
---                time (seconds since 1970), seconds (since the run began) and
---                the scalars; NaN and infinities as text, for JSON has none
--- events.out...  the scalars for TensorBoard, unless `tensorboard = false`
--- report.html    a page with charts, once the log is closed
--- plan.html      the page of the step's plan, and plan.svg, its picture, where the log is of
---                a run of mrt.train.run; the page of the run shows it
---
--- A run that goes on from a snapshot goes on in its files: what they say of
--- later steps is taken out.  A run that begins anew where another one was puts
--- that one's files aside, in earlier-1, earlier-2, ...: nothing is overwritten,
--- and TensorBoard shows two runs, not one that goes back in time.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local json = require "mrt.util.json"
local options = require "mrt.util.options"
local page = require "mrt.train.log.page"
local runs = require "mrt.train.log.runs"
local save = require "mrt.plan.report.save"
local tensorboard = require "mrt.train.log.tensorboard"

local log = {}

---@class mrt.Log
---@field folder string
---@field aside? string  where the log of an earlier run is now
local Log = {}
Log.__index = Log

local function word(value)
  if type(value) ~= "number" then return value end
  if value ~= value then return "nan" end
  if math.abs(value) < math.huge then return value end
  return value > 0 and "inf" or "-inf"
end

local order = { "run", "step", "time", "seconds", "loss" }

local function encode(record)
  local out = {}
  for name, value in pairs(record) do out[name] = word(value) end
  return json.encode(out, { order = order, lossy = true }) .. "\n"
end

--- Read a log: what is known of the run, and a record for each step.  A line
--- that was not written whole ends it.
---
---     local steps, message = mrt.train.read_log "runs/one"
---
--- Raises: what is no path; a file's faults are a message.
---@param folder string
---@return table? run
---@return table[]|string records  or what the world has against it
function log.read(folder)
  if type(folder) ~= "string" then
    core.fail("value", "read_log", "a folder wanted, got " .. options.show(folder))
  end
  local text, message = core.read_file(folder .. "/run.jsonl")
  if not text then return nil, message end
  local run, records = {}, {}
  for line in text:gmatch "[^\n]+" do
    local value = json.decode(line)
    if type(value) ~= "table" then break end
    if type(value.run) == "table" then
      run = value.run
    else
      records[#records + 1] = value
    end
  end
  return run, records
end

-- Steps up to `last`, as they were written.
local function keep_until(folder, last)
  local run, records = log.read(folder)
  if not run then return nil end
  local lines = { encode { run = run } }
  for _, r in ipairs(records) do
    if math.type(r.step) == "integer" and r.step <= last then
      lines[#lines + 1] = encode(r)
    end
  end
  return save.write(folder .. "/run.jsonl", table.concat(lines))
end

-- Is this a file that a log makes?
local function is_ours(name)
  return name == "run.jsonl" or name == "report.html" or name == "plan.html"
    or name == "plan.svg" or name:find("^events%.out%.tfevents%.")
end

-- Moves the log of an earlier run out of the way, and returns where to; "" where there
-- is none.
local function put_aside(folder)
  local names, there, number = core.list_folder(folder) or {}, {}, 1
  for _, name in ipairs(names) do there[name] = true end
  if not there["run.jsonl"] then return "" end
  while there["earlier-" .. number] do number = number + 1 end
  local aside = ("%s/earlier-%d"):format(folder, number)
  core.make_folders(aside)
  for _, name in ipairs(names) do
    if is_ours(name) then
      local ok, message = os.rename(folder .. "/" .. name, aside .. "/" .. name)
      if not ok then return nil, message end
    end
  end
  return aside
end

-- The file to write to; or nil and a message; and where the log before is now.
local function open_file(folder, run, after)
  local path, aside = folder .. "/run.jsonl", nil
  if after then
    local ok, message = keep_until(folder, after)
    if ok == nil and message then return nil, message end
    if ok then return io.open(path, "ab") end
  else
    local where, message = put_aside(folder)
    if not where then return nil, message end
    aside = where ~= "" and where or nil
  end
  local ok, message = save.write(path, encode { run = run })
  if not ok then return nil, message end
  local file, problem = io.open(path, "ab")
  return file, problem, aside
end

---@class mrt.LogOptions
---@field name? string
---@field run? table             more that is known of the run, in its first line
---@field tensorboard? boolean   default true
---@field after? integer         go on after this step of the files that are there

--- Begin a log in a folder, made if it is not there.  The log of an earlier run is
--- put aside there, in earlier-1 and so on.
---
---     local log = mrt.train.log "runs/one"
---
--- Raises: an option that there is not; a folder's faults are a message.
---@param folder string
---@param given? mrt.LogOptions
---@return mrt.Log? log
---@return string? message  what the world has against it
function log.open(folder, given)
  local o = options.read("log", given, { name = options.of "string", run = {},
    tensorboard = true, after = options.of "integer" })
  if type(folder) ~= "string" or folder == "" then
    core.fail("value", "log", "a folder wanted, got " .. options.show(folder))
  end
  core.make_folders(folder)
  local message
  local run = { name = o.name or folder, begun = os.time() }
  for key, value in pairs(o.run) do run[key] = value end
  local self = setmetatable({ folder = folder, began = core.clock(),
    begun = os.time() }, Log)
  self.file, message, self.aside = open_file(folder, run, o.after)
  if self.file and o.tensorboard then
    self.events, message = tensorboard.open(folder, o.after)
  end
  if message then
    if self.file then self.file:close() end
    return nil, message
  end
  return self
end

local taken = { step = true, time = true, seconds = true }

local function check(self, step, scalars)
  if not self.file then core.fail("state", "log:write", "the log is closed") end
  if math.type(step) ~= "integer" or step < 0 then
    core.fail("value", "log:write", "step: an integer from 0 wanted, got "
      .. options.show(step))
  elseif type(scalars) ~= "table" then
    core.fail("value", "log:write", "numbers by name wanted, got " .. options.show(scalars))
  end
  for name, value in pairs(scalars) do
    if type(name) ~= "string" or type(value) ~= "number" then
      core.fail("value", "log:write", ("%s = %s, a number by name wanted")
        :format(tostring(name), options.show(value)))
    elseif taken[name] then
      core.fail("value", "log:write", ("'%s' is the log's own name"):format(name))
    end
  end
end

--- Write the scalars of a step.
---
--- Raises: a log that is closed; what is no number; the names step, time, seconds.
---
---     log:write(step, { loss = 2.5 })
---@param step integer
---@param scalars table<string, number>
---@return true? done
---@return string? message  a full disk
function Log:write(step, scalars)
  check(self, step, scalars)
  local seconds = core.clock() - self.began
  local record = { step = step, time = self.begun + seconds, seconds = seconds }
  for name, value in pairs(scalars) do record[name] = value end
  local ok, message = self.file:write(encode(record))
  if ok then ok, message = self.file:flush() end
  if ok and self.events then
    ok, message = self.events:write(record.time, step, scalars)
  end
  if ok then return true end
  return nil, ("%s: %s"):format(self.folder, message)
end

--- Write report.html of what there is.
---
---     log:report()
---@return true? done
---@return string? message
function Log:report()
  local run, message = runs.of_folder(self.folder, self.folder, log.read)
  if not run then return nil, message end
  return save.write(self.folder .. "/report.html", page { run })
end

--- Draw runs into one page: their losses, rates, speed and memory in the same charts.
---
---     mrt.train.report { "runs/a", "runs/b" }                     -- report.html, here
---     mrt.train.report { "runs/a", "runs/b", to = "both.html" }
---     mrt.train.report "runs/a"                                   -- runs/a/report.html
---
--- Raises: no folders.
---@param given string|{[integer]: string, to: string?}  folders of logs
---@return string? path
---@return string? message  no log there, a full disk
function log.report(given)
  local folders, to = runs.read(given)
  local list = {}
  for i, folder in ipairs(folders) do
    local run, message = runs.of_folder(folder, to:match "^(.*)/[^/]*$" or ".", log.read)
    if not run then return nil, message end
    list[i] = run
  end
  local ok, message = save.write(to, page(list))
  if not ok then return nil, message end
  return to
end

--- End the log, with its page.
---
---     log:close()
---@return true? done
---@return string? message
function Log:close()
  if not self.file then return true end
  self.file:close()
  if self.events then self.events:close() end
  self.file = nil
  return self:report()
end
Log.__close = Log.close

return log
