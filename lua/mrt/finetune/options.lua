--- options.lua -- what a fine-tuning run is asked for
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local format = require "mrt.util.format"
local method = require "mrt.finetune.method"
local options = require "mrt.util.options"

local WHO <const> = "finetune"

---@class mrt.finetune.Options
---@field folder? string      a model as nn.load reads it
---@field model? mrt.nn.Decoder  or a model that is there
---@field tokenizer? table    default: the folder's
---@field data string         a file of samples: data.lua
---@field eval? number|string  a share of the samples that is put aside, or a file
---@field out? string         a folder for what comes of it; nil: nothing is written
---@field method? "lora"|"qlora"|"full"  default lora
---@field rank? integer       default 8
---@field alpha? number       default twice the rank
---@field dropout? number     of the adapters' inputs; default 0
---@field layers? string|string[]|fun(name: string, layer: mrt.nn.Module): boolean
---  of the blocks' linear layers, which have adapters: patterns of names; default all
---@field dtype? "f32"|"bf16"  default: bf16 where the model's is narrow
---@field context? integer    positions of a row; default 1024, or the model's if that is less
---@field batch? integer      rows of a step; default 4, or as many as the samples fill
---@field accumulate? integer  micro-batches that they are computed in; default 1
---@field pack? boolean       several samples to a row; default true
---@field steps? integer      or
---@field epochs? number      default 1
---@field lr? number          default 2e-4, full 2e-5
---@field warmup? integer     steps in which the rate rises; default 3 of 100
---@field weight_decay? number  default 0
---@field clip? number        the longest gradient; default 1
---@field state? "f32"|"bf16"|"8bit"  of the optimizer; default f32
---@field memory? integer|string  a bound on the process: "4GiB"
---@field swap? boolean       values may go to a file; default: where nothing else fits
---@field eval_every? integer  steps; also at the end; default a tenth of them
---@field snapshot_every? integer  steps; default a tenth of them
---@field keep? integer       snapshots that are kept; default 2
---@field resume? boolean     go on from the last snapshot
---@field seed? integer       default 1
---@field bad_lines? "stop"|"skip"  at a line that is no sample; default stop
---@field on_step? fun(info: {step: integer, loss: number})
---@field say? fun(text: string)  where lines go; default print
---@field again? string       how a run that was stopped is to go on, for the line that says so

local read = {}

local defaults = { folder = options.of "string", model = options.of "table",
  tokenizer = options.of "table", data = options.want "string", eval = options.none,
  out = options.of "string", method = "lora", rank = options.of("size", 8),
  alpha = options.of "number", dropout = 0.0, layers = options.none,
  dtype = options.of "string", context = options.of "size", batch = options.of("size", 4),
  accumulate = options.of("size", 1), pack = true, steps = options.of "size",
  epochs = options.of "number", lr = options.of "number", warmup = options.of "integer",
  weight_decay = 0, clip = 1, state = "f32", memory = options.none,
  swap = options.of "boolean", eval_every = options.of "size",
  snapshot_every = options.of "size", keep = options.of("size", 2), resume = false,
  seed = options.of("integer", 1), bad_lines = "stop", say = options.of "function",
  on_step = options.of "function",
  again = "the same call with resume = true" }

local words = { method = method.names, dtype = { f32 = true, bf16 = true },
  state = { f32 = true, bf16 = true, ["8bit"] = true }, bad_lines = { stop = true, skip = true } }

local function fail(text, ...) core.fail("value", WHO, text:format(...)) end

local function want_word(o, name)
  if o[name] == nil or words[name][o[name]] then return end
  local list = {}
  for word in pairs(words[name]) do list[#list + 1] = word end
  table.sort(list)
  fail("option '%s': one of %s wanted, got %s", name, table.concat(list, ", "),
    options.show(o[name]))
end

local function want_positive(o, name, least)
  local value = o[name]
  if value == nil or value >= least and value < math.huge then return end
  fail("option '%s': %s wanted, got %s", name, least == 0 and "0 or more" or "a positive number",
    options.show(value))
end

local function want_eval(eval)
  if eval == nil or type(eval) == "string" then return end
  if type(eval) == "number" and eval > 0 and eval < 1 then return end
  fail("option 'eval': a share between 0 and 1, or a file, wanted, got %s", options.show(eval))
end

local function check(o)
  if (o.folder == nil) == (o.model == nil) then fail "a folder or a model wanted, one of them" end
  if o.model and not o.tokenizer then fail "option 'tokenizer': one wanted beside a model" end
  if o.steps and o.epochs then fail "steps or epochs wanted, not both" end
  if o.resume and not o.out then fail "resume = true, but no folder 'out'" end
  for name in pairs(words) do want_word(o, name) end
  for _, name in ipairs { "alpha", "epochs", "lr", "clip" } do want_positive(o, name, 1e-300) end
  want_positive(o, "weight_decay", 0)
  want_eval(o.eval)
  if o.accumulate > o.batch then
    fail("%d micro-batches of a batch of %d", o.accumulate, o.batch)
  end
end

--- Read the options.
---@param given mrt.finetune.Options
---@return mrt.finetune.Options
function read.options(given)
  local o = options.read(WHO, given, defaults)
  o.fewer = given.batch == nil -- rows than `batch` will do
  check(o)
  o.alpha = o.alpha or 2.0 * o.rank
  o.lr = o.lr or o.method == "full" and 2e-5 or 2e-4
  o.say = o.say or print
  if o.memory then
    local bytes, message = format.read_bytes(o.memory)
    if not bytes then fail("option 'memory': %s", message) end
    o.memory = bytes
  end
  return o
end

return read
