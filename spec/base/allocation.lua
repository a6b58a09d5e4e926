--- allocation.lua -- what spec/base/allocation.c does while allocations fail
---
--- Returns `check`, which raises unless all variables are at one step, and parts
--- that together do a bit of everything.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local nn, optim = mrt.nn, mrt.optim

mrt.seed(2)
local model = nn.Sequential(nn.Embedding(5, 4), nn.Dropout(0.1), nn.GELU(),
  nn.Linear(4, 3))
local opt = optim.adamw(model:parameters(), { lr = 0.01 })
-- Each step adds one to both, before and after the optimizer.
local first, last = mrt.variable(mrt.zeros(2)), mrt.variable(mrt.zeros(3))
local double = mrt.custom {
  forward = function(x) return x:detach() * 2 end,
  backward = function(dy) return dy * 2 end,
}

local trained
local ids, classes = mrt.randint(0, 5, 6), mrt.randint(0, 3, 6)

local function train()
  trained = mrt.compile(function(x, y)
    local loss = nn.cross_entropy(model(x), y)
    first:assign(first + 1)
    opt:step(mrt.grad(loss, model:parameters()), { clip = 1.0 })
    last:assign(last + 1)
    return loss
  end)
  local before = trained(ids, classes)
  local after = trained(ids, classes)
  assert(before:item() > 0 and after:item() > 0) -- both keep their numbers
  assert(not pcall(trained, ids + 5, classes))
end

local function tell()
  trained:profile(ids, classes)
  local plan = trained:plan(ids, classes)
  return plan:text() .. #plan:stage("fuse").nodes .. plan:graph "layout"
end

local function differentiate()
  local x = mrt.tensor { { 1.5, 2 }, { 3, 4 } }
  local y = (double(x) * x):sum()
  local g = mrt.grad(y, x)
  assert(mrt.grad(g:sum(), x):sum():item() == 16)
  return tostring(g)
end

-- What ranks do, on one: called, differentiated, in a plan.
local function meet()
  local comm = mrt.communicator.create():split(0)
  local x = mrt.tensor { 1.5, 2 }
  local y = comm:allreduce(x) * x
  assert(mrt.grad(y:sum(), x):sum():item() == 7)
  local step = mrt.compile(function(a)
    comm:allgather(a)
    return comm:reduce_scatter(a + 1, { op = "mean" })
  end)
  assert(step(x):sum():item() == 5.5)
  comm:barrier()
  comm:close()
  assert(not pcall(step, x))
end

-- The same in a file: a new variable comes, is added to, goes.
local function add_in_file()
  local v = mrt.variable(mrt.ones(30))
  local add = mrt.compile(function() v:assign(v + 1) end,
    { swap = function() return "swap" end })
  add()
  add()
  assert(v:totable()[30] == 3)
end

-- Tensors, a table and a vocabulary go through files: in memory where that can
-- be, for they are brought to the disk thousands of times.
local path = os.tmpname()
os.remove(path)
if os.execute "test -w /dev/shm" then path = "/dev/shm" .. path:match "/[^/]*$" end
local function write(ending, text)
  local file <close> = assert(io.open(path .. ending, "wb"))
  assert(file:write(text))
  return path .. ending
end

-- Every part of a tokenizer that allocates.
local tokenizer <const> = [=[{"normalizer": {"type": "NFC"}, "added_tokens": [{"id": 4,
  "content": "<s>", "special": true, "normalized": false}], "pre_tokenizer": {"type": "Sequence",
  "pretokenizers": [{"type": "Split", "pattern": {"Regex": " ?\\w+"}, "behavior": "Isolated"},
  {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first"}]}, "decoder":
  {"type": "Metaspace", "replacement": "\u2581"}, "post_processor": {"type": "TemplateProcessing",
  "single": [{"Sequence": {"id": "A"}}], "pair": [{"Sequence": {"id": "A"}},
  {"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "B"}}],
  "special_tokens": {"<s>": {"id": "<s>", "ids": [4]}}}, "model": {"type": "Unigram", "unk_id": 0,
  "vocab": [["x", 0], ["\u2581", -2], ["\u2581ab", -1], ["b", -1], ["<s>", 0],
  ["\u00e9", -1]]}}]=]

local function use_files()
  local x = { a = mrt.ones(3, 2), b = mrt.tensor { 1, 2 } }
  for _, ending in ipairs { ".safetensors", ".npz" } do
    assert(mrt.save(path .. ending, x, ending == ".npz" and { compress = true } or { k = "v" }))
    assert(mrt.load(path .. ending).b:bytes() == x.b:bytes())
  end
  local t = assert(mrt.data.csv(write(".csv", 'x,y\n1,"a"\n2,b\n')))
  assert(t:numbers("x"):totable()[2][1] == 2 and t:texts("y")[1] == "a")
  local bpe = assert(mrt.data.bpe(write(".json", '{"a":0,"b":1,"ab":2}'), write(".txt", "a b\n")))
  assert(#bpe:encode "abab" == 2)
  local tok = assert(mrt.text.tokenizer(write(".tok.json", tokenizer)))
  assert(tok:decode(tok:encode "ab e\u{301}xb<s>") == "ab \u{e9}xb<s>")
  assert(#tok:encode("ab", { pair = "b", most = 2 }) == 2)
  tok = assert(mrt.text.tokenizer(write(".tiktoken", "YQ== 0\nYg== 1\nYWI= 2\n"),
    { pattern = "r50k_base" }))
  assert(#tok:encode "ab<|endoftext|>" == 2)
  assert(mrt.save(path .. ".npy", mrt.ones(4, 2)))
  local batches = mrt.data.batches({ assert(mrt.data.npy(path .. ".npy")) }, { batch = 2 })
  for _ = 1, 3 do assert(batches:next():sum():item() == 4) end
  for _, ending in ipairs { ".safetensors", ".npz", ".npy", ".csv", ".json", ".tok.json",
    ".tiktoken", ".txt" } do
    os.remove(path .. ending)
  end
end

local function use_tensors()
  local x = mrt.tensor { 1, 2, 3 }
  x.name = "x"
  assert(#x:bytes() == 24 and #mrt.cat({ x, x }):totable() == 6)
  local ok, problem = pcall(x.matmul, x, mrt.zeros(3, 3))
  assert(not ok)
  return tostring(problem)
end

-- What is small goes without a plan, and with one where memory is out for that.
local function evaluate_few()
  local x = mrt.tensor { { 1.5, 2 }, { 3, 4 } }
  local held = x * 2
  mrt.eval(held + 1)
  assert(held:sum():item() == 21 and (held - x):square():sum():item() == 31.25)
  assert(x:t():matmul(x):totable()[2][2] == 20 and x[2]:totable()[1] == 3)
  local y = mrt.eval((x + x:matmul(x)):softmax(2):detach())
  assert(#y:bytes() == 16 and mrt.eval(y, x) == y)
end

local function check()
  local a, b = first:totable(), last:totable()
  local t = opt.t:item()
  assert(a[1] == a[2] and a[1] == b[1] and b[1] == b[3] and t == a[1],
    "a step was done by half")
  for _, p in ipairs(model:parameters()) do
    assert(p:sum():item() == p:sum():item(), "a parameter is no number")
  end
  collectgarbage()
end

return check, use_tensors, evaluate_few, meet, add_in_file, use_files, train, tell, differentiate
