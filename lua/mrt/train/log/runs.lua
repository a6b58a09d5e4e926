--- runs.lua -- folders of runs, as the page of several wants them
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local options = require "mrt.util.options"

local runs = {}

local LARGEST <const> = 1 << 20 -- bytes of a picture that is put into a page

-- A folder as a page in another one sees it; nil: no way is known.
local function way_to(folder, from)
  if folder == from then return "" end
  if folder:sub(1, #from + 1) == from .. "/" then return folder:sub(#from + 2) .. "/" end
  if folder:sub(1, 1) == "/" then return "file://" .. folder .. "/" end
  if from == "." then return folder .. "/" end
end

--- Read a run; nil and why, where there is none.
---@param folder string
---@param from string  the folder of the page
---@param read fun(folder: string): table?, table[]|string
---@return mrt.log.Run?
---@return string? message
function runs.of_folder(folder, from, read)
  local about, records = read(folder)
  if not about then return nil, records --[[@as string]] end
  local picture = core.read_file(folder .. "/plan.svg")
  local way = picture and way_to(folder, from)
  return { about = about, records = records,
    picture = picture and #picture <= LARGEST and picture or nil,
    link = way and way .. "plan.html" }
end

--- What mrt.train.report was given: folders, and where the page goes.
---@param given any
---@return string[] folders
---@return string to
function runs.read(given)
  if type(given) == "string" then return { given }, given .. "/report.html" end
  local folders, named = {}, {}
  for key, value in pairs(type(given) == "table" and given or {}) do
    if math.type(key) == "integer" then folders[key] = value else named[key] = value end
  end
  if #folders == 0 then
    core.fail("value", "train.report", 'folders wanted, as { "runs/a", "runs/b" }, got '
      .. options.show(given))
  end
  for _, folder in ipairs(folders) do
    if type(folder) ~= "string" then
      core.fail("value", "train.report", "a folder wanted, got " .. options.show(folder))
    end
  end
  local o = options.read("train.report", named, { to = options.of "string" })
  return folders, o.to or "report.html"
end

return runs
