-- embedding_bag_spec.lua -- EmbeddingBag against Embedding, and bad bags
local mrt = require "mrt"
local nn = mrt.nn

describe("EmbeddingBag", function()
  local ids = mrt.tensor({ { 3, 1, 1 }, { 0, 2, 3 } }, { dtype = "i64" })

  it("is the sum, mean or maximum of an Embedding, with its gradient", function()
    for mode, over in pairs { sum = "sum", mean = "mean", max = "amax" } do
      local bag = nn.EmbeddingBag(5, 4, { mode = mode })
      local rows = nn.Embedding(5, 4):load_state(bag:state())
      local y, wanted = bag(ids), rows(ids)
      wanted = wanted[over](wanted, 2)
      assert.is_true((y - wanted):abs():amax():item() < 1e-6)
      if mode ~= "max" then -- where rows repeat, amax shares the gradient
        local g = mrt.grad((y * y * y):sum(), bag.weight)
        local g2 = mrt.grad((wanted * wanted * wanted):sum(), rows.weight)
        assert.is_true((g - g2):abs():amax():item() < 1e-5)
      end
      local flat = bag(ids:reshape(6), mrt.tensor({ 0, 3 }, { dtype = "i64" }))
      assert.equal(y:bytes(), flat:bytes())
    end
  end)

  it("stops at ids and offsets out of range", function()
    local bag = nn.EmbeddingBag(3, 4)
    assert.error_matches(function() bag(ids):bytes() end, "3")
    for _, offsets in ipairs { { 0, 7 }, { -1, 2 }, { 4, 2 } } do
      local list = mrt.zeros({ 6 }, { dtype = "i64" })
      assert.error(function()
        bag(list, mrt.tensor(offsets, { dtype = "i64" })):bytes()
      end)
    end
    assert.error_matches(function() nn.EmbeddingBag(3, 4, { mode = "min" }) end, "mode 'min'")
  end)
end)
