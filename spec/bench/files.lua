--- files.lua -- the instance files a benchmark is given
---
--- SPDX-License-Identifier: MIT

--- The files of a folder that end in `.ending`, or the file itself; nil and what is
--- wrong when there are none.
---@param path string
---@param ending string
---@return string[]?
---@return string? message
return function(path, ending)
  local pattern = "%." .. ending .. "$"
  if path:match(pattern) then return { path } end
  local quoted = "'" .. path:gsub("'", "'\\''") .. "'"
  local pipe <close> = io.popen("ls -- " .. quoted .. " 2>/dev/null")
  local files = {}
  for name in pipe:lines() do
    if name:match(pattern) then files[#files + 1] = path .. "/" .. name end
  end
  if #files == 0 then return nil, ("%s: no .%s files there"):format(path, ending) end
  return files
end
