--- turns_spec.lua -- benchmarks whose programs take their steps in turn
---
--- SPDX-License-Identifier: MIT

local turns = require "mrt.bench.turns"

-- Takes 1, 2, 4 .. seconds, it says, times `scale`.
local doubling = [[sh -c 'n=1; while read -r line && [ "$line" = step ]; do
  echo about to step; echo "$((n * %d))"; n=$((n * 2))
done; echo "{\"next\": $n}"']]

describe("steps in turn", function()
  it("are asked for one by one; ratios are of the same turn, their median counts", function()
    local a, b = turns.start(doubling:format(1)), turns.start(doubling:format(4))
    local times = turns.run({ a, b }, 3)
    assert.same({ { 1, 2, 4 }, { 4, 8, 16 } }, times)
    assert.equal(0.25, turns.ratio(times[1], times[2]))
    assert.same({ 8, 8 }, { a:finish().next, b:finish().next })
    assert.equal(2.5, turns.ratio({ 1, 2, 3, 4 }, { 1, 1, 1, 1 }))
    assert.is_nil(turns.ratio({}, { 1 }))
  end)

  it("end with a process that ends, whenever", function()
    local never, once = turns.start "false", turns.start "sh -c 'read -r line; echo 1'"
    assert.same({ {}, { 1 } }, turns.run({ never, once }, 2))
    assert.is_nil(never:step())
    assert.is_nil(never:finish())
    assert.is_nil(once:finish())
  end)
end)
