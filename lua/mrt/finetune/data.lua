--- data.lua -- files of samples: JSON lines, or plain text
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local format = require "mrt.util.format"
local lines = require "mrt.finetune.lines"
local options = require "mrt.util.options"
local random = require "mrt.data.random"
local samples = require "mrt.finetune.samples"

local data = {}

---@class mrt.finetune.Data
---@field path string
---@field samples mrt.finetune.Sample[]
---@field lines integer
---@field tokens integer    of all samples
---@field learned integer   of these, those that count in the loss
---@field bad {line: integer, reason: string}[]  lines that were left out, the first of them
---@field skipped integer   how many
---@field cut integer       samples that were longer than the context,
---@field pieces integer    what they have become,
---@field lost integer      and tokens that were behind it
---@field empty integer     samples in which there was nothing to learn
local Data = {}
Data.__index = Data

local TOLD <const> = 20 -- lines that are kept with their reasons

local function learned_of(sample)
  local n = samples.count(sample.ids)
  if not sample.learn then return n - 1 end
  local count = 0
  for i = 1, #sample.learn, 2 do
    count = count + sample.learn[i + 1] - math.max(sample.learn[i], 2) + 1
  end
  return count
end

local function counted(self, reader)
  self.tokens, self.learned = 0, 0
  for _, sample in ipairs(self.samples) do
    self.tokens = self.tokens + samples.count(sample.ids)
    self.learned = self.learned + learned_of(sample)
  end
  for _, name in ipairs { "cut", "pieces", "lost", "empty" } do self[name] = reader[name] end
  return setmetatable(self, Data)
end

-- What a line that is no sample leads to: a message that stops, or nothing.
local function note(self, o, number, reason)
  if o.bad_lines == "stop" then return ("%s:%d: %s"):format(self.path, number, reason) end
  self.skipped = self.skipped + 1
  if #self.bad < TOLD then self.bad[#self.bad + 1] = { line = number, reason = reason } end
end

local too_long = ("longer than %s"):format(format.bytes(lines.MOST))

local function read_json(self, file, reader, o)
  for number, text in lines.of(file) do
    self.lines = number
    local problem = text == false and too_long or nil
    if text and text:find "%S" then problem = reader:json(text, self.samples) end
    local stop = problem and note(self, o, number, problem)
    if stop then return stop end
  end
end

local function read_text(self, file, reader)
  local text = file:read "a"
  if text:sub(1, #lines.MARK) == lines.MARK then text = text:sub(#lines.MARK + 1) end
  if text == "" then return self.path .. ": there is nothing in it" end
  self.lines = select(2, text:gsub("\n", "\n"))
  local problem = reader:add("text", { text = text }, self.samples)
  return problem and ("%s: %s"):format(self.path, problem)
end

---@class mrt.finetune.DataOptions
---@field tokenizer table         mrt.text.tokenizer, or anything with `pack`
---@field context integer         positions of a sample at most
---@field bad_lines? "stop"|"skip"  at a line that is no sample; default "stop"

--- Read a file of samples: one JSON object a line, or, where its name ends in .txt, plain
--- text.
---
--- Returns nil: no such file (code "file"); a line that is none, by its number, or no
--- sample at all (code "data").
---
---     local tokenizer = assert(mrt.text.tokenizer "SmolLM2-135M")
---     local samples, message = mrt.finetune.read("data.jsonl", { tokenizer = tokenizer,
---       context = 512 })
---
--- Raises: an option that there is not; a file's faults are a message.
---@param path string
---@param given mrt.finetune.DataOptions
---@return mrt.finetune.Data? data
---@return string? message
---@return string? code
function data.read(path, given)
  local o = options.read("finetune.read", given, { tokenizer = options.want "table",
    context = options.want "size", bad_lines = "stop" })
  if o.bad_lines ~= "stop" and o.bad_lines ~= "skip" then
    core.fail("value", "finetune.read", "option 'bad_lines': stop or skip wanted, got "
      .. options.show(o.bad_lines))
  end
  local file <close>, message = io.open(path, "rb")
  if not file then return nil, message, "file" end
  local _, why, number = file:read(0) -- of a folder
  if number then return nil, path .. ": " .. why, "file" end
  local reader = samples.reader(o.tokenizer, o.context)
  local self = { path = path, samples = {}, lines = 0, bad = {}, skipped = 0 }
  local read = path:find "%.txt$" and read_text or read_json
  local problem = read(self, file, reader, o)
  if problem then return nil, problem, "data" end
  if #self.samples == 0 then
    local first = self.bad[1]
    return nil, ("%s: no sample%s"):format(path, first
      and (", line %d: %s"):format(first.line, first.reason) or ""), "data"
  end
  return counted(self, reader)
end

-- A part of it: its samples alone.
local function part(self, list)
  local out = setmetatable({ path = self.path, samples = list, lines = self.lines, bad = {},
    skipped = 0 }, Data)
  return counted(out, { cut = 0, pieces = 0, lost = 0, empty = 0 })
end

--- Put a share of the samples aside, chosen by the seed.
---
---     local train, test = data:split(0.9, 1)
---
--- Raises: a share outside of 0 to 1.
---@param share number   from 0 to 1
---@param seed integer
---@return mrt.finetune.Data? rest     nil: one of both would be empty
---@return mrt.finetune.Data? aside
function Data:split(share, seed)
  local n = #self.samples
  local count, order = math.floor(n * share + 0.5), random.order(n, seed)
  if count == 0 or count == n then return nil end
  local rest, aside = {}, {}
  for i = 0, n - 1 do
    local list = i < count and aside or rest
    list[#list + 1] = self.samples[order(i) + 1]
  end
  return part(self, rest), part(self, aside)
end

--- What there is, and what was left out and why, in lines.
---@return string
function Data:__tostring()
  local out = { ("%s: %s samples, %s tokens, %s of them learned"):format(self.path,
    format.count(#self.samples), format.count(self.tokens), format.count(self.learned)) }
  if self.cut > 0 then
    out[#out + 1] = ("  %s longer than the context: cut into %s%s"):format(
      format.count(self.cut), format.count(self.pieces),
      self.lost > 0 and (", %s tokens lost"):format(format.count(self.lost)) or "")
  end
  if self.empty > 0 then
    out[#out + 1] = ("  %s left out: nothing to learn within the context"):format(
      format.count(self.empty))
  end
  for _, bad in ipairs(self.bad) do
    out[#out + 1] = ("  line %d left out: %s"):format(bad.line, bad.reason)
  end
  if self.skipped > #self.bad then
    out[#out + 1] = ("  and %s more lines"):format(format.count(self.skipped - #self.bad))
  end
  return table.concat(out, "\n")
end

return data
