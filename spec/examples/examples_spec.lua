--- examples_spec.lua -- every example runs, and says what it promises
---
--- SPDX-License-Identifier: MIT

local program = require "support.program"
local files = require "support.files"
local shell = program.shell

local function example(arguments) return program.run("examples/" .. arguments) end

local given = os.getenv "MRT_DATA"

-- The accuracy in percent of an example on files that MRT_DATA may name.
local function accuracy_on(name, folder)
  if not given then return nil end
  local code, out = example(("%s --data '%s/%s'"):format(name, given, folder))
  assert.equal(0, code, out)
  return tonumber(out:match "test accuracy ([%d.]+)%% of")
end

describe("examples/autodiff.lua", function()
  it("has the value, the adjoints and the Hessian", function()
    local code, out = example "autodiff.lua"
    assert.equal(0, code)
    assert.matches("y  = v7 +11%.6521", out)
    assert.matches("dy/dx1 = .- 5%.500\n", out)
    assert.matches("dy/dx2 = .- 1%.716\n", out)
    assert.matches("adjoint of v2 = +1%.7163 += +2%.0000 by v4 +%+ +%-0%.2837 by v5", out)
    assert.matches("%-0%.2500 +1%.0000\n.- 1%.0000 +%-0%.9589", out)
    assert.matches("cos%(", out)   -- a node that only the gradient has
  end)
end)

describe("examples/accumulate.lua", function()
  it("agrees with the loop by hand, and shows what a fixed 1/k does", function()
    local code, out = example "accumulate.lua"
    assert.equal(0, code, out)
    local batch, ours, hand, fixed = out:match
      "9 to 11 +24 +(%S+) +(%S+) +(%S+) +(%S+)"
    assert.is_true(math.abs(batch - ours) < 1e-5 and math.abs(batch - hand) < 1e-5)
    assert.is_true(math.abs(fixed / batch - 0.75) < 1e-4)
  end)
end)

describe("examples/finetune.lua", function()
  it("learns to answer, within its budget", function()
    local code, out = example "finetune.lua --steps 40 --memory 2MiB"
    assert.equal(0, code, out)
    assert.matches("200 samples, 4,131 tokens, 947 of them learned", out)
    local mebibytes = tonumber(out:match "a step takes ([%d.]+) MiB")
    assert.is_true(mebibytes <= 2, out)
    local first, last = out:match "step 1  loss ([%d.]+)", out:match "step 40  loss ([%d.]+)"
    assert.is_true(tonumber(last) < tonumber(first) - 0.5, out)
  end)
end)

describe("examples/gradient_noise.lua", function()
  it("trains what no gradient reaches", function()
    local code, out = example "gradient_noise.lua"
    assert.equal(0, code, out)
    assert.matches("without +0%.6931 +50%.0%%\n", out)
    local accuracy = tonumber(out:match "\ngradient noise +[%d.]+ +([%d.]+)%%\n")
    assert.is_true(accuracy > 99, out)
  end)

  it("says what is wrong with its flags", function()
    local code, out = example "gradient_noise.lua --noise 3"
    assert.not_equal(0, code)
    assert.matches("unknown option '%-%-noise'", out)
  end)
end)

describe("examples/gpt.lua", function()
  local tiny = "gpt.lua --layers 1 --heads 2 --dim 8 --context 8 --batch 2 "

  it("prints the plan, the losses and a sample", function()
    local code, out = example(tiny .. "--steps 4 --sample 20 --data LICENSE")
    assert.equal(0, code, out)
    local plan = out:find "peak +%S+ %S?iB"
    local first = out:find "step 1/4  loss"
    assert.is_true(plan ~= nil and plan < first)
    assert.matches("step 4/4  validation loss %d+%.%d+  ", out)
    assert.matches("validation loss %d+%.%d+ after 4 steps in [%d.]+ s\n\n.+", out)
  end)

  it("trains on the project's own sources, the same way twice #long", function()
    local code, one = example(tiny .. "--steps 3 --dropout 0.1 --sample 9")
    assert.equal(0, code, one)
    local _, two = example(tiny .. "--steps 3 --dropout 0.1 --sample 9")
    assert.equal(one:match "validation loss [%d.]+", two:match "validation loss [%d.]+")
    assert.equal(one:match "\n\n.*$", two:match "\n\n.*$")
  end)

  it("says what is wrong with its flags and files", function()
    for flags, message in pairs {
      ["--steps x"] = "%-%-steps: 'x', a whole number from 1 wanted",
      ["--stepz 3"] = "no option '%-%-stepz'; did you mean %-%-steps%?",
      ["--heads 3"] = "%-%-dim 128 is not a multiple of %-%-heads 3",
      ["--data no/such/file"] = "gpt.lua: no/such/file: No such file",
      ["--data LICENSE --context 5000"] = "too short",
    } do
      local code, out = example("gpt.lua " .. flags)
      assert.not_equal(0, code, flags)
      assert.matches(message, out)
      assert.is_nil(out:find("traceback", 1, true), out)
    end
  end)
end)

