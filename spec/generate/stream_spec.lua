-- stream_spec.lua -- what a model generates: with a cache as without, in pieces, to an end

local mrt = require "mrt"
local nn = mrt.nn
local Stops = require "mrt.generate.stops"

local VOCAB <const> = 53

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

local function random_ids(n)
  local ids = mrt.randint(0, VOCAB, n):totable()
  return ids
end

-- Models whose next token depends on all before.
local makers = {
  decoder = function(o)
    local all = { vocab = VOCAB, dim = 32, layers = 2, heads = 4, kv_heads = 2, context = 96,
      hidden = 48 }
    for name, value in pairs(o or {}) do all[name] = value end
    return nn.Decoder(all)
  end,
  gpt = function()
    return nn.GPT { vocab = VOCAB, dim = 32, layers = 2, heads = 4, context = 96 }
  end,
  llama = function()
    return nn.Llama { vocab = VOCAB, dim = 32, layers = 2, heads = 4, kv_heads = 2, context = 96,
      window = 9 }
  end,
}

local function make(name, o)
  mrt.seed(4)
  local model = makers[name](o)
  for _, p in model:named_parameters() do -- so that what is likeliest is clear
    if p:dim() == 2 then p:assign(p * 6) end
  end
  return model
end

-- A tokenizer of letters, two of which make one that UTF-8 has in two bytes.
local function letters()
  local bytes = {}
  for id = 0, VOCAB - 1 do bytes[id] = string.char(97 + id % 26) end
  bytes[50], bytes[51] = "\xc3", "\xa9"
  local tok = { eos = 52, vocab = VOCAB }
  function tok.encode(_, text)
    local ids = {}
    for c in text:gmatch "%l" do ids[#ids + 1] = c:byte() - 97 end
    return ids
  end
  function tok.stream()
    local held = ""
    return { push = function(_, id)
      held = held .. bytes[id]
      if held:sub(-1) == "\xc3" then return "" end
      local text = held
      held = ""
      return text
    end, finish = function() return held == "" and "" or "\xef\xbf\xbd" end }
  end
  return tok
end

local function with_letters(model)
  rawset(model, "tokenizer", letters())
  return model
end

describe("generate", function()
  it("gives the ids that the whole text gives, of prompts of any length", function()
    for name in pairs(makers) do
      local model = make(name)
      for _, n in ipairs { 1, 7, 8, 23, 50 } do
        local prompt = random_ids(n)
        assert.same(plainly(model, prompt, 20),
          model:generate { prompt = prompt, count = 20, temperature = 0, eos = false }:ids())
      end
    end
  end)

  it("gives each row of a batch what it gives it alone", function()
    local model = make "decoder"
    local prompts = { random_ids(3), random_ids(41), random_ids(17) }
    for _, o in ipairs { { temperature = 0 }, { top_k = 8, top_p = 0.9 }, { temperature = 2 },
      { min_p = 0.1, repetition_penalty = 1.2 } } do
      o.eos, o.count, o.seed, o.prompt = false, 12, 5, prompts
      local together = model:generate(o):ids()
      assert.same(together, model:generate(o):ids())
      for b, prompt in ipairs(prompts) do
        o.seed, o.prompt = 5 + b - 1, prompt
        assert.same(together[b], model:generate(o):ids())
      end
    end
  end)

  it("is what nn.generate gives, which goes on beyond the context", function()
    local model = make("decoder", { context = 16 })
    local ids = nn.generate(model, { 1, 2, 3 }, 25, { temperature = 0 })
    local plain = setmetatable({ context = 16 }, { __call = function(_, x) return model(x) end,
      __index = { train = function() end, eval = function() end } })
    assert.same(nn.generate(plain, { 1, 2, 3 }, 25, { temperature = 0 }), ids)
    assert.equal(28, #ids)
  end)

  it("streams pieces that are whole, and ends for a reason", function()
    local model = with_letters(make "decoder")
    local stream = model:generate { prompt = "hello", count = 30, temperature = 0, eos = false }
    local text = {}
    for piece, row in stream do
      assert.equal(1, row)
      assert.is_true(utf8.len(piece) ~= nil)
      text[#text + 1] = piece
    end
    assert.equal(table.concat(text), stream:text())
    assert.equal("count", stream:reason())
    local ids = stream:ids()
    assert.equal(30, #ids)
    local again = model:generate { prompt = "hello", count = 30, temperature = 0,
      eos = { ids[4], 999 } }
    local first = 1
    while ids[first] ~= ids[4] do first = first + 1 end
    assert.same({ table.unpack(ids, 1, first - 1) }, again:ids())
    assert.equal("eos", again:reason())
    local short = model:generate { prompt = "hello", count = 30, temperature = 0, context = 9,
      eos = false }
    assert.same({ table.unpack(ids, 1, 4) }, short:ids())
    assert.equal("context", short:reason())
  end)

  it("ends before a string that tokens have in pieces", function()
    local model = with_letters(make "decoder")
    local o = { prompt = "hello", count = 30, temperature = 0, eos = false }
    local text = model:generate(o):text()
    o.stop = { text:sub(9, 12), "not there" }
    local first = text:find(o.stop[1], 1, true)
    local stream = model:generate(o)
    assert.equal(text:sub(1, first - 1), stream:text())
    assert.equal("stop", stream:reason())
    o.stop = text:sub(-3) .. "z" -- begins, and does not come
    assert.equal(text, model:generate(o):text())
  end)

  it("may be two streams in turn", function()
    local model = make "decoder"
    local function stream(prompt)
      return model:generate { prompt = prompt, count = 10, temperature = 0, eos = false }
    end
    local wanted = { stream { 1, 2 }:ids(), stream { 3, 4, 5 }:ids() }
    local a, b = stream { 1, 2 }, stream { 3, 4, 5 }
    for _ = 1, 10 do a(); b() end
    assert.same(wanted, { a:ids(), b:ids() })
  end)

  it("goes on from what is in the cache where it is told to keep it", function()
    local model = make "decoder"
    local prompt = random_ids(20)
    local o = { prompt = prompt, count = 8, temperature = 0, eos = false, context = 96 }
    local ids = model:generate(o):ids()
    table.move(ids, 1, #ids, #prompt + 1, prompt)
    table.move({ 7, 8, 9 }, 1, 3, #prompt + 1, prompt)
    local wanted = plainly(model, prompt, 8)
    o.keep = true
    local stream = model:generate(o)
    assert.same({ 27 }, stream.engine:kept(stream.request.rows, true))
    assert.same(wanted, stream:ids())
    prompt[5] = prompt[5] ~ 1
    assert.same(plainly(model, prompt, 8), model:generate(o):ids())
  end)

  it("says what it takes, and takes it", function()
    local model = make "decoder"
    local plan = model:generate { prompt = random_ids(30), count = 20, context = 64 }:plan()
    assert.equal(model:cache { length = 64 }:nbytes(), plan.cache)
    assert.equal(plan.weights + plan.cache + plan.other + plan.arena + plan.outputs, plan.total)
    assert.is_true(plan.other < 16384)
    assert.is_truthy(plan:line(true):find("weights " .. require "mrt.util.format"
      .count(plan.weights) .. " bytes", 1, true))
  end)

  it("keeps to a budget, with the same ids", function()
    local model = make "decoder"
    local o = { prompt = random_ids(30), count = 10, temperature = 0, eos = false, context = 96 }
    local ids, plan = model:generate(o):ids(), model:generate(o):plan()
    o.memory = plan.total - plan.cache // 2
    local stream = model:generate(o)
    local within = stream:plan()
    assert.is_true(within.total <= o.memory and within.swapped > 0)
    assert.same(ids, stream:ids())
    o.memory = 1000
    assert.error_matches(function() model:generate(o):plan() end, "too little")
  end)

  it("refuses what it cannot do, by name", function()
    local model = make "decoder"
    local function refused(o, pattern)
      assert.error_matches(function() model:generate(o) end, pattern)
    end
    refused({}, "generate: prompt is missing")
    refused({ prompt = {} }, "generate: prompt: at least one token wanted")
    refused({ prompt = "text" }, "generate: prompt: ids wanted, the model has no tokenizer")
    refused({ prompt = { 1, VOCAB } }, "ids from 0 to 52 wanted, got 53 at 2")
    refused({ prompt = { 1 }, top_p = 2 }, "option 'top_p': a number from 0 to 1 wanted, got 2")
    refused({ prompt = { 1 }, temperature = 0 / 0 }, "option 'temperature'")
    refused({ prompt = { 1 }, count = -1 }, "option 'count'")
    refused({ prompt = { 1 }, stop = "x" }, "option 'stop': the model has no tokenizer")
    refused({ prompt = random_ids(97) }, "prompt: 97 tokens, at most 96 wanted")
    refused({ prompt = { { 1 }, random_ids(97) } }, "prompt 2: 97 tokens")
    refused({ prompt = { 1 }, context = 97 }, "option 'context': at most the model's 96 wanted")
    refused({ prompt = { 1 }, tempratur = 1 }, "no option 'tempratur'")
  end)
end)

describe("stops", function()
  it("hold back what may be one, and no more", function()
    local stops = Stops.new { "abc", "bd" }
    local out = {}
    for _, piece in ipairs { "xa", "b", "a", "bb" } do out[#out + 1] = (stops:push(piece)) end
    assert.same({ "x", "", "ab", "ab" }, out)
    local text, stopped = stops:push "dzz"
    assert.same({ "", true }, { text, stopped })
    assert.equal("", stops:finish())
  end)
end)
