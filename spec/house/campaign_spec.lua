--- campaign_spec.lua -- campaigns count, go on, and find crashes and hangs
---
--- SPDX-License-Identifier: MIT

local files = require "support.files"
local program = require "support.program"

local toy = [[
  return {
    about = "a toy", unit = "numbers", timeout = 2,
    round = function(seed, folder)
      assert(io.open(folder .. "/file", "w")):close()
      if seed == 12 then os.execute "kill -ABRT $PPID" end
      if seed == 13 then while true do end end
      if seed == 14 then error "no luck" end
      return 5, seed == 15 and { "a line\nanother" } or {}
    end,
  }]]

describe("a campaign", function()
  local path = files.temporary(toy)

  local function campaign(options)
    return program.run(("spec/campaign/run.lua %s %s"):format(path, options))
  end

  it("counts its rounds and goes on where it was", function()
    local folder = files.folder()
    local code, out = campaign("--minutes 0.005 --seed 100 --folder " .. folder)
    assert.equal(0, code, out)
    local rounds, count = out:match "(%d+) +(%d+) +%d+ +0\n"
    assert.equal(tonumber(rounds) * 5, tonumber(count))
    local _, again = campaign("--minutes 0.005 --cores 2 --folder " .. folder)
    assert.is_true(tonumber(again:match "(%d+) +%d+ +%d+ +%d+\n") > tonumber(rounds))
  end)

  it("shows what it finds, with what repeats it", function()
    local folder = files.folder()
    local function once(seed)
      return campaign(("--minutes 0.0001 --seed %d --folder %s"):format(seed, folder))
    end
    local out
    for _ = 12, 15 do _, out = once(12) end
    assert.matches("ended by signal 6.-%-%-round 12\n", out)
    assert.matches("hangs: not done after 2 s.-%-%-round 13\n", out)
    assert.matches("no luck.-%-%-round 14\n", out)
    assert.matches("a line\nanother\n  repeat: [^\n]*%-%-round 15\n", out)
    local code
    code, out = campaign "--round 15"
    assert.equal(1, code)
    assert.matches("a line", out)
    assert.equal(0, (campaign "--round 1"))
  end)
end)
