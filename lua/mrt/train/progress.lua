--- progress.lua -- one line that says how a run is going
---
--- On a terminal the line is rewritten in place, at most ten times a second;
--- into a pipe or a file go plain lines, now and then, each with the mean loss
--- since the one before.
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
---@field memory? integer     bytes that the run takes
---@field out? file*          default standard output
---@field terminal? boolean   rewrite one line; default: as standard output is
---@field quiet? boolean      show nothing

local function nothing() end
local nowhere = { write = nothing, flush = nothing }

--- Begin to show a run.
---@param o mrt.ProgressOptions
---@return mrt.Progress
function progress.new(o)
  local terminal = o.terminal
  if terminal == nil then terminal = not o.out and not o.quiet and core.is_terminal() end
  return setmetatable({ steps = o.steps, before = o.done or 0,
    unit = o.unit or "tokens",
    every = o.every or math.max(1, o.steps // 20), memory = o.memory,
    out = o.quiet and nowhere or o.out or io.stdout, terminal = terminal, began = core.clock(),
    shown = 0, live = false, done = 0, loss_sum = 0, loss_count = 0 },
    Progress)
end

local function describe(self, step, loss, now)
  local seconds = math.max(now - self.began, 1e-9)
  local parts = {
    ("step %d/%d"):format(step, self.steps),
    ("loss %.4f"):format(loss),
    ("%s %s/s"):format(format.rate(self.done / seconds), self.unit),
  }
  if self.memory then parts[#parts + 1] = format.bytes(self.memory) end
  if step < self.steps then
    local left = seconds / (step - self.before) * (self.steps - step)
    parts[#parts + 1] = format.duration(left) .. " left"
  else
    parts[#parts + 1] = format.duration(seconds)
  end
  return table.concat(parts, "  ")
end

local function rewrite(self, text)
  self.out:write("\r", text, "\27[K")
  self.out:flush()
  self.live = true
end

--- Count a step.
---@param step integer
---@param loss number
---@param done integer  tokens or examples in this step
function Progress:step(step, loss, done)
  self.done = self.done + done
  self.loss_sum, self.loss_count = self.loss_sum + loss, self.loss_count + 1
  local now, last = core.clock(), step == self.steps
  if self.terminal then
    if now - self.shown < 0.1 and not last then return end
    self.shown = now
    rewrite(self, describe(self, step, loss, now))
  elseif step == self.before + 1 or step % self.every == 0 or last then
    local mean = self.loss_sum / self.loss_count
    self.loss_sum, self.loss_count = 0, 0
    self:line(describe(self, step, mean, now))
  end
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
