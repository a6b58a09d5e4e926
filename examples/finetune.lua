--- finetune.lua -- adapters learn to answer, in a loop of one's own
---
---     mrt examples/finetune.lua                              a small model of bytes
---     mrt examples/finetune.lua --folder SmolLM-135M --data train.jsonl --out tuned
---
--- `mrt finetune` does the same in one line, with snapshots, evaluation and a bound on the
--- process; here are the parts that it is made of: samples, packed mini-batches, adapters,
--- a compiled step within a budget, and adapters written as peft has them.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local arguments = require "mrt.cli.arguments"
local format = require "mrt.util.format"
local finetune, nn, optim = mrt.finetune, mrt.nn, mrt.optim

local flags = arguments.script {
  about = "Adapters learn to answer.",
  { "--folder FOLDER", "a model as nn.load reads it" },
  { "--data FILE", "JSON lines" },
  { "--out FOLDER", "where the adapters go" },
  { "--memory BYTES", "a budget for the step", default = "256MiB" },
  { "--context N", "positions of a row", default = 64, least = 1 },
  { "--batch N", "rows of a step", default = 4, least = 1 },
  { "--rank N", "of adapters", default = 8, least = 1 },
  { "--steps N", "of training", default = 60, least = 1 },
}

-- ---- a model and its tokenizer -------------------------------------------------

local bytes = { eos = 0 } -- a token is a byte

function bytes.pack(_, text)
  return (text:gsub(".", function(c) return string.pack("<i4", c:byte()) end))
end

local function small_model()
  mrt.seed(1)
  return nn.Decoder { vocab = 256, dim = 64, layers = 2, heads = 4, hidden = 128,
    context = flags.context }
end

local model, tokenizer = flags.folder and assert(nn.load(flags.folder)) or small_model(), bytes
if flags.folder then tokenizer = assert(mrt.text.tokenizer(flags.folder)) end

-- ---- samples -------------------------------------------------------------------

local function sums(path)
  local file <close> = assert(io.open(path, "w"))
  for i = 1, 200 do
    file:write(('{"prompt": "%d and %d make ", "completion": "%d."}\n'):format(i, i, 2 * i))
  end
  return path
end

local path = flags.data or sums(os.tmpname())
local data = assert(finetune.read(path, { tokenizer = tokenizer, context = flags.context }))
if not flags.data then os.remove(path) end
print(data)
local loader = finetune.loader(data.samples, { batch = flags.batch, context = flags.context })
print(("%d rows of %d positions"):format(loader.count, flags.context))

-- ---- a step --------------------------------------------------------------------

nn.lora(model, { rank = flags.rank, alpha = 2 * flags.rank, layers = "^blocks" })
local opt = optim.adamw(model:parameters(),
  { lr = optim.cosine { lr = 5e-3, warmup = 5, steps = flags.steps } })
local step = mrt.compile(function(tokens, targets, segments, positions)
  local loss = model:loss(tokens, targets, { at = { segments = segments, positions = positions } })
  opt:step(mrt.grad(loss, model:parameters()), { clip = 1.0 })
  return loss
end, { memory = flags.memory })

local function train()
  for i = 1, flags.steps do
    local batch = { loader:next() }
    if i == 1 then
      print(("a step takes %s"):format(format.bytes(step:plan(table.unpack(batch)).peak)))
    end
    local loss = step(table.unpack(batch)):item()
    if i == 1 or i % 20 == 0 then print(("step %d  loss %.4f"):format(i, loss)) end
  end
end

train()
if flags.out then print("written: " .. assert(model:save_adapter(flags.out))) end