describe("examples/lora.lua", function()
  it("adapts a model of 4 bits, in fewer bytes than one of 32", function()
    local code, out = example("lora.lua --layers 1 --heads 2 --dim 64 --context 16 --batch 4 "
      .. "--steps 40 --tune 600 --rank 2") -- the text is the sources, which change
    assert.equal(0, code, out)
    local function row(name)
      local model, trained, before, after = out:match(name
        .. " +([%d.]+) KiB +(%d+) +[%d.]+ %S+ +([%d.]+) +([%d.]+)")
      return tonumber(model), tonumber(trained), tonumber(before) - tonumber(after)
    end
    local wide, numbers, gain = row "adapters, f32"
    local narrow, same, other = row "adapters, nf4"
    assert.is_true(narrow < 0.5 * wide, out)
    assert.equal(numbers, same)
    assert.is_true(gain > 0 and other > 0, out)
  end)
end)

describe("examples/mlp.lua", function()
  it("learns made-up data", function()
    local code, out = example "mlp.lua --hidden 64 --epochs 3"
    assert.equal(0, code, out)
    local accuracy = tonumber(out:match "test accuracy ([%d.]+)%% of 2400")
    assert.is_true(accuracy > 90, out)
  end)

  it("refuses a file that is no digits", function()
    local path = files.temporary "1,2,3\n"
    local code, out = example("mlp.lua --data " .. path)
    assert.equal(1, code)
    assert.matches("65 columns wanted, not 3", out)
  end)
end)

describe("examples/mnist.lua", function()
  local folder = files.name()

  it("learns made-up digits, and goes on from a snapshot to the same end #long", function()
    local tiny = "mnist.lua --width 2 --lr 1e-2 "
    local kept = ("--snapshots '%s/a' --log '%s/a' "):format(folder, folder)
    local code, out = example(tiny .. "--epochs 2 " .. kept)
    assert.equal(0, code, out)
    local wanted = out:match "test accuracy ([%d.]+)%% of 1000 after 2 epochs"
    assert.is_true(tonumber(wanted) > 60, out)
    assert.equal(0, (shell(("rm '%s/a/step-00000092.safetensors'"):format(folder))))
    code, out = example(tiny .. "--epochs 2 --resume " .. kept)
    assert.equal(0, code, out)
    assert.is_nil(out:find("step 46/92", 1, true))
    assert.equal(wanted, out:match "test accuracy ([%d.]+)%% of 1000 after 2 epochs")
    assert.matches("nothing left", select(2, example(tiny .. "--epochs 2 --resume " .. kept)))
  end)

  it("reads 99.0 % of MNIST after three epochs", function()
    local accuracy = accuracy_on("mnist.lua", "mnist")
    if not accuracy then return pending "MRT_DATA names no folder with mnist/" end
    assert.is_true(accuracy >= 99, ("%g"):format(accuracy))
  end)

  it("says what is missing", function()
    local code, out = example "mnist.lua --data /nowhere"
    assert.equal(1, code)
    assert.matches("mnist.lua: /nowhere/train%-images%-idx3%-ubyte.gz: No such file", out)
    assert.matches("without %-%-snapshots", select(2, example "mnist.lua --resume"))
  end)
end)

