--- arguments_spec.lua -- the words behind a command's or a script's name
---
--- SPDX-License-Identifier: MIT

local arguments = require "mrt.cli.arguments"
local program = require "support.program"
local files = require "support.files"

local parser = arguments.new {
  name = "mrt try", about = "Try it.",
  { "FILE", "what is read" },
  { "[MORE...]", "others" },
  { "-n, --steps N", "how many", default = 3, least = 1, most = 9 },
  { "--weight-decay X", "of weights" },
  { "--memory BYTES", "a budget", default = "1MiB" },
  { "--kind NAME", "of it", choices = { "lora", "full" } },
  { "--bias yes|no", "whether" },
  { "--stop TEXT", "end there", many = true },
  { "--layers PATTERN...", "which" },
  { "--box X Y", "a point" },
  { "--even N", "a number", read = function(word)
    local n = math.tointeger(tonumber(word))
    return n and n % 2 == 0 and n or nil, ("'%s' is odd"):format(word)
  end },
  { "-v, --verbose", "say more" },
  { "--hidden FILE" },
}

local function words(text)
  local list = {}
  for word in text:gmatch "%S+" do list[#list + 1] = word == '""' and "" or word end
  return list
end

describe("arguments", function()
  it("are read by what was declared", function()
    local mib = 1 << 20
    for text, expected in pairs {
      ["f"] = { file = "f" },
      ["f -n5 -v"] = { file = "f", steps = 5, verbose = true },
      ["-n 5 f a b"] = { file = "f", steps = 5, more = { "a", "b" } },
      ["--steps=9 f --weight-decay 1e-2"] = { file = "f", steps = 9, weight_decay = 0.01 },
      ["--memory 2 GiB f"] = { file = "f", memory = 2 << 30 },
      ["--memory=1.5kB f"] = { file = "f", memory = 1500 },
      ["f --kind full --bias no"] = { file = "f", kind = "full", bias = false },
      ["f --stop a --stop=b --stop -1"] = { file = "f", stop = { "a", "b", "-1" } },
      ["f --layers q.* v.* -v"] = { file = "f", layers = { "q.*", "v.*" }, verbose = true },
      ["--box 1 -2 f"] = { file = "f", box = { "1", "-2" } },
      ["--even 4 f"] = { file = "f", even = 4 },
      ["-- --steps -v"] = { file = "--steps", more = { "-v" } },
      ["- -n 1 -n 2"] = { file = "-", steps = 2 },
      ["--hidden x f"] = { file = "f", hidden = "x" },
    } do
      expected.steps, expected.memory = expected.steps or 3, expected.memory or mib
      assert.same(expected, assert(parser:parse(words(text))), text)
    end
  end)

  it("that are wrong are told, with what was meant", function()
    for text, problem in pairs {
      [""] = "FILE wanted: what is read",
      ["f --stpes 3"] = "no option '--stpes'; did you mean --steps?",
      ["f -x"] = "no option '-x'",
      ["f --steps"] = "--steps wants a value",
      ["f --steps --verbose"] = "--steps wants a value",
      ["f --steps --typo"] = "--steps wants a value",
      ["f --steps="] = "--steps wants a value",
      ["f --steps 1.5"] = "--steps: '1.5', 1 to 9 wanted",
      ["f --steps 10"] = "--steps: '10', 1 to 9 wanted",
      ["f --weight-decay nan"] = "--weight-decay: 'nan' is no number",
      ["f --verbose=1"] = "--verbose takes no value",
      ["f --kind lroa"] = "--kind: 'lroa', one of lora, full wanted; did you mean lora?",
      ["f --bias maybe"] = "--bias: 'maybe' is neither yes nor no",
      ["f --box 1"] = "--box wants 2 values",
      ["f --even 3"] = "--even: '3' is odd",
      ['""'] = "FILE wants a value",
    } do
      local o, message = parser:parse(words(text))
      assert.is_nil(o)
      assert.equal(problem, message)
    end
    local one = arguments.new { name = "x", about = "", { "FILE", "f" },
      { "--out FILE", "what is made", required = true } }
    assert.equal("'b' is one word too many", select(2, one:parse { "a", "b" }))
    assert.equal("--out FILE wanted: what is made", select(2, one:parse { "a" }))
  end)

  it("have help that fits the columns", function()
    for width = 40, 100, 10 do
      local page = parser:help(width)
      for line in page:gmatch "[^\n]+" do assert.is_true(utf8.len(line) <= math.min(width, 96)) end
      assert.matches("%-n, %-%-steps N", page)
      assert.matches("default%s+3", page)
      assert.matches("default%s+1MiB", page)
      assert.falsy(page:find("hidden", 1, true))
    end
    assert.is_true(assert(parser:parse { "--help" }).help)
    assert.is_true(assert(parser:parse { "--steps", "3", "-h", "f", "g" }).help)
  end)

  it("end at a script's name, where there is one", function()
    local of_script = arguments.new { name = "x", about = "", script = "script.lua [args]",
      { "--ranks N", "ranks" } }
    assert.same({ ranks = 2, rest = { "s.lua", "--ranks", "3" } },
      of_script:parse { "--ranks", "2", "s.lua", "--ranks", "3" })
    assert.equal("script.lua wanted", select(2, of_script:parse { "--ranks", "2" }))
  end)

  it("of a script are those behind its name; mrt plan --largest finds them", function()
    local script = files.temporary [[
      local mrt = require "mrt"
      local flags = require "mrt.cli.arguments".script {
        about = "A step of so many rows.", { "--batch N", "rows", default = 8, least = 1 } }
      mrt.compile(function(x) return x:softmax(2):sum() end)(mrt.ones(flags.batch, 1024))]]
    local code, out = program.run(script .. " --batch=0")
    assert.equal(2, code)
    assert.matches("^mrt " .. script .. ": %-%-batch: '0', a whole number from 1 wanted", out)
    code, out = program.run(script .. " --help")
    assert.equal(0, code)
    assert.matches("^usage: mrt " .. script .. " %[options%]\nA step of so many rows.", out)
    code, out = program.run("plan --largest batch --budget 1MiB " .. script)
    assert.equal(0, code, out)
    assert.matches("%-?batch 255", out)
    code, out = program.run("plan --largest batc --budget 1MiB " .. script)
    assert.equal(1, code)
    assert.matches("no option '%-%-batc'; did you mean %-%-batch%?", out)
  end)
end)
