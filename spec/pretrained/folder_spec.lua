--- folder_spec.lua -- folders that are not what they should be, and those that are almost
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local files = require "support.files"

local nn = mrt.nn

local config = [[{ "model_type": "llama", "vocab_size": 24, "hidden_size": 16,
  "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "max_position_embeddings": 32, "rms_norm_eps": 1e-05,
  "tie_word_embeddings": false, "torch_dtype": "float32", "head_dim": null }]]

local options = { vocab = 24, dim = 16, hidden = 32, layers = 2, heads = 4, kv_heads = 2,
  context = 32 }

-- A folder that is right, saved by hand.
local function good(shard)
  local path = files.folder()
  mrt.seed(9)
  assert(nn.Decoder(options):save(path, { family = "llama", shard = shard }))
  files.write(path .. "/config.json", config)
  return path
end

local function refused(path, code, ...)
  local model, message, kind = nn.load(path)
  assert.is_nil(model)
  assert.are.equal(code, kind, message)
  for _, text in ipairs { ... } do assert.is_true(message:find(text, 1, true) ~= nil, message) end
end

local function with_config(pattern, text)
  local path = good()
  local changed, n = config:gsub(pattern, text)
  assert(n == 1)
  files.write(path .. "/config.json", changed)
  return path
end

-- The folder with its tensors changed by `f`.
local function with_tensors(f)
  local path = good()
  local tensors = assert(mrt.load(path .. "/model.safetensors"))
  f(tensors)
  assert(mrt.save(path .. "/model.safetensors", tensors))
  return path
end

describe("nn.load of a config", function()
  it("refuses by name what is not there", function()
    refused(with_config('"llama"', '"mamba"'), "data", 'model_type "mamba"', "known are")
    refused(with_config('"vocab_size"', '"residual_scale": 0.5, "vocab_size"'), "data",
      "residual_scale = 0.5")
    refused(with_config('"vocab_size"', '"hidden_act": "elu", "vocab_size"'), "data",
      'hidden_act = "elu"')
    refused(with_config('"vocab_size"', '"rope_scaling": {"type": "spiral"}, "vocab_size"'),
      "data", 'rope_type "spiral"')
    refused(with_config('"vocab_size"',
      '"rope_scaling": {"type": "linear", "factor": 2, "twist": 1}, "vocab_size"'), "data",
      "twist of rope_type linear")
    refused(with_config('"vocab_size"', '"rope_scaling": {"type": "yarn"}, "vocab_size"'), "data",
      "rope_type yarn: factor is missing")
  end)

  it("refuses what is no size", function()
    for _, text in ipairs { "0", "-3", "1.5", '"16"', "[16]", "1e300", "true" } do
      refused(with_config('"hidden_size": 16', '"hidden_size": ' .. text), "data", "hidden_size")
    end
    refused(with_config('"hidden_size": 16,', ""), "data", "hidden_size is missing")
    refused(with_config('_heads": 4', '_heads": 3'), "data", "heads")
  end)

  it("passes over keys that say nothing, and those it is told to", function()
    assert(nn.load(with_config('"vocab_size"', '"bos_token_id": 1, "odd": false, "vocab_size"')))
    local path = with_config('"vocab_size"', '"residual_scale": 0.5, "vocab_size"')
    assert(nn.load(path, { ignore = { "residual_scale" } }))
  end)

  it("refuses what is no JSON, however deep", function()
    local path = good()
    for _, text in ipairs { "", "[", '"llama"', "null", ("["):rep(1e5), ('{"a":'):rep(1e5) } do
      files.write(path .. "/config.json", text)
      refused(path, "data", "config.json")
    end
    assert(os.remove(path .. "/config.json"))
    refused(path, "file", "config.json")
    refused(files.name(), "file", "config.json")
  end)
end)