describe("examples/digits.lua", function()
  it("learns made-up digits", function()
    local code, out = example "digits.lua --hidden 64 --epochs 5"
    assert.equal(0, code, out)
    assert.is_true(tonumber(out:match "test accuracy ([%d.]+)%% of 1000") > 90, out)
  end)

  it("reads 97 % of UCI's digits", function()
    local accuracy = accuracy_on("digits.lua", "digits")
    if not accuracy then return pending "MRT_DATA names no folder with digits/" end
    assert.is_true(accuracy >= 97, ("%g"):format(accuracy))
  end)

  it("refuses a table of another width", function()
    local folder = files.folder()
    files.write(folder .. "/optdigits.tra", "1,2,3\n")
    local code, out = example("digits.lua --data " .. folder)
    assert.equal(1, code)
    assert.matches("65 columns wanted, not 3", out)
  end)
end)

describe("examples/questions.lua", function()
  it("has the answers", function()
    local code, out = example "questions.lua"
    assert.equal(0, code, out)
    for _, answer in ipairs { "174,604,259,328 parameters made, 0 bytes allocated",
      "summed, 0 bytes more", "five of them on 16.0 KiB, an arena of 128 bytes",
      "to the last: true",
      "f16: .- = 152%.59 GiB", "f32: .- = 305%.18 GiB",
      "(4 layers ([%d.]+ KiB), 16 layers %2, 64 layers %2)", "240 updates" } do
      assert.matches(answer, out)
    end
    local apart = out:match "gradients differ by at most ([%d.e-]+)"
    assert.is_true(tonumber((apart:gsub("%.$", ""))) < 1e-6, out)
  end)
end)

describe("examples/floats.lua", function()
  it("has the bits, and sums that stop", function()
    local code, out = example "floats.lua"
    assert.equal(0, code, out)
    for _, line in ipairs { "f16 +1 10000 0100000000 += %-2.5\n",
      "bf16 +0 10001111 0001001 += 70144\n", "f8_e4m3 +0 1111 110 += 448\n",
      "\nf16 +2 +5 +10 +6.55e%+04 +6.104e%-05 +5.96e%-08",
      "\n +256 +65536 +inf +65536\n",
      "4096 terms +4096.00 +2048.00 +4096.00 +256.00 +4096.00\n",
      "\n +4096 +%d.%de%-04 +%d.%de%-02 +%d.%de%-03 +%d.%de%-01\n" } do
      assert.matches(line, out)
    end
  end)
end)

