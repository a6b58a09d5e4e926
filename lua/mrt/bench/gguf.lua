--- mrt bench gguf -- models exported to GGUF: what llama.cpp makes of them, beside mrt
--
--     mrt bench gguf FOLDER ... [--types f32,f16,q8_0,q4_0,q4_k_m] [--tokens N]
--                    [--text FILE] [--python PROGRAM]
--
-- Each model is exported, with its tokenizer, and read back by mrt and by llama-cpp-python: the
-- largest difference of logits over N ids, beside the largest logit; whether N greedy ids agree;
-- how many of the text's lines have the same tokens.  llama.cpp computes in f32 here where it
-- can (keys and values too), but rounds what meets packed weights to 8 bits, and takes its
-- GELU from a table of f16.
--
-- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local gguf = require "mrt.pretrained.gguf"

local function read_args(args)
  local o = { folders = {}, types = "f32,f16,q8_0,q4_0,q4_k_m", tokens = 32,
    python = "python3" }
  local i = 1
  while i <= #args do
    local name = args[i]:match "^%-%-(%a+)$"
    if name then
      o[name], i = args[i + 1], i + 2
    else
      o.folders[#o.folders + 1], i = args[i], i + 1
    end
  end
  o.tokens = math.tointeger(tonumber(o.tokens))
  return o
end

-- Ids that are no special ones, mostly.
local function some_ids(vocab, n)
  local list = {}
  for i = 1, n do list[i] = (i * 37 + 11) % (vocab - 8) + 4 end
  return list
end

local function lines_of(path)
  local text = assert(core.read_file(path))
  local list = {}
  for line in text:gmatch "[^\n]+" do list[#list + 1] = line end
  return list
end

-- What mrt has of a file, as the other side reads it.
local function write_ours(path, folder, o)
  local model = assert(mrt.nn.load(path, { dtype = "f32" }))
  local ids = some_ids(model.vocab, o.tokens)
  local logits = model(mrt.tensor({ ids }, "i32"))
  assert(mrt.save(folder .. "/logits.npy", logits:squeeze(1)))
  local greedy = model:generate { prompt = ids, count = o.tokens, temperature = 0, eos = false }
  local tok = mrt.text.tokenizer(path)
  local out = { table.concat(ids, " "), table.concat(greedy:ids(), " ") }
  for i, line in ipairs(tok and lines_of(o.text) or {}) do
    out[#out + 1] = table.concat(tok:encode(line), " ")
    if i == 200 then break end
  end
  assert(core.write_file(folder .. "/ours.txt", table.concat(out, "\n") .. "\n"))
end

return function(...)
  local o = read_args { ... }
  local here = package.searchpath("mrt.bench.gguf", package.path)
  o.text = o.text or here
  local pipe <close> = assert(io.popen 'mktemp -d "${TMPDIR:-/tmp}/mrt_gguf.XXXXXX"')
  local folder = pipe:read "l"
  print(("%-16s %-7s %10s  %-21s %-9s %s"):format("model", "type", "bytes",
    "logits differ by, of", "greedy", "texts with the same tokens"))
  for _, from in ipairs(o.folders) do
    for type_ in o.types:gmatch "[^,]+" do
      local path = folder .. "/model.gguf"
      local report = assert(gguf.export(from, path, { type = type_ }))
      write_ours(path, folder, o)
      io.write(("%-16s %-7s %10d  "):format(from:match "[^/]+$", type_, report.bytes))
      io.stdout:flush()
      os.execute(("'%s' '%s' '%s' '%s' 2>/dev/null || echo 'llama.cpp refuses it'"):format(o.python,
        here:gsub("gguf%.lua$", "llama_gguf.py"), folder, o.text))
    end
  end
  os.execute(("rm -r '%s'"):format(folder))
end
