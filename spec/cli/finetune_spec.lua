--- finetune_spec.lua -- `mrt finetune` and `mrt merge` as their users meet them
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local files = require "support.files"
local json = require "mrt.util.json"
local program = require "support.program"

local nn = mrt.nn

-- A tokenizer of the bytes below 127, as tokenizer.json has it.
local function tokenizer()
  local vocab = { ["<end>"] = 0 }
  for byte = 33, 126 do vocab[string.char(byte)] = byte end
  vocab["\u{120}"], vocab["\u{10a}"], vocab["\u{10d}"] = 32, 10, 13
  local bytes = { type = "ByteLevel", add_prefix_space = false, use_regex = false }
  return json.encode { version = "1.0", pre_tokenizer = bytes, decoder = bytes,
    added_tokens = { { id = 0, content = "<end>", special = true } },
    model = { type = "BPE", vocab = vocab, merges = setmetatable({}, { __jsontype = "array" }) } }
end

local function saved(changes)
  local o = { vocab = 128, dim = 16, layers = 2, heads = 2, kv_heads = 1, hidden = 32,
    context = 64 }
  for name, value in pairs(changes or {}) do o[name] = value end
  local path = files.folder()
  mrt.seed(5)
  assert(nn.Decoder(o):save(path, { family = o.experts and "mixtral" or "llama" }))
  files.write(path .. "/tokenizer.json", tokenizer())
  files.write(path .. "/tokenizer_config.json", '{"eos_token": "<end>"}')
  return path
end

local good = '{"prompt": "1+1=", "completion": "2"}\n{"text": "some more of it"}\n'

local function finetune(model, text, more)
  local data, out = files.temporary(text), files.name()
  local code, said = program.run(("finetune '%s' --data '%s' --out '%s' --context 32 --steps 2 %s")
    :format(model, data, out, more or ""))
  return code, said, out, data
end

describe("mrt finetune #process", function()
  local model

  setup(function() model = saved() end)

  it("trains on a file of a few lines, whatever their ends, and merges what comes of it",
    function()
      local code, said, out = finetune(model, "\xEF\xBB\xBF" .. good:gsub("\n", "\r\n\r\n"))
      assert.equal(0, code, said)
      assert.matches("2 samples, 22 tokens", said)
      assert.matches("lora rank 8, f32, 1 x 32: a step takes", said)
      assert.matches("adapters are written to", said)
      local into = files.name()
      code, said = program.run(("merge '%s' '%s' --out '%s'"):format(model, out, into))
      assert.equal(0, code, said)
      assert.matches("llama: [%d.]+ KiB in memory", said)
      local merged = assert(nn.load(into))
      local beside = assert(nn.load(model, { adapter = out }))
      local x = mrt.tensor({ { 5, 6, 7 } }, "i32")
      assert.is_true((merged(x) - beside(x)):abs():max():item() < 1e-5)
    end)

  it("stops at a line that is no sample, or leaves it out, as it is asked", function()
    local bad = good .. '{"text": 5}\nnothing\n'
    local code, said, out, data = finetune(model, bad)
    assert.equal(1, code)
    assert.matches("mrt finetune: " .. data .. ":3: 'text' is a number, a string wanted", said,
      1, true)
    assert.is_nil(io.open(out .. "/adapter_config.json"))
    code, said = finetune(model, bad, "--bad-lines skip")
    assert.equal(0, code, said)
    assert.matches("line 3 left out: 'text' is a number", said, 1, true)
    assert.matches("line 4 left out: no JSON", said, 1, true)
  end)

  it("says of what is not there or does not fit why, and leaves nothing", function()
    for more, text in pairs {
      ["--batch 9"] = "2 samples fill 1 rows of 32 positions, a mini-batch has 9",
      ["--eval 0.01"] = "a share of 0.01 leaves none",
      ["--layers attenti0n"] = "that 'layers' chooses",
      ["--memory 1MiB"] = "does not fit 1.00 MiB",
    } do
      local code, said, out = finetune(model, good, more)
      assert.equal(1, code, said)
      assert.matches(text, said, 1, true)
      assert.is_nil(io.open(out .. "/adapter_config.json"))
    end
    local code, said = program.run("finetune '/no/such' --data x --out y")
    assert.equal(1, code)
    assert.matches("mrt finetune: /no/such/config.json: No such file", said, 1, true)
    code, said = program.run(("finetune '%s' --data '%s' --out y"):format(model, model))
    assert.equal(1, code)
    assert.matches(model .. ": Is a directory", said, 1, true)
  end)

  it("trains in one process: ranks are told", function()
    local _, said = program.shell(("RANK=1 WORLD_SIZE=2 '%s' finetune '%s' --data x --out y")
      :format(program.path, model))
    assert.matches("rank 1 of 2: it trains in one process", said, 1, true)
  end)
end)

describe("mrt merge #process", function()
  it("refuses what is no adapter of the model, and writes nothing", function()
    local model, into = saved(), files.name()
    local code, said = program.run(("merge '%s' '%s' --out '%s'"):format(model, model, into))
    assert.equal(1, code)
    assert.matches("mrt merge: " .. model .. "/adapter_config.json: No such file", said, 1, true)
    local _, _, out = finetune(saved { dim = 32 }, good)
    code, said = program.run(("merge '%s' '%s' --out '%s'"):format(model, out, into))
    assert.equal(1, code)
    assert.matches("lora_A.weight is [8,32], [8,16] wanted", said, 1, true)
    assert.is_nil(io.open(into .. "/config.json"))
  end)
end)
