--- estimate_spec.lua -- estimates are the literature's figures
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local program = require "support.program"
local estimate = mrt.estimate

local function shell(command) return program.run("estimate " .. command) end

-- `value` printed with as many digits as `text` has.
local function same_figure(text, value)
  local decimals = #(text:match "%.(%d+)" or "")
  assert.equal(text, ("%." .. decimals .. "f"):format(value))
end

-- a, h, L, micro-batch, pipeline, interleave; decimal GB of a layer at s = 2048,
-- t = 8: all (t = 1), tensor, + sequence, + selective, both, full; GB of stage 0
-- with sequence parallelism: all, selective, full (arXiv:2205.05198).
local korthikanti = {
  { "22B", 64, 6144, 48, 4, 1, 1, "7.0800 1.3254 0.8850 0.6543 0.2139 0.1007",
    "42.48 10.27 4.83" },
  { "175B", 96, 12288, 96, 1, 8, 3, "2.8689 0.5788 0.3586 0.3272 0.1070 0.0503",
    "44.47 13.26 6.24" },
  { "530B", 128, 20480, 105, 1, 35, 3, "4.1104 0.8808 0.5138 0.5453 0.1783 0.0839",
    "71.42 24.78 11.66" },
  { "1T", 160, 25600, 128, 1, 64, 1, "5.1380 1.1010 0.6423 0.6816 0.2228 0.1049",
    "82.21 28.52 13.42" },
}

local function layer_of(row, options)
  options.sequence, options.heads, options.dim = 2048, row[2], row[3]
  options.batch, options.layers = row[5], row[4]
  return options
end

describe("the activations of a transformer layer", function()
  local schemes = { {}, { tensor = 8 }, { tensor = 8, sequence_parallel = true },
    { tensor = 8, recompute = "selective" },
    { tensor = 8, sequence_parallel = true, recompute = "selective" },
    { tensor = 8, recompute = "full" } }

  for _, row in ipairs(korthikanti) do
    it("are Korthikanti's: " .. row[1], function()
      local i = 0
      for figure in row[8]:gmatch "%S+" do
        i = i + 1
        local o = {}
        for key, value in pairs(schemes[i]) do o[key] = value end
        same_figure(figure, estimate.layer(layer_of(row, o)) / 1e9)
      end
      assert.equal(6, i)
    end)

    it("fill the first stage as they say: " .. row[1], function()
      local figures = row[9]:gmatch "%S+"
      for _, recompute in ipairs { "none", "selective", "full" } do
        same_figure(figures(), estimate.activations(layer_of(row, { tensor = 8,
          sequence_parallel = true, recompute = recompute, pipeline = row[6],
          interleave = row[7] })).layers / 1e9)
      end
    end)
  end

  it("are sbh(34 + 5as/h), and scale with the dtype but for the masks", function()
    local s, b, h, a = 128, 3, 64, 4
    local o = { sequence = s, batch = b, dim = h, heads = a }
    assert.equal(34 * s * b * h + 5 * a * s * s * b, estimate.layer(o))
    o.dtype = "f32"
    assert.equal(66 * s * b * h + 9 * a * s * s * b, estimate.layer(o))
    o.dropout = false
    assert.equal(64 * s * b * h + 4 * a * s * s * b, estimate.layer(o))
    o.attention = "fused"
    assert.equal(64 * s * b * h + 4 * a * s * b, estimate.layer(o))
    o.head_dim = 3 * h // (2 * a)
    assert.equal(72 * s * b * h + 4 * a * s * b, estimate.layer(o))
    o.head_dim, o.ff = nil, h
    assert.equal(40 * s * b * h + 4 * a * s * b, estimate.layer(o))
  end)

  it("are those of GPT-2, with and without scores", function()
    for _, row in ipairs { { 12, 768, 12, "89.653", "1.076", "0.321", "18.9", 124438272 },
      { 24, 1024, 16, "119.538", "2.869", "0.856", "50.3", 354821120 },
      { 36, 1280, 20, "149.422", "5.379", "1.604", "94.4", 774027520 },
      { 48, 1600, 25, "186.778", "8.965", "2.674", "157.3", 1557608000 } } do
      local function gpt2(recompute)
        return estimate.layer { layers = row[1], dim = row[2], heads = row[3],
          sequence = 1024, recompute = recompute }
      end
      same_figure(row[4], gpt2 "none" / 1e6)
      same_figure(row[5], gpt2 "none" * row[1] / 1e9)
      same_figure(row[6], gpt2 "selective" * row[1] / 1e9)
      same_figure(row[7], gpt2 "full" * row[1] / 1e6)
      -- The literature leaves out the last norm.
      assert.equal(row[8] + 2 * row[2], estimate.parameters { vocab = 50257,
        context = 1024, dim = row[2], layers = row[1] })
    end
  end)

  it("come with logits in f32, and their work with what is done again", function()
    local o = estimate.activations { sequence = 1024, dim = 768, heads = 12, vocab = 50257 }
    same_figure("0.206", o.logits / 1e9)
    assert.equal(o.total, o.layers + o.embedding + o.norm + o.head + o.logits)
    local f = { layers = 96, sequence = 2048, dim = 12288, vocab = 51200 }
    local model = estimate.flops(f).model
    f.recompute = "selective"
    same_figure("1.027", estimate.flops(f).hardware / model)
  end)
end)

