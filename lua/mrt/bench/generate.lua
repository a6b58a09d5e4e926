--- mrt bench generate -- a token of a 135M model, beside transformers and llama.cpp
---
---     mrt bench generate [--kinds f32,bf16,int8,nf4,q8_0,q4_0,q8_0/int8,...]
---                        [--context N] [--count N] [--rounds N] [--python PROGRAM]
---
--- The model has 30 layers, width 576, 9 heads that share 3 of keys, a hidden width of
--- 1536 and a vocabulary of 49,152 in one table; its weights are random.  It reads a
--- prompt and writes `count` tokens, the likeliest, up to `context` of them.  The table
--- shows processor time on one thread: of a token (the median), of the prompt's tokens,
--- and the bytes that are planned.  q8_0/int8 is q8_0 with activations in int8, which is
--- how llama.cpp multiplies with any weights in few bits.  The other sides are
--- generate.py where PROGRAM (default python3) has transformers, or llama_cpp and gguf:
--- transformers with its cache in f32 and bf16; llama.cpp with weights of the same kind
--- (int8: its q8_0) and a cache in f16.  Each measurement is a process of its own; they
--- run in turn, N rounds, of which the best counts, for a machine that has other things
--- to do.
---
--- SPDX-License-Identifier: MIT

local format = require "mrt.util.format"

local defaults = {
  kinds = "f32,bf16,int8,int8/int8,nf4,nf4/int8,q8_0,q8_0/int8,q4_0,q4_0/int8",
  context = 512, count = 48, rounds = 3, python = "python3" }

-- ---- this side ---------------------------------------------------------------

local function model_of(kind)
  local nn = require "mrt.nn"
  local model = nn.Decoder { vocab = 49152, dim = 576, layers = 30, heads = 9, kv_heads = 3,
    hidden = 1536, context = 2048, tie = true, rope = { base = 100000 } }:eval()
  if kind == "bf16" then return model:to "bf16" end
  if kind == "f32" then return model end
  local weights, activations = kind:match "^([%w_]+)/?(%w*)$"
  return nn.quantize(model, { kind = weights, embeddings = true,
    activations = activations ~= "" and activations or nil })
end

local function median(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

-- One kind in this process; prints one line.
local function measure(kind, o)
  local mrt, ids, times = require "mrt", {}, {}
  for i = 1, o.context - o.count do ids[i] = i * 7919 % 49152 end
  local model = model_of(kind)
  mrt.eval(model:parameters())
  local stream = model:generate { prompt = ids, count = o.count, temperature = 0, eos = false,
    context = o.context }
  local plan = stream:plan()
  local before = os.clock()
  stream()
  local prefill = os.clock() - before
  for i = 1, o.count - 1 do
    before = os.clock()
    stream()
    times[i] = os.clock() - before
  end
  print(("token %.6f prefill %.6f bytes %d"):format(median(times), prefill / #ids, plan.total))
end

-- ---- all sides ---------------------------------------------------------------

local function ask(command)
  local pipe = assert(io.popen(command .. " 2>/dev/null"))
  local text = pipe:read "a"
  pipe:close()
  local token, prefill, bytes = text:match "token ([%d.]+) prefill ([%d.]+) bytes (%d+)"
  return token and { token = tonumber(token), prefill = tonumber(prefill),
    bytes = math.tointeger(bytes) }
end

-- The commands that measure a kind, by side.
local function commands(kind, o)
  local more = ("--context %d --count %d"):format(o.context, o.count)
  local script = package.searchpath("mrt.bench.generate", package.path):gsub("lua$", "py")
  local function python(side)
    return ("'%s' '%s' %s %s %s"):format(o.python, script, side, kind, more)
  end
  return { mrt = ("MRT_THREADS=1 '%s' bench generate --measure %s %s"):format(arg[-1], kind, more),
    transformers = python "transformers", llama = python "llama" }
end

local sides = { "mrt", "transformers", "llama" }

local function best_of(kind, o, absent)
  local best = {}
  for _ = 1, o.rounds do
    for side, command in pairs(commands(kind, o)) do
      local one = not absent[side .. kind] and ask(command)
      if not one then absent[side .. kind] = true end
      local so_far = best[side]
      if one and not so_far then
        best[side] = one
      elseif one then
        so_far.token = math.min(so_far.token, one.token)
        so_far.prefill = math.min(so_far.prefill, one.prefill)
      end
    end
  end
  return best
end

local function report(kind, best)
  local own, cells = best.mrt, {}
  for i, side in ipairs(sides) do
    local x = best[side]
    cells[i] = x and ("%8.2f %8.2f %6s"):format(1e3 * x.token, 1e3 * x.prefill,
      side ~= "mrt" and own and ("%.2fx"):format(own.token / x.token) or "")
      or ("%8s %8s %6s"):format("-", "-", "")
  end
  print(("%-10s%s %12s"):format(kind, table.concat(cells, " "),
    own and format.bytes(own.bytes) or "-"))
end

local function read(args)
  local o = {}
  for name, value in pairs(defaults) do o[name] = value end
  for i = 1, #args, 2 do
    local name, value = args[i]:match "^%-%-(%w+)$", args[i + 1]
    if defaults[name] == nil and name ~= "measure" or not value then
      error("mrt bench generate: no option " .. args[i], 0)
    end
    if math.type(defaults[name]) == "integer" then value = math.tointeger(tonumber(value)) end
    if not value or math.type(value) == "integer" and value < 2 and name ~= "rounds" then
      error(("mrt bench generate: %s cannot be %s"):format(args[i], args[i + 1]), 0)
    end
    o[name] = value
  end
  return o
end

return function(...)
  local o = read { ... }
  if o.measure then return measure(o.measure, o) end
  print(("processor time in ms of a token, of one of the prompt; %d tokens, one thread")
    :format(o.context))
  print(("%-10s%8s %8s %6s %8s %8s %6s %8s %8s %6s %12s"):format("", "mrt", "prompt", "",
    "transf.", "prompt", "ratio", "llama", "prompt", "ratio", "bytes"))
  local absent = {}
  for kind in o.kinds:gmatch "[^,]+" do report(kind, best_of(kind, o, absent)) end
end
