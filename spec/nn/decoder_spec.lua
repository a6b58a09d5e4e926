--- decoder_spec.lua -- nn.Decoder against the formulas it is made of
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local nn = mrt.nn

local function near(wanted, got, tolerance)
  local difference = (wanted - got):abs():amax():item()
  local size = wanted:abs():amax():item()
  assert.is_true(difference <= tolerance * size,
    ("differs by %g of %g"):format(difference, size))
end

describe("Decoder", function()
  it("is a Llama where its options say one", function()
    mrt.seed(3)
    local o = { vocab = 31, dim = 24, layers = 2, heads = 4, kv_heads = 2, context = 12,
      hidden = 40 }
    local llama, decoder = nn.Llama(o), nn.Decoder(o)
    decoder:load_state(llama:state())
    local ids = mrt.randint(0, 31, { 2, 12 }, { dtype = "i32" })
    near(llama(ids), decoder(ids), 1e-6)
    near(llama:loss(ids, ids), decoder:loss(ids, ids), 1e-6)
  end)

  it("takes positions from where each row starts", function()
    mrt.seed(4)
    local model = nn.Decoder { vocab = 31, dim = 24, layers = 1, heads = 2, context = 64 }
    local ids = mrt.randint(0, 31, { 2, 6 }, { dtype = "i32" })
    local start = mrt.tensor({ 5, 40 }, "i32")
    near(model(ids), model(ids, { start = start }), 1e-5) -- only distances count
  end)
end)
