-- workers_spec.lua -- how many threads there are, and that it changes no bit
--
-- SPDX-License-Identifier: MIT
local program = require "support.program"

local function threads(environment)
  return tonumber(program.script("print(require 'mrt.core'.info().threads)",
    environment))
end

-- A step whose kernels divide their work; its bits, and the process's threads.
local step = [[
  local mrt = require "mrt"
  mrt.seed(3)
  local x, w = mrt.randn(256, 512), mrt.randn(512, 512) / 20
  local y = x:matmul(w):gelu():softmax(-1)
  local bits = y:matmul(w):sum(1)
  local text = {}
  for i, v in ipairs(bits:totable()) do text[i] = ("%a"):format(v) end
  local status = io.open "/proc/self/status"
  local count = status and status:read("a"):match "Threads:%s*(%d+)" or 1
  print(count .. " " .. table.concat(text, ","))
]]

describe("the threads of the CPU #process", function()
  local one = "taskset -c 0 "

  it("are as many as the cores that the process may use", function()
    assert.equal(1, threads("MRT_THREADS= OMP_NUM_THREADS= " .. one))
    assert.equal(3, threads("MRT_THREADS=3 OMP_NUM_THREADS=2 " .. one))
    assert.equal(2, threads("MRT_THREADS= OMP_NUM_THREADS=2 " .. one))
  end)

  it("are parts of the work where there are more of them than cores", function()
    local few = program.script(step, "MRT_THREADS=4 " .. one)
    local many = program.script(step, "MRT_THREADS=4")
    assert.equal("1", few:match "^%d+")
    assert.equal(few:match " (.*)", many:match " (.*)")
  end)
end)
