--- tree.lua -- a module as people want to see it
---
---     GPT(vocab 65, context 64)           809,600 parameters
---       tokens: Embedding(65, 128)          8,320
---       blocks.1: Block()                 196,864
---
--- SPDX-License-Identifier: MIT

local format = require "mrt.util.format"

--- Return the tree of a module's parts with their numbers of parameters.
---@param module mrt.nn.Module
---@return string
return function(module)
  local lines, width, parents = {}, 0, {}
  for path, part in module:modules() do
    while #parents > 1 and path:find(parents[#parents] .. ".", 1, true) ~= 1 do
      parents[#parents] = nil
    end
    local parent = parents[#parents] or ""
    local name = path:sub(parent == "" and 1 or #parent + 2)
    local text = ("%s%s%s(%s)"):format(("  "):rep(#parents),
      name == "" and "" or name .. ": ", part.type, part:describe())
    lines[#lines + 1] = { text, format.count(part:count()) }
    width = math.max(width, #text)
    parents[#parents + 1] = path
  end
  for i, line in ipairs(lines) do
    lines[i] = line[1] .. (" "):rep(width - #line[1]) .. (" %14s"):format(line[2])
  end
  lines[1] = lines[1] .. " parameters"
  return table.concat(lines, "\n")
end
