--- gguf_spec.lua -- models in GGUF: the keys and tensors that llama.cpp's converter makes
---
--- gguf_golden.lua was made by golden_gguf.py, with numbers by the same formula.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local files = require "support.files"
local golden = dofile "spec/pretrained/gguf_golden.lua"
local gguf = require "mrt.pretrained.gguf"
local types = require "mrt.pretrained.gguf.types"

local nn = mrt.nn

-- The numbers that golden_gguf.py has.
local function numbers(name, shape)
  local seed, n = 0, 1
  for i = 1, #name do seed = seed + name:byte(i) end
  for _, d in ipairs(shape) do n = n * d end
  local x = (mrt.arange(0, n) * 37 + seed * 11) % 101 - 50
  return (x:to "f32" / 64):reshape(shape)
end

local function weighted(x)
  local flat = x:reshape(-1):to "f64"
  return (flat * (mrt.arange(0, flat:size(1)) % 97 + 1):to "f64"):sum():item()
end

local folders = {}

-- A folder as golden_gguf.py has made it.
local function folder_of(name)
  if folders[name] then return folders[name] end
  local one, path, tensors = golden[name], files.folder(), {}
  for theirs, shape in pairs(one.shapes) do tensors[theirs] = numbers(theirs, shape) end
  files.write(path .. "/config.json", one.config)
  assert(mrt.save(path .. "/model.safetensors", tensors))
  folders[name] = path
  return path
end

-- A copy of a folder's config with a field set.
local function changed(name, pattern, text)
  local path, from = files.folder(), folder_of(name)
  local config, n = files.read(from .. "/config.json"):gsub(pattern, text)
  assert(n == 1)
  files.write(path .. "/config.json", config)
  files.write(path .. "/model.safetensors", files.read(from .. "/model.safetensors"))
  return path
end

local function exported(name, o)
  local path = files.name ".gguf"
  assert(gguf.export(folder_of(name), path, o))
  return path
end

-- Keys that the converter writes otherwise, to the same effect: sizes that follow from others,
-- windows that no layer has.
local free = { ["tokenizer.ggml.model"] = true, ["rope.scaling.original_context_length"] = true }

local function same_value(wanted, got)
  if math.type(wanted) == "float" then return math.abs(got - wanted) <= 1e-6 * math.abs(wanted) end
  return got == wanted
end

