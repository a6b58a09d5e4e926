-- long_spec.lua -- texts that are longer than a window, or than a model once was

local mrt = require "mrt"
local nn = mrt.nn

local VOCAB <const> = 53

local function make(o)
  local all = { vocab = VOCAB, dim = 32, layers = 2, heads = 4, kv_heads = 2, context = 2048,
    hidden = 48 }
  for name, value in pairs(o) do all[name] = value end
  mrt.seed(4)
  local model = nn.Decoder(all)
  for _, p in model:named_parameters() do -- so that what is likeliest is clear
    if p:dim() == 2 then p:assign(p * 6) end
  end
  return model
end

local function random_ids(n)
  local ids = mrt.randint(0, VOCAB, n):totable()
  return ids
end

-- The likeliest ids, by the whole text for each.
local function plainly(model, ids, count)
  ids = { table.unpack(ids) }
  local _ <close> = require "mrt.nn.mode".evaluating(model)
  for _ = 1, count do
    local logits = model(mrt.tensor({ ids }, "i32"))
    ids[#ids + 1] = logits:slice(2, #ids, #ids):reshape(-1):argmax(1):item()
  end
  return table.move(ids, #ids - count + 1, #ids, 1, {})
end

-- A model whose cache keeps all tokens in every layer.
local function keeps_all(model)
  local own = model.cache
  rawset(model, "cache", function(self, given)
    given.slack = nil
    return own(self, given)
  end)
  return model
end

describe("layers that see a window", function()
  it("keep no more, in a batch, from call to call, with the same ids", function()
    local o = { windows = { 5, false }, layers = 2 }
    local short, whole = make(o), keeps_all(make(o))
    mrt.seed(9)
    local prompts = { random_ids(3), random_ids(600), random_ids(290) }
    local how = { prompt = prompts, count = 300, temperature = 0, eos = false, keep = true }
    local stream = short:generate(how)
    local bytes, ids = stream:plan().cache, stream:ids()
    assert.same(whole:generate(how):ids(), ids)
    assert.equal((5 + 256 + 1024) * 3 * 2 * 2 * 8 * 4, bytes)
    assert.equal(2 * 1024 * 3 * 2 * 2 * 8 * 4, whole:generate(how):plan().cache)
    how.count = 20
    for b, prompt in ipairs(prompts) do -- more of the same, and less
      table.move(ids[b], 1, 300, #prompt + 1, prompt)
      prompts[b] = { table.unpack(prompt, 1, b == 2 and 400 or #prompt) }
    end
    stream = short:generate(how)
    assert.same({ 302, 0, 589 }, stream.engine:kept(stream.request.rows, true))
    assert.same(whole:generate(how):ids(), stream:ids())
  end)

  it("are read anew where moving them was interrupted", function()
    local model = make { windows = 5 }
    mrt.seed(9)
    local how = { prompt = random_ids(500), count = 5, temperature = 0, eos = false, keep = true,
      context = 1024 }
    local wanted = model:generate(how):ids()
    local stream = model:generate(how)
    local step, stop = stream.engine.step, true
    stream.engine.step = setmetatable({}, { __call = function(_, name, ...)
      local results = table.pack(step(name, ...))
      if name == "room" and stop then error "interrupted!" end
      return table.unpack(results, 1, results.n)
    end })
    table.move(random_ids(400), 1, 400, 501, how.prompt)
    assert.error_matches(function() model:generate(how):ids() end, "interrupted!")
    stop, how.prompt = false, { table.unpack(how.prompt, 1, 500) }
    assert.same(wanted, model:generate(how):ids())
  end)
end)

describe("positions that depend on the length", function()
  local function factors(first, step)
    return { first, first + step, first + 2 * step, first + 3 * step }
  end

  it("are longrope's: beyond the first context all is read anew", function()
    for _, interleaved in ipairs { false, true } do
      local model = make { context = 400, rope = { base = 100, interleaved = interleaved,
        scaling = { kind = "longrope", original = 20, short = factors(1, 0.1),
          long = factors(1, 2) } } }
      mrt.seed(3)
      local prompts = { random_ids(5), random_ids(19), random_ids(20), random_ids(21),
        random_ids(30) }
      local got = model:generate { prompt = prompts, count = 20, temperature = 0,
        eos = false }:ids()
      for b, prompt in ipairs(prompts) do
        assert.same(plainly(model, prompt, 20), got[b], "row " .. b)
      end
    end
  end)

  it("are dynamic's: a prompt's by its length, then each token's by its own", function()
    local model = make { context = 400, rope = { base = 100, width = 6,
      scaling = { kind = "dynamic", original = 20, factor = 20 } } }
    mrt.seed(3)
    for _, n in ipairs { 5, 20, 21, 60, 300 } do -- one chunk and several
      local prompt = random_ids(n)
      local how = { prompt = prompt, count = 1, temperature = 0, eos = false }
      assert.same(plainly(model, prompt, 1), model:generate(how):ids())
    end
    local prompt = random_ids(5)
    local ids = model:generate { prompt = prompt, count = 15, temperature = 0, eos = false }:ids()
    assert.same(plainly(model, prompt, 15), ids)
  end)
end)

describe("penalties of what has been generated", function()
  local function repeats(ids)
    local most, counts = 0, {}
    for _, id in ipairs(ids) do
      counts[id] = (counts[id] or 0) + 1
      most = math.max(most, counts[id])
    end
    return most
  end

  it("leave the prompt alone", function()
    local model = make { context = 128 }
    local how = { prompt = { 1, 2, 3 }, count = 50, temperature = 0, eos = false }
    local plain = model:generate(how):ids()
    how.presence_penalty = 1e6
    local once = model:generate(how):ids()
    assert.equal(1, repeats(once))
    assert.equal(plain[1], once[1])
    how.prompt = { 1, 2, plain[1] }
    local first = model:generate { prompt = how.prompt, count = 1, temperature = 0, eos = false }
    assert.equal(first:ids()[1], model:generate(how):ids()[1])
    how.presence_penalty, how.frequency_penalty, how.count = nil, 1e5, 106
    assert.equal(2, repeats(model:generate(how):ids()))
  end)
end)
