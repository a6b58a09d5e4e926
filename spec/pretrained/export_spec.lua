-- export_spec.lua -- mrt export, from outside

local files = require "support.files"
local folder = require "generate.folder"
local mrt = require "mrt"
local program = require "support.program"

local path

-- The status, and all that was said.
local function export(more, before)
  return program.shell(("%s '%s' export %s 2>&1"):format(before or "", program.path, more))
end

describe("mrt export", function()
  setup(function() path = folder.make() end)

  it("writes each type, which llama.cpp's names say, and what memory it takes", function()
    local before = math.huge
    for _, type_ in ipairs { "f32", "f16", "q8_0", "q5_k_m", "q4_0" } do
      local out = files.name ".gguf"
      local code, said = export(("'%s' --out '%s' --type %s"):format(path, out, type_))
      assert.equal(0, code, said)
      assert.is_truthy(said:find("llama, 2 layers of 32, context 256; tokenizer gpt2", 1, true))
      assert.matches(type_ .. ": %S+ %S+ in 20 tensors; memory: %S+ KiB, the largest of them", said)
      local bytes = #files.read(out)
      assert.is_true(bytes < before)
      before = bytes
      local model = assert(mrt.nn.load(out))
      assert.equal(260, model.vocab)
      assert.is_truthy(mrt.text.tokenizer(out))
    end
  end)

  it("writes over no file unless it is told to", function()
    local out = files.name ".gguf"
    files.write(out, "mine")
    local command = ("'%s' --out '%s'"):format(path, out)
    local code, said = export(command)
    assert.equal(1, code)
    assert.equal(("mrt export: %s: there is such a file; --force writes over it\n"):format(out),
      said)
    assert.equal("mine", files.read(out))
    assert.equal(0, (export(command .. " --force")))
    assert.equal("GGUF", files.read(out):sub(1, 4))
  end)

  it("says in one line what it cannot do, and leaves nothing", function()
    local out = files.name ".gguf"
    local function refused(pattern, more, before, status)
      local code, said = export(more, before)
      assert.equal(status or 1, code, said)
      assert.matches("mrt export: [^\n]*" .. pattern .. "[^\n]*\n$", said)
      assert.is_falsy(said:find "traceback")
      assert.is_nil(io.open(out))
    end
    local good = ("'%s' --out '%s'"):format(path, out)
    refused("%-%-type: 'q9', one of f32, f16", good .. " --type q9", "", 2)
    refused("/nowhere/config.json", ("/nowhere --out '%s'"):format(out))
    refused("a path that ends in .gguf wanted", ("'%s' --out '%s.bin'"):format(path, out))
    refused("/nowhere/", ("'%s' --out /nowhere/x.gguf"):format(path))
    refused("large", good, "ulimit -f 20;")
    refused("adapter_config.json", good .. (" --adapter '%s'"):format(path))
    local bare = folder.make()
    os.remove(bare .. "/model.safetensors")
    refused("no model.safetensors", ("'%s' --out '%s'"):format(bare, out))
    local list = io.popen(("ls '%s'"):format(out:match "^(.*)/"))
    local text = list:read "a"
    list:close()
    assert.is_falsy(text:find(out:match "[^/]+$", 1, true))
  end)
end)
