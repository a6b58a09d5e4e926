--- example.lua -- the examples of an entry, and what comes of them
---
--- Lines of a comment that are indented by four are an example; those that follow each
--- other are one.  `--> text` behind an expression, or on a line below it, is what it gives
--- when it is printed, a tensor its elements.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

local M = {}

--- List the examples of an entry.
---@param entry mrt.reference.Entry
---@return string[]
function M.list(entry)
  local list, block = {}, nil
  for _, line in ipairs(entry.comment and entry.comment.text or {}) do
    local code = line:match "^    (.*)$"
    if code then
      block = block and block .. "\n" .. code or code
    elseif block and line:find "%S" then
      list[#list + 1], block = block, nil
    elseif block then
      block = block .. "\n"
    end
  end
  list[#list + 1] = block
  return list
end

local function shown(value)
  local text = tostring(value)
  if core.is_tensor(value) then text = text:gsub("^[%w_]+%[[%d,]*%]\n", "") end
  return (text:gsub("%s*\n%s*", " "):gsub("%[ ", "["):gsub("%s+", " "))
end

-- Its statements: {code, result?}.  A line that says what it gives ends one.
local function parts(text)
  local list, code = {}, {}
  for line in (text .. "\n"):gmatch "([^\n]*)\n" do
    local before, result = line:match "^(.-)%s*%-%-> (.*)$"
    if before == "" and #list > 0 and #code == 0 then
      list[#list].result = result
    elseif before then
      if before ~= "" then code[#code + 1] = before end
      list[#list + 1] = { code = code, result = result }
      code = {}
    else
      code[#code + 1] = line
    end
  end
  if code[1] then list[#list + 1] = { code = code } end
  return list
end

-- What the last statement returns, if it is an expression, of one line or of several
-- that are indented below the first.
local function compile(lines, env)
  local at = #lines
  while at > 1 and not lines[at]:find "^[^%s%])}]" do at = at - 1 end
  local before, last = table.concat(lines, "\n", 1, at - 1), table.concat(lines, "\n", at)
  local chunk = load(before .. "\nreturn " .. last, "=example", "t", env)
  return chunk or assert(load(before .. "\n" .. last, "=example", "t", env))
end

--- Run an example.  Locals last from part to part.
---@param text string
---@param env table  what is there
---@return string? wrong  what was said to come of it and did not
function M.run(text, env)
  local before = {}
  for _, part in ipairs(parts(text)) do
    local lines = table.move(part.code, 1, #part.code, #before + 1, { table.unpack(before) })
    if lines[1] then
      local results = table.pack(compile(lines, env)())
      for i = 1, results.n do results[i] = shown(results[i]) end
      local got = table.concat(results, ", ", 1, results.n)
      if part.result and got ~= part.result then
        return ("%s gives %s, not %s"):format(part.code[#part.code], got, part.result)
      end
      for _, line in ipairs(part.code) do
        if line:find "^%s*local " then before[#before + 1] = line end
      end
    end
  end
end

return M
