--- merge.lua -- `mrt merge FOLDER ADAPTER --out FOLDER`: a model with its adapter in its weights.
--
-- SPDX-License-Identifier: MIT

local argparse = require "argparse"
local format = require "mrt.util.format"

local parser = argparse("mrt merge", "Put an adapter's changes into a model's weights.")
  :usage_margin(2):help_max_width(96)
  :epilog "A FILE.gguf is written as mrt export does, by default in the model's own type."
parser:argument("folder", "a model: config.json, model.safetensors, its tokenizer")
parser:argument("adapter", "a folder as peft writes it, or mrt finetune")
parser:option("--out", "where the merged model goes"):argname "FOLDER|FILE.gguf":count(1)
parser:option("--dtype", "of the weights: f32, bf16 or f16; default as they are stored")

local function merge(args)
  local nn = require "mrt.nn"
  local model, message, code = nn.load(args.folder, { adapter = args.adapter,
    dtype = args.dtype })
  if not model then return nil, message, code end
  nn.lora.merge(model)
  local bytes, largest = 0, 0
  for _, variable in model:named_parameters() do
    bytes, largest = bytes + variable:nbytes(), math.max(largest, variable:nbytes())
  end
  print(("%s: %s in memory, and at most %s beside it"):format(model.family,
    format.bytes(bytes), format.bytes(2 * largest)))
  io.stdout:flush()
  return model:save(args.out)
end

local function complain(message)
  io.stderr:write("mrt merge: ", message, "\n")
  return 1
end

return function(...)
  local args = parser:parse { ... }
  local begin = os.clock()
  local ok, done, message = pcall(merge, args)
  if not ok then
    if type(done) ~= "table" or done.code == nil then error(done, 0) end
    return complain(done.message)
  elseif not done then
    return complain(message)
  end
  print(("%s, in %.1f s of processor time"):format(args.out, os.clock() - begin))
end
