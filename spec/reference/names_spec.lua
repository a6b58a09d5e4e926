--- names_spec.lua -- what is written about a name is found by it, and by its value
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local help = require "mrt.cli.repl.help"
local reference = require "mrt.reference"

describe("the reference", function()
  it("finds each entry by its name, and by its value", function()
    local index, values = reference.index(), 0
    for _, entry in ipairs(index.entries) do
      assert.equal(entry, reference.find(entry.name), entry.name)
      assert.is_truthy(reference.describe(entry.name):find(entry.name, 1, true), entry.name)
      if entry.value ~= nil then
        assert.equal(entry, reference.find(entry.value), entry.name)
        values = values + 1
      end
    end
    assert.is_true(values > 900)
  end)

  it("knows a name before an operator that is called alike", function()
    for name, text in pairs { ["mrt.policy.checkpoint.sqrt"] = "segments",
      ["mrt.policy.checkpoint.all"] = "every", ["mrt.optim.adamw"] = "AdamW",
      ["mrt.optim.linear"] = "rate", ["mrt.train.log"] = "folder",
      ["nn.Linear"] = "linear layer", ["mrt.policy.swap.all"] = "",
      ["optim.sgd"] = "momentum" } do
      local entry = reference.find(name)
      assert.is_truthy(entry, name)
      assert.is_nil(entry.operator, name)
      assert.matches(text, reference.describe(name):lower():gsub(text:lower(), text), 1, true)
    end
  end)

  it("knows every method of tensors", function()
    for name, f in pairs(core.methods) do
      local entry = reference.find("x:" .. name)
      assert.is_truthy(entry, name)
      assert.is_true(entry == reference.find(f), name)
    end
  end)

  it("shows the options of what takes a table", function()
    assert.matches("checkpoint%?  mrt.CheckpointPolicy", reference.describe "mrt.compile")
    assert.matches("betas%?", reference.describe "mrt.optim.adamw")
    assert.matches("memory%?", reference.describe "mrt.CompileOptions")
  end)

  it("finds objects by their class", function()
    assert.equal("mrt.nn.Linear", reference.find(mrt.nn.Linear(2, 3)).name)
    assert.equal("Tensor", reference.find(mrt.ones(2)).name)
  end)

  it("searches names and texts", function()
    local function first(words) return (reference.search(words)[1] or {}).name end
    assert.equal("Tensor:softmax", first "softmax")
    assert.is_truthy(reference.apropos("checkpoint sqrt"):find "mrt.policy.checkpoint.sqrt")
    assert.is_nil(reference.apropos "nothinghasthisword")
    assert.equal("nothing is known of 'nothinghasthisword'", help "nothinghasthisword")
  end)

  it("lines are no wider than the terminal where words allow it", function()
    for _, name in ipairs { "mrt.compile", "mrt.train.run", "mrt.nn.Decoder" } do
      for line in reference.describe(name, 60):gmatch "[^\n]+" do
        local typed = line:match "^  %S+  %S" -- types are one word
        local code = line:find "^    " -- examples are left as they are
        assert.is_true(utf8.len(line) <= 60 or typed ~= nil or code ~= nil, line)
      end
    end
  end)
end)
