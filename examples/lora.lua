--- lora.lua -- teach a small GPT, kept in 4 bits, another language by adapters
---
---     mrt examples/lora.lua
---
--- A GPT learns this project's C sources.  Then copies of it learn the Lua ones:
--- all weights in f32; adapters beside frozen f32 weights (LoRA, arXiv:2106.09685);
--- adapters beside weights of 4.127 bits (QLoRA, arXiv:2305.14314).  What each
--- takes in bytes and reaches is printed side by side.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local arguments = require "mrt.cli.arguments"
local format = require "mrt.util.format"
local nn, optim, data, train = mrt.nn, mrt.optim, mrt.data, mrt.train

local flags = arguments.script {
  about = "Teach a small GPT, kept in 4 bits, another language by adapters.",
  { "--layers N", "transformer blocks", default = 4, least = 1 },
  { "--heads N", "attention heads", default = 4, least = 1 },
  { "--dim N", "width", default = 128, least = 1 },
  { "--context N", "bytes a prediction can look back on", default = 64, least = 1 },
  { "--batch N", "sequences in a mini-batch", default = 12, least = 1 },
  { "--rank N", "of adapters", default = 8, least = 1 },
  { "--steps N", "of training at first", default = 500, least = 1 },
  { "--tune N", "steps of the adapters", default = 200, least = 1 },
}

-- ---- texts -----------------------------------------------------------------

local root = arg[0]:match "^(.*)/[^/]*$" or "."

local function read(folders, pattern)
  local find <close> = io.popen(("cd '%s/..' && find %s -name '%s' | LC_ALL=C sort")
    :format(root:gsub("'", "'\\''"), folders, pattern))
  local parts = {}
  for path in find:lines() do
    local file <close> = assert(io.open(root .. "/../" .. path))
    parts[#parts + 1] = file:read "a"
  end
  return table.concat(parts)
end

local c, lua = read("core kernels", "*.c"), read("lua", "*.lua")
if #c == 0 then -- installed: pages instead, and examples
  c, lua = read("core kernels lua", "*.md"), read("examples", "*.lua")
end
if #c == 0 or #lua == 0 then error("no sources beside " .. arg[0], 0) end
local text = assert(data.text { text = c .. lua })
local first, second = text:split(#c / (#c + #lua))
local tune, held = second:split(0.9)

local function loader_of(part, shuffle)
  return part:loader { batch = flags.batch, context = flags.context, seed = 1,
    shuffle = shuffle }
end

-- ---- models ----------------------------------------------------------------

local function new_model()
  mrt.seed(1)
  return nn.GPT { vocab = text.vocab, dim = flags.dim, layers = flags.layers,
    heads = flags.heads, context = flags.context, bias = false }
end

local function loss(m, tokens, targets) return nn.cross_entropy(m(tokens), targets) end

local function bytes_of(state)
  local n = 0
  for _, t in pairs(state) do n = n + t:nbytes() end
  return n
end

-- Train on a part; returns the optimizer.
local function fit(model, part, steps, lr)
  local opt = optim.adamw(model:parameters(), { lr = lr })
  local step = train.step { model = model, optimizer = opt, loss = loss, clip = 1.0 }
  local loader = loader_of(part, true)
  for _ = 1, steps do step(loader:next()) end
  return opt
end

local function held_out(model)
  return train.evaluator { model = model, loss = loss, loader = loader_of(held, false),
    batches = 20 }()
end

local base = new_model()
fit(base, first, flags.steps, 2e-3)
print(("after %d steps on C, loss on Lua %.3f"):format(flags.steps, held_out(base)))

-- ---- three ways ------------------------------------------------------------

local function adapters(model) return nn.lora(model, { rank = flags.rank, alpha = 16 }) end

local ways = {
  { "all weights, f32", function(m) return m end, 1e-3 },
  { "adapters, f32", adapters, 3e-3 },
  { "adapters, nf4", function(m)
    return adapters(nn.quantize(m, { kind = "nf4", double = true }))
  end, 3e-3 },
}

print(("%-18s %10s %10s %10s %8s %8s %8s"):format("", "model", "trained", "optimizer", "before",
  "after", "seconds"))
for _, way in ipairs(ways) do
  local model = new_model():load_state(base:state())
  model = way[2](model)
  local before, began = held_out(model), os.time()
  local opt = fit(model, tune, flags.tune, way[3])
  print(("%-18s %10s %10d %10s %8.3f %8.3f %8d"):format(way[1],
    format.bytes(bytes_of(model:state())), bytes_of(model:parameters()) // 4,
    format.bytes(bytes_of(opt:state())), before, held_out(model), os.time() - began))
end
