--- progress.lua -- one line that says how a run is going
---
--- On a terminal the line is rewritten in place, at most ten times a second, and is
--- never longer than the terminal is wide just then: what matters least is left out.
--- Into a pipe or a file, and on a terminal that cannot go back in a line, go plain
--- lines, now and then, each with the mean loss since the one before.
---
--- Speed and the time left do not count the first step, which plans; speed does not
--- count pauses (evaluations, snapshots), the time left does.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local format = require "mrt.util.format"

local progress = {}

---@class mrt.Progress
local Progress = {}
Progress.__index = Progress

---@class mrt.ProgressOptions
---@field steps integer
---@field done? integer       steps of an earlier process, default 0
---@field every? integer      steps between plain lines; default steps / 20
---@field unit? string        what is done in a step, default "tokens"
---@field memory? integer     bytes that the run should take
---@field out? file*          default standard output
---@field terminal? boolean   rewrite one line; default: as standard output is
---@field width? fun(): integer?  columns of the terminal; default: as standard output has
---@field quiet? boolean      show nothing

---@class mrt.ProgressFacts
---@field lr? number
---@field norm? number      of the gradients
---@field memory? integer   bytes that tensors took in the step
---@field pending? boolean  a line of its own follows for this step

local function nothing() end
local nowhere = { write = nothing, flush = nothing }

-- Can the standard output go back in a line?
local function rewrites()
  return core.is_terminal() and os.getenv "TERM" ~= "dumb"
end

