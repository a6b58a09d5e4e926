--- encoder_spec.lua -- encoders give what transformers gives, from folders as it writes them
---
--- golden.json, by golden.py, has configs, names and results; weights and inputs are by the
--- same formula here and there.
---
--- SPDX-License-Identifier: MIT

local json = require "mrt.util.json"
local files = require "support.files"
local families = require "mrt.pretrained.families"
local mrt = require "mrt"
local weights = require "mrt.pretrained.weights"

local nn = mrt.nn
local here = debug.getinfo(1, "S").source:match "^@(.*)/[^/]*$"
local golden = assert(mrt.text.json(files.read(here .. "/golden.json")))

-- Element j of tensor k, both from 0.
local function formula(count, k)
  local list = {}
  for j = 0, count - 1 do list[j + 1] = ((j * 7919 + k * 104729) % 1009 - 504) / 1260 end
  return list
end

local function count_of(shape)
  local n = 1
  for _, d in ipairs(shape) do n = n * d end
  return n
end

local function weight(name, k, shape)
  local list = formula(count_of(shape), k)
  if name:lower():find "norm" and name:find "weight$" then
    for j, v in ipairs(list) do list[j] = v + 1 end
  end
  return mrt.tensor(list):reshape(shape)
end

-- A folder as transformers writes one; `change` may alter its tensors and config.
local function folder_of(case, change)
  local path = files.folder()
  local tensors, config = {}, {}
  for name, v in pairs(case.config) do
    if v ~= mrt.text.none then config[name] = v end
  end
  for i, row in ipairs(case.tensors) do tensors[row[1]] = weight(row[1], i - 1, row[2]) end
  if change then change(tensors, config) end
  files.write(path .. "/config.json", json.encode(config))
  assert(mrt.save(path .. "/model.safetensors", tensors))
  return path
end

local function ids(f)
  local list = {}
  for j = 0, 11 do list[j + 1] = f(j) end
  return mrt.tensor(list, { dtype = "i32" }):reshape(2, 6)
end

local function inputs(name)
  if name:find "^vit" then return mrt.tensor(formula(256, 77)):reshape(2, 2, 8, 8) end
  local function is_padding(j) return j == 4 or j == 5 or j == 11 end
  local at = { mask = ids(function(j) return is_padding(j) and 0 or 1 end) }
  local padding = name:find "roberta" and 1 or 0
  if name:find "^bert" then at.types = ids(function(j) return j % 6 > 2 and 1 or 0 end) end
  return ids(function(j) return is_padding(j) and padding or 2 + (j * 7 + 3) % 21 end), at
end

-- The largest difference from a list, in parts of its largest number.
local function off(x, list)
  local wanted = mrt.tensor(list):reshape(x:size())
  return ((x - wanted):abs():max() / wanted:abs():max()):item()
end