describe("states", function()
  it("of Adam are 3N in the literature and 2N in mrt", function()
    local s = estimate.states { parameters = 175e9 }
    assert.equal(2100 * 10 ^ 9, s.literature)
    assert.equal(1400 * 10 ^ 9, s.optimizer)
    assert.equal(350 * 10 ^ 9, estimate.states { parameters = 175e9, dtype = "bf16" }.weights)
    assert.equal(0, estimate.states { parameters = 7, optimizer = "sgd" }.optimizer)
  end)

  it("are cut as ZeRO's figure 1 has them", function()
    for stage, figure in pairs { [0] = "120", "31.4", "16.6", "1.9" } do
      same_figure(figure, estimate.zero { parameters = 7.5e9, ranks = 64, stage = stage } / 1e9)
    end
  end)
end)

describe("the table of GPT-3", function()
  it("has the figures that are quoted", function()
    local code, out = shell "gpt3"
    assert.equal(0, code, out)
    for _, name in ipairs { "Small", "Medium", "Large", "XL", "2.7B", "6.7B", "13B", "175B" } do
      assert.truthy(out:find("\n" .. name .. " ", 1, true), name)
    end
    for _, figure in ipairs { "152.59 GiB", "305.18 GiB", "350.0", "700.0", "2,100.0",
      "7,549.7", "15,099.5", "7,488", "14,976" } do
      assert.truthy(out:find(figure, 1, true), figure)
    end
    same_figure("174.6", estimate.gpt3.estimate "175B".parameters / 1e9)
  end)

  it("is there for one model and any number of tokens", function()
    local code, out = shell "gpt3 --model small --tokens 1K"
    assert.equal(0, code)
    assert.truthy(out:find "boundary activations of 1,000 tokens: 0.02 GiB")
  end)
end)

describe("an estimate beyond 64 bits", function()
  it("does not wrap around", function()
    assert.equal(2, estimate.states { parameters = 9e18 }.literature / 5.4e19)
    local code, out = shell "gpt3 --model 175B --tokens 9e18"
    assert.equal(0, code, out)
    assert.truthy(out:find "9,000,000,000,000,000,000 tokens: %d+")
    assert.is_nil(out:find " %-%d")
  end)
end)

describe("layers", function()
  it("keep their inputs", function()
    assert.same({ parameters = 30, weights = 120, kept = 7 * 5 * 4, output = 7 * 5 * 4,
      flops = 350.0 }, estimate.linear { inputs = 5, outputs = 5, rows = 7 })
    assert.same({ parameters = 0, weights = 0, kept = 2 * (12 + 20) * 2, output = 2 * 15 * 2,
      flops = 240.0 }, estimate.matmul { m = 3, k = 4, n = 5, batch = 2, dtype = "f16" })
    -- ResNet's first: 64 x 3 x 7 x 7 weights, 112 x 112 places.
    local c = estimate.conv2d { batch = 2, channels = 3, filters = 64, height = 224, width = 224,
      kernel = 7, stride = 2, padding = 3, bias = false }
    assert.equal(9408, c.parameters)
    assert.equal(2 * 64 * 112 * 112 * 4, c.output)
    assert.equal(2 * 2 * 112 * 112 * 9408, c.flops)
  end)
end)

describe("a description that is wrong", function()
  it("is refused by name, with what there is", function()
    for message, f in pairs {
      ["dim is missing"] = function() estimate.layer { sequence = 3, heads = 2 } end,
      ["no option 'dims' (options: attention, batch, dim"] = function()
        estimate.layer { dims = 2 }
      end,
      ["tokens = 1.5, a whole number"] = function()
        estimate.boundary { tokens = 1.5, dim = 1, layers = 1 }
      end,
      ["dtype = f12, there is bf16"] = function()
        estimate.states { parameters = 1, dtype = "f12" }
      end,
      ["optimizer = adamaxx, there is adadelta, adafactor, adagrad, adam, adamax"] = function()
        estimate.states { parameters = 1, optimizer = "adamaxx" }
      end,
      ["tensor = 3 does not divide 4 heads"] = function()
        estimate.layer { dim = 8, heads = 4, sequence = 8, tensor = 3 }
      end,
      ["stage = 4, there is 0"] = function() estimate.zero { parameters = 1, stage = 4 } end,
      ["no model '9B', there is 125M"] = function() estimate.gpt3.find "9B" end,
      ["spans 7 does not fit 3"] = function()
        estimate.conv2d { channels = 1, filters = 1, height = 3, width = 9, kernel = 7 }
      end,
    } do
      local ok, problem = pcall(f)
      assert.is_false(ok)
      assert.truthy(tostring(problem):find(message, 1, true), tostring(problem))
    end
  end)

  it("ends the command with status 1 or 2", function()
    for arguments, message in pairs { ["gpt4"] = "one of gpt3, transformer",
      ["gpt3 --modle 13B"] = "did you mean --model?", ["linear --inputs 3"] = "outputs is missing",
      ["states --parameters many"] = "'many' is no count" } do
      local code, out = shell(arguments)
      assert.not_equal(0, code, arguments)
      assert.truthy(out:find(message, 1, true), out)
      assert.is_nil(out:find "traceback")
    end
    local code, out = shell ""
    assert.equal(0, code)
    assert.matches("boundary +activations at the boundaries", out)
  end)
end)
