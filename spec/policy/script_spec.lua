--- script_spec.lua -- policies in files of their own: read, applied to
--- scripts that know nothing of them, compared
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local files = require "support.files"
local program = require "support.program"
local failure = require "support.failure"
local policy = mrt.policy

local write = files.temporary

local function mrt_with(...) return program.run(table.concat({ ... }, " ")) end

local function unloaded(...) return tostring(failure(policy.load, ...)) end

local train = [[
  local mrt = require "mrt"
  mrt.seed(1)
  local w = {}
  for i = 1, 16 do w[i] = mrt.parameter(mrt.randn(8, 8) * 0.3) end
  local opt = mrt.optim.sgd(w, { lr = 0.1 })
  local step = mrt.compile(function(x)
    for _, v in ipairs(w) do
      x = mrt.layer(function(y) return y:matmul(v):tanh() end, x)
    end
    local loss = (x * x):mean()
    opt:step(mrt.grad(loss, w))
    return loss
  end, { %s })
  local x = mrt.full({ 256, 8 }, 0.5)
  %s
  print(step:plan(x).peak, step(x):item())
]]

local function script(options, before) return write(train:format(options or "", before or "")) end

local sqrt = 'return { checkpoint = require "mrt".policy.checkpoint.sqrt() }'

describe("a policy script", function()
  it("is a table that mrt.compile takes", function()
    local path = write("#!/usr/bin/env mrt\n" .. sqrt)
    local options = assert(policy.load(path))
    assert.equal("policy.checkpoint.sqrt()", tostring(options.checkpoint))
    local step = mrt.compile(function(x) return x + 1 end, options)
    assert.equal(2, step(mrt.ones(1)):item())
    assert.same({}, policy.load(write "return {}"))
  end)

  it("that cannot be read comes back as nil and why", function()
    local options, message = policy.load "no/such/file.lua"
    assert.is_nil(options)
    assert.equal("no/such/file.lua: No such file or directory", message)
    options, message = policy.load "/"
    assert.is_nil(options)
    assert.equal("string", type(message))
  end)

  it("is text: compiled chunks can do what no script can", function()
    local path = write(string.dump(function() return {} end))
    assert.matches("binary chunk", unloaded(path))
    assert.matches(path, unloaded(path), 1, true)
  end)

  it("that is wrong is told with its name", function()
    for text, message in pairs {
      ["return {"] = "unexpected symbol",
      ["return 3"] = "returns a table of accumulate, checkpoint, .-, got number",
      [""] = "got nil",
      ["return require 'mrt'.policy.checkpoint.sqrt()"] = "got policy.checkpoint.sqrt%(%)",
      ["return { chekpoint = 1 }"] = "no policy 'chekpoint', there are accumulate, checkpoint",
      ["return { 7 }"] = "no policy '1'",
      ["return { lr = 1 }"] = "no policy 'lr'",
      ["return { checkpoint = 'sqrt' }"] = "checkpoint: a function or table wanted, got sqrt",
      ["return { checkpoint = {} }"] = "option 'checkpoint': a policy or a function wanted",
      ["return { memory = {} }"] = "option 'memory': a table is not a number of bytes",
      ["return { memory = '2 apples' }"] = "option 'memory': '2 apples' is not a number of bytes",
      ["return { accumulate = true }"] = "accumulate: a function or number or string wanted",
      ["error 'own trouble'"] = "own trouble",
    } do
      local path = write(text)
      local problem = unloaded(path)
      assert.matches(message, problem)
      assert.truthy(problem:find(path, 1, true), problem)
    end
    assert.matches("policy.load: a path wanted, got nil", unloaded())
  end)

  it("stands in place of what the script says, and of nothing else", function()
    local keep, own = script(), script "checkpoint = mrt.policy.checkpoint.all()"
    local _, plain = mrt_with(keep)
    local _, wanted = mrt_with(script "checkpoint = mrt.policy.checkpoint.sqrt()")
    assert.not_equal(plain, wanted)
    assert.equal(plain:match "\t(.*)", wanted:match "\t(.*)")
    local path = write(sqrt)
    for _, name in ipairs { "--policy ", "--policy=" } do
      assert.equal(wanted, select(2, mrt_with(name .. path, keep)))
      assert.equal(wanted, select(2, mrt_with(name .. path, own)))
    end
    local _, empty = mrt_with("--policy", write "return {}", keep)
    assert.equal(plain, empty)
  end)

  it("is checked before the script runs", function()
    local hello = write "print 'hello'"
    for _, bad in ipairs { "no/such.lua", write "return { x = 1 }", write "return" } do
      local code, out = mrt_with("--policy", bad, hello)
      assert.equal(1, code)
      assert.truthy(out:find(bad, 1, true), out)
      assert.is_nil(out:find "hello")
    end
    local code, out = mrt_with("--policy", write "return { x = 1 }", hello)
    assert.equal(1, code)
    assert.matches("^mrt: %S+: no policy 'x', there are [%a, ]+\n?$", out)
    code, out = mrt_with("--policy", write(sqrt), "--policy", write(sqrt), hello)
    assert.equal(2, code)
    assert.matches("one %-%-policy wanted; mrt plan compares several", out)
    for _, words in ipairs { "--policy", "--policy=", "--policies x", "--polic" } do
      code, out = mrt_with(words)
      assert.equal(2, code)
      assert.matches("%(see mrt %-%-help%)", out)
    end
  end)
end)

describe("mrt plan --policy", function()
  it("plans the step under one", function()
    local keep, path = script(), write(sqrt)
    local _, out = mrt_with("plan --policy", path, keep)
    local peak = select(2, mrt_with("--policy", path, keep)):match "^%d+"
    assert.equal(peak, (out:match "([%d,]+) bytes":gsub(",", "")))
  end)

  it("compares several, planned or called, and those that cannot be", function()
    local all = write 'return { checkpoint = require "mrt".policy.checkpoint.all() }'
    local less, page = write "return { memory = 100 }", files.name ".html"
    for _, before in ipairs { "", "step(x)", "step:plan(x) os.exit = nil do return end" } do
      local code, out = mrt_with("plan --html", page, "--policy", write(sqrt), "--policy=" .. all,
        script("", before))
      assert.equal(0, code, out)
      local names, times = {}, {}
      for name, time in out:gmatch "\n(%S+) .-([%d.]+)x" do
        names[#names + 1], times[#times + 1] = name, tonumber(time)
      end
      assert.equal("script", names[1])
      assert.equal(all, names[3])
      assert.equal(1, times[1])
      assert.is_true(times[3] > times[2] and times[2] > 1)
      assert.matches("<polyline.-<polyline.-<polyline", files.read(page))
    end
    local code, out = mrt_with("plan --policy", less, "--policy", all, script())
    assert.equal(1, code)
    assert.truthy(out:find(less .. " memory = 100 B is too little", 1, true), out)
  end)

  it("says what is wrong", function()
    local keep, path = script(), write(sqrt)
    for words, message in pairs {
      ["--policy no/such.lua"] = "mrt plan: no/such.lua: No such file",
      ["--policy"] = "script.lua wanted",
      ["--json --policy " .. path .. " --policy " .. path] = "%-%-json prints one plan",
      ["--policy " .. write "return 1"] = "returns a table of",
    } do
      local code, out = mrt_with("plan", words, keep)
      assert.equal(words == "--policy" and 2 or 1, code)
      assert.matches(message, out)
    end
  end)
end)
