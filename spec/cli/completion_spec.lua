--- completion_spec.lua -- names completed at the prompt
---
--- SPDX-License-Identifier: MIT

describe("completion", function()
  local complete = require "mrt.cli.repl.complete"

  setup(function()
    _G.spec_base = { method = function() end, value = 1 }
    _G.spec_object = setmetatable({ alpha = { beta = 1 } }, { __index = _G.spec_base })
    _G.spec_trap = setmetatable({}, { __index = function() error "user code ran" end })
  end)
  teardown(function() _G.spec_base, _G.spec_object, _G.spec_trap = nil, nil, nil end)

  it("follows tables and __index", function()
    assert.equal("ject", (complete "x = spec_ob"))
    assert.equal("ta", (complete "spec_object.alpha.be"))
    assert.equal("thod", (complete "spec_object:me"))
    assert.equal("", (complete "spec_object:va"))
    assert.equal("lue", (complete "f(spec_object.va"))
    assert.equal("per", (complete "('x'):up" and complete "string.up"))
  end)

  it("uses __fields where __index is a function", function()
    local fields = { first = true, second = true }
    _G.spec_trap = setmetatable({}, { __index = error, __fields = { fields } })
    assert.equal("rst", (complete "spec_trap.fi"))
    assert.equal("", (complete "spec_trap.second.any"))
  end)

  it("knows tensors and the parts of mrt", function()
    _G.spec_base = require "mrt".zeros(2)
    assert.equal("ftmax", (complete "spec_base:log_so"))
    assert.equal("ape", (complete "spec_base.sh"))
    _G.spec_base = require "mrt"
    assert.equal("im", (complete "spec_base.opt"))
    _G.spec_base = require "mrt".policy.precision
    local _, choices = complete "spec_base."
    assert.equal("bf16 bf16_pure f16 f32 fp8", (choices:gsub("%s+", " ")))
  end)

  it("knows keywords and shows several choices", function()
    assert.equal("nction", (complete "fu"))
    local insert, choices = complete "spec_object."
    assert.is_nil(insert)
    assert.equal("alpha   method  value", choices)
  end)

  it("runs no code of the user", function()
    assert.equal("", (complete "spec_trap.any.thing"))
  end)
end)
