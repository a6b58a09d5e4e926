--- peft_spec.lua -- adapters against what peft computes, read, written and merged
---
--- golden_peft.lua was made by golden_peft.py, with numbers by the same formula.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local json = require "mrt.util.json"
local families = require "mrt.pretrained.families"
local files = require "support.files"
local golden = dofile "spec/pretrained/golden_peft.lua"
local weights = require "mrt.pretrained.weights"

local nn = mrt.nn
local TIME <const>, VOCAB <const> = 9, 24

local function numbers(name, shape)
  local seed, n = 0, 1
  for i = 1, #name do seed = seed + name:byte(i) end
  for _, d in ipairs(shape) do n = n * d end
  local i = mrt.arange(0, n, { dtype = "i64" })
  local x = ((i * i * 3 + i * 37 + seed * 11) % 101 - 50):to "f32" / 256
  if #shape == 1 and name:find "weight$" then x = x * 0.5 + 1 end
  return x:reshape(shape)
end

local function tokens()
  local rows = { {}, {} }
  for i = 0, 2 * TIME - 1 do rows[i // TIME + 1][i % TIME + 1] = (i * 7 + 3) % VOCAB end
  return mrt.tensor(rows, "i32")
end

-- The numbers of a base model, put into the places of its family.
local function fill(model)
  for _, place in ipairs(weights.places(model, families.find(model.family))) do
    local x = numbers(place.theirs, weights.shape(place))
    for i, part in ipairs(weights.take(place, x, model)) do
      place.parts[i].variable:assign(part)
    end
  end
  return model
end

-- A folder with config.json and weights, and one with an adapter.
local function folders_of(name, changes, lacking)
  local case, folder, adapter = golden[name], files.folder(), files.folder()
  files.write(folder .. "/config.json", case.config)
  local said, tensors = json.decode(case.adapter), {}
  for key, value in pairs(changes or {}) do said[key] = value end
  files.write(adapter .. "/adapter_config.json", json.encode(said))
  for key, shape in pairs(case.shapes) do
    if not (lacking and key:find(lacking)) then tensors[key] = numbers(key, shape) end
  end
  assert(mrt.save(adapter .. "/adapter_model.safetensors", tensors))
  return folder, adapter
end

-- A model of the case without a file of weights.
local function model_of(name, folder)
  local load = require "mrt.pretrained.load"
  local config = json.decode(golden[name].config)
  local family, settings = load.settings(folder .. "/config.json", config, load.options {})
  local model = (family.make or nn.Decoder)(settings)
  rawset(model, "family", family.model_type)
  return fill(model):eval()
end

local function differs(model, wanted)
  local logits = model(tokens()):slice(2, TIME, TIME):reshape(-1)
  return (logits - mrt.tensor(wanted)):abs():max():item()
end

local names = {}
for name in pairs(golden) do names[#names + 1] = name end
table.sort(names)

describe("adapters of peft", function()
  for _, name in ipairs(names) do
    it("have its logits, read, written and read, and merged: " .. name, function()
      local folder, adapter = folders_of(name)
      local model = assert(model_of(name, folder):load_adapter(adapter))
      assert.is_true(differs(model, golden[name].logits) < 2e-5)
      local own = files.folder()
      assert(model:save_adapter(own))
      local again = assert(model_of(name, folder):load_adapter(own))
      assert.is_true(differs(again, golden[name].logits) < 2e-5)
      -- What was not trained since is written as it was read.
      local tensors = assert(mrt.load(own .. "/adapter_model.safetensors"))
      for key, shape in pairs(golden[name].shapes) do
        assert.same(shape, tensors[key]:size())
        assert.equal(0, (tensors[key] - numbers(key, shape)):abs():max():item())
      end
      nn.lora.merge(model)
      assert.is_true(differs(model, golden[name].logits) < 2e-5)
    end)
  end

  it("trained apart, of one matrix of theirs, are one of a higher rank", function()
    for _, name in ipairs { "gpt2", "gpt_neox" } do
      local folder, adapter = folders_of(name)
      local model = assert(model_of(name, folder):load_adapter(adapter))
      for _, p in ipairs(model:parameters()) do p:assign(p + mrt.randn(p:size()) * 0.1) end
      local wanted = model(tokens()):slice(2, TIME, TIME):reshape(-1):totable()
      local own = files.folder()
      assert(model:save_adapter(own))
      local again = assert(model_of(name, folder):load_adapter(own))
      assert.is_true(differs(again, wanted) < 2e-5, name)
    end
  end)
end)

describe("what is refused", function()
  local function refused(name, changes, lacking)
    local folder, adapter = folders_of(name, changes, lacking)
    local model = model_of(name, folder)
    local got, message, code = model:load_adapter(adapter)
    assert.is_nil(got)
    assert.equal("data", code)
    for _, layer in model:modules() do assert.not_equal("LoRA", layer.type) end
    return message
  end

  it("is told by name, and the model stays as it was", function()
    assert.matches("use_dora = true is not there", refused("llama", { use_dora = true }))
    assert.matches("modules_to_save = a table is not there",
      refused("llama", { modules_to_save = { "lm_head" } }))
    assert.matches('bias = "all" is not there, "none" is', refused("llama", { bias = "all" }))
    assert.matches('peft_type = "IA3" is not there', refused("llama", { peft_type = "IA3" }))
    assert.matches("init_lora_weights = \"pissa\" is not there",
      refused("llama", { init_lora_weights = "pissa" }))
    assert.matches("something_new = 3 is not there", refused("llama", { something_new = 3 }))
    assert.matches("rank_pattern: names wanted, got the pattern \"layers.\\\\d%+.q\"",
      refused("llama", { rank_pattern = { ["layers.\\d+.q"] = 2 } }))
  end)

  it("lists all tensors that do not fit", function()
    local message = refused("llama", { r = 4 })
    assert.matches("layers.0.mlp.down_proj.lora_A.weight is %[3,24%], %[4,24%] wanted", message)
    assert.matches("layers.1.self_attn.q_proj.lora_B.weight is %[16,3%], %[16,4%] wanted", message)
    message = refused("llama", { target_modules = { "q_proj", "v_proj" } }, "0.self_attn.q_proj")
    assert.matches("0.self_attn.q_proj: target_modules names it, and its tensors are missing",
      message)
    assert.matches("1.self_attn.q_proj: one of lora_A and lora_B is missing",
      refused("llama", {}, "1.self_attn.q_proj.lora_A"))
  end)
end)