--- Begin to show a run.
---@param o mrt.ProgressOptions
---@return mrt.Progress
function progress.new(o)
  local terminal = o.terminal
  if terminal == nil then terminal = not o.out and not o.quiet and rewrites() end
  local now = core.clock()
  return setmetatable({ steps = o.steps, before = o.done or 0,
    unit = o.unit or "tokens",
    every = o.every or math.max(1, o.steps // 20), memory = o.memory,
    planned = o.memory,
    out = o.quiet and nowhere or o.out or io.stdout, terminal = terminal, began = now,
    width = o.width or core.terminal_width, first = now, first_step = o.done or 0,
    shown = 0, live = false, done = 0, pauses = 0, loss_sum = 0, loss_count = 0 },
    Progress)
end

-- ---- the parts of a line ------------------------------------------------------

-- "99.8/100.1 MiB", of what was planned.
local function memory_words(taken, planned)
  if not (taken and planned) then return format.bytes(taken or planned) end
  local number, unit = format.bytes(planned):match "^(%S+) (.*)$"
  local scale = ({ B = 0, KiB = 1, MiB = 2, GiB = 3, TiB = 4, PiB = 5 })[unit]
  local digits = number:match "%.(%d+)"
  return ("%%.%df/%%s %%s"):format(digits and #digits or 0)
    :format(taken / 1024 ^ scale, number, unit)
end

-- Seconds of steps after the first, without pauses, and since the first was done; of
-- the first itself as long as there is no other.
local function seconds_of(self, now)
  if self.counted then return math.max(now - self.first - self.pauses, 1e-9), now - self.first end
  return math.max(now - self.began, 1e-9), now - self.began
end

-- What a line says, in order; `rank`: what goes first where there is no room.
local function parts_of(self, step, loss, now)
  local busy, all = seconds_of(self, now)
  local facts, found, parts = self.facts or {}, self.evaluated, {}
  local function add(rank, text, ...)
    parts[#parts + 1] = { rank = rank, text = text:format(...) }
  end
  add(9, "step %d/%d", step, self.steps)
  if found then add(10, "%s %.4f", found.name, found.value) end
  add(8, "loss %.4f", loss)
  if facts.lr then add(3, "lr %.3g", facts.lr) end
  if facts.norm then add(2, "norm %.3g", facts.norm) end
  add(5, "%s %s/s", format.rate(self.done / busy), self.unit)
  if facts.memory or self.memory then
    add(1, "%s", memory_words(facts.memory, self.memory))
  end
  if found then
    add(6, "after %s", format.duration(now - self.began))
  elseif step < self.steps then
    add(6, "%s left", format.duration(all / math.max(step - self.first_step, 1)
      * (self.steps - step)))
  else
    add(6, "%s", format.duration(now - self.began))
  end
  return parts
end

local function length(text) return utf8.len(text) or #text end

local function join(parts)
  local list = {}
  for i, p in ipairs(parts) do list[i] = p.text end
  return table.concat(list, "  ")
end

-- Without what matters least, until it has room; of one part alone the beginning.
local function fit(parts, width)
  local text = join(parts)
  while length(text) > width and #parts > 1 do
    local least = 1
    for i, p in ipairs(parts) do if p.rank < parts[least].rank then least = i end end
    table.remove(parts, least)
    text = join(parts)
  end
  if length(text) <= width then return text end
  return width > 0 and text:sub(1, (utf8.offset(text, width + 1) or width + 1) - 1) or ""
end

-- All parts, on as many lines as they take.
local function fold(parts, width)
  local lines, text = {}, nil
  for _, p in ipairs(parts) do
    local longer = text and text .. "  " .. p.text or p.text
    if text and length(longer) > width then
      lines[#lines + 1], longer = text, "  " .. p.text
    end
    text = longer
  end
  lines[#lines + 1] = text
  return table.concat(lines, "\n")
end

-- The last column stays free: some terminals begin a new line in it.
local function room(self)
  return self.terminal and (self.width() or 80) - 1 or math.huge
end

local function rewrite(self, parts)
  self.out:write("\r", fit(parts, room(self)), "\27[K")
  self.out:flush()
  self.live = true
end

-- ---- what a run tells ------------------------------------------------------------

--- Count a step.
---@param step integer
---@param loss number
---@param done integer  tokens or examples in this step
---@param facts? mrt.ProgressFacts
function Progress:step(step, loss, done, facts)
  local now, last = core.clock(), step == self.steps
  if not self.counted and step > self.before + 1 then self.counted, self.done = true, 0 end
  self.done, self.facts, self.at, self.loss = self.done + done, facts, step, loss
  self.loss_sum, self.loss_count = self.loss_sum + loss, self.loss_count + 1
  if self.terminal then
    if now - self.shown >= 0.1 or last then
      self.shown = now
      rewrite(self, parts_of(self, step, loss, now))
    end
  elseif not (facts and facts.pending)
    and (step == self.before + 1 or step % self.every == 0 or last) then
    local mean = self.loss_sum / self.loss_count
    self.loss_sum, self.loss_count = 0, 0
    self:line(join(parts_of(self, step, mean, now)))
  end
  if step == self.before + 1 then self.first, self.first_step = core.clock(), step end
end

--- The run did something beside its steps for so long.
---@param seconds number
function Progress:pause(seconds)
  if self.at and self.at > self.before then self.pauses = self.pauses + seconds end
end

--- The script holds so many bytes more beside its steps than at the first one.
---@param bytes integer
function Progress:beside(bytes)
  if self.memory then self.memory = math.max(self.memory, self.planned + bytes) end
end

--- Leave a line with all that is known of the last step, and what an evaluation found.
---@param name string
---@param value number
function Progress:evaluation(name, value)
  self.evaluated = { name = name, value = value }
  local parts = parts_of(self, self.at, self.loss, core.clock())
  self.evaluated, self.loss_sum, self.loss_count = nil, 0, 0
  self:line(fold(parts, room(self)))
end

--- Leave a line that sums the run up, in place of the one that is rewritten.
---@param summary {loss: number?, eval: number?, eval_name: string?, memory: integer?}
---@param steps integer  taken
function Progress:summary(summary, steps)
  if steps == 0 then return end
  local now = core.clock()
  local parts = { { text = ("%d step%s in %s"):format(steps, steps == 1 and "" or "s",
    format.duration(now - self.began)) } }
  local function add(text, ...) parts[#parts + 1] = { text = text:format(...) } end
  if summary.loss then add("loss %.4f", summary.loss) end
  if summary.eval then add("%s %.4f", summary.eval_name or "evaluation", summary.eval) end
  add("%s %s/s", format.rate(self.done / (seconds_of(self, now))), self.unit)
  if summary.memory and self.memory then
    add("memory %s planned", (memory_words(summary.memory, self.memory):gsub("/", " of ")))
  end
  self:line(fold(parts, room(self)))
end

--- Write a line of its own, above the one that is rewritten.
---@param text string
function Progress:line(text)
  self.out:write(self.live and "\r\27[K" or "", text, "\n")
  self.out:flush()
  self.live = false
end

--- Leave the last state of the line standing.
function Progress:close()
  if self.live then self.out:write "\n" end
  self.live = false
end
Progress.__close = Progress.close

return progress
