--- vocabulary_spec.lua -- names, order, defaults of arguments: those of the tables in spec/torch/
---
--- SPDX-License-Identifier: MIT

local bits = require("support.bits").of
local files = require "support.files"
local mrt = require "mrt"
local program = require "support.program"
local vocabulary = require "support.vocabulary"

local rows = vocabulary.rows()

-- The tensors of what a call gave: all its results.
local function results(case, share)
  local out, list = vocabulary.call(case, share), {}
  for i = 1, out.n do
    local values = type(out[i]) == "table" and not mrt.is_tensor(out[i]) and out[i] or { out[i] }
    for _, y in ipairs(values) do list[#list + 1] = mrt.is_tensor(y) and y or mrt.tensor(y) end
  end
  return mrt.eval(list)
end

-- f(row, case) for some cases of each row that draws any.
local function each_case(count, f)
  math.randomseed(1)
  for _, row in ipairs(rows) do
    for k = 1, row.draw and count or 0 do
      local dtypes = row.dtypes or { "f32", "f64" }
      local dtype = dtypes[(k - 1) % #dtypes + 1]
      local drawn = row.draw(vocabulary.r, dtype)
      local case = drawn and vocabulary.case(row, drawn, dtype)
      if case and not (row.only_if and not row.only_if(case.values, dtype)) then f(row, case) end
    end
  end
end

describe("what PyTorch has too", function()
  it("is here under the name that the table says", function()
    local seen = {}
    for _, row in ipairs(rows) do
      assert.is_nil(seen[row.torch], row.torch .. " has two rows")
      seen[row.torch] = true
      if row.absent then
        assert.is_true(#row.absent > 5, row.torch .. ": why is it absent?")
      else
        assert.is_truthy(row.call or vocabulary.ours(row), row.ours .. " is not there")
      end
    end
    assert.is_true(#rows > 0)
  end)

  it("is 95 of 100 that are reached for, and a reason for each of the others", function()
    local missing, count, absent = vocabulary.missing()
    assert.same({}, missing)
    assert.is_true(absent <= 0.05 * count, absent .. " are absent")
  end)

  it("takes arguments by place and by name", function()
    each_case(4, function(row, case)
      if row.call or row.random then return end
      local ok, placed = pcall(results, case, 1)
      local named_ok, named = pcall(results, case, 0)
      assert(ok or row.takes_more ~= nil, vocabulary.describe(case) .. ": " .. tostring(placed))
      assert.equal(ok, named_ok, vocabulary.describe(case) .. ", by name: " .. tostring(named))
      if ok then assert.equal(bits(placed), bits(named), vocabulary.describe(case)) end
    end)
  end)

  it("has the defaults that the table says", function()
    each_case(4, function(row, case)
      if row.call or row.random or vocabulary.named(case) == 0 then return end
      local ok, without = pcall(results, case, 0)
      if not ok then return end
      local added = false
      for _, argument in ipairs(row.args) do
        local name, default = argument[1], argument[3]
        if case.values[name] == nil and default ~= nil then
          case.values[name], added = default, true
        end
      end
      if added then
        assert.equal(bits(without), bits(results(case, 0)), vocabulary.describe(case))
      end
    end)
  end)

  it("refuses an option that it has not", function()
    each_case(1, function(row, case)
      if row.call or #row.args == #case.tensors then return end
      local ok, err = pcall(vocabulary.call, case, 0, "no_such_option")
      assert.is_false(ok, row.ours .. " took an option that it has not")
      assert.matches("no_such_option", tostring(err), 1, true, row.ours)
    end)
  end)

  it("is on the page of names, as it stands", function()
    local page = files.read "lua/mrt/tensor/PYTORCH.md"
    local code, written = program.run "scripts/pytorch_names.lua -"
    assert.equal(0, code, written)
    assert.equal(written, page, "scripts/pytorch_names.lua writes it anew")
  end)
end)
