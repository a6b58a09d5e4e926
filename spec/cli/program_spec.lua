-- program_spec.lua -- the mrt program from outside: options, exit status,
-- sub-commands, Ctrl-C.

local files = require "support.files"
local program = os.getenv "MRT" or "build/mrt"

local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

--- Run a shell command: exit status, standard output, standard error.
local function shell(command)
  local errors = files.name()
  local pipe = io.popen("( " .. command .. " ) 2>" .. errors)
  local output = pipe:read "a"
  local _, _, code = pipe:close()
  local problem = files.read(errors)
  return code, output, problem
end

--- Run mrt with arguments, given as the shell takes them, and input.
local function mrt(arguments, input)
  return shell(string.format("printf %%s %s | %s %s", quote(input or ""), program, arguments))
end

-- What a command prints that goes well.
local function only(code, output, errors)
  assert.same({ 0, "" }, { code, errors })
  return output
end

describe("the program", function()
  local script

  before_each(function() script = files.name() end)

  it("runs a script with its arguments", function()
    files.write(script, "print(arg[0], arg[-1], #arg, ...)")
    local code, output = mrt(script .. " one 'two words'")
    assert.equal(0, code)
    assert.equal(table.concat({ script, program, 2, "one", "two words" }, "\t") .. "\n", output)
  end)

  it("runs code of -e, several times, in order", function()
    local _, output = mrt "-e 'x = 1' -e'x = x + 1' -e 'print(x)'"
    assert.equal("2\n", output)
  end)

  it("requires a library with -l", function()
    local folder = script:match "^(.*)/"
    files.write(folder .. "/mrt_spec_lib.lua", "return { seven = 7 }")
    local _, output = shell(string.format(
      "LUA_PATH='%s/?.lua' %s -l mrt_spec_lib -e 'print(mrt_spec_lib.seven)'", folder, program))
    assert.equal("7\n", output)
  end)

  it("reads a script from standard input", function()
    local _, output = mrt("- a b", "print('in', ...)")
    assert.equal("in\ta\tb\n", output)
    _, output = mrt("", "print 'piped'")
    assert.equal("piped\n", output)
  end)

  it("keeps what it prints out of its files where standard streams are closed", function()
    local path = files.name "."
    files.write(script, ([[
      local list = {}
      for i = 1, 4 do list[i] = assert(io.open(%q .. i, "w")) end
      print "to nobody"
      io.stderr:write "nor this"
      io.stdout:flush()
      for i, f in ipairs(list) do f:write(i) f:close() end]]):format(path))
    assert.equal(0, (shell(program .. " " .. script .. " >&- 2>&- <&-")))
    for i = 1, 4 do assert.equal(tostring(i), files.read(path .. i)) end
  end)

  it("refuses an environment that makes no sense", function()
    local ask = [[ -e 'io.write(require("mrt.core").info().threads)']]
    for _, value in ipairs { "abc", "0", "-1", "2x", "100000" } do
      local code, output, problem = shell("MRT_THREADS=" .. value .. " " .. program .. ask)
      assert.equal(1, code)
      assert.equal("", output)
      assert.matches("MRT_THREADS is '" .. value .. "', a number", problem, 1, true)
    end
    assert.equal("3", select(2, shell("MRT_THREADS=3 " .. program .. ask)))
    assert.matches("no instruction set 'foo'", select(3, shell("MRT_ISA=foo " .. program .. ask)))
  end)

  it("says its version with -v and runs nothing more", function()
    local code, output = mrt("-v", "print 'not run'")
    assert.equal(0, code)
    assert.matches("^mrt %d+%.%d+%.%d+, Lua 5%.4[%d.]*\n$", output)
  end)

  it("honours LUA_INIT, and -E ignores it", function()
    local _, output = shell("LUA_INIT='print(1)' " .. program .. " -e 'print(2)'")
    assert.equal("1\n2\n", output)
    _, output = shell("LUA_INIT='print(1)' " .. program .. " -E -e 'print(2)'")
    assert.equal("2\n", output)
    files.write(script, "print 'from a file'")
    _, output = shell("LUA_INIT=@" .. script .. " " .. program .. " -e ''")
    assert.equal("from a file\n", output)
  end)

  it("prints warnings unless told not to", function()
    local _, _, errors = mrt [[-e 'warn "careful" warn "@off" warn "hidden"']]
    assert.equal("Lua warning: careful\n", errors)
  end)

  it("ends with 1 and a traceback after an error", function()
    files.write(script, "local function inner() error 'broken' end\ninner()")
    local code, output, errors = mrt(script)
    assert.equal(1, code)
    assert.equal("", output)
    assert.matches("^mrt: .*:1: broken\nstack traceback:\n", errors)
    assert.matches(":2: in main chunk", errors, 1, true)
  end)

  it("prints error objects by their __tostring", function()
    local code, _, errors =
      mrt [[-e 'error(setmetatable({}, {__tostring = function() return "as text" end}))']]
    assert.equal(1, code)
    assert.matches("^mrt: as text\n", errors)
    code, _, errors = mrt "-e 'error {}'"
    assert.equal(1, code)
    assert.matches("^mrt: %(error object is a table value%)", errors)
  end)

  it("explains syntax errors", function()
    local code, _, errors = mrt "-e 'x ='"
    assert.equal(1, code)
    assert.matches("(command line):1: unexpected symbol near <eof>", errors, 1, true)
  end)

  it("names a script that is missing", function()
    local code, _, errors = mrt "nofile.lua"
    assert.equal(1, code)
    assert.matches("^mrt: cannot open nofile.lua", errors)
    code, _, errors = mrt "nocommand"
    assert.equal(1, code)
    assert.matches("nor is it a command %(see mrt %-%-help%)", errors)
    code, _, errors = mrt "plna x.lua"
    assert.equal(1, code)
    assert.matches("cannot open plna.*nor is it a command; did you mean mrt plan%?", errors)
  end)

  it("refuses options it does not know", function()
    for _, option in ipairs { "-x", "--bad", "-vv", "-e", "-l" } do
      local code, output, errors = mrt(option)
      assert.equal(2, code)
      assert.equal("", output)
      assert.matches("mrt: .*" .. option:gsub("%-", "%%-"), errors)
      assert.matches("see mrt %-%-help", errors)
    end
    assert.matches("did you mean %-%-policy%?", select(3, mrt "--polcy x.lua"))
  end)

  it("takes what follows -- as a script", function()
    local code, _, errors = mrt "-- -e"
    assert.equal(1, code)
    assert.matches("cannot open -e", errors, 1, true)
  end)

  it("keeps the script's own exit status", function()
    assert.equal(7, (mrt "-e 'os.exit(7)'"))
    assert.equal(0, (mrt "-e 'return 7'"))
  end)

  it("has help and a version wherever people look for them", function()
    local page = only(mrt "help")
    for name in ("bench chat estimate export finetune generate help info launch merge plan version")
      :gmatch "%S+" do
      assert.matches("\n  " .. name .. " +%u", page)
      local own = only(mrt(name .. " --help"))
      assert.matches("^usage: mrt " .. name, own)
      assert.equal(own, only(mrt("help " .. name)))
      assert.equal(own, only(mrt(name .. " -h")))
    end
    for _, words in ipairs { "--help", "-h", "--help nosuch.lua", "-h -e 'error()'" } do
      assert.equal(page, only(mrt(words)))
    end
    local version = select(2, mrt "-v")
    for _, words in ipairs { "--version", "version" } do
      assert.equal(version, only(mrt(words)))
    end
    assert.matches("f32%[32,10%]", select(2, mrt "help nn.Linear"))
    local code, _, errors = mrt "help plna"
    assert.equal(1, code)
    assert.matches("nothing is known of 'plna'; did you mean mrt help plan%?", errors)
  end)

  it("says in a line what a benchmark refuses", function()
    for words, said in pairs {
      ["finetune --cases full-f64"] = "no case 'full%-f64': lora, full or qlora",
      ["precision --nosuch 1"] = "no option %-%-nosuch",
      ["embedding --nosuch 1"] = "no option %-%-nosuch",
      ["step --turns 2 --peaks"] = "%-%-turns is not for %-%-beside or %-%-peaks",
    } do
      local code, output, errors = mrt("bench " .. words)
      assert.equal(1, code)
      assert.equal("", output)
      assert.matches("^mrt bench %l+: " .. said .. "[^\n]*\n$", errors)
    end
  end)

  it("measures the machine, keeps that and plans with it #long", function()
    local folder = files.name()
    local place = "unset MRT_DEVICE; export XDG_CACHE_HOME=" .. folder .. "; "
      .. program
    local code, output, errors = shell(place .. " info --measure")
    assert.equal(0, code, errors)
    assert.matches("\n%-%- kept in " .. folder, output)
    assert.matches("plans are for +%S+%-measured\n", select(2, shell(place .. " info")))
    output = select(2, mrt "info --devices")
    assert.matches("\na100%-40 +40.0 GiB +1.55T +19.50T +312.00T +25.00G", output)
    code, output, errors = mrt "info --device"
    assert.equal(2, code)
    assert.matches("no option '%-%-device'; did you mean %-%-devices%?", errors)
    assert.equal("", output)
  end)

  it("tells what it and the machine have", function()
    local code, output = mrt "info"
    assert.equal(0, code)
    for _, name in ipairs { "mrt", "Lua", "instruction set", "threads", "libraries", "devices" } do
      assert.matches("\n" .. name .. " +%S", "\n" .. output)
    end
  end)
end)

