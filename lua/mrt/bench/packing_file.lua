--- packing_file.lua -- packing instances, read from CSV.
--
--     id,lower,upper,size[,alignment][,hint][,gaps][,offset]
--
-- A buffer lives in [lower, upper).  Older dumps say start,end or begin,end
-- and count `end` as live.  Gaps, windows in which a buffer is partly absent,
-- are checked and then taken as live: a packing of the whole lifetimes is one
-- of any part of them.  Hints and offsets are not used.
--
-- `read(path)` gives a list of {size, first, last, alignment}, as core.pack
-- wants it, or nil and a message with the line.  A buffer with an empty
-- lifetime takes no room and is left out.
--
-- SPDX-License-Identifier: MIT

local known = { id = true, lower = true, upper = true, size = true, alignment = true,
  hint = true, gaps = true, offset = true, start = true, begin = true, ["end"] = true }

local function split(line)
  local fields = {}
  for field in (line .. ","):gmatch "([^,]*)," do
    fields[#fields + 1] = field:match "^%s*(.-)%s*$"
  end
  return fields
end

--- Which column has what: {lower=, upper=, size=, ...} and whether the end is
-- live, or nil and what is wrong.
local function read_header(line)
  local column, count = {}, 0
  for i, name in ipairs(split(line)) do
    if not known[name] then return nil, ("'%s' is no column of a packing instance"):format(name) end
    if column[name] then return nil, ("column '%s' is there twice"):format(name) end
    column[name], count = i, i
  end
  column.first = column.lower or column.start or column.begin
  column.last = column.upper or column["end"]
  for _, name in ipairs { "id", "first", "last", "size" } do
    if not column[name] then
      return nil, "the header must be id,lower,upper,size[,alignment][,hint][,gaps][,offset]"
    end
  end
  column.inclusive = column.upper == nil
  column.count = count
  return column
end

local function check_gaps(text)
  for gap in text:gmatch "%S+" do
    if not (gap:match "^%d+%-%d+$" or gap:match "^%d+%-%d+@%d+:%d+$") then
      return ("gap '%s' is not a-b or a-b@lo:hi"):format(gap)
    end
  end
end

--- {size, first, last, alignment} as they stand in the row.
local function read_numbers(fields, column)
  local buffer = {}
  for i, name in ipairs { "size", "first", "last", "alignment" } do
    local text = fields[column[name]]
    if i == 4 and text == "" then text = nil end
    buffer[i] = text and math.tointeger(tonumber(text))
    if text and not buffer[i] then return nil, ("%s '%s' is no integer"):format(name, text) end
  end
  return buffer
end

local function read_buffer(fields, column)
  if #fields ~= column.count then
    return nil, ("%d fields, the header has %d"):format(#fields, column.count)
  end
  local buffer, problem = read_numbers(fields, column)
  if not buffer then return nil, problem end
  local size, first, last, alignment = table.unpack(buffer, 1, 4)
  if size < 0 then return nil, ("size %d is negative"):format(size) end
  if alignment and alignment < 1 then
    return nil, ("alignment %d is not positive"):format(alignment)
  end
  if last < first then return nil, "it ends before it begins" end
  if not column.inclusive then buffer[3] = last - 1 end
  problem = column.gaps and check_gaps(fields[column.gaps])
  if problem then return nil, problem end
  return buffer
end

return function(path)
  local file <close>, problem = io.open(path)
  if not file then return nil, problem end
  local column, buffers, number = nil, {}, 0
  for line in file:lines() do
    number = number + 1
    line = line:gsub("\r$", "")
    local found, wrong
    if not column then
      column, wrong = read_header(line)
    elseif line:find "%S" then
      found, wrong = read_buffer(split(line), column)
    end
    if wrong then return nil, ("%s:%d: %s"):format(path, number, wrong) end
    if found and found[3] >= found[2] then buffers[#buffers + 1] = found end
  end
  if not column then return nil, path .. ": empty, no packing instance" end
  return buffers
end
