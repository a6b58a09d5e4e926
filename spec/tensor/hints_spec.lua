--- hints_spec.lua -- what those who come from PyTorch type first, and are told
---
--- SPDX-License-Identifier: MIT

local files = require "support.files"
local mrt = require "mrt"
local hints = require "mrt.util.hints"
local program = require "support.program"

local nn, optim, data = mrt.nn, mrt.optim, mrt.data

describe("a word of PyTorch's", function()
  local x, model = mrt.ones(2, 3), nn.Linear(3, 2)
  local opt = optim.sgd(model:parameters())

  it("that is called raises with the remedy, at the caller's line", function()
    local calls = {
      { function() x:sum():backward() end, "mrt.grad%(loss, model:parameters%(%)%)" },
      { function() x.backward() end, "mrt.grad" },
      { function() return x:cuda() end, "mrt.device 'NAME:0'" },
      { function() return x:numpy() end, "x:totable" },
      { function() return x:half() end, "x:to 'f16'" },
      { function() x:zero_() end, "x = x:f" },
      { function() x:add_(1) end, "w:assign" },
      { function() opt:zero_grad() end, "each mrt.grad returns new" },
      { function() opt:add_param_group {} end, "groups are given at first" },
      { function() return opt:state_dict() end, "opt:state%(%)" },
      { function() model:zero_grad() end, "each mrt.grad returns new" },
      { function() return model:cuda() end, "mrt.device" },
      { function() return model:state_dict() end, "model:state%(%)" },
      { function() model:load_state_dict {} end, "model:load_state" },
      { function() return mrt.no_grad() end, "nothing is recorded" },
      { function() return mrt.manual_seed(1) end, "mrt.seed%(1%)" },
      { function() return mrt.Tensor { 1 } end, "mrt.tensor" },
      { function() return mrt.from_numpy(x) end, "mrt.load 'x.npy'" },
      { function() return optim.Adam(model:parameters()) end, "here it is optim.adam" },
      { function() return optim.SGD(model:parameters()) end, "here it is optim.sgd" },
      { function() return optim.lr_scheduler.StepLR(opt, 1) end, "the option lr" },
      { function() return nn.Parameter(x) end, "mrt.parameter" },
      { function() return nn.functional.relu(x) end, "x:relu%(%)" },
      { function() return nn.utils.clip_grad_norm_() end, "clip = 1" },
      { function() return data.DataLoader(x) end, "mrt.data.batches" },
      { function() return mrt.utils.data.DataLoader(x) end, "mrt.data.batches" },
      { function() return mrt.cuda.is_available() end, "mrt.device" },
      { function() return mrt.jit.script(x) end, "mrt.compile" },
      { function() x.requires_grad = true end, "nothing is recorded" },
      { function() x.data = x end, "x:detach" },
      { function() return mrt.randn(2, { requires_grad = true }) end, "mrt.grad%(y, x%)" },
      { function() return mrt.zeros({ 2 }, { device = "cuda" }) end, "mrt.device" },
    }
    for _, call in ipairs(calls) do
      assert.error_matches(call[1], "hints_spec.lua:%d+: .*" .. call[2])
    end
  end)

  it("that is a slip in Lua is told of too", function()
    local net, step = nn.Conv2d(1, 2, 3), mrt.compile(function(a) return a * 2 end)
    local loader = data.batches({ x }, { batch = 1 })
    local slips = {
      { function() net.forward(x) end, "forward: a module wanted in front, .*: m%(x%) calls it" },
      { function() step.plan(x) end, "step:plan%(x%), with a colon" },
      { function() for row in loader do print(row) end end, "loader:epoch%(%)" },
      { function() return x:reshape(x.shape[0], -1) end, "dimensions count from 1" },
      { function() nn.cross_entropy(x, mrt.zeros(2)) end, "integers, targets:to 'i64'" },
      { function() mrt.save("x.safetensors", model) end, "model:state%(%)" },
      { function() model:load_state(mrt.load "none.safetensors") end, "No such file" },
      { function() return nn.Dropout { p = 0.5 } end, "p = a table, wanted" },
      { function() return nn.Conv2d(1, 8, { kernel_size = 3 }) end, "kernel: one size or a list" },
      { function() return nn.GRU(3, 4, { num_layers = 2 }) end, "here it is 'layers'" },
      { function() return mrt.grad(x:sum(), model) end, "model:parameters%(%)" },
      { function() return nn.accuracy(model, x) end, "a module %(Linear%): m%(x%)" },
      { function() return x:type "f64" end, "x:to 'f64'" },
      { function() return x.softmax(1) end, "called with a colon" },
      { function() return x.reshape { 2 } end, "called with a colon" },
      { function() model:load_state { a = x } end, "no 'a' here, only bias, weight" },
    }
    for _, slip in ipairs(slips) do
      assert.error_matches(slip[1], "hints_spec.lua:%d+: .*" .. slip[2])
    end
  end)

  it("that is a function here too works", function()
    assert.is_table(nn.CrossEntropyLoss)
    assert.is_function(nn.ModuleList)
    assert.equal(0, nn.CrossEntropyLoss()(mrt.zeros(1, 1), mrt.tensor { 0 }):item())
  end)

  it("that is read is nil, as any name is that there is not", function()
    warn "@off"
    finally(function() warn "@on" end)
    for _, name in ipairs { "grad", "data", "requires_grad", "is_leaf", "device", "ndim" } do
      assert.is_nil(x[name])
    end
    assert.is_nil(opt.param_groups)
    assert.is_nil(mrt.float32)
    for _, value in ipairs { x, model, opt, mrt, nn, optim, data } do
      assert.is_nil(value.nosuch)
      assert.is_nil(value.Nosuch)
    end
    assert.is_nil(rawget(mrt, "no_grad"))
    assert.is_nil(model.children)
    assert.is_nil(x.grad_)
    assert.is_nil(x.nosuch_)
  end)

  it("that is read is told of once, by Lua's warnings", function()
    local script = files.temporary [[local x = require "mrt".ones(2)
      print(x.grad, x.grad, x:detach().grad, x.data)]]
    local code, output = program.shell(("'%s' '%s'"):format(program.path, script))
    assert.equal(0, code)
    assert.equal(2, select(2, output:gsub("Lua warning: mrt: ", "")))
    assert.matches("warning: mrt: grad: gradients are tensors that are asked for", output, 1, true)
    assert.matches("\nnil\tnil\tnil\tnil\n", "\n" .. output, 1, true)
  end)

  it("or a name that is nearly right is told of where calling it fails", function()
    local function of(text) return hints.of("x.lua:1: attempt to " .. text) end
    assert.equal("did you mean sum?", of "call a nil value (method 'smu')")
    assert.equal("did you mean nn.Linear?", of "call a nil value (field 'Liner')")
    assert.matches("x:relu", of "call a nil value (field 'relu')")
    assert.matches("mrt.grad", of "index a nil value (field 'grad')")
    assert.equal("x.shape is a field, without parentheses", of "call a table value (field 'shape')")
    assert.is_nil(of "call a nil value (global 'smu')")
    assert.is_nil(of "call a nil value (field 'qqqqqq')")
    assert.is_nil(of "index a number value (local 'x')")
    local _, output = program.run [[-e 'require "mrt".ones(2):smu()']]
    assert.matches("attempt to call a nil value (method 'smu'): did you mean sum?", output, 1, true)
  end)
end)