--- Start a script that creates `mark`, interrupt it, wait for it.
local function interrupt(source)
  local script, mark = files.temporary(source), files.name()
  local code, output, errors = shell(string.format(
    "%s %s %s & while kill -0 $! && ! [ -e %s ]; do sleep 0.02; done; kill -INT $!; wait $!",
    program, script, mark, mark))
  return code, output, errors
end

describe("Ctrl-C", function()
  it("stops a script with an error", function()
    local code, _, errors = interrupt "io.open(arg[1], 'w'):close() while true do end"
    assert.equal(130, code)
    assert.matches("^mrt: .*interrupted!\n$", errors)
  end)

  it("ends commands and -e with 130, a signal to end with 143", function()
    local script = files.temporary "io.open(arg[1], 'w'):close() while true do end"
    local function ended(words, signal)
      local mark = files.name()
      local code, _, errors = shell(("%s %s & while kill -0 $! && ! [ -e %s ]; do sleep 0.02; "
        .. "done; kill -%s $!; wait $!"):format(program, words:format(mark), mark, signal))
      return code, errors
    end
    for _, words in ipairs { script .. " %s", "plan " .. script .. " %s",
      [[-e 'io.open("%s", "w"):close() while true do end']] } do
      local code, errors = ended(words, "INT")
      assert.equal(130, code, words)
      assert.is_nil(errors:find "traceback")
      assert.equal(143, (ended(words, "TERM")), words)
    end
  end)

  it("is not what a script's own error says", function()
    local code, _, errors = mrt [[-e 'error("download interrupted!")']]
    assert.equal(1, code)
    assert.matches("stack traceback", errors)
  end)

  it("can be caught by the script", function()
    local code, output = interrupt [[
      local ok, message = pcall(function()
        io.open(arg[1], "w"):close()
        while true do end
      end)
      print(ok, message)]]
    assert.equal(0, code)
    assert.matches("^false\t.*interrupted!", output)
  end)
end)

describe("Ctrl-C in a step", function()
  local source = [[
    local mrt = require "mrt"
    local a, b = mrt.variable(mrt.zeros(64)), mrt.variable(mrt.zeros(64))
    local x = mrt.randn(512, 512)
    local step = mrt.compile(function(x)
      local noise = x:matmul(x):matmul(x):sum() * 0
      a:assign(a + 1 + noise)
      b:assign(b + 1 + noise)
      return noise
    end)
    local done = 0
    local ok, message = pcall(function()
      while true do
        step(x)
        done = done + 1
        if done == 3 then io.open(arg[1], "w"):close() end
      end
    end)
    print(ok, (tostring(message):match "interrupted"))
    print((a - b):abs():sum():item(), a[1]:item() - done)]]

  it("leaves all variables at the same step", function()
    local code, output = interrupt(source)
    assert.equal(0, code)
    local difference, ahead = output:match "^false\tinterrupted\n(%S+)\t(%S+)\n$"
    assert.equal(0, tonumber(difference))
    assert.is_true(tonumber(ahead) == 0 or tonumber(ahead) == 1)
  end)
end)
