--- refusals_spec.lua -- each argument of each function, replaced by what it cannot be
---
--- Every row of spec/torch/ is called with a case of its own in which one argument is
--- another thing: a string, a table with a hole, a closed tensor, 2^62.  It works, or
--- raises at the line that called, and what it says begins with the function's name.
--- Each argument gets a third of the bad values; MRT_REFUSALS=all: all of them.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local vocabulary = require "support.vocabulary"

local closed = mrt.ones(2, 2)
closed:free()
local cyclic = {}
cyclic[1] = cyclic
local raising = setmetatable({}, { __index = function() error "asked for an index" end,
  __len = function() error "asked for a length" end,
  __pairs = function() error "asked for pairs" end })

local bad = { 0, -1, -7, 1.5, 0 / 0, math.huge, 1 << 31, 1 << 40, 1 << 62, math.mininteger,
  math.maxinteger, 1e30, "x", "", "a\0b", true, false, {}, { 1 }, { 0 }, { -1 }, { "a" },
  { 1 << 40, 1 << 40 }, { { 1 } }, { nil, 2 }, { 1, nil, 3 }, { 1, 1, 1, 1, 1, 1, 1, 1, 1 },
  { nope = 1 }, { 0 / 0 }, cyclic, raising, print, io.stdout, coroutine.create(print), closed,
  mrt.tensor(2.0), mrt.zeros(0), mrt.zeros(0, 3), mrt.ones(2, 3), mrt.ones(5),
  mrt.ones(2, 3, 4, 5), mrt.ones(1, 1, 2, 1, 1, 1, 1, 1), mrt.tensor({ -1, 100, 1 << 40 }, "i64"),
  mrt.ones(2, 3):gt(0), mrt.zeros(2, 3, { dtype = "u8" }), mrt.zeros(2, 3, { dtype = "f16" }),
  mrt.full({ 2, 2 }, 0 / 0), mrt.zeros(3, 3), mrt.ones(1, 1):expand(1 << 20, 1 << 20) }

-- A case of the row that works.
local function drawn_case(row)
  local dtype = (row.dtypes or { "f32" })[1]
  for seed = 1, 20 do
    math.randomseed(seed)
    local drawn = row.draw(vocabulary.r, dtype)
    local case = drawn and vocabulary.case(row, drawn, dtype)
    local fits = case and not (row.only_if and not row.only_if(case.values, dtype))
    if fits and pcall(vocabulary.call, case, 1) then return case end
  end
end

local function replaced(case, name, value)
  local values = {}
  for key, own in pairs(case.values) do values[key] = own end
  values[name] = value
  return { row = case.row, values = values, tensors = case.tensors, constant = case.constant }
end

-- Results that are small are computed, too.
local function computed(got)
  local list = {}
  for i = 1, got.n do
    local y = got[i]
    local small = mrt.is_tensor(y) and not core.is_closed(y) and y:numel() <= 10000
    if small then list[#list + 1] = y end
  end
  return mrt.eval(list)
end

-- Is the function an operator that has another name here, or of PyTorch's aliases?
local function same_function(row, word)
  local f = core.op[word]
  return f ~= nil and f == vocabulary.ours(row)
end

local at_call = "^spec/support/vocabulary%.lua:%d+: "

-- What is wrong with an error of the row's function, or nil.
local function wrong(row, stage, value, err)
  local text = tostring(err)
  if type(err) ~= "table" or not err.code then
    return not (value == raising and text:find "asked for") and text or nil
  end
  if stage == "computed" then return not err.position and text or nil end
  if not text:find(at_call) then return "at another line: " .. text end
  local who = err.message:match "^[%w_.]+" or ""
  local name = row.ours:match "[^.]+$"
  if value == closed or who:match "[^.]+$" == name or same_function(row, who) then
    return nil
  end
  return "in another name: " .. text
end

local function try(case, share)
  local stage = "called"
  local ok, err = pcall(function()
    local got = vocabulary.call(case, share)
    stage = "computed"
    return computed(got)
  end)
  return ok or stage, err, stage
end

local step <const> = os.getenv "MRT_REFUSALS" == "all" and 1 or 3

describe("an argument that cannot be", function()
  setup(function() core.set_budget(16 << 20) end)
  teardown(function() core.set_budget(0) end)

  it("is refused at the caller's line, in the name of the function", function()
    local problems, count = {}, 0
    for _, row in ipairs(vocabulary.rows()) do
      local case = row.draw and not row.call and drawn_case(row)
      for _, argument in ipairs(case and row.args or {}) do
        for k = 1 + count % step, #bad, step do
          local value = bad[k]
          local other = replaced(case, argument[1], value)
          local ok, err, stage = try(other, count % 2)
          local what = ok ~= true and wrong(row, stage, value, err)
          if what then
            problems[#problems + 1] = ("%s, %s = %s: %s"):format(row.ours, argument[1],
              type(value) == "userdata" and "a tensor" or tostring(value), what)
          end
          count = count + 1
        end
      end
    end
    assert.same({}, problems)
    assert.is_true(count > 5000)
  end)
end)
