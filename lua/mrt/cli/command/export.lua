--- export.lua -- `mrt export FOLDER --out FILE.gguf [options]`: a model for llama.cpp.
--
-- Tensor by tensor: memory holds the largest of them, as it was and as it becomes.  With an
-- adapter the model is whole in memory, where it is merged.
--
-- SPDX-License-Identifier: MIT

local arguments = require "mrt.cli.arguments"
local format = require "mrt.util.format"

local function say(report, metadata, type_, whole)
  local arch = metadata["general.architecture"]
  print(("%s, %d layers of %d, context %d; tokenizer %s"):format(arch,
    metadata[arch .. ".block_count"], metadata[arch .. ".embedding_length"],
    metadata[arch .. ".context_length"], metadata["tokenizer.ggml.model"]))
  print(("%s: %s in %d tensors; memory: %s%s, the largest of them"):format(type_,
    format.bytes(report.bytes), report.tensors, whole and "the model, and " or "",
    format.bytes(report.held)))
  io.stdout:flush()
end

-- The model of a folder with an adapter, merged.
local function merged(folder, adapter)
  local nn = require "mrt.nn"
  local model, message, code = nn.load(folder, { adapter = adapter })
  if not model then return nil, message, code end
  nn.lora.merge(model)
  return model
end

-- A file that took hours is not lost to a word that was typed twice.
local function is_there(path)
  local file = io.open(path, "r")
  if file then file:close() end
  return file ~= nil
end

local function export(args)
  if not args.force and is_there(args.out) then
    return nil, args.out .. ": there is such a file; --force writes over it"
  end
  local gguf = require "mrt.pretrained.gguf"
  local name = args.name or args.folder:gsub("/+$", ""):match "[^/]+$"
  local o = { type = args.type, name = name, report = function(report, metadata)
    say(report, metadata, args.type, args.adapter)
  end }
  if not args.adapter then return gguf.export(args.folder, args.out, o) end
  local model, message, code = merged(args.folder, args.adapter)
  if not model then return nil, message, code end
  return gguf.export(model, args.out, o)
end

local function complain(message)
  io.stderr:write("mrt export: ", message, "\n")
  return 1
end

local function run(args)
  local begin = os.clock()
  local ok, report, message = pcall(export, args)
  if not ok then
    if type(report) ~= "table" or report.code == nil then error(report, 0) end
    return complain(report.message)
  elseif not report then
    return complain(message)
  end
  print(("%s, in %.1f s of processor time"):format(args.out, os.clock() - begin))
end

return arguments.new {
  name = "mrt export",
  about = "Write a model as GGUF, for llama.cpp and ollama.",
  { "FOLDER", "a model: config.json, model.safetensors, its tokenizer" },
  { "--out FILE", "what is written: FILE.gguf", required = true },
  { "--type NAME", "of the weights", default = "f16", choices = { "f32", "f16", "bf16", "q8_0",
    "q4_0", "q4_1", "q5_0", "q5_1", "q4_k_m", "q4_k_s", "q5_k_m", "q5_k_s", "q6_k" } },
  { "--adapter FOLDER", "an adapter of peft's form, merged first" },
  { "--force", "write over a file that is there" },
  { "--name TEXT", "what the file calls the model; else the folder's name" },
  run = run,
}