-- Their name -> gradient.
local function gradients(model, y, mask)
  local factors = mrt.tensor(formula(y:numel(), 5)):reshape(y:size())
  if mask and y:dim() == 3 then factors = factors * mask:unsqueeze(3):to "f32" end
  local loss = (y * factors):sum()
  local list, names = {}, {}
  local family = families.find(model.family)
  for name, p in model:named_parameters() do
    list[#list + 1], names[#names + 1] = p, weights.find(family, name)
  end
  local found = {}
  for i, g in ipairs(mrt.grad(loss, list, { allow_unused = true })) do
    found[names[i]], found[names[i]:gsub("^%a+%.", "", 1)] = g, g
  end
  return found
end

local function check_gradients(case, found)
  local largest = 0
  for _, row in ipairs(case.grads) do largest = math.max(largest, row[1]) end
  for i, row in ipairs(case.tensors) do
    local name, wanted = row[1], case.grads[i]
    local g, f = found[name], formula(count_of(row[2]), i - 1)
    assert.is_truthy(g, name)
    local length = g:square():sum():sqrt():item()
    local product = (g:reshape(-1) * mrt.tensor(f)):sum():item()
    local around = 0
    for _, v in ipairs(f) do around = around + v * v end
    assert.near(wanted[1], length, 1e-5 * wanted[1] + 1e-6 * largest, name)
    assert.near(wanted[2], product,
      (1e-5 * wanted[1] + 1e-6 * largest) * math.sqrt(around), name)
  end
end

describe("an encoder from a folder", function()
  for name, case in pairs(golden) do
    it("gives the logits and gradients of transformers: " .. name, function()
      local model = assert(nn.load(folder_of(case)))
      local x, at = inputs(name)
      local y = model(x, at)
      assert.is_true(off(y, case.logits) < 2e-6)
      if case.pooled ~= mrt.text.none then
        assert.is_true(off(model:pooled(model:features(x, at)), case.pooled) < 2e-6)
      end
      check_gradients(case, gradients(model, y, at and at.mask))
    end)
  end

  it("is written so that it is read again", function()
    for _, name in ipairs { "bert_classes", "roberta_words", "distilbert_words", "vit" } do
      local model = assert(nn.load(folder_of(golden[name])))
      local path = files.folder()
      assert(model:save(path))
      local x, at = inputs(name)
      assert.equal(0, (model(x, at) - assert(nn.load(path))(x, at)):abs():max():item())
    end
  end)

  it("is read with the names of old, and without what others stood on it", function()
    local case = golden.bert_words
    local model = assert(nn.load(folder_of(case, function(tensors)
      for _, row in ipairs(case.tensors) do
        local old = row[1]:gsub("LayerNorm%.weight$", "LayerNorm.gamma")
          :gsub("LayerNorm%.bias$", "LayerNorm.beta")
        tensors[old] = tensors[row[1]]
        if old ~= row[1] then tensors[row[1]] = nil end
      end
      tensors["cls.seq_relationship.weight"] = mrt.zeros(2, 16)
      tensors["bert.pooler.dense.weight"] = mrt.zeros(16, 16)
      tensors["bert.embeddings.position_ids"] = mrt.zeros(1, 8)
    end)))
    local x, at = inputs "bert_words"
    assert.is_true(off(model(x, at), case.logits) < 2e-6)
  end)

  it("is kept in bf16 where that is asked", function()
    local case = golden.bert_classes
    local model = assert(nn.load(folder_of(case), { dtype = "bf16" }))
    local x, at = inputs "bert_classes"
    local y = model(x, at)
    assert.equal("bf16", y:get_dtype())
    assert.is_true(off(y:to "f32", case.logits) < 0.1)
  end)

  it("is refused by name where its config asks what is not there", function()
    local function refused(case, change)
      local model, message, code = nn.load(folder_of(case, change))
      assert.is_nil(model)
      assert.equal("data", code)
      return message
    end
    assert.matches("position_embedding_type = \"relative_key\"",
      refused(golden.bert, function(_, c) c.position_embedding_type = "relative_key" end))
    assert.matches("BertForQuestionAnswering", refused(golden.bert,
      function(_, c) c.architectures = { "BertForQuestionAnswering" } end))
    assert.matches("is_decoder", refused(golden.bert, function(_, c) c.is_decoder = true end))
    assert.matches("no such activation", refused(golden.vit, function(_, c) c.hidden_act = "x" end))
    assert.matches("a multiple of patch = 4", refused(golden.vit,
      function(_, c) c.image_size = 9 end))
    assert.matches("bert.pooler.dense.weight is missing", refused(golden.bert_classes,
      function(t) t["bert.pooler.dense.weight"] = nil end))
    assert.matches("classifier.weight is %[2,16%], %[7,16%] wanted", refused(golden.bert_tokens,
      function(_, c) c.num_labels = 7 end))
  end)
end)

describe("an encoder", function()
  local model = nn.Encoder { vocab = 11, dim = 8, layers = 1, heads = 2, context = 6,
    head = "words" }

  it("does not see padding", function()
    local tokens = mrt.tensor({ { 1, 2, 3, 4 } }, { dtype = "i32" })
    local other = mrt.tensor({ { 1, 2, 3, 9 } }, { dtype = "i32" })
    local mask = mrt.tensor({ { 1, 1, 1, 0 } }, { dtype = "i32" })
    local a, b = model(tokens, { mask = mask }), model(other, { mask = mask })
    local short = model(tokens:slice(2, 1, 3))
    assert.is_true((a - b):slice(2, 1, 3):abs():max():item() == 0)
    assert.is_true((a:slice(2, 1, 3) - short):abs():max():item() < 1e-6)
  end)

  it("refuses what does not fit", function()
    local tokens = mrt.zeros(1, 4, { dtype = "i32" })
    assert.has_error(function() model(mrt.zeros(1, 7, { dtype = "i32" })) end)
    assert.has_error(function() model(tokens, { mask = mrt.ones(1, 3) }) end)
    assert.has_error(function() model(tokens, { types = tokens }) end)
    assert.has_error(function() model:pooled(mrt.zeros(1, 4, 8)) end)
    assert.has_error(function() nn.Encoder { vocab = 1, dim = 9, layers = 1, heads = 2,
      context = 2 } end)
    assert.has_error(function() nn.Encoder { vocab = 1, dim = 8, layers = 1, heads = 2,
      context = 2, head = "pool" } end)
    assert.has_error(function() nn.ViT { image = 9, patch = 2, dim = 8, layers = 1, heads = 2 } end)
  end)

  it("made by hand is written as a family that can say it", function()
    local o = { vocab = 23, dim = 8, layers = 1, heads = 2, context = 12, head = "classes",
      classes = 3 }
    local tokens = mrt.randint(2, 23, 2, 12, { dtype = "i32" })
    mrt.eval(tokens)
    for family, more in pairs { bert = { types = 2 }, roberta = { types = 1, padding = 1 },
      distilbert = { pooler = "relu" } } do
      local given = setmetatable(more, { __index = o })
      for name, v in pairs(o) do given[name] = v end
      local made, path = nn.Encoder(given), files.folder()
      assert(made:save(path, { family = family }))
      local back = assert(nn.load(path))
      assert.equal(family, back.family)
      assert.equal(0, (made(tokens) - back(tokens)):abs():max():item())
    end
    local vit, path = nn.ViT { image = 8, patch = 4, dim = 8, layers = 1, heads = 2,
      classes = 3 }, files.folder()
    assert(vit:save(path, { family = "vit" }))
    local x = mrt.ones(1, 3, 8, 8)
    assert.equal(0, (vit(x) - assert(nn.load(path))(x)):abs():max():item())
    local done, message = nn.Encoder(o):save(files.folder(), { family = "bert" })
    assert.is_nil(done)
    assert.matches("a config of family bert cannot say", message)
  end)

  it("learns in a compiled step, with adapters too", function()
    local vit = nn.ViT { image = 8, patch = 4, channels = 1, dim = 8, layers = 2, heads = 2,
      classes = 2 }
    nn.lora(vit, { rank = 2 })
    local opt = mrt.optim.adamw(vit:parameters(), { lr = 1e-2 })
    local step = mrt.compile(function(x, y)
      local loss = nn.cross_entropy(vit(x), y)
      opt:step(mrt.grad(loss, vit:parameters()))
      return loss
    end)
    local x, y = mrt.randn(4, 1, 8, 8), mrt.tensor({ 0, 1, 1, 0 }, { dtype = "i32" })
    mrt.eval(x)
    local first, last = step(x, y):item(), nil
    for _ = 1, 30 do last = step(x, y):item() end
    assert.is_true(last < first)
  end)
end)
