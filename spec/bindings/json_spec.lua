--- json_spec.lua -- values as JSON, and read again
---
--- SPDX-License-Identifier: MIT

local json = require "mrt.util.json"
local mrt = require "mrt"
local random_graph = require "support.random_graph"

describe("json.encode", function()
  it("writes values, keys in a fixed order", function()
    for text, value in pairs { ["[1,2.5,0.1,1e+300,null,-7]"] = { 1, 2.5, 0.1, 1e300, 1 / 0, -7 },
      ["[3.0,-0.0,1e-05,0.30000000000000004]"] = { 3.0, -0.0, 1e-5, 0.1 + 0.2 },
      ['["a\\n\\u0000\\"\\\\é/\\u001f\\t"]'] = { 'a\n\0"\\é/\31\t' },
      ["[9223372036854775807,-9223372036854775808]"] = { math.maxinteger, math.mininteger },
      ['{"-1":true,"10":[],"2":{},"a":false,"b":null}'] = { b = json.null, [10] = {},
        [2] = json.object {}, [-1] = true, a = false } } do
      assert.equal(text, json.encode(value))
    end
    local order = { "z", "y" }
    assert.equal('{"z":1,"y":{"y":2,"a":3},"a":4,"b":5}',
      json.encode({ a = 4, b = 5, z = 1, y = { a = 3, y = 2 } }, { order = order }))
    assert.equal('{\n  "a": [\n    1\n  ],\n  "b": {}\n}',
      json.encode({ a = { 1 }, b = json.object {} }, { indent = 2 }))
  end)

  it("gives floats back, to the bit", function()
    local random = random_graph.generator(1)
    for _ = 1, 2000 do
      local low, high = 2 * random(1 << 31), 2 * random(1 << 31) - 1
      local x = string.unpack("<d", string.pack("<I4I4", low, high))
      if x == x and math.abs(x) < math.huge then
        local back = json.decode(json.encode(x))
        assert.equal(x, back)
        assert.equal("float", math.type(back))
      end
    end
  end)

  it("refuses what is none", function()
    local endless = {}
    endless.x = endless
    for pattern, value in pairs { ["a function is no JSON"] = { print },
      ["a key that is a boolean"] = { [true] = 1 }, ["more than 100 levels"] = endless,
      ["the key '1' twice"] = { ["1"] = 1, [1] = 2, a = 3 },
      ["no UTF%-8"] = { "a\xffb" } } do
      local ok, e = pcall(json.encode, value)
      assert.is_false(ok)
      assert.equal("value", e.code)
      assert.matches(pattern, e.message)
    end
    assert.equal('"a?b"', json.encode("a\xffb", { lossy = true }))
  end)
end)

describe("json.decode", function()
  it("reads values and the order of keys", function()
    local text = [[{"b":[1,-2.0,{"c":null}],"a":"\u00e9\ud83d\ude00\u0000","e":[],"o":{},]]
      .. '"t":true}'
    local value = assert(json.decode(text, { ordered = true, null = json.null }))
    assert.same({ "b", "a", "e", "o", "t" }, getmetatable(value).__jsonorder)
    assert.equal("é😀\0", value.a)
    assert.equal(text:gsub("\\u00e9\\ud83d\\ude00", "é😀"), json.encode(value))
    assert.is_nil(json.decode(text).b[3].c)
    assert.equal(-2.0, json.decode(text).b[2])
    assert.same({ nil, nil }, { json.decode "null" })
    assert.is_false(json.decode " false\n")
  end)

  it("has integers of 64 bits, and larger ones as floats", function()
    local numbers = { "9223372036854775807", "-9223372036854775808", "9223372036854775808",
      "-9223372036854775809", "1000000000000000019884624838656", "0.1234567890123456789012",
      "1e19", "12345678901234567890.5", "-0" }
    local found = json.decode("[" .. table.concat(numbers, ",") .. "]")
    for i, text in ipairs(numbers) do
      local kind = (i <= 2 or text == "-0") and "integer" or "float"
      assert.equal(tonumber(text), found[i])
      assert.equal(kind, math.type(found[i]), text)
    end
    assert.equal('"9223372036854775808"', json.encode(json.decode '"9223372036854775808"'))
  end)

  it("says what is wrong, and where", function()
    for text, pattern in pairs { [""] = "JSON: unexpected token near end of file",
      ['{"a": 1'] = "JSON, column 7: '}' expected near end of file",
      ["[1,\n\n x]"] = "JSON, line 3, column 2: invalid token near 'x'",
      ["[1] é 2"] = "JSON: something follows at column 5",
      ["[1,\n2]é"] = "JSON: something follows at line 2, column 3",
      ["\"\xff\""] = "JSON, column 1: unable to decode byte 0xff",
      ["[NaN]"] = "invalid token", ["[01]"] = "invalid token", ["1e999"] = "real number overflow",
      [("["):rep(1e5)] = "JSON of too many levels, 100 at most",
      [('{"a":'):rep(1e5)] = "JSON of too many levels, 100 at most",
      ["[" .. ("1,"):rep(1 << 22) .. "1]"] = "JSON of more than 4194304 values" } do
      local value, message, code = json.decode(text)
      assert.is_nil(value)
      assert.is_truthy(message:find(pattern, 1, true), message)
      assert.equal("data", code)
    end
    assert.equal(2, json.decode '{"a": 1, "a": 2}'.a)
    assert.matches("duplicate object key", select(2, json.decode('{"a": 1, "a": 2}',
      { unique = true })))
  end)

  it("survives any bytes", function()
    local random = random_graph.generator(2)
    local seed = '{"a": [1, -2.5e3, "x\\u00e9\\\\"], "long": 123456789012345678901, "n": null}'
    for _ = 1, 3000 do
      local text = seed
      for _ = 1, random(3) do
        local at = random(#text)
        local byte = string.char(random(256) - 1)
        text = text:sub(1, at - 1) .. byte:rep(random(3) - 1) .. text:sub(at + 1)
      end
      local value, message = json.decode(text, { null = json.null, ordered = true })
      if not message then
        local again = json.encode(value)
        local back = json.decode(again, { null = json.null, ordered = true })
        assert.equal(again, json.encode(back))
      end
    end
  end)
end)

describe("a plan's JSON", function()
  it("has no key twice", function()
    local model = mrt.nn.Sequential(mrt.nn.Linear(8, 8), mrt.nn.ReLU(), mrt.nn.Linear(8, 8))
    local optimizer = mrt.optim.adamw(model:parameters())
    local step = mrt.compile(function(x)
      local loss = model(x):pow(2):mean()
      optimizer:step(mrt.grad(loss, model:parameters()))
      return loss
    end)
    local text = require "mrt.plan.report.json" (step:plan(mrt.ones(4, 8)))
    local found = assert(json.decode(text, { unique = true }))
    assert.equal("mrt.plan/1", found.schema)
    assert.equal("{\"schema\":\"mrt.plan/1\",\"name\":", text:sub(1, 30))
  end)
end)
