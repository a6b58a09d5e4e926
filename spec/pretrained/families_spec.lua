--- families_spec.lua -- models of every family against what transformers computes
---
--- golden.lua was made by golden.py, with numbers by the same formula.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local files = require "support.files"
local golden = dofile "spec/pretrained/golden.lua"
local configs = require "mrt.pretrained.config"
local families = require "mrt.pretrained.families"
local reader = require "mrt.pretrained.folder"
local weights = require "mrt.pretrained.weights"

local nn = mrt.nn

local TIME <const>, VOCAB <const> = 20, 40

local names = {}
for name in pairs(golden) do names[#names + 1] = name end
table.sort(names)

-- ---- what golden.py has --------------------------------------------------------

local function numbers(name, shape)
  local seed, n = 0, 1
  for i = 1, #name do seed = seed + name:byte(i) end
  for _, d in ipairs(shape) do n = n * d end
  local i = mrt.arange(0, n, { dtype = "i64" })
  local x = ((i * i * 3 + i * 37 + seed * 11) % 101 - 50):to "f32" / 256
  if #shape == 1 and name:find "weight$" then x = x * 0.5 + 1 end
  return x:reshape(shape)
end

local function weighted(x)
  local i = mrt.arange(0, x:numel(), { dtype = "i64" })
  return (x:reshape(-1):to "f64" * ((i * 13) % 17 - 8):to "f64"):sum():item()
end

local function tokens()
  local rows = { {}, {} }
  for i = 0, TIME - 1 do
    rows[1][i + 1] = (i * 7 + 3) % VOCAB
    rows[2][i + 1] = ((TIME + i) * 7 + 3) % VOCAB * 3 % VOCAB + 1
    rows[2][i + 1] = rows[2][i + 1] % VOCAB
  end
  return mrt.tensor(rows, "i32")
end

-- ---- folders -------------------------------------------------------------------

local folders = {}

-- A folder as golden.py has made it.
local function folder_of(name)
  if folders[name] then return folders[name] end
  local path, tensors = files.folder(), {}
  files.write(path .. "/config.json", golden[name].config)
  local config = assert(reader.json(path .. "/config.json"))
  local family = families.find(config.model_type)
  local model = nn.Decoder(assert(configs.read(family, config)))
  for _, place in ipairs(weights.places(model, family)) do
    tensors[place.theirs] = numbers(place.theirs, weights.shape(place))
  end
  assert(mrt.save(path .. "/model.safetensors", tensors))
  folders[name] = path
  return path
end

-- The gradient of the loss under the names of the file, in their order.
local function gradients(model)
  local ids, params, by_variable = tokens(), {}, {}
  local last = mrt.full({ 2, 1 }, -1):to "i32"
  for _, p in model:named_parameters() do params[#params + 1] = p end
  local loss = model:loss(ids, mrt.cat({ ids:slice(2, 2, TIME), last }, 2))
  local grads = mrt.grad(loss, params)
  mrt.eval(loss, grads)
  for i, p in ipairs(params) do by_variable[p] = grads[i] end
  local places = weights.places(model, families.find(model.family))
  table.sort(places, function(a, b) return a.theirs < b.theirs end)
  for i, place in ipairs(places) do
    local parts = {}
    for k, part in ipairs(place.parts) do parts[k] = { variable = by_variable[part.variable] } end
    places[i] = weights.give({ entry = place.entry, expert = place.expert, parts = parts }, model)
  end
  return places, loss:item()
end

-- Largest difference over the largest number.
local function away(got, wanted)
  local most, off = 0, 0
  for i, y in ipairs(wanted) do
    most, off = math.max(most, math.abs(y)), math.max(off, math.abs(y - got[i]))
  end
  return off / most
end

local function last_logits(model)
  return mrt.eval(model(tokens()):select(2, TIME):reshape(-1):to "f32"):totable()
end

local function same_state(a, b)
  local theirs = b:state()
  for name, x in pairs(a:state()) do
    assert.are.equal(x:type(), theirs[name]:type(), name)
    assert.is_true(x:bytes() == theirs[name]:bytes(), name)
  end
end

describe("a model of each family", function()
  it("has the logits, the loss and the gradients of transformers", function()
    for _, name in ipairs(names) do
      local wanted, model = golden[name], assert(nn.load(folder_of(name)))
      assert.is_true(away(last_logits(model), wanted.logits) < 2e-5, name)
      local grads, loss = gradients(model)
      assert.is_true(math.abs(loss - wanted.loss) < 2e-6 * wanted.loss, name)
      assert.are.equal(#wanted.norms, #grads, name)
      local most = math.max(table.unpack(wanted.norms))
      for i, g in ipairs(grads) do
        local size = math.max(wanted.norms[i], most / 1000)
        local norm = (g:to "f64" ^ 2):sum():item() ^ 0.5
        assert.is_true(math.abs(norm - wanted.norms[i]) < 1e-5 * size, name .. " norm " .. i)
        local reach = 5 * g:numel() ^ 0.5 -- of the weights' norm
        assert.is_true(math.abs(weighted(g) - wanted.sums[i]) < 1e-5 * size * reach,
          name .. " sum " .. i)
      end
    end
  end)

  it("in bf16 is as near as bf16 allows", function()
    for _, name in ipairs(names) do
      local model = assert(nn.load(folder_of(name), { dtype = "bf16" }))
      local _, first = model:named_parameters()()
      assert.are.equal("bf16", first:get_dtype())
      local experts = name:find "mixtral" or name:find "moe" -- another one may be chosen
      local bound = experts and 0.5 or 0.04
      assert.is_true(away(last_logits(model), golden[name].logits) < bound, name)
    end
  end)

  it("is saved and read back bit for bit, with its config", function()
    for _, name in ipairs(names) do
      local model, path = assert(nn.load(folder_of(name))), files.folder()
      assert(model:save(path))
      local again = assert(nn.load(path))
      same_state(model, again)
      assert.are.same(model.options, again.options)
      model.config.dtype = "float32"
      assert.are.same(model.config, again.config)
    end
  end)

  it("is saved from options alone, in shards", function()
    for _, name in ipairs(names) do
      local model, path = assert(nn.load(folder_of(name))), files.folder()
      local plain = nn.Decoder(model.options)
      plain:load_state(model:state())
      assert(plain:save(path, { family = model.family, shard = 30000 }))
      assert.is_true(#reader.list(path) == 0 and reader.list(path)["model.safetensors.index.json"])
      local again = assert(nn.load(path))
      same_state(model, again)
      assert.are.same(model.options, again.options)
    end
  end)
end)
