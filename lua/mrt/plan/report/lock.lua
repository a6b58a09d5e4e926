--- lock.lua -- what a plan took once, kept in a file, and what takes more since
---
--- A lock is JSON, one entry a line: figures of the plan, then the bytes of its peak and
--- the predicted seconds by line of Lua.  A line is known by its text, so lines that only
--- move do not count as changed.  The same plan gives the same file.
---
---     schema   "mrt.lock/2"
---     script   device, ranks      what was planned, for what: `script` is all words of the
---                                 command that change the plan
---     peak     persistent transient outputs swapped wire   bytes
---     seconds  of a step, predicted
---     bytes    [{module?, file, code, role, bytes}]  that the peak is made of
---     time     [{module?, file, code, seconds}]      of one micro-batch, if there are several
---
--- SPDX-License-Identifier: MIT

local about = require "mrt.plan.report.about"
local core = require "mrt.core"
local json = require "mrt.util.json"
local format = require "mrt.util.format"
local roles = require "mrt.plan.report.roles"

local lock = {}

local SCHEMA <const> = "mrt.lock/2"
local SLOWER <const> = 1.01 -- that much more predicted time counts

local figures <const> = { "peak", "persistent", "transient", "outputs", "swapped", "wire" }

-- The text of line n of a file, by which it is known; where the file is not there (the
-- library's), its number.
local function reader()
  local files = {}
  return function(file, n)
    if not files[file] then
      files[file] = {}
      local handle <close> = io.open(file)
      for line in (handle and handle:lines() or function() end) do
        table.insert(files[file], (line:match "^%s*(.-)%s*$"))
      end
    end
    local text = files[file][n]
    return text and text ~= "" and format.utf8(text) or ("line %d"):format(n)
  end
end

local function add(list, by, key, entry, field, amount)
  if not by[key] then
    by[key] = entry
    list[#list + 1] = entry
  end
  by[key][field] = (by[key][field] or 0) + amount
end

local function sort(list, field)
  table.sort(list, function(a, b)
    if a[field] ~= b[field] then return a[field] > b[field] end
    return a.key < b.key
  end)
end

-- What a plan's peak is made of, and where its time goes.
local function parts(plan)
  local code_of, bytes, time, by = reader(), {}, {}, {}
  for _, v in ipairs(plan:values()) do
    local inside = not roles.in_arena[v.role]
      or v.first <= plan.peak_step and plan.peak_step <= v.last
    if inside and not roles.outside[v.role] then
      local code = code_of(v.file, v.line)
      local module = about.modules(v)
      local key = table.concat({ v.file, module or "", code, v.role }, "\0")
      add(bytes, by, key, { key = key, module = module, file = v.file, code = code, role = v.role,
        line = v.line }, "bytes", v.bytes)
    end
  end
  by = {}
  for _, s in ipairs(plan:steps()) do
    local code, module = code_of(s.file, s.line), about.modules(s)
    local key = table.concat({ s.file, module or "", code }, "\0")
    add(time, by, key, { key = key, module = module, file = s.file, code = code, line = s.line },
      "seconds", s.time)
  end
  sort(bytes, "bytes")
  sort(time, "seconds")
  return bytes, time
end

--- What the lock of a plan says.
---@param plan mrt.Plan
---@param run {script: string, ranks: integer}
---@return table
function lock.of(plan, run)
  local out = { schema = SCHEMA, script = run.script, ranks = run.ranks,
    device = plan.device.name, seconds = plan.seconds }
  for _, name in ipairs(figures) do out[name] = math.tointeger(plan[name]) end
  out.bytes, out.time = parts(plan)
  return out
end

local ENTRY <const> = { "module", "file", "code", "role", "bytes", "seconds" }

-- JSON with a line for each entry, so that two are told apart by diff.
---@param found table  of lock.of
---@return string
function lock.text(found)
  local lines = {}
  local function line(name, value)
    lines[#lines + 1] = ('  "%s": %s'):format(name, json.encode(value, { lossy = true }))
  end
  for _, name in ipairs { "schema", "script", "device", "ranks" } do line(name, found[name]) end
  for _, name in ipairs(figures) do line(name, found[name]) end
  line("seconds", found.seconds)
  for _, name in ipairs { "bytes", "time" } do
    local field, entries = name == "time" and "seconds" or "bytes", {}
    for i, e in ipairs(found[name]) do
      entries[i] = "    " .. json.encode({ module = e.module, file = e.file, code = e.code,
        role = e.role,
        [field] = e[field] }, { order = ENTRY, lossy = true })
    end
    lines[#lines + 1] = ('  "%s": [\n%s\n  ]'):format(name, table.concat(entries, ",\n"))
  end
  return "{\n" .. table.concat(lines, ",\n") .. "\n}\n"
end

-- ---- reading -------------------------------------------------------------------

local function is_list(list, field)
  if type(list) ~= "table" then return false end
  for _, e in ipairs(list) do
    if type(e) ~= "table" or type(e.file) ~= "string" or type(e.code) ~= "string"
      or type(e[field]) ~= "number" or field == "bytes" and type(e.role) ~= "string" then
      return false
    end
  end
  return true
end

local function is_whole(found)
  for _, name in ipairs(figures) do
    if math.type(found[name]) ~= "integer" then return false end
  end
  return type(found.seconds) == "number" and type(found.script) == "string"
    and type(found.device) == "string" and math.type(found.ranks) == "integer"
    and is_list(found.bytes, "bytes") and is_list(found.time, "seconds")
end

--- Read a lock.
---@param path string
---@return table?
---@return string? message
function lock.read(path)
  local text, message = core.read_file(path)
  if not text then return nil, message end
  local found = json.decode(text, { unique = true })
  if type(found) ~= "table" then return nil, path .. ": not JSON" end
  if found.schema ~= SCHEMA then
    return nil, ("%s: a lock of version %s wanted, got %s; lock it anew with --lock"):format(path,
      SCHEMA, type(found.schema) == "string" and found.schema or "something else")
  end
  if not is_whole(found) then return nil, path .. ": a damaged lock; lock it anew with --lock" end
  return found
end

-- ---- comparing -----------------------------------------------------------------

local function key_of(e, with_role)
  return table.concat({ e.file, e.module or "", e.code, with_role and e.role or nil }, "\0")
end

local function is_lasting(entry) return not roles.in_arena[entry.role] end

-- Entries of `now` that have more than in `before`, by a byte or a nanosecond, most first;
-- only those that `counts` is true of.
local function grown(before, now, field, counts)
  local had, list = {}, {}
  for _, e in ipairs(before) do
    local key = key_of(e, field == "bytes")
    had[key] = (had[key] or 0) + e[field]
  end
  for _, e in ipairs(now) do
    local more = e[field] - (had[key_of(e, field == "bytes")] or 0)
    if more > 1e-9 and (not counts or counts(e)) then
      list[#list + 1] = { entry = e, more = more }
    end
  end
  table.sort(list, function(a, b)
    if a.more ~= b.more then return a.more > b.more end
    return a.entry.key < b.entry.key
  end)
  return list
end

-- Entries of `before` that `now` has no more, in the order of the lock: a line that was edited
-- is one of them, and a new one.
local function gone(before, now, field, counts)
  local has, list = {}, {}
  for _, e in ipairs(now) do has[key_of(e, field == "bytes")] = true end
  for _, e in ipairs(before) do
    if not has[key_of(e, field == "bytes")] and (not counts or counts(e)) then
      list[#list + 1] = { entry = e, more = -e[field] }
    end
  end
  return list
end

local MOST_LINES <const> = 10

local function add_lines(lines, list, show)
  for i = 1, math.min(#list, MOST_LINES) do
    local e, more = list[i].entry, list[i].more
    lines[#lines + 1] = ("  %s%s%s: %s %s%s  %s"):format(e.module and e.module .. ", " or "",
      e.file, e.line and ":" .. e.line or "",
      more < 0 and "-" or "+", show(math.abs(more)), e.role and " " .. e.role or "", e.code)
  end
  if #list > MOST_LINES then
    lines[#lines + 1] = ("  and %d lines more"):format(#list - MOST_LINES)
  end
end

-- What grew of an entry's field, and what is gone.
local function add_changes(lines, before, now, field, show, counts)
  add_lines(lines, grown(before, now, field, counts), show)
  add_lines(lines, gone(before, now, field, counts), show)
end

local function count(n) return format.count(n) .. " bytes" end

-- Bytes of the peak that no value has: holes of the arena.
local function holes(found)
  local bytes = found.peak
  for _, e in ipairs(found.bytes) do bytes = bytes - e.bytes end
  return bytes
end

-- The lines that a growing peak, or what lasts between steps, is made of.
local function add_bytes(lines, before, now, name)
  local counts = name == "persistent" and is_lasting
  add_changes(lines, before.bytes, now.bytes, "bytes", count, counts)
  local more = holes(now) - holes(before)
  if name == "peak" and more > 0 then
    lines[#lines + 1] = ("  + %s between values of the arena"):format(count(more))
  end
end

local words <const> = { peak = "takes", persistent = "keeps until the next one",
  swapped = "swaps", wire = "gives to other ranks" }

-- What differs that makes two plans no match for each other.
local function other(before, now)
  for _, name in ipairs { "script", "device", "ranks" } do
    if before[name] ~= now[name] then
      return ("it is of %s '%s', this is '%s'"):format(name, before[name], now[name])
    end
  end
end

-- Lines that say what takes more than before; none if nothing does.
local function worse_of(before, now)
  local lines = {}
  for _, name in ipairs { "peak", "persistent", "swapped", "wire" } do
    if now[name] > before[name] then
      lines[#lines + 1] = ("the step %s %s, %s more than locked"):format(words[name],
        count(now[name]), count(now[name] - before[name]))
      -- a growing peak has named what lasts among its lines
      local named = name == "peak" or name == "persistent" and now.peak <= before.peak
      if named then add_bytes(lines, before, now, name) end
    end
  end
  if now.seconds > SLOWER * before.seconds then
    lines[#lines + 1] = ("the step is predicted to take %s, %.1f %% more than locked"):format(
      format.time(now.seconds), 100 * (now.seconds / before.seconds - 1))
    add_changes(lines, before.time, now.time, "seconds", format.time)
  end
  return lines
end

--- Hold a plan to a lock.
---@param before table  of lock.read
---@param now table     of lock.of
---@return boolean? ok  nil: they cannot be compared
---@return string said
function lock.compare(before, now)
  local why = other(before, now)
  if why then return nil, why end
  local lines = worse_of(before, now)
  if #lines > 0 then return false, table.concat(lines, "\n") end
  local better = now.peak < before.peak or now.seconds < before.seconds / SLOWER
  return true, ("the step takes %s, %s; %s predicted%s"):format(count(now.peak),
    now.peak < before.peak and count(before.peak - now.peak) .. " less than locked" or "as locked",
    format.time(now.seconds), better and "; --lock keeps that" or "")
end

return lock
