--- page_spec.lua -- the page of runs: what it knows, and that it answers in a browser
---
--- SPDX-License-Identifier: MIT

local chromium = require "support.chromium"
local core = require "mrt.core"
local files = require "support.files"
local json = require "mrt.util.json"
local mrt = require "mrt"
local program = require "support.program"
local nn, optim, data, train = mrt.nn, mrt.optim, mrt.data, mrt.train

local HOSTILE <const> = "</script><img src=x onerror=alert(1)>&\"'"

-- The log of a run, as train.run writes it.
local function trained(folder, lr)
  mrt.seed(4)
  local x = mrt.eval(mrt.randn(64, 8))
  local model = nn.Linear(8, 1)
  local loss = function(m, a) return (m(a) - a:slice(2, 1, 1)):square():mean() end
  local stdout, capture = io.stdout, io.tmpfile()
  io.stdout = capture -- luacheck: ignore 122
  local ok, message = pcall(train.run, { model = model, loss = loss, log = folder, clip = 1,
    optimizer = optim.sgd(model:parameters(), { lr = lr }), eval = function() return 0.5 end,
    loader = data.batches({ x }, { batch = 16 }), steps = 30, eval_every = 10 })
  io.stdout = stdout -- luacheck: ignore 122
  capture:close()
  assert(ok, message)
end

local function data_of(page)
  return assert(json.decode((page:match 'id="runs%-data">(.-)</script>')))
end

describe("the page of runs", function()
  local folder = files.folder()
  local a, b = folder .. "/a", folder .. "/b & c"
  trained(a, 0.01)
  trained(b, 0.1)

  it("has the plan's picture, and the way to its page", function()
    local page = files.read(a .. "/report.html")
    assert.matches("Bytes alive in the arena", page)
    assert.matches('<a href="plan.html">', page)
    assert.matches('id="plan%-data"', files.read(a .. "/plan.html"))
    assert.matches('name="viewport"', page)
    assert.is_nil(page:find "https?://[^w]")
    local run = data_of(page)[1]
    assert.equal(30, #run.series.loss.value)
    assert.equal(30, #run.series.grad_norm.value)
    assert.same({ 10, 20, 30 }, table.move(run.series.eval.step, 1, 3, 1, {}))
    for _, bytes in ipairs(run.series.memory.value) do
      assert.is_true(bytes <= run.planned + 1024)
    end
  end)

  it("shows several side by side, and says what is no run", function()
    local path = assert(train.report { a, b, to = folder .. "/both.html" })
    local page = files.read(path)
    assert.equal(2, #data_of(page))
    assert.matches('<a href="a/plan.html">', page)
    assert.matches('<a href="b &amp; c/plan.html">', page)
    assert.equal(a .. "/report.html", train.report(a))
    local none, message = train.report { a, folder .. "/nothing" }
    assert.is_nil(none)
    assert.matches("nothing/run.jsonl", message)
    assert.error_matches(function() train.report {} end, "folders wanted")
    assert.error_matches(function() train.report { a, at = "x" } end, "no option 'at'")
    assert.error_matches(function() train.report { a, 3 } end, "a folder wanted, got 3")
  end)

  it("is made by the program, too", function()
    local to = folder .. "/by command.html"
    local code, out = program.run(("report '%s' '%s' --out '%s'"):format(a, b, to))
    assert.same({ 0, to .. "\n" }, { code, out })
    assert.equal(2, #data_of(files.read(to)))
    code, out = program.run(("report '%s'"):format(a))
    assert.same({ 0, a .. "/report.html\n" }, { code, out })
    code, out = program.run("report /nowhere")
    assert.equal(1, code)
    assert.matches("^mrt report: /nowhere/run.jsonl: ", out)
  end)

  it("thins long runs, and takes names for what they are", function()
    local long = files.folder()
    local log <close> = assert(train.log(long, { name = HOSTILE, tensorboard = false }))
    for i = 1, 5000 do log:write(i, { loss = i % 7 == 0 and 0 / 0 or i }) end
    assert(log:report())
    local page = files.read(long .. "/report.html")
    assert.is_nil(page:find("<img", 1, true))
    local run = data_of(page)[1]
    assert.equal(HOSTILE, run.name)
    assert.is_true(#run.series.loss.value <= 600 and #page < 150000, #page)
    assert.is_true(core.list_folder(long) ~= nil)
  end)

  it("has hover values, log axes and runs to choose from, and a quiet console #process", function()
    if not chromium.path then return pending "chromium is not installed" end
    local page = files.read(assert(train.report { a, b, to = folder .. "/both.html" }))
    for _, wide in ipairs { 390, 1200 } do
      local said, console = chromium.open(page:gsub("file://[^\"]*", ""), [[
        const charts = [...document.querySelectorAll(".charts figure")]
        const lines = () => charts[0].querySelectorAll("polyline").length
        const ticks = () => [...charts[0].querySelectorAll("svg text")].map(t => t.textContent)
          .join(" ")
        say(charts.length, document.documentElement.scrollWidth <= innerWidth)
        say(charts[0].querySelector("svg").clientWidth > 0.4 * innerWidth)
        const plot = charts[0].querySelector(".plot"), r = plot.getBoundingClientRect()
        plot.dispatchEvent(new PointerEvent("pointermove", { clientX: r.left + r.width / 2,
          clientY: r.top + 50 }))
        const tip = document.querySelector(".tip")
        say(!tip.hidden, tip.textContent.startsWith("step 1"), tip.childNodes.length)
        const before = ticks(), all = lines()
        charts[0].querySelector("input").click()
        say(ticks() !== before)
        const boxes = document.querySelectorAll("#runs > .tools input[type=checkbox]")
        boxes[1].click()
        say(all, lines())
        const axis = document.querySelector("select")
        axis.value = "seconds"
        axis.dispatchEvent(new Event("change"))
        say(ticks().includes("time"))]], wide)
      assert.same({}, console)
      assert.same({ "5 true", "true", "true true", "true", "6 3", "true" },
        { said[1], said[2], (said[3]:gsub(" %d+$", "")), said[4], said[5], said[6] })
      assert.is_true(tonumber(said[3]:match "%d+$") >= 3)
    end
  end)
end)
