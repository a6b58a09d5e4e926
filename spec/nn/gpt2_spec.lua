--- gpt2_spec.lua -- GPT-2's weights in Hugging Face's names give its logits
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local files = require "support.files"
local nn = mrt.nn

local vocab, dim, layers, heads, context = 31, 12, 3, 3, 10

-- Random weights as a checkpoint has them, Conv1D's as [inputs, outputs].
local function checkpoint(prefix)
  local w = {}
  local function add(name, ...)
    w[prefix .. name] = mrt.randn(...) * 0.3
  end
  local function norm(name)
    add(name .. ".weight", dim)
    add(name .. ".bias", dim)
  end
  local function conv(name, inputs, outputs)
    add(name .. ".weight", inputs, outputs)
    add(name .. ".bias", outputs)
  end
  mrt.seed(5)
  add("wte.weight", vocab, dim)
  add("wpe.weight", context, dim)
  for i = 0, layers - 1 do
    local h = "h." .. i .. "."
    norm(h .. "ln_1")
    conv(h .. "attn.c_attn", dim, 3 * dim)
    w[prefix .. h .. "attn.bias"] = mrt.ones(1, 1, context, context)
    conv(h .. "attn.c_proj", dim, dim)
    norm(h .. "ln_2")
    conv(h .. "mlp.c_fc", dim, 4 * dim)
    conv(h .. "mlp.c_proj", 4 * dim, dim)
  end
  norm "ln_f"
  return w
end

-- The model by its formulas, head by head, one sequence [T].
local function reference(w, tokens)
  local T, width = tokens:size(1), dim // heads
  local function norm(x, name)
    local d = x - x:mean(2, true)
    return d / ((d * d):mean(2, true) + 1e-5):sqrt() * w[name .. ".weight"] + w[name .. ".bias"]
  end
  local function conv(x, name) return x:matmul(w[name .. ".weight"]) + w[name .. ".bias"] end
  local function gelu(x)
    return x * 0.5 * (((x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)):tanh() + 1)
  end
  local row, column = mrt.arange(T):unsqueeze(2), mrt.arange(T):unsqueeze(1)
  local future = mrt.where(column:gt(row), -1e30, 0.0):to "f32"
  local function attend(x)
    local qkv, out = x, {}
    for h = 1, heads do
      local function piece(k)
        local first = (k * heads + h - 1) * width
        return qkv:slice(2, first + 1, first + width)
      end
      local scores = piece(0):matmul(piece(1):t()) / math.sqrt(width) + future
      local e = (scores - scores:max(2, true)):exp()
      out[h] = (e / e:sum(2, true)):matmul(piece(2))
    end
    return mrt.cat(out, 2)
  end
  local x = w["wte.weight"]:embedding(tokens) + w["wpe.weight"]:slice(1, 1, T)
  for i = 0, layers - 1 do
    local h = "h." .. i .. "."
    x = x + conv(attend(conv(norm(x, h .. "ln_1"), h .. "attn.c_attn")), h .. "attn.c_proj")
    x = x + conv(gelu(conv(norm(x, h .. "ln_2"), h .. "mlp.c_fc")), h .. "mlp.c_proj")
  end
  return norm(x, "ln_f"):matmul((w["lm_head.weight"] or w["wte.weight"]):t())
end

local function far(a, b) return (a - b):abs():max():item() end

describe("nn.gpt2", function()
  local tokens = mrt.tensor { 3, 30, 0, 7, 7, 12, 25, 1 }

  it("gives the logits of the formulas", function()
    local w, path = checkpoint "", files.name ".safetensors"
    assert(mrt.save(path, w))
    local model = assert(nn.gpt2(path, { heads = heads }))
    assert.is_nil(model.head)
    local wanted = reference(w, tokens)
    assert.is_true(wanted:abs():max():item() > 0.5)
    assert.is_true(far(model(tokens:unsqueeze(1)):squeeze(1), wanted) < 2e-5)
  end)

  it("takes the prefix, and a head of its own where it differs", function()
    local w, named = checkpoint "", checkpoint "transformer."
    named["lm_head.weight"] = w["wte.weight"] * 1
    local model = assert(nn.gpt2(named, { heads = heads }))
    assert.is_nil(model.head)
    w["lm_head.weight"] = mrt.randn(vocab, dim)
    named["lm_head.weight"] = w["lm_head.weight"]
    model = assert(nn.gpt2(named, { heads = heads }))
    assert.is_true(far(model(tokens:unsqueeze(1)):squeeze(1), reference(w, tokens)) < 5e-5)
  end)

  it("reads the number of heads in config.json beside the weights", function()
    local folder = files.name()
    os.execute("mkdir " .. folder)
    assert(mrt.save(folder .. "/model.safetensors", checkpoint ""))
    files.write(folder .. "/config.json", ('{"n_head": %d, "n_embd": %d}'):format(heads, dim))
    local w = mrt.load(folder .. "/model.safetensors")
    local model = assert(nn.gpt2(folder .. "/model.safetensors"))
    assert.is_true(far(model(tokens:unsqueeze(1)):squeeze(1), reference(w, tokens)) < 2e-5)
    files.write(folder .. "/config.json", "{}")
    assert.matches("no n_head", select(2, nn.gpt2(folder .. "/model.safetensors")))
  end)

  it("refuses what is no GPT-2", function()
    for pattern, change in pairs {
      ["no weights for 'blocks.2.mlp.fc.bias'"] = function(w) w["h.1.mlp.c_fc.bias"] = nil end,
      ["no part of a GPT%-2"] = function(w) w["h.1.mlp.c_up.bias"] = mrt.ones(1) end,
      ["'norm.weight' is f32%[2%], f32%[12%] wanted"] = function(w)
        w["ln_f.weight"] = mrt.ones(2)
      end,
      ["wte.weight, wpe.weight and blocks wanted"] = function(w) w["wpe.weight"] = nil end,
      ["f32%[3%], is no part"] = function(w) w["h.0.mlp.c_fc.weight"] = mrt.ones(3) end,
    } do
      local w = checkpoint ""
      change(w)
      local model, message, code = nn.gpt2(w, { heads = heads })
      assert.is_nil(model)
      assert.matches(pattern, message)
      assert.equal("data", code)
    end
    local model, message = nn.gpt2(checkpoint "")
    assert.is_nil(model)
    assert.matches("width 12 do not say how many heads", message)
    assert.matches("no multiple of 5", select(2, nn.gpt2(checkpoint "", { heads = 5 })))
    assert.equal("file", select(3, nn.gpt2 "no/model.safetensors"))
  end)
end)
