--- completion_spec.lua -- names completed at the prompt
---
--- SPDX-License-Identifier: MIT

local files = require "support.files"

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
    assert.equal("alpha  method  value", choices)
  end)

  it("runs no code of the user", function()
    assert.equal("", (complete "spec_trap.any.thing"))
    for _, line in ipairs { "spec_f().", "spec_f():", "spec_f{1}.", "spec_f'x'.", "spec_trap[1].",
      "spec_trap[spec_f()].", "(spec_f)().", "spec_object.alpha[spec_f()]." } do
      _G.spec_f = function() error "user code ran" end
      assert.equal("", (complete(line)), line)
    end
    _G.spec_f = nil
  end)

  it("sees through indices and calls whose results are known", function()
    _G.spec_base = require "mrt".zeros(2, 3)
    _G.spec_object.list = { { gamma = 1 }, key = { delta = 1 } }
    for line, wanted in pairs { ["spec_base[1]:log_so"] = "ftmax",
      ["spec_base[{1, 2}]:log_so"] = "ftmax",
      ["spec_base:relu():log_so"] = "ftmax", ["spec_base.T:log_so"] = "ftmax",
      ["spec_base:item():log_so"] = "", ["spec_object.list[1]."] = "gamma",
      ["spec_object.list['key']."] = "delta", ["spec_object.list[2]."] = "",
      ["spec_base:sha"] = "", ["spec_base:_"] = "" } do
      assert.equal(wanted, (complete(line)), line)
    end
    _G.spec_base = require "mrt"
    assert.equal("ftmax", (complete "spec_base.randn(2):log_so"))
    assert.equal("meters", (complete "spec_base.nn.Linear(2, 3):para"))
  end)

  it("loads parts of mrt that are not loaded yet", function()
    local out = io.popen((os.getenv "MRT" or "build/mrt") .. [[ -e '
      mrt = require "mrt"
      local complete = require "mrt.cli.repl.complete"
      print(rawget(mrt, "policy"), (select(2, complete "mrt.policy.checkpoint.")))']])
    assert.matches("^nil\tall  budget  every  .*  sqrt  swap\n$", out:read "a")
    out:close()
  end)

  it("completes files in strings, and the prompt's commands", function()
    local folder = files.name()
    os.execute(("mkdir -p %s/some && touch %s/model.safetensors %s/.hidden"):format(folder, folder,
      folder))
    assert.equal("fetensors", (complete(("mrt.load('%s/model.sa"):format(folder))))
    assert.equal("me/", (complete(('x = "%s/so'):format(folder))))
    assert.equal("model.safetensors  some/", (select(2, complete(("f([[%s/"):format(folder)))))
    assert.equal("", (complete(("f('%s/none"):format(folder))))
    assert.equal("ime o", (complete ":t"))
    assert.equal("uit", (complete ":q"))
    assert.equal("", (complete "-- :t"))
    assert.equal("ring", (complete "?tost"))
  end)

  it("knows the options of a call's table", function()
    _G.spec_base = require "mrt"
    for line, wanted in pairs { ["spec_base.nn.GPT { vocab = 65, con"] = "text = ",
      ["spec_base.optim.adamw(f(), { weig"] = "ht_decay = ", ["f(spec_base.nn.GPT{he"] = "ad",
      ["spec_base.nn.GPT { vocab = con"] = "", ["spec_f { con"] = "",
      ["spec_base.nn.GPT { { con"] = "", ["spec_base.nn.GPT(con"] = "" } do
      assert.equal(wanted, (complete(line)), line)
    end
    assert.matches("adamw = .*weight_decay =", (select(2, complete "spec_base.optim.adamw(p, {")))
    _G.spec_base = require "mrt".ones(2)
    assert.equal("im = ", (complete "spec_base:softmax { d"))
  end)

  it("knows locals of the prompt before globals", function()
    local chunks = require "mrt.cli.repl.chunk"()
    chunks:compile "local spec_object, spec_other = { own = 1 }, 2"()
    assert.equal("wn", (complete("spec_object.o", chunks)))
    assert.equal("er", (complete("spec_oth", chunks)))
  end)
end)
