--- prompt_spec.lua -- the prompt as a user has it: fed by a pipe, and in a terminal
---
--- SPDX-License-Identifier: MIT

local files = require "support.files"
local has_terminal = require "support.program".has_terminal
local program = os.getenv "MRT" or "build/mrt"

local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

--- Run a shell command: exit status, standard output, standard error.
local function shell(command)
  local errors = files.name()
  local pipe = io.popen("( " .. command .. " ) 2>" .. errors)
  local output = pipe:read "a"
  local _, _, code = pipe:close()
  return code, output, files.read(errors)
end

--- What the prompt prints for these lines, prompts and banner taken off.
local function prompt(...)
  local input = table.concat({ ... }, "\n") .. "\n"
  local code, output, errors = shell(("printf %%s %s | %s -i"):format(quote(input), program))
  assert.equal(0, code)
  output = output:gsub("^[^\n]*\n", "")
  local lines = {}
  for line in output:gmatch "[^\n]+" do
    line = line:gsub("^[> ]+", "")
    if line ~= "" then lines[#lines + 1] = line end
  end
  return table.concat(lines, "\n"), errors
end

describe("the prompt", function()
  it("prints the values of an expression", function()
    assert.equal("2", prompt "1 + 1")
    assert.equal("1\tnil\ttrue", prompt "1, nil, true")
    assert.equal("text", prompt "'text'")
    assert.equal("3", prompt "return 3")
    assert.equal("4", prompt "= 4")
    assert.equal("nil", prompt "nil")
    assert.equal("", (prompt "(function() return nil end)()"))
    assert.equal("nil\t1", prompt "(function() return nil, 1 end)()")
    assert.equal("", (prompt "x = 1"))
  end)

  it("keeps quiet after a semicolon", function()
    assert.equal("5", prompt("2 + 3;", "_"))
  end)

  it("keeps the last value in _", function()
    assert.equal("2\n4", prompt("1 + 1", "_ * 2"))
  end)

  it("reads on until a chunk is complete", function()
    assert.equal("1\n2", prompt("for i = 1, 2 do", "print(i)", "end"))
    assert.equal("{ 1, 2 }", prompt("{ 1,", "2 }"))
    assert.equal("a\nb", prompt("[[a", "b]]"))
  end)

  it("prints tables within limits", function()
    assert.equal('{ 1, 2, a = "x\\ny", ["b c"] = {} }',
      prompt "{ 1, 2, ['b c'] = {}, a = 'x\\ny' }")
    assert.matches("{...}", prompt "{{{{{{}}}}}, 1}", 1, true)
    assert.matches("<itself>", prompt("t = {}; t.t = t", "t"), 1, true)
    assert.matches("... 100 more", prompt("t = {} for i = 1, 300 do t[i] = i end", "t"), 1, true)
    assert.matches("... 60 more", prompt("t = {} for i = 1, 100 do t[{}] = i end", "t"), 1, true)
    assert.equal("shown", prompt "setmetatable({}, {__tostring = function() return 'shown' end})")
  end)

  it("goes on after an error and shows only the program's part of the traceback", function()
    local output, errors = prompt("error 'oops'", "error {}", "nothing()", "7")
    assert.equal("7", output)
    assert.matches("stdin:1: oops", errors, 1, true)
    assert.matches("error object is a table value", errors, 1, true)
    assert.matches("global 'nothing'", errors, 1, true)
    assert.is_nil(errors:find "repl.lua")
    output, errors = prompt "mrt.compile(function(x) return x:matmul(x) end)(mrt.ones(2, 3))"
    assert.equal("", output)
    assert.matches("stdin:1: matmul: f32[2,3]", errors, 1, true)
  end)

  it("describes operators and functions", function()
    local output = prompt("?softmax", "help 'softmax'")
    local half = #output // 2
    assert.equal(output:sub(1, half), output:sub(half + 2))
    assert.matches("sum", output)
    assert.matches("nothing is known of 'nosuch'", prompt "?nosuch", 1, true)
    assert.matches(":time on", prompt "help()", 1, true)
    assert.matches("Make a linear layer", prompt "?mrt.nn.Linear", 1, true)
    assert.matches("Make an LSTM", prompt "help(mrt.nn.LSTM)", 1, true)
    assert.equal("class Linear", prompt "mrt.nn.Linear")
  end)

  it("times lines and ends with :quit", function()
    assert.matches("^2\n[%d.]+ ms$", prompt(":time on", "2"))
    assert.equal("1", prompt("1", ":quit", "2"))
    local _, errors = prompt ":nosuch"
    assert.matches(":nosuch", errors, 1, true)
  end)

  it("describes locals by their public names, or their values", function()
    local output = prompt("local nn = mrt.nn", "?nn.Linear", "local function f() end", "?f",
      "local m = nn.Linear(2, 3)", "?m")
    assert.matches("mrt.nn.Linear(inputs, outputs", output, 1, true)
    assert.is_nil(output:find "nothing is known")
  end)

  it("has mrt as a global, which scripts have not", function()
    assert.equal("table", prompt "type(mrt)")
    local _, output = shell(program .. " -e 'print(mrt)'")
    assert.equal("nil\n", output)
  end)

  it("prints tensors by their numbers", function()
    local output = prompt "mrt.tensor({1, 2}) + 1"
    assert.matches("2", output)
    assert.matches("3", output)
  end)

  it("counts lines from 1 and shows the program's own functions alone", function()
    local output, errors = prompt("nothing.a", "= 1 +", "  nothing.a", "x = nothing.a",
      "function f(x) return x:matmul(x) end", "f(mrt.ones(2, 3))",
      "mrt.nn.Linear(2, 3)(mrt.ones(3, 3))", "function g()", "  error 'deep'", "end", "g()")
    assert.equal("", output)
    assert.equal(([[
stdin:1: attempt to index a nil value (global 'nothing')
stdin:2: attempt to index a nil value (global 'nothing')
stdin:1: attempt to index a nil value (global 'nothing')
stdin:1: matmul: f32[2,3] against f32[2,3], inner sizes 3 and 2, equal wanted
stack traceback:
	mrt: in method 'matmul'
	stdin:1: in function 'f'
	stdin:1: in main chunk
stdin:1: Linear: linear: f32[3,3] against f32[3,2], inner sizes 3 and 2, equal wanted
stdin:2: deep
stack traceback:
	[C]: in function 'error'
	stdin:2: in function 'g'
	stdin:1: in main chunk
]]), (errors:gsub(" %(in mrt/nn/linear.lua:%d+%)", "")))
  end)

  it("says of what is computed to be shown no word about itself", function()
    local _, errors = prompt("e = mrt.nn.Embedding(10, 4)", "e(mrt.tensor { 11 })",
      "function f() return e(mrt.tensor { 12 }) end", "f()",
      "setmetatable({}, { __tostring = function() error 'mine' end })")
    assert.equal("embedding (stdin:1): index 11, 0 to 9 wanted (ids count from 0)\n"
      .. "embedding (stdin:1): index 12, 0 to 9 wanted (ids count from 0)\n"
      .. "stdin:1: mine\nstack traceback:\n\t[C]: in function 'error'\n"
      .. "\tstdin:1: in function <stdin:1>\n", errors)
  end)

  it("tells of globals that are not there, and what was meant", function()
    local output, errors = prompt("zz", "zz == nil", "y = zz or 3", "y", "randn(2)", "f = prnit",
      "function g() return qq end", "g()", "torch.randn(2)", "x = None")
    assert.equal("nil\ntrue\n3", output)
    assert.equal([[
zz is not defined, so nil
stdin:1: attempt to call a nil value (global 'randn'): did you mean mrt.randn?
prnit is not defined, so nil: did you mean print?
qq is not defined, so nil
stdin:1: attempt to index a nil value (global 'torch'): torch is mrt here
None is not defined, so nil: it is nil in Lua
]], (errors:gsub(": mrt.randn, [^\n]*", "")))
  end)

  it("knows sentences of Python", function()
    local output, errors = prompt("import torch", "x += 1", "x != 1", "def f(x):",
      "for i in range(10):", "f(x, lr=0.1)", "f([1, 2])", "y = a @ b", "1")
    assert.equal("1", output)
    local wanted = { "nn, optim = mrt.nn", "written out", "~= in Lua", "function f(x)",
      "for ... do", "f(x, { lr = 0.1 })", "{ 1, 2 } in Lua", "x:matmul(y)" }
    for line in errors:gmatch "[^\n]+" do
      assert.matches(table.remove(wanted, 1), line, 1, true)
    end
    assert.same({}, wanted)
  end)
end)

describe("a chunk of the prompt", function()
  local chunks

  before_each(function() chunks = require "mrt.cli.repl.chunk"() end)

  local function run(source)
    local chunk, message = chunks:compile(source)
    if not chunk then return nil, message end
    return chunk()
  end

  it("keeps locals as if all chunks were one file", function()
    run "local x = 1"
    run "local function get() return x end"
    run "function spec_set(v) x = v end"
    finally(function() _G.spec_set = nil end)
    assert.equal(1, run "get()")
    run "x = 5"
    assert.equal(5, run "get()")
    run "spec_set(6)"
    assert.equal(6, run "x")
    run "local x = x + 1 -- another variable of that name"
    assert.equal(7, run "x")
    assert.equal(6, run "get()")
    assert.is_nil(rawget(_G, "x"))
    assert.same({ true, 7 }, { chunks:get "x" })
  end)

  it("keeps no value that nothing can reach", function()
    local gone = setmetatable({}, { __mode = "v" })
    _G.spec_gone = gone
    finally(function() _G.spec_gone = nil end)
    run "local large, small = {}, 1; spec_gone[1] = large"
    run "local large = 2"
    collectgarbage()
    collectgarbage()
    assert.is_nil(gone[1])
    assert.same({ 2, 1 }, { run "large, small" })
  end)

  it("keeps those outside all blocks, whatever stands around them", function()
    run [[
      local a, b = "local z = 1 --[=[", [=[ local y ]=] -- local w = 2
      do local c = 1 end
      for i = 1, 2 do local d = i end
      if a then local e = 1 elseif b then local f = 1 else local g = 1 end
      repeat local h = 1 until h
      while not a do local i = 1 end
      local t = { f = function() local j = 1 return j end }
      return a]]
    local names = {}
    for name in pairs(chunks.variables) do names[#names + 1] = name end
    table.sort(names)
    assert.same({ "a", "b", "t" }, names)
    assert.equal("local z = 1 --[=[", run "a")
  end)

  it("keeps functions that call themselves, and several values", function()
    run "local function f(n) return n < 2 and 1 or n * f(n - 1) end"
    assert.equal(120, run "f(5)")
    run "local p, q, r = (function() return 1, 2 end)()"
    assert.same({ 1, 2 }, { run "p, q, r" })
    run "local s, s = 1, 2"
    assert.equal(2, run "s")
  end)

  it("keeps constants, and refuses to assign to them", function()
    run "local one <const>, t <const> = 1, {}"
    assert.equal(1, run "one")
    assert.same({ nil, "stdin:1: attempt to assign to const variable 'one'" }, { run "one = 2" })
    assert.same({ nil, "stdin:1: attempt to assign to const variable 't'" }, { run "t = 2" })
    run "local one = 3"
    run "one = one + 1"
    assert.equal(4, run "one")
  end)

  it("closes what is <close> at the end of the prompt, the latest first", function()
    _G.spec_log = {}
    finally(function() _G.spec_log = nil end)
    run [[local function opened(name)
      return setmetatable({}, { __close = function() table.insert(spec_log, name) end })
    end]]
    run "local a <close> = opened 'a'"
    run "local b <close>, c = opened 'b', 1"
    run "local none <close> = nil"
    assert.same({}, _G.spec_log)
    assert.same({ false, "stdin:1: variable 'd' got a non-closable value" },
      { pcall(run, "local d <close> = 42") })
    chunks:close(error)
    assert.same({ "b", "a" }, _G.spec_log)
  end)

  it("keeps nothing of a chunk that raises, and runs what it cannot take", function()
    assert.same({ false, "stdin:1: no" }, { pcall(run, "local x = 1 error 'no'") })
    assert.is_false((chunks:get "x"))
    run "goto done; local x = 1 ::done::"
    assert.is_false((chunks:get "x"))
    assert.matches("near 'end'", select(2, run "local x end"))
  end)
end)

describe("the prompt in a terminal", function()
  --- What is shown when these bytes are typed, without what steers the terminal.
  local function typed(bytes, name)
    if not has_terminal() then pending "no pseudo-terminal can be made here" end
    local path = files.write(files.name(), bytes .. ":quit\n")
    local code, output = shell(("TERM=%s XDG_STATE_HOME=%s script -qec %s /dev/null < %s"):format(
      name or "xterm", files.name(), quote(program), path))
    assert.equal(0, code)
    return (output:gsub("\27%[[%d;?]*%a", ""):gsub("\r", ""))
  end

  local function first_example()
    return files.read("README.md"):match "```lua\n(.-)```"
  end

  it("takes the README's first example, line by line and pasted", function()
    local example = first_example()
    local inputs = { example, "\27[200~" .. example:gsub("\n", "\r") .. "\27[201~\n" }
    for _, input in ipairs(inputs) do
      local output = typed(input)
      assert.matches("\nlower bound ", output, 1, true)
      assert.matches("item%(%)%)\n4%.[23]%d+\n", output)
      assert.is_nil(output:find "stdin:%d+: ")
    end
  end)

  it("runs nothing of a paste behind an error, and completes nothing in it", function()
    local output = typed("\27[200~x = 1\rerror 'no'\rx = 2\r\27[201~\n"
      .. "x, [[a\27[200~\tb\27[201~]]\n")
    assert.matches("stdin:1: no\nthe rest of what was pasted is left out", output, 1, true)
    assert.matches("\n1\ta\tb\n", output)
  end)

  it("recalls a function whole, and keeps it so in the history", function()
    local up = "\27[A"
    local output = typed("function f()\nreturn 1\nend\nf()\n" .. up .. up .. up .. "\1 \n")
    assert.is_nil(output:find "stdin:")
    local folder = files.name()
    local function session(bytes)
      local path = files.write(files.name(), bytes)
      return select(2, shell(("NO_COLOR=1 XDG_STATE_HOME=%s script -qec %s /dev/null < %s"):format(
        folder, quote(program), path)))
    end
    session "function f()\nreturn 41\nend\n:quit\n"
    assert.equal("function f()\31return 41\31end\n:quit\n", files.read(folder .. "/mrt/history"))
    assert.matches("42\r\n", session(up .. up .. "\nf() + 1\n:quit\n"))
  end)
end)
