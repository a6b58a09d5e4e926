--- merge.lua -- `mrt merge FOLDER ADAPTER --out FOLDER`: a model with its adapter in its weights.
--
-- SPDX-License-Identifier: MIT

local arguments = require "mrt.cli.arguments"
local format = require "mrt.util.format"

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

local function run(args)
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

return arguments.new {
  name = "mrt merge",
  about = "Put an adapter's changes into a model's weights.",
  { "FOLDER", "a model: config.json, model.safetensors, its tokenizer" },
  { "ADAPTER", "a folder as peft writes it, or mrt finetune" },
  { "--out PATH", "where the merged model goes: a folder, or FILE.gguf", required = true },
  { "--dtype NAME", "of the weights; else as they are stored", choices = { "f32", "bf16", "f16" } },
  more = "A FILE.gguf is written as mrt export does, by default in the model's own type.",
  run = run,
}