describe("a model in GGUF", function()
  for name, one in pairs(golden) do
    it("has the keys and tensors of llama.cpp's converter: " .. name, function()
      local file <close> = assert(mrt.open(exported(name, { type = "f32" })))
      for key, wanted in pairs(one.keys) do
        local short = key:gsub("^%w+%.", "", 1)
        if not free[key] and not free[short] then
          assert.is_true(same_value(wanted, file.metadata[key]),
            ("%s: %s, %s wanted"):format(key, file.metadata[key], wanted))
        end
      end
      local count = 0
      for theirs, wanted in pairs(one.tensors) do
        local x = assert(file:read(theirs))
        assert.same(wanted[1], file:info(theirs).shape, theirs)
        local sum = weighted(x)
        assert.is_true(math.abs(sum - wanted[2]) <= 1e-6 * math.abs(wanted[2]), theirs)
        count = count + 1
      end
      for _, extra in ipairs(file.names) do
        if not one.tensors[extra] then assert.equal("output.weight", extra) end
      end
      assert.is_true(count <= #file.names)
    end)

    it("is read as it was written: " .. name, function()
      local a = assert(nn.load(folder_of(name)))
      local b = assert(nn.load(exported(name, { type = "f32" })))
      local tokens = mrt.arange(0, 24):reshape(2, 12)
      local x, y = a(tokens), b(tokens)
      assert.is_true((x - y):abs():max():item() <= 2e-6 * x:abs():max():item())
      assert.equal(a.family, b.family)
      assert.equal(a.context, b.context)
      local again = files.name ".gguf"
      assert(b:save(again, { type = "f32" }))
      local c = assert(nn.load(again))
      assert.equal(y:bytes(), c(tokens):bytes())
    end)
  end

  it("has types as llama.cpp chooses them", function()
    local function of(name, shape, type_, tied)
      return types.of(name, shape, type_, { layers = 16, tied = tied or false })
    end
    assert.equal("f32", of("blk.0.attn_norm.weight", { 512 }, "q4_0"))
    assert.equal("f32", of("blk.0.attn_q.bias", { 512 }, "q4_0"))
    assert.equal("f32", of("position_embd.weight", { 64, 512 }, "q4_0"))
    assert.equal("f32", of("blk.3.ffn_gate_inp.weight", { 8, 512 }, "q4_0"))
    assert.equal("q4_0", of("blk.0.attn_q.weight", { 512, 512 }, "q4_0"))
    assert.equal("q6_k", of("output.weight", { 512, 512 }, "q4_0"))
    assert.equal("q4_0", of("token_embd.weight", { 512, 512 }, "q4_0"))
    assert.equal("q6_k", of("token_embd.weight", { 512, 512 }, "q4_0", true))
    assert.equal("q8_0", of("token_embd.weight", { 512, 576 }, "q4_0", true))
    assert.equal("q8_0", of("output.weight", { 512, 512 }, "q8_0"))
    assert.equal("q5_0", of("blk.5.attn_q.weight", { 512, 576 }, "q4_k_m"))
    assert.equal("f16", of("blk.5.attn_q.weight", { 512, 72 }, "q4_k_m"))
    assert.equal("q4_k", of("blk.5.attn_qkv.weight", { 512, 512 }, "q4_k_m"))
    assert.equal("q6_k", of("blk.15.attn_qkv.weight", { 512, 512 }, "q4_k_m"))
    assert.equal("q8_0", types.of("blk.5.attn_v.weight", { 512, 512 }, "q4_k_m",
      { layers = 16, tied = false, experts = 8 }))
    local list = {}
    for i = 0, 15 do
      list[i + 1] = of(("blk.%d.ffn_down.weight"):format(i), { 512, 512 }, "q4_k_m"):sub(2, 2)
    end
    assert.equal("6644644644644666", table.concat(list))
    assert.error_matches(function() types.want("save", "q4") end, "type \"q4\": one of")
  end)

  it("keeps its accuracy in blocks", function()
    local a = assert(nn.load(folder_of "llama"))
    local tokens = mrt.arange(0, 12):reshape(1, 12)
    local x = a(tokens)
    for type_, most in pairs { f16 = 1e-3, bf16 = 2e-2, q8_0 = 2e-2, q5_0 = 0.2, q4_0 = 0.3 } do
      local path = files.name ".gguf"
      assert(a:save(path, { type = type_ }))
      local y = assert(nn.load(path, { dtype = "f32" }))(tokens)
      local error = ((x - y):norm() / x:norm()):item()
      assert.is_true(error < most, ("%s: %g"):format(type_, error))
    end
  end)

  it("is refused where llama.cpp would compute something else", function()
    local function refused(path, pattern)
      local out = files.name ".gguf"
      local done, message, code = gguf.export(path, out)
      assert.is_nil(done)
      assert.matches(pattern, message)
      assert.equal("data", code)
      assert.is_nil(io.open(out))
    end
    refused(changed("gemma2", '"query_pre_attn_scalar": 8', '"query_pre_attn_scalar": 16'),
      "scale = 0.25 of scores, 0.353553 wanted")
    refused(changed("llama", '"hidden_act": "silu"', '"hidden_act": "gelu"'),
      'activation = "gelu", which GGUF\'s architecture llama has as "silu"')
    refused(changed("gpt2", '"activation_function": "gelu_new"', '"activation_function": "relu"'),
      'activation = "relu"')
    local o = { vocab = 8, dim = 8, layers = 1, heads = 2, context = 8 }
    local own = nn.Decoder(o)
    local done, message = own:save(files.name ".gguf")
    assert.is_nil(done)
    assert.matches("model_type nil has no architecture in GGUF", message)
    local tuned = assert(nn.load(folder_of "llama"))
    nn.lora(tuned, { rank = 2 })
    done, message = tuned:save(files.name ".gguf")
    assert.is_nil(done)
    assert.matches("adapters are merged first", message)
  end)

  it("is refused where its keys or tensors are not what they should be", function()
    local tensors, metadata = assert(mrt.load(exported("llama", { type = "f32" })))
    local function refused(pattern, change)
      local meta, list = {}, {}
      for key, value in pairs(metadata) do meta[key] = value end
      for key, value in pairs(tensors) do list[key] = value end
      change(meta, list)
      local path = files.name ".gguf"
      assert(mrt.save(path, list, meta))
      local model, message, code = nn.load(path)
      assert.is_nil(model)
      assert.matches(pattern, message)
      assert.equal("data", code)
    end
    refused('architecture "rwkv7"; known are', function(m) m["general.architecture"] = "rwkv7" end)
    refused("general.architecture is missing", function(m) m["general.architecture"] = nil end)
    refused("llama.block_count is missing", function(m) m["llama.block_count"] = nil end)
    refused('llama.block_count is "2", a size wanted', function(m) m["llama.block_count"] = "2" end)
    refused("not known: llama.attention.alibi, llama.x", function(m)
      m["llama.x"], m["llama.attention.alibi"] = 1, true
    end)
    refused('rope.scaling.type "su"', function(m) m["llama.rope.scaling.type"] = "su" end)
    refused("model.layers.7.self_attn.q_proj.weight has no place", function(_, l)
      l["blk.7.attn_q.weight"] = mrt.zeros(2, 2)
    end)
    refused("x.weight has no place", function(_, l) l["x.weight"] = mrt.zeros(2, 2) end)
    refused("model.layers.1.mlp.up_proj.weight is missing", function(_, l)
      l["blk.1.ffn_up.weight"] = nil
    end)
    refused("is %[40,31%], %[40,32%] wanted", function(_, l)
      l["output.weight"] = mrt.zeros(40, 31)
    end)
  end)

  it("has a context within which a window does not count", function()
    local path = changed("tied", '"model_type": "llama"', '"model_type": "mistral",'
      .. '"sliding_window": 16')
    local config = files.read(path .. "/config.json"):gsub('"attention_bias": true, ', "")
      :gsub('"mlp_bias": true, ', "")
    files.write(path .. "/config.json", config)
    local tensors = assert(mrt.load(path .. "/model.safetensors"))
    for name in pairs(tensors) do
      if name:find "bias$" then tensors[name] = nil end
    end
    assert(mrt.save(path .. "/model.safetensors", tensors))
    local out = files.name ".gguf"
    assert(gguf.export(path, out))
    assert.equal(16, assert(mrt.open(out)).metadata["llama.context_length"])
  end)
end)
