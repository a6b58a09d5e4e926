--- run.lua -- runs the listings of a page of the manual, and holds it to the output it shows
---
---     cd FOLDER && mrt ROOT/spec/manual/run.lua ROOT manual/PAGE.md [show]
---
--- All ```lua listings of a page are one program: they run in their order, and locals
--- last from one to the next.  A ```text block behind a listing is what it prints, where
--- "..." stands for anything.  A comment of HTML before a listing says otherwise:
---
---   <!-- not run: WHY -->   it is left out
---   <!-- error -->          it raises, and the message is what it prints
---   <!-- file: NAME -->     it is written into the folder where all of it runs
---   <!-- run -->            a ```sh listing is run too; <!-- run: 1 --> ends with status 1
---   <!-- output on NAME --> what it prints is compared where plans are for that device
---   <!-- of: PATH -->       it is a part of this file of the project
---
--- The exit status is 1 where anything is not as the page says; `show` says what each prints.
---
--- SPDX-License-Identifier: MIT

local root, page, show = arg[1], arg[2], arg[3] == "show"

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

local function write(path, text)
  local file <close> = assert(io.open(path, "wb"))
  assert(file:write(text))
end

-- ---- the page's listings -----------------------------------------------------

---@class mrt.Listing
---@field kind string     "lua", "sh", ...
---@field mark string?    what the comment before it says
---@field first integer   line of its opening fence
---@field last integer    line of its closing fence
---@field code string[]
---@field output string?  the text that the page shows behind it

---@return mrt.Listing[], integer lines
local function listings_of(text)
  local list, mark, open, n, before = {}, nil, nil, 0, nil
  for line in text:gmatch "([^\n]*)\n" do
    n = n + 1
    local fence = line:match "^```(%w*)"
    if open and line == "```" then
      open.last = n
      if open.kind == "text" and before then
        before.output, before = table.concat(open.code, "\n"), nil
      else
        list[#list + 1], before = open, open
      end
      open, mark = nil, nil
    elseif open then
      table.insert(open.code, line)
    elseif fence then
      open = { kind = fence, mark = mark, first = n, code = {} }
    elseif line:find "^<!%-%-" then
      mark = line:match "^<!%-%-%s*(.-)%s*%-%->$"
    elseif line:find "%S" then
      mark, before = nil, nil
    end
  end
  return list, n
end

-- ---- what is printed, and whether it is what is shown ---------------------------

local failures, printed = 0, {}

local function complain(listing, ...)
  failures = failures + 1
  io.stderr:write(("%s:%d: "):format(page, listing.first), string.format(...), "\n")
end

local function trimmed(text)
  return (text:gsub("[ \t]+\n", "\n"):gsub("%s+$", ""))
end

-- Are the words there, in their order, with anything where "..." is?
local function matches(shown, got)
  local pattern = shown:gsub("[%^%$%(%)%%%.%[%]%*%+%-%?]", "%%%0"):gsub("%%%.%%%.%%%.", ".-")
  return got:find("^" .. pattern .. "$") ~= nil
end

local function here(listing)
  local device = listing.mark and listing.mark:match "output on (%S+)"
  return not device or device == require "mrt.core".device().name
end

local function finish(listing)
  local got = trimmed(table.concat(printed))
  printed = {}
  if show then io.stderr:write(("%s:%d\n%s\n"):format(page, listing.first, got)) end
  if listing.output and here(listing) and not matches(trimmed(listing.output), got) then
    complain(listing, "shows\n%s\n---- and prints\n%s\n----", listing.output, got)
  end
end

function print(...) -- luacheck: ignore 121
  local words = table.pack(...)
  for i = 1, words.n do words[i] = tostring(words[i]) end
  printed[#printed + 1] = table.concat(words, "\t") .. "\n"
end

local out = {}
function out:write(...)
  printed[#printed + 1] = table.concat { ... }
  return self
end
function out:flush() return self end
rawset(io, "stdout", out)
rawset(io, "write", function(...) return out:write(...) end)

-- ---- running ------------------------------------------------------------------

local list, lines = listings_of(read(root .. "/" .. page) .. "\n")

local function run_shell(listing)
  local wanted = tonumber(listing.mark:match "^run:%s*(%d+)" or 0)
  local command = table.concat(listing.code, "\n"):gsub("^%$ ", ""):gsub("\n%$ ", "\n")
  write("listing.sh", command .. "\n")
  local pipe <close> = assert(io.popen "sh -e listing.sh 2>&1")
  printed = { pipe:read "a" }
  local _, _, code = pipe:close()
  if code ~= wanted then
    complain(listing, "status %d, %d wanted\n%s", code, wanted, table.concat(printed))
  end
  finish(listing)
end

local function try(listing, f)
  local ok, message = pcall(f)
  if ok then complain(listing, "raises nothing") end
  printed[#printed + 1] = tostring(message)
end

-- Lines of the program are those of the page, so that messages and plans name them.
local program, hooks = {}, {}
for i = 1, lines do program[i] = "" end

local function add(line, format, hook)
  hooks[#hooks + 1] = hook
  program[line] = program[line] .. (format:gsub("HOOK", ("__page[%d]"):format(#hooks)))
end

for _, listing in ipairs(list) do
  local mark = listing.mark or ""
  local file, part = mark:match "^file:%s*(%S+)", mark:match "^of:%s*(%S+)"
  if part then
    if not read(root .. "/" .. part):find(table.concat(listing.code, "\n"), 1, true) then
      complain(listing, "is no part of %s", part)
    end
  elseif file then
    add(listing.first, "HOOK()", function()
      write(file, table.concat(listing.code, "\n") .. "\n")
      assert(loadfile(file))
    end)
  elseif listing.kind == "sh" and mark:find "^run" then
    add(listing.first, "HOOK()", function() run_shell(listing) end)
  elseif listing.kind == "lua" and not mark:find "^not run: %S" then
    table.move(listing.code, 1, #listing.code, listing.first + 1, program)
    if mark == "error" then
      add(listing.first, "HOOK(function()", function(f) try(listing, f) end)
      add(listing.last, "end); HOOK()", function() finish(listing) end)
    else
      add(listing.last, ";HOOK()", function() finish(listing) end)
    end
  end
end

arg = { [0] = page } -- luacheck: ignore 121
local environment = setmetatable({ __page = hooks }, { __index = _G })
local chunk, message = load(table.concat(program, "\n"), "@" .. page:match "[^/]*$", "t",
  environment)
if not chunk then
  failures = failures + 1
  io.stderr:write(message, "\n")
else
  local ok, raised = xpcall(chunk, function(e)
    return type(e) == "string" and debug.traceback(e, 2) or tostring(e)
  end)
  if not ok then
    failures = failures + 1
    io.stderr:write(raised, "\n")
  end
end
os.exit(failures == 0)
