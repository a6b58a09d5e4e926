--- mrt.finetune -- train a model that is there on samples of one's own
---
---     assert(mrt.finetune { folder = "SmolLM-135M", data = "train.jsonl", memory = "1GiB",
---       out = "tuned" })
---     local model = assert(nn.load("SmolLM-135M", { adapter = "tuned" }))
---
---   lines.lua, samples.lua, data.lua   what is learned
---   pack.lua                           as mini-batches
---   method.lua, step.lua               of what model, how
---   choices.lua                        what it takes
---   run.lua                            the run: snapshots, evaluation, its end
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local choices = require "mrt.finetune.choices"
local data = require "mrt.finetune.data"
local environment = require "mrt.communicator.env"
local format = require "mrt.util.format"
local pack = require "mrt.finetune.pack"
local pretrained = require "mrt.pretrained"
local process = require "mrt.compile.process"
local read = require "mrt.finetune.options"
local run = require "mrt.finetune.run"

local finetune = { read = data.read, loader = pack.loader }

local CONTEXT <const> = 1024 -- positions, unless the option says otherwise
local SHARE <const> = 0.9    -- of the bound, from which on other ways are shown too

-- ---- the model and the data --------------------------------------------------

local narrow = { bfloat16 = true, float16 = true }

-- What a folder says of itself: a model without weights; the tokenizer and dtype, unless
-- they are given.
local function open_folder(o)
  local model, message, code = pretrained.load(o.folder, { weights = false })
  if not model then return nil, message, code end
  local config = model.config
  o.dtype = o.dtype or narrow[config.dtype or config.torch_dtype] and "bf16" or nil
  if not o.tokenizer then
    o.tokenizer, message, code = require "mrt.text".tokenizer(o.folder)
    if not o.tokenizer then return nil, message, code end
  end
  return model
end

-- The model's options, and what follows of them.
local function look(o)
  local model, message, code
  if o.model then model = o.model else model, message, code = open_folder(o) end
  if not model then return nil, message, code end
  if o.context and o.context > model.context then
    core.fail("value", "finetune", ("context %d, at most the model's %d wanted"):format(o.context,
      model.context))
  end
  o.dtype = o.dtype or "f32"
  o.context = o.context or math.min(CONTEXT, model.context)
  return model.options
end

