--- best.lua -- the least peak over all orders of a small graph
---
--- Goes over the sets of nodes that may have run, one size after the other, and
--- keeps for each the least peak that leads to it: what lives after a set does
--- not depend on the order within.
---
--- SPDX-License-Identifier: MIT

-- Masks by node: what it waits for, who reads it.
local function masks(nodes)
  local before, readers = {}, {}
  for i, node in ipairs(nodes) do
    before[i], readers[i] = 0, 0
    for _, from in ipairs(node.reads) do
      before[i] = before[i] | 1 << from
      readers[from] = readers[from] | 1 << i
    end
  end
  return before, readers
end

--- The least peak in rows, of graphs as graphs.lua makes them.  `most` is what
--- some order needs: sets reached with more are not followed.
return function(nodes, most)
  local before, readers = masks(nodes)
  local sets = { [0] = { 0, 0 } } -- live rows, least peak
  for _ = 1, #nodes do
    local larger = {}
    for set, at in pairs(sets) do
      for i, node in ipairs(nodes) do
        if set >> i & 1 == 0 and before[i] & ~set == 0 then
          local next = set | 1 << i
          local use = at[1] + (readers[i] ~= 0 and node.rows or 0)
          local peak = math.max(at[2], use)
          local known = larger[next]
          if known then
            known[2] = math.min(known[2], peak)
          elseif peak <= most then
            local rows = use
            for _, from in ipairs(node.reads) do
              if readers[from] & ~next == 0 then rows = rows - nodes[from].rows end
            end
            larger[next] = { rows, peak }
          end
        end
      end
    end
    sets = larger
  end
  local _, at = next(sets)
  return at[2]
end
