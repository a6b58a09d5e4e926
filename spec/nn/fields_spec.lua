-- fields_spec.lua -- fields of modules that people name themselves
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local nn = mrt.nn

describe("a module", function()
  it("shows parts with long names, and with a zero byte in them", function()
    local net = nn.Sequential(nn.Linear(2, 3))
    net[("long"):rep(60)] = nn.Linear(2, 2)
    net["a\0b"] = nn.ReLU()
    local text = tostring(net)
    assert.truthy(text:find(("long"):rep(60), 1, true))
    assert.truthy(text:find("a\0b: ReLU", 1, true))
    local widths = {}
    for line in text:gsub("^[^\n]*\n", ""):gmatch "[^\n]+" do widths[#line] = true end
    local width = next(widths)
    assert.is_nil(next(widths, width), "columns are not aligned")
  end)

  it("has fields with names, at whose line others are refused", function()
    local net = nn.ReLU()
    for _, key in ipairs { 0 / 0, 1.5, {}, print, true } do
      assert.error_matches(function() net[key] = nn.ReLU() end,
        "fields_spec.lua:%d+: ReLU: a field has a name, got ")
    end
    assert.error_matches(function() net[nil] = 1 end, "fields_spec.lua:%d+: ReLU: a field")
    assert.error_matches(function() nn.Linear:register_buffer("x", mrt.variable(mrt.ones(1))) end,
      "fields_spec.lua:%d+: register_buffer: a module wanted, got a class")
    assert.equal(0, #net:parameters())
  end)

  it("describes options of its that have been overwritten", function()
    local dropout = nn.Dropout(0.5)
    dropout.p = false
    assert.matches("p = false", tostring(dropout), 1, true)
  end)
end)

describe("an integer divisor", function()
  it("may have no elements", function()
    local none = mrt.zeros({ 0 }, { dtype = "i64" })
    assert.equal(0, mrt.eval(none % none):numel())
    assert.equal("", mrt.eval(none // none):bytes())
  end)
end)
