-- lock_spec.lua -- plans held to what they took before
--
-- SPDX-License-Identifier: MIT

local files = require "support.files"
local program = require "support.program"

-- A script of one step; `above`: lines before it, `extra`: within it.
local function script_of(above, extra, options)
  return ([[
local mrt = require "mrt"
%slocal w = mrt.variable(mrt.randn(64, 64), "w")
local opt = mrt.optim.adamw({ w }, {})
local step = mrt.compile(function(x)
  local h = x:matmul(w):tanh()
%s  local loss = h:square():mean()
  opt:step(mrt.grad(loss, { w }))
  return loss
end, { %s })
step(mrt.ones(32, 64))
]]):format(above, extra, options)
end

local folder = files.folder()

local function plan(words, text, arguments)
  local path = folder .. "/step.lua"
  local file <close> = assert(io.open(path, "w"))
  file:write(text)
  file:close()
  return program.shell(("%s plan %s %s %s 2>&1"):format(program.path, words, path,
    arguments or ""))
end

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

local function write(path, text)
  local file <close> = assert(io.open(path, "wb"))
  file:write(text)
end

describe("mrt plan --lock and --check", function()
  local path = folder .. "/plan.json"
  local cases = { { "", "" }, { "--ranks 4 --shard zero2 ", "accumulate = 2" },
    { "", "precision = mrt.policy.precision.bf16(), checkpoint = mrt.policy.checkpoint.all()" },
    { "--device a100-40 ", "compress = 'int8'" } }

  for i, case in ipairs(cases) do
    it("tell a byte more from lines that only moved: " .. i, function()
      local more, options = table.unpack(case)
      local text = script_of("", "", options)
      local code, out = plan(more .. "--lock " .. path, text)
      assert.equal(0, code, out)
      local first = read(path)
      plan(more .. "--lock " .. path, text)
      assert.equal(first, read(path))
      code, out = plan(more .. "--check " .. path, text)
      assert.equal(0, code, out)
      assert.truthy(out:find "as locked")
      code, out = plan(more .. "--check " .. path, script_of("-- moved\n\n", "", options))
      assert.equal(0, code, out)
      code, out = plan(more .. "--check " .. path,
        script_of("local v = mrt.variable(mrt.ones(8, 8))\n", "  h = h + v:sum()\n", options))
      assert.equal(1, code, out)
      assert.truthy(out:find "step.lua:2: %+ %d+ bytes .*local v = mrt.variable", out)
    end)
  end

  it("tell predicted time by line, and what got better", function()
    plan("--lock " .. path, script_of("", "", ""))
    local code, out = plan("--check " .. path,
      script_of("", "  for _ = 1, 4 do h = h:matmul(w) end\n", ""))
    assert.equal(1, code)
    assert.truthy(out:find "is predicted to take .* %% more than locked\n  .*step.lua:6: %+", out)
    plan("--lock " .. path, script_of("", "  h = h:matmul(w):tanh()\n", ""))
    code, out = plan("--check " .. path, script_of("", "", ""))
    assert.equal(0, code)
    assert.truthy(out:find "less than locked; .*; %-%-lock keeps that", out)
  end)

  it("tell what lasts longer where the peak is no higher", function()
    local text = [[
      local mrt = require "mrt"
      local v = mrt.variable(mrt.zeros(%d), "v")
      local w = mrt.variable(mrt.randn(64, 64), "w")
      mrt.compile(function(x)
        local h = x:matmul(w):exp()
        return h:t():matmul(h):tanh():sum() + v:sum()
      end)(mrt.ones(%d, 64))
    ]]
    assert.equal(0, (plan("--lock " .. path, text:format(64, 512))))
    local code, out = plan("--check " .. path, text:format(4096 + 64, 256))
    assert.equal(1, code, out)
    assert.falsy(out:find "the step takes")
    assert.truthy(out:find("the step keeps until the next one .* 16,384 bytes more than locked\n"
      .. "  [^\n]*step.lua:2: %+ 16,640 bytes weight  local v = .*4160[^\n]*\n"
      .. "  [^\n]*step.lua: %- 256 bytes weight  local v = .*64"), out)
    assert.falsy(out:find "step.lua:5: %+ [%d,]+ bytes")
  end)

  it("name every byte that is added to the peak", function()
    local text = script_of("", "", "accumulate = 2, precision = mrt.policy.precision.bf16()")
    plan("--lock " .. path, text)
    local code, out = plan("--check " .. path, (text:gsub("32, 64", "77, 64")))
    assert.equal(1, code)
    local more = out:match "takes [%d,]+ bytes, ([%d,]+) bytes more":gsub(",", "")
    local named = 0
    for bytes in out:match "takes .-\n(.*)":gmatch "%+ ([%d,]+) bytes" do
      named = named + tonumber((bytes:gsub(",", "")))
    end
    assert.is_true(named >= tonumber(more), out)
  end)

  it("are of one plan: its arguments, policies and shards too", function()
    local text = script_of("", "", "")
    local function refused(words, message, arguments)
      local code, out = plan(words, text, arguments)
      assert.equal((message:find "wanted" or message:find "wants") and 2 or 1, code)
      assert.truthy(out:find(message, 1, true), out)
    end
    plan("--ranks 4 --shard zero2 --lock " .. path, text)
    local whole = read(path)
    refused("--ranks 4 --shard zero2 --check " .. path, "it is of script", "--batch 8")
    refused("--ranks 4 --shard zero3 --check " .. path, "it is of script")
    refused("--ranks 4 --shard all --check " .. path, "--check wants one plan")
    refused("--ranks 4 --shard all --lock " .. path, "--lock wants one plan")
    for _, more in ipairs { "--check x", "--json", "--html x" } do
      refused("--lock " .. path .. " " .. more, "one of them wanted")
    end
    assert.equal(whole, read(path))
    -- a budget is held beside the lock
    plan("--lock " .. path, text)
    refused("--budget 1KiB --check " .. path, "the budget is 1,024")
    assert.equal(0, (plan("--budget 1MiB --check " .. path, text)))
  end)

  it("refuse locks of another kind, whatever is in them", function()
    local text = script_of("", "", "")
    plan("--lock " .. path, text)
    local whole = read(path)
    local function refused(lock, message, more)
      write(path, lock)
      local code, out = plan((more or "") .. "--check " .. path, text)
      assert.equal(1, code)
      assert.truthy(out:find(message), out)
    end
    refused(whole:gsub("lock/2", "lock/1"), "a lock of version mrt.lock/2 wanted, got mrt.lock/1")
    refused(whole:gsub('"peak": %d+', '"peak": "much"'), "a damaged lock")
    refused(whole:gsub('"role":"activation"', '"role":[]', 1), "a damaged lock")
    refused(whole:sub(1, #whole // 2), "not JSON")
    refused("", "not JSON")
    refused("[]", "something else")
    refused(("["):rep(100000), "not JSON")
    refused(whole:gsub("step.lua", "stop.lua"), "it is of script '.*stop.lua', this is")
    refused(whole, "it is of device '.*', this is 'A?", "--device a100-40 ")
    refused(whole, "it is of ranks '1', this is '4'", "--ranks 4 ")
    local code, out = plan("--check " .. folder .. "/none.json", text)
    assert.equal(1, code)
    assert.truthy(out:find "none.json")
    code, out = plan("--lock " .. folder .. "/none/plan.json", text)
    assert.equal(1, code)
    assert.truthy(out:find "none/plan.json")
    local random = 7
    for _ = 1, 25 do
      random = (random * 1103515245 + 12345) % (1 << 31)
      local at = random % #whole + 1
      write(path, whole:sub(1, at - 1) .. string.char(random // 4096 % 256) .. whole:sub(at + 1))
      code, out = plan("--check " .. path, text)
      assert.is_true(code == 0 or code == 1 and not out:find "traceback", out)
    end
  end)
end)