describe("nn.load of tensors", function()
  it("lists all that do not fit, and loads nothing", function()
    local before = mrt.memory().now
    refused(with_tensors(function(t)
      t["model.norm.weight"] = nil
      t["model.layers.0.mlp.up_proj.weight"] = mrt.zeros(32, 15)
      t["model.layers.1.self_attn.q_proj.weight"] = mrt.zeros(4, 4, 16)
      t["model.embed_tokens.weight"] = mrt.zeros({ 24, 16 }, { dtype = "i32" })
      t["model.layers.2.input_layernorm.weight"] = mrt.zeros(16)
    end), "data", "model.norm.weight is missing",
      "model.layers.0.mlp.up_proj.weight is [32,15], [32,16] wanted",
      "model.layers.1.self_attn.q_proj.weight is [4,4,16], [16,16] wanted",
      "model.embed_tokens.weight is of i32, a float wanted",
      "model.layers.2.input_layernorm.weight has no place")
    collectgarbage()
    assert.is_true(mrt.memory().now - before < 20000)
  end)

  it("says which shards are missing, truncated or damaged", function()
    local path = good(3000)
    assert(nn.load(path))
    local count = 0
    for _, name in ipairs(require "mrt.core".list_folder(path)) do
      if name:find "^model%-" then count = count + 1 end
    end
    local function shard_name(i) return ("model-%05d-of-%05d.safetensors"):format(i, count) end
    local shard = path .. "/" .. shard_name(2)
    local bytes = files.read(shard)
    files.write(shard, bytes:sub(1, -9))
    refused(path, "data", "model-00002")
    files.write(shard, bytes:sub(1, -2) .. (bytes:byte(-1) == 0 and "\1" or "\0"))
    refused(path, "data", "checksum")
    assert(os.remove(shard))
    assert(os.remove(path .. "/" .. shard_name(5)))
    refused(path, "file", shard_name(2) .. ", " .. shard_name(5))
    files.write(path .. "/model.safetensors.index.json", '{"weight_map": 3}')
    refused(path, "data", "index")
  end)

  it("says where there are none", function()
    local path = good()
    assert(os.rename(path .. "/model.safetensors", path .. "/pytorch_model.bin"))
    refused(path, "file", "no model.safetensors", "pytorch_model.bin is not read")
  end)

  it("takes names without the prefix, and passes over what is no weight", function()
    local path = good()
    local tensors, short = assert(mrt.load(path .. "/model.safetensors")), {}
    for name, x in pairs(tensors) do short[name:gsub("^model%.", "")] = x end
    short["layers.0.self_attn.rotary_emb.inv_freq"] = mrt.zeros(2)
    local ids = mrt.tensor({ { 1, 5, 23, 0 } }, "i32")
    local wanted = assert(nn.load(path))(ids):bytes()
    assert(mrt.save(path .. "/model.safetensors", short))
    assert.is_true(wanted == assert(nn.load(path))(ids):bytes())
  end)

  it("keeps the file's dtype, or takes another", function()
    local path = with_tensors(function(t)
      for name, x in pairs(t) do t[name] = x:to(name:find "norm" and "f32" or "f16") end
    end)
    local model = assert(nn.load(path))
    assert.are.equal("f16", model.head.weight:get_dtype())
    assert.are.equal("f32", model.norm.weight:get_dtype())
    local wide = assert(nn.load(path, { dtype = "f32" }))
    assert.are.equal("f32", wide.head.weight:get_dtype())
    assert.are.same(model.head.weight:to "f32":totable(), wide.head.weight:totable())
    assert.are.equal(8, assert(nn.load(path, { context = 8 })).context)
    assert.error_matches(function() nn.load(path, { context = 64 }) end, "at most the config's 32")
    assert.error_matches(function() nn.load(path, { dtype = "i32" }) end, "dtype")
  end)

  it("takes the model's bytes and one tensor's", function()
    local path = files.folder()
    local o = { vocab = 400, dim = 64, hidden = 256, layers = 6, heads = 4, context = 32 }
    assert(nn.Decoder(o):save(path, { family = "llama" }))
    collectgarbage()
    collectgarbage()
    mrt.memory { reset = true }
    local before = mrt.memory().now
    local model = assert(nn.load(path))
    local most = mrt.memory().peak - before
    assert.is_true(most <= model:count() * 4 + 400 * 64 * 4 + 20000,
      ("%d bytes for %d"):format(most, model:count() * 4))
  end)
end)

describe("Decoder:save", function()
  it("replaces what an older model left", function()
    local path = good(3000)
    local model = nn.Decoder(options)
    assert(model:save(path, { family = "llama" }))
    for _, name in ipairs(require "mrt.core".list_folder(path)) do
      assert.is_false(name:find "of%-000" ~= nil or name:find "index" ~= nil, name)
    end
    local again = assert(nn.load(path))
    assert.is_true(model.head.weight:bytes() == again.head.weight:bytes())
  end)

  it("refuses what it cannot say, by name", function()
    local function refuses(model, family, text)
      local path = files.name()
      local done, message, code = model:save(path, { family = family })
      assert.is_nil(done)
      assert.are.equal("data", code)
      assert.is_true(message:find(text, 1, true) ~= nil, message)
      assert.is_nil(require "mrt.core".list_folder(path))
    end
    local o = {}
    for name, value in pairs(options) do o[name] = value end
    o.softcap = 5
    refuses(nn.Decoder(o), "llama", "option 'softcap'")
    local tuned = nn.lora(nn.Decoder(options), { rank = 2 })
    refuses(tuned, "llama", "has no place for")
    assert.error_matches(function() nn.Decoder(options):save(files.name()) end, "option 'family'")
    assert.error_matches(function() nn.Decoder(options):save(3) end, "a path wanted")
  end)

  it("says where a file cannot be written", function()
    local path = files.write(files.name(), "a file")
    local done, _, code = nn.Decoder(options):save(path, { family = "llama" })
    assert.is_nil(done)
    assert.are.equal("file", code)
  end)

  it("copies what lay beside, and keeps what is null", function()
    local path, to = good(), files.folder()
    local tool = "/additional_chat_templates/tool.jinja"
    files.write(path .. "/tokenizer.json", "{}")
    require "mrt.core".make_folders(path .. "/additional_chat_templates")
    files.write(path .. tool, "{{ 1 }}")
    local text = config:gsub('"llama"', '"mistral"'):gsub('"head_dim"', '"sliding_window"')
    files.write(path .. "/config.json", text)
    local model = assert(nn.load(path))
    assert.is_false(model.options.windows[1])
    assert(model:save(to))
    assert.are.equal("{}", files.read(to .. "/tokenizer.json"))
    assert.are.equal("{{ 1 }}", files.read(to .. tool))
    assert.is_false(assert(nn.load(to)).options.windows[1])
  end)
end)
