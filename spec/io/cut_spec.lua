--- cut_spec.lua -- files that others cut and write anew while they are read
---
--- A mapped file would end the process here.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local files = require "support.files"

local SIZE <const> = 1 << 22

-- Run `read` while a shell cuts the file and puts it back, until it has failed because
-- of that; what it says otherwise must be one of `said`.
local function torn(name, bytes, read, said)
  local path, stop = files.name(name), files.name ".stop"
  files.write(path, bytes)
  files.write(path .. ".whole", bytes)
  local shell = assert(io.popen(
    ("while ! test -e %s && kill -0 $PPID; do : >%s; cat %s.whole >%s; done 2>/dev/null")
      :format(stop, path, path, path)))
  local cut, whole, tries = 0, 0, 0
  local patience = core.clock() + 30 -- the shell may have to wait for its turn
  while core.clock() < patience and (tries < 5000 or cut == 0) do
    tries = tries + 1
    local ok, value, message = pcall(read, path)
    if not ok then value, message = nil, tostring(value) end
    local by_cut = not value and message:find("become shorter", 1, true)
    cut, whole = cut + (by_cut and 1 or 0), whole + (value and 1 or 0)
    local known = value or by_cut
    for _, pattern in ipairs(said) do known = known or message:find(pattern) end
    assert.truthy(known, message)
    if cut >= 3 and whole >= 3 then break end
  end
  files.write(stop, "")
  shell:close()
  return cut
end

describe("a file that is cut while it is read", function()
  local zeros = ("\0"):rep(SIZE)

  it("is told, of tensors", function()
    local head = ('{"w":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}'):format(SIZE, SIZE)
    local cut = torn(".safetensors", string.pack("<I8", #head) .. head .. zeros, function(path)
      return mrt.load(path)
    end, { "a header wanted", "a header of", "the tensors take" })
    assert.is_true(cut > 0)
  end)

  it("is told, of rows, read ahead or not", function()
    local cut = torn(".bin", zeros, function(path)
      local source <close>, message = core.open_source(path, "tokens")
      if not source then return nil, message end
      source:expect(1, { 0, 1 }, SIZE // 2 - 1)
      local ahead, why = source:rows(1, { 0, 1 }, SIZE // 2 - 1)
      if not ahead then return nil, why end
      return source:rows(1, { 1, 0 }, SIZE // 2 - 1)
    end, { "which has" })
    assert.is_true(cut > 0)
  end)

  it("is told, of text", function()
    local cut = torn(".csv", ("1,2\n"):rep(SIZE // 4), function(path)
      local table, message = core.open_source(path, "csv")
      if not table then return nil, message end
      table:close()
      return true
    end, { "row %d+" })
    assert.is_true(cut > 0)
  end)

  it("is told, of what is packed", function()
    local made = files.name ".npz"
    assert(mrt.save(made, { w = mrt.randn(SIZE // 4) }, { compress = true }))
    local cut = torn(".npz", files.read(made), mrt.load, { "zip", "damaged", "checksum" })
    assert.is_true(cut > 0)
  end)
end)
