--- page_spec.lua -- the page of a plan: whole, escaped, and answering in a browser
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local chromium = require "support.chromium"
local json = require "mrt.util.json"
local html = require "mrt.plan.report.html"
local nn, optim = mrt.nn, mrt.optim

local HOSTILE <const> = "</script><script>alert(1)</script><!--\xff\u{2028}&'\"\\"

local function step_of(options)
  local model = nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 48), nn.GELU(),
    nn.Linear(48, 4))
  local opt = optim.adamw(model:parameters(), { lr = 1e-3 })
  local w = mrt.variable(mrt.ones(24), HOSTILE)
  return mrt.compile(function(x)
    local loss = model(x * w):square():mean()
    opt:step(mrt.grad(loss, model:parameters()))
    return loss
  end, options)
end

local function plan_of(options)
  return step_of(options):plan(mrt.ones(64, 24))
end

-- The elements of a page, balanced, without what programs and styles say.
local function check_elements(page)
  local void = { meta = true, link = true, br = true }
  local open = {}
  page = page:gsub("<!doctype html>", ""):gsub("(<script[^>]*>).-(</script>)", "%1%2")
    :gsub("(<style>).-(</style>)", "%1%2")
  for slash, name, rest in page:gmatch "<(/?)([%w:]+)([^<>]*)>" do
    if slash == "/" then
      assert.equal(name, table.remove(open))
    elseif not void[name] and rest:sub(-1) ~= "/" then
      open[#open + 1] = name
    end
  end
  assert.same({}, open)
end

local function data_of(page, id)
  return assert(json.decode((page:match('id="' .. id:gsub("%-", "%%-") .. '">(.-)</script>'))))
end

describe("the page of a plan", function()
  it("is whole by itself and takes names for what they are", function()
    local page = html(plan_of { name = HOSTILE })
    check_elements(page)
    assert.is_nil(page:find("alert(1)</script", 1, true))
    assert.is_nil(page:find "https?://[^w]")
    assert.is_nil(page:find("@import", 1, true) or page:find(" src=", 1, true))
    assert.matches('name="viewport" content="width=device%-width', page)
    assert.matches("default%-src 'none'", page)
    assert.matches("prefers%-color%-scheme: dark", page)
    assert.matches('<div class="wide" id="timeline"><svg', page) -- without programs, too
  end)

  it("knows each buffer's steps, readers and maker", function()
    local plan = plan_of()
    local data, values, operands = data_of(html(plan, { front = false }), "plan-data"),
      plan:values(), plan:operands()
    local n, columns = 0, data.buffers
    for i, v in ipairs(values) do
      local arena = ({ activation = 1, gradient = 1, workspace = 1, fetched = 1 })[v.role]
      if arena and v.bytes > 0 then
        n = n + 1
        assert.same({ v.bytes, v.offset, v.first, v.last, v.type }, { columns.bytes[n],
          columns.offset[n], columns.first[n], columns.last[n],
          data.text[columns.type[n] + 1] })
        assert.equal(v.module, data.text[columns.module[n] + 1])
        assert.equal(v.role, data.roles[columns.role[n] + 1][1])
        local reads = {}
        for step, o in ipairs(operands) do
          for _, r in ipairs(o.reads) do
            if r == i and reads[#reads] ~= step then reads[#reads + 1] = step end
          end
        end
        assert.same(reads, table.move(columns.reads[n], 1, #columns.reads[n], 1, {}))
      end
    end
    assert.equal(n, #columns.bytes)
    assert.equal(#plan:steps(), #data.steps.op)
  end)

  it("has a front of peak against time, each point a plan within its budget", function()
    local plan = plan_of { accumulate = 2 }
    local page = html(plan)
    local points = data_of(page, "front-data")
    local ways, last = {}, math.huge
    for _, p in ipairs(points) do
      assert.is_true(p.peak <= last and p.seconds > 0)
      last = p.peak
      if p.memory then assert.is_true(p.needs <= p.memory) end
      ways[p.way] = (ways[p.way] or 0) + 1
    end
    assert.is_true(ways.memory >= 1 and ways["accumulate = 8"] == 1 and ways["as it is"] == 1)
    assert.equal(page, html(plan))
    assert.is_nil(html(plan, { front = false }):find("front-data", 1, true))
    local alone = require "mrt.plan".new(plan.core, nil, 0)
    assert.is_nil(html(alone):find("front-data", 1, true))
  end)

  it("stays small: less than 250 bytes a buffer", function()
    local x = mrt.variable(mrt.ones(8))
    local plan = mrt.compile(function(a)
      for i = 1, 400 do a = (a * x + i):sin():matmul(mrt.ones(8, 8)) end
      return mrt.grad(a:sum(), x)
    end):plan(mrt.ones(8, 8))
    local page = html(plan, { front = false })
    assert.is_true(#page < 40000 + 250 * (#plan:values() + #plan:steps()), #page)
  end)

  it("zooms, answers to clicks and keys, and says nothing to the console #process", function()
    if not chromium.path then return pending "chromium is not installed" end
    local plan = plan_of { name = HOSTILE }
    local page = html(plan)
    local data = data_of(page, "plan-data")
    for _, wide in ipairs { 390, 1200 } do
      local said, console = chromium.open(page, [[
        const place = document.getElementById("timeline")
        const [live, arena] = place.querySelectorAll("canvas"), r = arena.getBoundingClientRect()
        const at = (kind, x, y, more) => arena.dispatchEvent(new PointerEvent(kind,
          { pointerId: 1, clientX: r.left + x, clientY: r.top + y, ...more }))
        const D = JSON.parse(document.getElementById("plan-data").textContent), B = D.buffers
        const state = () => `${place.dataset.from} ${place.dataset.to} ${place.dataset.chosen}`
        say(document.documentElement.scrollWidth <= innerWidth)
        say(state())
        const key = key => arena.dispatchEvent(new KeyboardEvent("keydown", { key }))
        arena.focus({ preventScroll: true })
        arena.dispatchEvent(new WheelEvent("wheel", { deltaY: -300, clientX: r.left + 200,
          clientY: r.top + 100, cancelable: true }))
        say(Number(place.dataset.to) - Number(place.dataset.from) < D.steps.live.length)
        const before = Number(place.dataset.from)
        at("pointerdown", 200, 50); at("pointermove", 150, 50); at("pointerup", 150, 50)
        say(Number(place.dataset.from) > before)
        key("0")
        const finger = (kind, id, x) => at(kind, x, 50, { pointerId: id })
        finger("pointerdown", 1, 150); finger("pointerdown", 2, 200)
        finger("pointermove", 1, 100); finger("pointermove", 2, 250)
        say(Number(place.dataset.to) - Number(place.dataset.from) < D.steps.live.length)
        finger("pointerup", 1, 100); finger("pointerup", 2, 250)
        key("0"); key(".")
        say(state())
        say(document.querySelector(".details h3").textContent)
        const i = Number(place.dataset.chosen), tall = arena.clientHeight - 20
        const x = 74 + (B.first[i] + B.last[i] - 1) / 2 / D.steps.live.length
          * (arena.clientWidth - 78)
        const y = tall * (1 - (B.offset[i] + B.bytes[i] / 2) / D.arena)
        key("Escape")
        at("pointermove", x, y)
        say(document.querySelector(".tip").hidden)
        at("pointerdown", x, y); at("pointerup", x, y)
        say(state())
        say(document.querySelectorAll(".details button").length > 0)
        const search = document.querySelector("input[type=search]")
        search.value = "GELU"
        search.dispatchEvent(new Event("input"))
        search.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }))
        say(document.querySelector(".details h3").textContent)
        const slider = document.querySelector("input[type=range]"), says = () =>
          document.querySelector(".says").value
        say(says())
        slider.value = 0
        slider.dispatchEvent(new Event("input"))
        say(says())
        say(document.querySelector("#front circle") && document.querySelectorAll("tr.on").length)
        say(document.documentElement.scrollWidth <= innerWidth)]], wide)
      assert.same({}, console)
      local all = ("0.00 %d.00"):format(#plan:steps())
      assert.same({ "true", all .. " -1", "true", "true" }, { table.unpack(said, 1, 4) })
      assert.equal("true", table.remove(said, 5)) -- two fingers
      local chosen = math.tointeger(said[5]:match(all .. " (%d+)$"))
      local type_of = data.text[data.buffers.type[chosen + 1] + 1]
      assert.is_truthy(said[6]:find(type_of, 1, true))
      assert.equal("false", said[7])
      assert.equal(said[5], said[8])
      assert.equal("true", said[9])
      assert.matches("gelu", said[10])
      assert.matches(": peak .* 1.00x the time; the step as it is: all is kept", said[11])
      assert.matches("%dx the time", said[12])
      assert.not_equal(said[11], said[12])
      assert.same({ "1", "true" }, { said[13], said[14] })
    end
  end)
end)