describe("examples/mixed_precision.lua", function()
  it("learns in all types but in f16 with no scale for a small loss #long", function()
    local code, out = example("mixed_precision.lua --steps 60 --layers 2 --dim 32 "
      .. "--heads 2 --context 32 --batch 4")
    assert.equal(0, code, out)
    local change = {}
    for name, percent in out:gmatch "\n(%w+,? ?%w*) +[%d.]+ +([+-][%d.]+)%%" do
      change[#change + 1] = { name, tonumber(percent) }
    end
    assert.equal(10, #change, out)
    for i, c in ipairs(change) do
      if i == 9 then assert.equal("f16, unscaled", c[1]) end
      assert.equal(i == 9, c[2] > 10, c[1] .. " " .. c[2] .. "\n" .. out)
    end
  end)
end)

describe("examples/embed.c", function()
  local host = program.path:gsub("mrt$", "embed")

  it("runs a training script in its own process", function()
    local file = io.open(host)
    if not file then return pending(host .. " is not built") end
    file:close()
    local path = files.temporary [[
      local mrt = require "mrt"
      local w = mrt.parameter(mrt.zeros(1))
      local opt = mrt.optim.sgd({w}, {lr = 0.25})
      for _ = 1, epochs do
        opt:step(mrt.grad(((w - 8) * (w - 8)):sum(), {w}))
      end
      result = w:item()]]
    local code, out = shell(("LUA_PATH='lua/?.lua;lua/?/init.lua' '%s' %s")
      :format(host, path))
    assert.equal(0, code, out)
    assert.equal("result: 7.0\n", out)
  end)
end)

describe("examples/planning.lua", function()
  it("has a table for each step and walks one", function()
    local code, out = example "planning.lua"
    assert.equal(0, code, out)
    local _, tables = out:gsub("  in place %+ sharing +[%d.]+ [KM]iB", "")
    assert.equal(2, tables)
    assert.matches("2  full, .- live 256.1 KiB, 0 free blocks", out)
    assert.matches("could not take the place of an input\n  step 1, mul over", out)
  end)

  it("says when the folder for pictures is not there", function()
    local code, out = example "planning.lua --out /nowhere"
    assert.equal(1, code)
    assert.matches("/nowhere/exp%-none.html", out)
  end)
end)

describe("examples about recomputing", function()
  local picture

  before_each(function() picture = files.name ".svg" end)

  -- Output of an example that writes a picture of so many lines and dots.
  local function drawn(arguments, lines)
    local code, out = example(arguments .. " --out " .. picture)
    assert.equal(0, code, out)
    local file <close> = assert(io.open(picture))
    local text = file:read "a"
    assert.equal(lines, select(2, text:gsub("<polyline", "")))
    assert.is_nil(text:find "nan" or text:find "inf%W")
    return out
  end

  local tiny = " --layers 2 --dim 16 --heads 2 --context 8 "

  it("checkpoint_policy.lua: every policy gives the same bits", function()
    local out = drawn("checkpoint_policy.lua --batch 2 --steps 2" .. tiny, 0)
    assert.equal(8, select(2, out:gsub("same bits", "")))
    assert.is_nil(out:find "OTHER")
  end)

  it("fit.lua: budgets hold and give the same bits #long", function()
    local out = drawn("fit.lua --batch 16 --steps 2 --percent 100,85,1" .. tiny, 2)
    assert.equal(2, select(2, out:gsub("same bits", "")))
    assert.matches(" 1%% .- is the least", out)
  end)

  it("microbatch.lua: fewer rows, less flop per byte", function()
    local out = drawn("microbatch.lua --batch 8 --seconds 0.01" .. tiny, 3)
    local last = math.huge
    for work in out:gmatch "\n +%d+ +%S+ %S+ +([%d.]+)" do
      assert.is_true(tonumber(work) < last)
      last = tonumber(work)
    end
    assert.is_true(last < math.huge)
  end)

  it("swap.lua: says which copies are hidden, trains to the same bits from a file #long", function()
    local out = drawn("swap.lua", 1)
    assert.matches("  yes\n", out)
    assert.matches("  no\n", out)
    assert.equal(4, select(2, out:gsub("same bits", "")))
  end)

  it("sublinear.lua: least near the square root, and by halves the logarithm #long", function()
    local out = drawn("sublinear.lua --most 64 --fixed 64", 8)
    local k = tonumber(out:match "equal layers.-least at K = (%d+)")
    assert.is_true(k >= 5 and k <= 12, out)
    local runs = tonumber(out:match "\n +64 .-%(.-%).-%(.-%).-%( *([%d.]+)%)")
    assert.is_true(runs > 1 and runs < 3, out)
  end)
end)

describe("examples/allreduce.lua", function()
  it("adds up on threads and on processes, and shows the ring", function()
    for _, run in ipairs { "examples/allreduce.lua 3", "launch -n 3 --no-prefix "
      .. "examples/allreduce.lua" } do
      local code, out = program.run(run)
      assert.equal(0, code, out)
      assert.equal(3, select(2, out:gsub("allreduce +{33 36 39 42 45 48}", "")))
      assert.matches("rank 2 has.-reduce_scatter {45 48}", out)
      assert.equal(3, select(2, out:gsub("by send and recv: the same", "")))
      assert.matches("step 4: .-rank 0 +all +>all +all *\n", out)
      assert.matches("268435456.-3%.0x", out)
    end
  end)
end)

describe("examples/fsdp.lua", function()
  local small = "examples/fsdp.lua --layers 2 --dim 64 --heads 2 --context 16 --steps 3 --budget "

  it("trains on four ranks what does not fit into one, in the bytes it plans #long", function()
    local code, out = program.run(small .. "1400KiB")
    assert.equal(0, code, out)
    assert.matches("one rank: memory = 1.37 MiB is too little; with recomputing", out)
    assert.matches("step 3/3  loss %d", out)
    local planned, taken = out:match "planned (%d+) bytes; taken at most, by rank: ([%d ]+)"
    assert.equal((" " .. planned):rep(4), " " .. taken)
    assert.is_true(tonumber(planned) < 1400 * 1024)
  end)

  it("is planned for ranks that are not there", function()
    local code, out = program.run("plan --ranks 64 " .. small .. "1400KiB")
    assert.equal(0, code, out)
    assert.matches("this is rank 0 of 64", out)
  end)
end)

describe("examples/pipeline.lua", function()
  it("plans schedules side by side, draws them, and trains on four ranks #long", function()
    local path = os.tmpname()
    local code, out = program.run("examples/pipeline.lua --layers 4 --dim 32 --heads 2 "
      .. "--context 16 --steps 2 --svg " .. path)
    assert.equal(0, code, out)
    assert.matches("GPipe +27.3 %%", out)
    local file <close> = assert(io.open(path))
    assert.matches("<svg.*ZB%-H1.*</svg>", file:read "a")
    os.remove(path)
    local ways, losses = 0, nil
    for own, planned, taken in out:gmatch " (%d[%d. ]+)\n +planned ([%d ]+)\n +taken +([%d ]+)" do
      losses = losses or own
      assert.equal(losses, own)
      assert.equal(planned, taken)
      ways = ways + 1
    end
    assert.equal(6, ways)
  end)
end)

describe("examples/cluster.lua", function()
  it("finds a mesh no slower than the published one, and writes it", function()
    local path = os.tmpname()
    local code, out = example("cluster.lua --cluster dgx-a100:64 --layers 8 --dim 512 --heads 8 "
      .. "--context 256 --vocab 1024 --batch 128 --write " .. path)
    assert.equal(0, code, out)
    assert.matches("the quickest that fits", out)
    assert.is_true(tonumber(out:match "as published, [^\n]*, ([%d.]+) of what was found") >= 1)
    assert.is_truthy(require "mrt.policy.script".load(path).mesh)
    os.remove(path)
  end)
end)

describe("examples/tensor_parallel.lua", function()
  it("trains on one, two and four ranks alike, which take what was planned #long", function()
    local code, out = program.run("examples/tensor_parallel.lua --layers 1 --dim 32 --context 16 "
      .. "--vocab 64 --batch 4 --steps 3")
    assert.equal(0, code, out)
    local steps, shares = 0, 0
    for one, two, four in out:gmatch "loss of step %d +(%S+) +(%S+) +(%S+)" do
      assert(math.abs(one - two) < 1e-5 and math.abs(one - four) < 1e-5, out)
      steps = steps + 1
    end
    for planned, taken in out:gmatch "planned +([%d, ]+)\n +taken +([%d, ]+)" do
      assert.equal(planned, taken)
      shares = shares + 1
    end
    assert.same({ 3, 4 }, { steps, shares })
    local one, two, four = out:match "bytes between steps +(%S+) +(%S+) +(%S+)"
    local function number(word) return tonumber((word:gsub(",", ""))) end
    assert(number(two) < 0.6 * number(one) and number(four) < 0.6 * number(two), out)
  end)
end)

describe("examples/memory_schemes.lua", function()
  it("counts the bytes of the published ResNets' forward passes", function()
    local code, out = example "memory_schemes.lua --forward"
    assert.equal(0, code, out)
    local wanted = { ["50"] = 5.00, ["101"] = 7.40, ["152"] = 10.37, ["200"] = 14.89,
      ["998"] = 60.8 }
    for depth, bytes in out:gmatch "(%d+) layers %S+ +([%d.]+) GB" do
      assert.near(wanted[depth], tonumber(bytes), depth == "998" and 0.05 or 0.005)
      wanted[depth] = nil
    end
    assert.is_nil(next(wanted))
  end)
end)

describe("examples/experts.lua", function()
  it("trains on one, two and four ranks alike, with less on each #long", function()
    local code, out = program.run("examples/experts.lua --hidden 32 --dim 32 --context 16 "
      .. "--batch 8 --steps 3")
    assert.equal(0, code, out)
    local steps = 0
    for one, two, four in out:gmatch "loss of step %d +(%S+) +(%S+) +(%S+)" do
      assert(math.abs(one - two) < 1e-5 and math.abs(one - four) < 1e-5, out)
      steps = steps + 1
    end
    assert.equal(3, steps)
    local function numbers(title)
      local list = {}
      for word in out:match(title .. " +([%d, ]+)"):gmatch "[%d,]+" do
        list[#list + 1] = tonumber((word:gsub(",", "")))
      end
      return list
    end
    local between = numbers "bytes between steps, a rank"
    local planned, moved = numbers "all give: planned", numbers "          moved"
    assert(between[2] < between[1] and between[3] < between[2], out)
    assert.equal(planned[2], moved[2])
  end)
end)