-- Samples to learn and, maybe, those that the loss is watched on.
local function samples_of(o)
  local how = { tokenizer = o.tokenizer, context = o.context, bad_lines = o.bad_lines }
  local found, message, code = data.read(o.data, how)
  if not found then return nil, message, code end
  o.say(tostring(found))
  if type(o.eval) == "string" then
    local held, why, kind = data.read(o.eval, how)
    if not held then return nil, why, kind end
    o.say(tostring(held))
    return found, held
  elseif o.eval then
    local rest, held = found:split(o.eval, o.seed)
    if not rest then
      return nil, ("%s: %d samples, of which a share of %g leaves none for one of both"):format(
        o.data, #found.samples, o.eval), "data"
    end
    return rest, held
  end
  return found
end

-- ---- what it takes -----------------------------------------------------------

local function again_with_swap(settings, o, asked)
  if asked.within or not o.memory or o.swap ~= nil then return asked end
  o.swap = true
  local other = choices.plan(settings, o)
  o.swap = other.within ~= nil
  return other.within and other or asked
end

-- Say what the run takes and, where that is above the bound or close, what else would
-- do; nil: it does not fit.
local function weigh(settings, o)
  local asked = choices.plan(settings, o)
  asked.asked = true
  if o.memory and asked.peak > SHARE * asked.budget then
    o.say(choices.table(choices.all(settings, o, asked), o.memory))
  end
  asked = again_with_swap(settings, o, asked)
  if not o.memory or asked.within then return true end
  return nil, ("%s does not fit %s, which leaves %s to the step%s"):format(choices.name(o),
    format.bytes(o.memory), format.bytes(asked.budget),
    asked.least and ("; %s is the least found"):format(format.bytes(asked.least)) or ""), "budget"
end

--- What a run would take, running nothing: the choice that is asked for first, then
--- others.
---
---     local choices = mrt.finetune.choices { folder = "SmolLM-135M", data = "train.jsonl",
---       memory = "1GiB" }
---     for _, choice in ipairs(choices) do print(choice) end
---
--- Raises: an option that there is not.
---@param given mrt.finetune.Options  of these, the data is not read
---@return mrt.finetune.Choice[]? list
---@return string? message
---@return string? code
function finetune.choices(given)
  local o = read.options(given)
  o.steps = o.steps or 1000
  local settings, message, code = look(o)
  if not settings then return nil, message, code end
  local asked = choices.plan(settings, o)
  asked.asked = true
  return choices.all(settings, o, asked)
end

-- ---- the whole ---------------------------------------------------------------

local function steps_of(o, loader)
  if o.steps then return o.steps end
  return math.max(1, math.floor((o.epochs or 1) * loader.batches + 0.5))
end

local function loader_of(o, samples, changes)
  local how = { batch = o.batch, context = o.context, seed = o.seed, pack = o.pack }
  for name, value in pairs(changes or {}) do how[name] = value end
  return pack.loader(samples, how)
end

-- Where nobody has said how many rows a step has, no more than the samples fill.
local function fit_batch(o, samples)
  local rows = o.pack and #pack.rows(samples, o.context, o.seed) or #samples
  if not o.fewer or rows >= o.batch then return end
  o.batch, o.accumulate = rows, math.min(o.accumulate, rows)
end

-- Everything but the model: loaders, steps.
local function prepare(o)
  local settings, message, code = look(o)
  if not settings then return nil, message, code end
  local learn, held, kind = samples_of(o)
  if not learn then return nil, held, kind end
  fit_batch(o, learn.samples)
  local ok, loader = pcall(loader_of, o, learn.samples)
  if not ok then
    if type(loader) == "table" and loader.code == "data" then return nil, loader.message, "data" end
    error(loader, 0)
  end
  o.steps = steps_of(o, loader)
  o.warmup = o.warmup or math.min(o.steps // 2, -(-o.steps * 3 // 100))
  o.say(("%s rows of %d positions, %d steps of %d rows"):format(format.count(loader.rows),
    o.context, o.steps, o.batch))
  local watch = held and loader_of(o, held.samples, { shuffle = false, fill = true })
  return { settings = settings, loader = loader, watch = watch }
end

--- Fine-tune a model and write what comes of it to the folder `out`: adapters as peft
--- has them, or the whole model, and beside them `log/` and `snapshots/`.
---
--- It says what it reads and what it takes, keeps the process within `memory`, and goes on
--- from its last snapshot with `resume`, bit for bit.  Ctrl-C ends it between two steps
--- and saves.
---
--- Returns nil: files that cannot be read or written (code "file"); data that is none, by
--- its line (code "data"); what does not fit the memory (code "budget").
---@param given mrt.finetune.Options
---@return mrt.finetune.Summary? summary
---@return string? message
---@return string? code
local function start(given)
  local o = read.options(given)
  local ranks = environment.find()
  if ranks and ranks.size > 1 and ranks.source ~= "Slurm" then -- whose batch jobs look so too
    core.fail("state", "finetune", ("rank %d of %d: it trains in one process; ranks share a loop "
      .. "of one's own (examples/finetune.lua)"):format(ranks.rank, ranks.size))
  end
  if o.memory then process.read({ process = o.memory }, "finetune") end
  local made, message, code = prepare(o)
  if not made then return nil, message, code end
  local fits, why, kind = weigh(made.settings, o)
  if not fits then return nil, why, kind end
  return run(o, made)
end

return setmetatable(finetune, { __call = core.front(function(_, given) return start(given) end,
  nil, true) })
