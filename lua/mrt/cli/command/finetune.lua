--- finetune.lua -- `mrt finetune FOLDER --data FILE [options]`: train on samples of one's own.
--
-- What mrt.finetune does, with its options as flags.
--
-- SPDX-License-Identifier: MIT

local argparse = require "argparse"

local parser = argparse("mrt finetune", "Train a model that is there on samples of your own.")
  :epilog [[
FILE has one JSON object a line: {"text": ...}, {"prompt": ..., "completion": ...} or
{"messages": [{"role": ..., "content": ...}, ...]}; or it is plain text, and ends in .txt.
What is learned is the text, the completion, what the assistant says.]]
parser:argument("folder", "a model: config.json, model.safetensors, tokenizer.json")
parser:option("--data", "what it learns"):argname "FILE":count(1)
parser:option("--out", "where adapters (peft's files) or the model go, log/ and snapshots/")
  :argname "FOLDER":count(1)
parser:option("--memory", "a bound on the process: 4GiB"):argname "BYTES"
parser:option("--method", "lora (default), qlora: weights in 4 bits, or full")
parser:option("--eval", "a share of the samples that is put aside (0.05), or a file")
  :argname "SHARE|FILE"

local numbers = {
  { "rank", "of adapters; default 8", true }, { "alpha", "of adapters; default twice the rank" },
  { "dropout", "of the adapters' inputs; default 0" },
  { "context", "positions of a row; default 1024, or the model's", true },
  { "batch", "rows of a step; default 4", true },
  { "accumulate", "micro-batches that they are computed in; default 1", true },
  { "steps", "or epochs", true }, { "epochs", "default 1" },
  { "lr", "highest rate; default 2e-4, full 2e-5" },
  { "warmup", "steps in which it rises; default 3 of 100", true },
  { "weight-decay", "default 0" }, { "clip", "longest gradient; default 1" },
  { "eval-every", "steps; default a tenth of them", true },
  { "snapshot-every", "steps; default a tenth of them", true },
  { "seed", "default 1", true },
}
for _, one in ipairs(numbers) do
  local name, what, whole = table.unpack(one)
  parser:option("--" .. name, what):argname "N":convert(function(word)
    local n = tonumber(word)
    n = n and whole and math.tointeger(n) or not whole and n
    return n or nil, ("--%s: '%s' is no %s"):format(name, word, whole and "integer" or "number")
  end)
end
parser:option("--layers", "which linear layers have adapters: patterns of names; default all")
  :argname "PATTERN":args "+"
parser:option("--dtype", "bf16 or f32; default: bf16 where the model's is narrow")
parser:option("--state", "of the optimizer: f32 (default), bf16 or 8bit")
parser:option("--bad-lines", "stop (default) or skip, at a line that is no sample")
parser:flag("--no-pack", "one sample to a row")
parser:flag("--no-swap", "nothing goes to a file, even where nothing else fits")
parser:flag("--resume", "go on from the last snapshot")

-- A word as a shell reads it.
local function quoted(word)
  if not word:find "[^%w%-_./=:,+]" and word ~= "" then return word end
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

-- How the same run is gone on with.
local function again(args)
  local words = { "mrt finetune" }
  for i = 1, args.n do
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

return function(...)
  local args = table.pack(...)
  local o = options_of(parser:parse { ... }, args)
  local ok, done, message = pcall(require "mrt".finetune, o)
  if not ok then
    if type(done) ~= "table" or done.code == nil then error(done, 0) end
    return complain(done.message)
  elseif not done then
    return complain(message)
  end
  return done.stopped and 130 or nil
end
