--- file.lua -- packing instances, read from CSV.
--
--     id,lower,upper,size[,alignment][,hint][,gaps][,offset]
--
-- A buffer lives in [lower, upper).  Older dumps say start,end or begin,end
-- and count `end` as live.  Gaps, windows in which a buffer is partly absent,
-- are checked and then taken as live: a packing of the whole lifetimes is one
-- of any part of them.  Hints and offsets are not used.
--
-- `read(path)` gives a list of {size, first, last, alignment}, as core.pack
-- wants it, or nil and a message with the line.
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

--- Which column has which name, or nil and what is wrong.
local function read_names(line)
  local column = {}
  for i, name in ipairs(split(line)) do
    if not known[name] then
      local shown = name:sub(1, 40):gsub("[^\32-\126]", "?")
      return nil, ("'%s' is no column of a packing instance"):format(shown)
    end
    if column[name] then return nil, ("column '%s' is there twice"):format(name) end
    column[name], column.count = i, i
  end
  return column
end

--- Which column has what: {first=, last=, size=, ...}, the names of the first
-- two, and whether the end is live; or nil and what is wrong.
local function read_header(line)
  local column, problem = read_names(line)
  if not column then return nil, problem end
  column.name = { first = column.lower and "lower" or column.start and "start" or "begin",
    last = column.upper and "upper" or "end" }
  column.first, column.last = column[column.name.first], column[column.name.last]
  for _, name in ipairs { "id", "first", "last", "size" } do
    if not column[name] then
      return nil, "the header must be id,lower,upper,size[,alignment][,hint][,gaps][,offset]"
    end
  end
  column.inclusive = column.upper == nil
  return column
end

--- A decimal integer of 64 bits, or nil.
local function integer_of(text)
  return text:match "^[-+]?%d+$" and math.tointeger(tonumber(text))
end

local function check_gaps(text, first, last)
  for gap in text:gmatch "%S+" do
    local from, to = gap:match "^(%-?%d+)%-(%-?%d+)$"
    if not from then from, to = gap:match "^(%-?%d+)%-(%-?%d+)@%d+:%d+$" end
    if not from then return ("gap '%s' is not a-b or a-b@lo:hi"):format(gap) end
    from, to = integer_of(from), integer_of(to)
    if not from or not to or from > to or from < first or to > last then
      return ("gap '%s' is not within %d to %d"):format(gap, first, last)
    end
  end
end

--- {size, first, last, alignment} as they stand in the row.
local function read_numbers(fields, column)
  local buffer = {}
  for i, name in ipairs { "size", "first", "last", "alignment" } do
    local text = fields[column[name]]
    if i == 4 and text == "" then text = nil end
    buffer[i] = text and integer_of(text)
    if text and not buffer[i] then
      return nil, ("%s '%s' is no integer"):format(column.name[name] or name, text)
    end
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
  if not column.inclusive then
    if last == first then return nil, ("it ends where it begins, at %d"):format(first) end
    buffer[3] = last - 1
  end
  problem = column.gaps and check_gaps(fields[column.gaps], first, last)
  if problem then return nil, problem end
  return buffer
end

return function(path)
  local file <close>, problem = io.open(path)
  if not file then return nil, problem end
  if not file:read(0) and file:seek "end" ~= 0 then return nil, path .. ": cannot be read" end
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
    buffers[#buffers + 1] = found
  end
  if not column then return nil, path .. ": empty, no packing instance" end
  return buffers
end
