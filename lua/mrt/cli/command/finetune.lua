--- finetune.lua -- `mrt finetune FOLDER --data FILE [options]`: train on samples of one's own.
--
-- What mrt.finetune does, with its options as flags.
--
-- SPDX-License-Identifier: MIT

local arguments = require "mrt.cli.arguments"

-- A word as a shell reads it.
local function quoted(word)
  if not word:find "[^%w%-_./=:,+]" and word ~= "" then return word end
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

-- How the same run is gone on with.
local function again(args)
  local words = { "mrt finetune" }
  for i = 1, #args do
    if args[i] ~= "--resume" then words[#words + 1] = quoted(args[i]) end
  end
  words[#words + 1] = "--resume"
  return table.concat(words, " ")
end

local function complain(message)
  io.stderr:write("mrt finetune: ", message, "\n")
  return 1
end

local function options_of(flags, args)
  local o = { pack = not flags.no_pack, again = again(args) }
  for name, value in pairs(flags) do
    if name ~= "no_pack" and name ~= "no_swap" then o[name] = value end
  end
  if flags.no_swap then o.swap = false end
  o.eval = flags.eval and (tonumber(flags.eval) or flags.eval)
  if o.dropout then o.dropout = o.dropout + 0.0 end
  return o
end

local function run(flags, words)
  local ok, done, message = pcall(require "mrt".finetune, options_of(flags, words))
  if not ok then
    if type(done) ~= "table" or done.code == nil then error(done, 0) end
    return complain(done.message)
  elseif not done then
    return complain(message)
  end
  return done.stopped and 130 or nil
end

return arguments.new {
  name = "mrt finetune",
  about = "Train a model that is there on samples of your own.",
  { "FOLDER", "a model: config.json, model.safetensors, tokenizer.json" },
  { "--data FILE", "what it learns", required = true },
  { "--out FOLDER", "where adapters (peft's files) or the model go, log/ and snapshots/",
    required = true },
  { "--memory BYTES", "a bound on the process: 4GiB" },
  { "--method NAME", "adapters, adapters of weights in 4 bits, or all weights (else lora)",
    choices = { "lora", "qlora", "full" } },
  { "--eval SHARE", "of the samples that is put aside (else 0.05), or a file of them" },
  { "--rank N", "of adapters; else 8" },
  { "--alpha X", "of adapters; else twice the rank" },
  { "--dropout X", "of the adapters' inputs; else 0" },
  { "--context N", "positions of a row; else 1024, or the model's" },
  { "--batch N", "rows of a step; else 4" },
  { "--accumulate N", "micro-batches that they are computed in; else 1" },
  { "--steps N", "or epochs" },
  { "--epochs X", "else 1" },
  { "--lr X", "highest rate; else 2e-4, full 2e-5" },
  { "--warmup N", "steps in which it rises; else 3 of 100" },
  { "--weight-decay X", "else 0" },
  { "--clip X", "longest gradient; else 1" },
  { "--eval-every N", "steps; else a tenth of them" },
  { "--snapshot-every N", "steps; else a tenth of them" },
  { "--seed N", "else 1" },
  { "--layers PATTERN...", "which linear layers have adapters, by their names; else all" },
  { "--dtype NAME", "else bf16 where the model's is narrow", choices = { "bf16", "f32" } },
  { "--state NAME", "of the optimizer; else f32", choices = { "f32", "bf16", "8bit" } },
  { "--bad-lines NAME", "at a line that is no sample; else stop", choices = { "stop", "skip" } },
  { "--no-pack", "one sample to a row" },
  { "--no-swap", "nothing goes to a file, even where nothing else fits" },
  { "--resume", "go on from the last snapshot" },
  more = [[
FILE has one JSON object a line: {"text": ...}, {"prompt": ..., "completion": ...} or
{"messages": [{"role": ..., "content": ...}, ...]}; or it is plain text, and ends in .txt.
What is learned is the text, the completion, what the assistant says.]],
  run = run,
}
