--- mrt bench rows -- products of few rows: those of one token of a small model
---
---     mrt bench rows [--rows 1,4] [--kinds f32,bf16,...] [--layers N] [--rounds N] [--cpu]
---
--- All products of a Llama of 135 million weights: 30 layers of q and proj [576,576], k
--- and v [192,576], gate and up [1536,576], down [576,1536], and a head [49152,576].
--- For each kind of weight: bits, milliseconds of all products in the fastest of N
--- rounds, GB/s of the weights read, and beside that of a plain sum over as many f32.
--- Weights in few bits are multiplied with f32, or as q4_0/int8 with what that is rounded
--- to in 8 bits; the others with their own dtype.
--- --cpu counts processor time, for one thread on a machine with much else to do.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local nn = mrt.nn

local WIDTH <const>, KEYS <const>, HIDDEN <const>, VOCAB <const> = 576, 192, 1536, 49152

local how = { nf4_double = { kind = "nf4", double = true } }
for _, kind in ipairs { "int8", "q8_0", "nf4", "fp4", "q4_0" } do
  how[kind] = { kind = kind }
  how[kind .. "/int8"] = { kind = kind, activations = "int8" }
end

-- A layer of `outputs` in a kind of weight.
local function linear(kind, inputs, outputs)
  local layer = nn.Linear(inputs, outputs, { bias = false })
  if how[kind] then return nn.QuantizedLinear(layer, how[kind]) end
  layer:to(kind)
  mrt.eval(layer.weight)
  return layer
end

-- The layers that one token meets, in order, and the bytes of their weights.
local function layers(o, kind)
  local blocks, bytes = {}, 0
  local function made(inputs, outputs)
    local layer = linear(kind, inputs, outputs)
    for _, x in ipairs(layer:buffers()) do bytes = bytes + x:nbytes() end
    for _, x in ipairs(layer:parameters()) do bytes = bytes + x:nbytes() end
    return layer
  end
  for i = 1, o.layers do
    blocks[i] = { q = made(WIDTH, WIDTH), k = made(WIDTH, KEYS), v = made(WIDTH, KEYS),
      proj = made(WIDTH, WIDTH), gate = made(WIDTH, HIDDEN), up = made(WIDTH, HIDDEN),
      down = made(HIDDEN, WIDTH) }
    collectgarbage()
  end
  return blocks, made(WIDTH, VOCAB), bytes
end

-- Everything is multiplied and nothing else is done.
local function token(blocks, head)
  return function(x)
    local out = {}
    for _, b in ipairs(blocks) do
      out[#out + 1], out[#out + 2] = b.k(x), b.v(x)
      local y = b.proj(b.q(x))
      out[#out + 1] = b.up(y)
      x = b.down(b.gate(y))
    end
    out[#out + 1] = head(x)
    return table.unpack(out)
  end
end

-- Seconds of all nodes, in the fastest round.
local function fastest(o, step, ...)
  local best = math.huge
  for _ = 1, o.rounds do
    local total = 0
    for _, node in ipairs(step:measure({ rounds = 3, cpu = o.cpu }, ...).steps) do
      total = total + node.measured
    end
    best = math.min(best, total)
  end
  return best
end

local function read(args)
  local o = { rows = "1,4", layers = 30, rounds = 5,
    kinds = "f32,bf16,f16,int8,q8_0,nf4,nf4_double,q4_0,int8/int8,nf4/int8,q4_0/int8" }
  local i = 1
  while i <= #args do
    local name, value = args[i]:match "^%-%-(%w+)$", args[i + 1]
    if name == "cpu" then
      o.cpu, i = true, i + 1
    elseif name and o[name] and value then
      o[name], i = value, i + 2
    else
      error("mrt bench rows: no option " .. args[i] .. ", or no value", 0)
    end
  end
  for _, name in ipairs { "layers", "rounds" } do
    o[name] = math.tointeger(o[name])
      or error(("mrt bench rows: --%s, an integer wanted"):format(name), 0)
  end
  return o
end

return function(...)
  local o, info = read { ... }, core.info()
  local plain = mrt.eval(mrt.ones(64 << 20))
  local sum = fastest(o, mrt.compile(function(x) return x:sum() end), plain)
  local rate = plain:nbytes() / sum / 1e9
  plain:free()
  print(("%s, %d threads; a sum reads %.1f GB/s"):format(info.isa, info.threads, rate))
  print(("%-10s %6s %5s %9s %8s"):format("w", "bits", "rows", "ms", "GB/s"))
  for kind in o.kinds:gmatch "[%w_/]+" do
    local blocks, head, bytes = layers(o, kind)
    local count = o.layers * (2 * WIDTH * WIDTH + 2 * KEYS * WIDTH + 3 * HIDDEN * WIDTH)
      + VOCAB * WIDTH
    local step = mrt.compile(token(blocks, head))
    for rows in o.rows:gmatch "%d+" do
      local dtype = how[kind] and "f32" or kind
      local x = mrt.eval(mrt.randn(math.tointeger(rows), WIDTH):to(dtype))
      local time = fastest(o, step, x)
      print(("%-10s %6.3f %5s %9.2f %8.1f"):format(kind, 8 * bytes / count, rows, time * 1e3,
        bytes / time / 1e9))
    end
  end
end
