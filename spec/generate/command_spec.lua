-- command_spec.lua -- mrt generate and mrt chat, from outside

local json = require "mrt.util.json"
local files = require "support.files"
local folder = require "generate.folder"
local mrt = require "mrt"
local program = require "support.program"
local nn = mrt.nn

local path

-- The text, and what was said beside it.
local function run(command, input)
  local said = files.name()
  local code, text = program.shell(("( printf '%s' | '%s' %s 2>'%s' )"):format(input or "",
    program.path, command, said))
  return code, text, files.read(said)
end

-- Run on a terminal; `keys` are typed one by one, each when what its pattern (grep's) says is on
-- the screen.  The exit status, and what was on the screen.  The shell that `script` starts has a
-- trap: Ctrl-C is for it too, and dash would end before it says how the program did.
local function type_in(command, keys)
  if not program.has_terminal() then pending "no pseudo-terminal can be made here" end
  local screen, typed = files.name(), {}
  for i, key in ipairs(keys) do
    typed[i] = ("sleep 0.4; n=0; "
      .. "until grep -qa '%s' '%s' || [ $n = 1200 ]; do sleep 0.05; n=$((n+1)); done; "
      .. "printf '%s'"):format(key[1], screen, key[2])
  end
  files.write(screen, "")
  local code, text = program.shell(("( %s; sleep 0.3 ) | script -qefc "
    .. "\"trap : INT; '%s' %s; echo was \\$?; stty -a\" '%s'"):format(
    table.concat(typed, "; "), program.path, command, screen))
  return code, text
end

-- A model of a long context that knows no token to end with.
local function endless()
  local long = folder.make()
  for _, name in ipairs { "config", "generation_config", "tokenizer_config" } do
    local file = ("%s/%s.json"):format(long, name)
    local told = json.decode(files.read(file))
    told.eos_token_id, told.eos_token = nil, nil
    if name == "config" then told.max_position_embeddings = 1 << 16 end
    files.write(file, json.encode(told))
  end
  return long
end

describe("mrt generate", function()
  setup(function() path = folder.make() end)

  it("goes on with a text, and says first what that takes", function()
    local model = assert(nn.load(path))
    local stream = model:generate { prompt = "Hello", count = 9, temperature = 0 }
    local code, text, said = run(("generate '%s' Hello --count 9 --verbose"):format(path))
    assert.equal(0, code)
    assert.equal(stream:text() .. "\n", text)
    assert.is_truthy(said:find(stream:plan():line(true):match "weights.-tokens%)", 1, true))
    assert.is_truthy(said:find("llama, 23,840 parameters", 1, true))
    code, text = run(("generate '%s' - --count 9"):format(path), "Hello")
    assert.equal(stream:text() .. "\n", text)
    assert.equal(0, code)
  end)

  it("draws as it is told, the same from the same seed", function()
    local function text(more)
      local _, out = run(("generate '%s' Hello --count 12 %s"):format(path, more))
      return out
    end
    assert.equal(text "--seed 3 --top-k 20", text "--seed 3 --top-k 20")
    assert.not_equal(text "--seed 3 --temperature 2", text "--seed 4 --temperature 2")
    assert.equal(text "", text "--top-k 1")
    assert.is_true(#text "--quantize nf4 --dtype bf16 --context 9" > 1)
    local rounded = assert(nn.load(path, { quantize = { kind = "q4_0", activations = "int8" } }))
    assert.equal(rounded:generate { prompt = "Hello", count = 12, temperature = 0 }:text() .. "\n",
      text "--quantize q4_0 --activations int8")
  end)

  it("ends where Ctrl-C is pressed, with status 130", function()
    local long = endless()
    local _, text = type_in(("generate '%s' Hello --count 60000 --temperature 0"):format(long),
      { { "Hello\\|arena", "\\003" } })
    assert.is_truthy(text:find "was 130", text:sub(-700))
    assert.is_truthy(text:find "[^-]icanon" and text:find "[^-]echo ")
    assert.is_falsy(text:find "traceback")
  end)

  it("refuses in one line what it cannot do", function()
    for more, pattern in pairs { ["--top-p 2"] = "option 'top_p'", ["--context 999"] = "at most",
      ["--dtype i8"] = "dtype", ["--quantize q9"] = "kind 'q9'",
      ["--activations int8"] = "--quantize",
      ["--memory 9KiB"] = "memory" } do
      local code, _, said = run(("generate '%s' Hello %s"):format(path, more))
      assert.equal(more == "--dtype i8" and 2 or 1, code, more)
      assert.is_truthy(said:match "mrt generate: [^\n]*":find(pattern, 1, true), more)
      assert.is_falsy(said:find "traceback")
    end
    local code, _, said = run "generate /nowhere Hello"
    assert.equal(1, code)
    assert.is_truthy(said:find("mrt generate: /nowhere", 1, true))
  end)
end)

describe("mrt chat", function()
  it("answers each line, with what was said before", function()
    local saved = files.name()
    local code, text, said = run(("chat '%s' --count 6"):format(path),
      "Hi\\n/nothing\\nAnd now?\\n/save " .. saved .. "\\n/reset\\nHi\\n")
    assert.equal(0, code)
    assert.is_truthy(said:find("no command '/nothing'", 1, true))
    local messages = json.decode(files.read(saved)).messages
    assert.equal(4, #messages)
    assert.equal("Hi", messages[1].content)
    assert.equal("assistant", messages[4].role)

    local model = assert(nn.load(path))
    local function answer(n)
      local tokenizer = model.tokenizer or mrt.text.tokenizer(path)
      local asked = assert(tokenizer:chat({ table.unpack(messages, 1, n) },
        { generation_prompt = true }))
      local ids = tokenizer:encode(asked, { special = false })
      return model:generate { prompt = ids, count = 6, temperature = 0 }:text()
    end
    local first, second = answer(1), answer(3)
    assert.equal(first .. "\n" .. second .. "\n" .. first .. "\n", text)
  end)

  it("forgets the oldest messages where they leave no room", function()
    local input = ("x"):rep(30) .. "\\n"
    local code, _, said = run(("chat '%s' --count 4 --context 100"):format(path), input:rep(4))
    assert.equal(0, code)
    assert.is_truthy(said:find("oldest messages", 1, true))
    code, _, said = run(("chat '%s' --context 100"):format(path), ("x"):rep(200) .. "\\n")
    assert.equal(0, code)
    assert.is_truthy(said:find("leaves no room", 1, true))
  end)

  it("ends an answer where Ctrl-C is pressed, and itself at Ctrl-D", function()
    local long = endless()
    local _, text = type_in(("chat '%s' --context 60000 --temperature 0"):format(long),
      { { "> ", "Hi there\\n" }, { "Hi there", "" }, { "", "\\003" }, { "", "/help\\n" },
        { "Ctrl-D the program", "\\004" } })
    assert.is_truthy(text:find "Ctrl%-C ends an answer")
    assert.is_truthy(text:find "was 0")
    assert.is_truthy(text:find "[^-]icanon" and text:find "[^-]echo ")
  end)

  it("says what a tokenizer lacks", function()
    local bare = folder.make()
    files.write(bare .. "/tokenizer_config.json", "{}")
    local code, _, said = run(("chat '%s'"):format(bare))
    assert.equal(1, code)
    assert.is_truthy(said:find("no chat template", 1, true))
    os.remove(bare .. "/tokenizer.json")
    code, _, said = run(("generate '%s' x"):format(bare))
    assert.equal(1, code)
    assert.is_truthy(said:find "tokenizer")
  end)
end)
