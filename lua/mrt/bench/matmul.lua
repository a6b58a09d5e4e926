--- mrt bench matmul -- matrix products in f32, bf16, f16
--
--     mrt bench matmul [--only TEXT] [--dtypes bf16,f16] [--shapes MxKxN,...]
--                      [--rounds N] [--cpu]
--
-- Cubes and products of a GPT of width 384 at 3072 tokens: [m,k] @ [k,n], nn as
-- they are, nt and tn with the second or the first transposed.  Gflop/s of the
-- fastest run, and the ratio to f32; dtypes take turns, N rounds of them.  --cpu
-- counts processor time, for one thread on a machine with much else to do.
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local arguments = require "mrt.cli.arguments"
local core = require "mrt.core"

local usual = { { 512, 512, 512 }, { 1024, 1024, 1024 }, { 2048, 2048, 2048 },
  { 4096, 4096, 4096 }, { 3072, 384, 1536 }, { 3072, 1536, 384 }, { 384, 3072, 1536 } }

-- A step that multiplies, and its inputs.
local function product(s, way, dtype)
  local m, k, n = table.unpack(s)
  local a = (way == "tn" and mrt.randn(k, m) or mrt.randn(m, k)):to(dtype)
  local b = (way == "nt" and mrt.randn(n, k) or mrt.randn(k, n)):to(dtype)
  mrt.eval(a, b)
  return mrt.compile(function(x, y)
    return (way == "tn" and x:t() or x):matmul(way == "nt" and y:t() or y)
  end), a, b
end

-- Seconds of the one node that multiplies.
local function seconds(o, step, a, b)
  for _, node in ipairs(step:measure({ rounds = 3, cpu = o.cpu }, a, b).steps) do
    if node.class == "matmul" then return node.measured end
  end
end

local function row(s, way, o)
  local best, text = {}, ("%5d %5d %5d %s"):format(s[1], s[2], s[3], way)
  if not text:find(o.only, 1, true) then return end
  for _ = 1, o.rounds do
    for _, dtype in ipairs(o.dtypes) do
      best[dtype] = math.min(best[dtype] or math.huge, seconds(o, product(s, way, dtype)))
    end
  end
  for _, dtype in ipairs(o.dtypes) do
    text = text .. ("  %8.1f %5.2f"):format(2 * s[1] * s[2] * s[3] / best[dtype] / 1e9,
      best.f32 / best[dtype])
  end
  print(text)
end

local function shapes_of(text)
  local list = {}
  for one in text:gmatch "[^,]+" do
    local m, k, n = one:match "^(%d+)x(%d+)x(%d+)$"
    if not m then error("mrt bench matmul: --shapes " .. one .. ", MxKxN wanted", 0) end
    list[#list + 1] = { math.tointeger(m), math.tointeger(k), math.tointeger(n) }
  end
  return list
end

local function compare(o)
  local info = core.info()
  print(("%s, %d threads; Gflop/s, and ratio to f32"):format(info.isa, info.threads))
  local dtypes = { "f32" }
  for d in o.dtypes:gmatch "[^,]+" do
    if d ~= "f32" then dtypes[#dtypes + 1] = d end
  end
  o.dtypes = dtypes
  local head = ("%5s %5s %5s   "):format("m", "k", "n")
  for _, d in ipairs(dtypes) do head = head .. ("  %8s      "):format(d) end
  print(head)
  for _, s in ipairs(o.shapes and shapes_of(o.shapes) or usual) do
    for _, way in ipairs { "nn", "nt", "tn" } do row(s, way, o) end
  end
end

return arguments.new {
  name = "mrt bench matmul",
  about = "Matrix products in f32 and narrow dtypes.",
  { "--only TEXT", "rows whose sizes and way have it", default = "" },
  { "--dtypes LIST", "beside f32", default = "bf16,f16" },
  { "--shapes LIST", "MxKxN,... in place of the usual ones" },
  { "--rounds N", "in turn", default = 3, least = 1 },
  { "--cpu", "processor time" },
  run = compare,
}
