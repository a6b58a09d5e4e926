--- csv.lua -- tables of text with separators
---
---     local t = assert(data.csv "iris.csv")
---     local x = assert(t:numbers{"length", "width"})      -- f32[150,2]
---     local y, words = t:labels "species"                 -- i64[150], {"setosa", ...}
---     local loader = data.batches({x, y}, {batch = 16})
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local options = require "mrt.util.options"

---@class mrt.data.Table
---@field rows integer     the header left out
---@field names string[]   of the columns; "1", "2", ... where there is no header
local Table = {}
Table.__index = Table
Table.__tostring = function(self)
  return ("table of %d rows: %s"):format(self.rows, table.concat(self.names, ", "))
end

-- A column's number from 1, by number or name.
local function column_of(self, who, column)
  if math.type(column) == "integer" and self.names[column] then return column end
  if self.index[column] then return self.index[column] end
  core.fail("value", who, ("there is no column %s of %d"):format(
    options.show(column), #self.names))
end

--- Read columns of numbers, all unless a list says which.
---
--- Returns nil: a field that is no number, by its place; an empty one too,
--- unless `missing` says what stands for it.
---
---     local table = assert(mrt.data.csv "houses.csv")
---     local numbers = assert(table:numbers { "area", "price" })
---
--- Shapes: `[rows, columns]`.
--- Raises: a column that there is not.
---@param columns? (integer|string)[]|integer|string  numbers from 1, or names
---@param given? {missing: number?}
---@return mrt.Tensor? numbers  `f32[rows, #columns]`
---@return string? message
---@return string? code
function Table:numbers(columns, given)
  local o = options.read("numbers", given, { missing = options.of "number" })
  local wanted = {}
  if columns == nil then columns = self.names end
  if type(columns) ~= "table" then columns = { columns } end
  for i, column in ipairs(columns) do
    wanted[i] = columns == self.names and i or column_of(self, "numbers", column)
  end
  return self.source:numbers(wanted, self.skipped, o.missing)
end

--- Read a column as strings.
---
---     assert(mrt.data.csv "houses.csv"):texts("city")[1]  --> Bern
---
--- Raises: a column that there is not.
---@param column integer|string
---@return string[]
function Table:texts(column)
  return self.source:texts(column_of(self, "texts", column), self.skipped)
end

--- Read a column as classes, numbered from 0: its words in order, or in the
--- order of `words`, as another table had them.
---
--- Returns nil: a word that is not among `words`.
---
---     local ids, words = assert(mrt.data.csv "houses.csv"):labels "city"
---
--- Raises: a column that there is not.
---@param column integer|string
---@param words? string[]
---@return mrt.Tensor? labels  `i64[rows]`
---@return string[]|string words_or_message
---@return string? code
function Table:labels(column, words)
  local texts, ids, out = self:texts(column), {}, {}
  if words ~= nil and type(words) ~= "table" then
    core.fail("value", "labels", "a list of words wanted, got " .. options.show(words))
  end
  if not words then
    words = {}
    for _, text in ipairs(texts) do
      if not ids[text] then
        words[#words + 1], ids[text] = text, true
      end
    end
    table.sort(words)
  end
  for i, word in ipairs(words) do ids[word] = i - 1 end
  for row, text in ipairs(texts) do
    out[row] = ids[text]
    if not out[row] then
      return nil, ("row %d: '%s' is not among the words"):format(row + self.skipped, text),
        "data"
    end
  end
  return mrt.tensor(out, "i64"), words
end

-- Does the first row name the columns?  It does when none of it is a number.
local function has_header(source)
  for i = 1, source:count() do
    if tonumber(source:get(i).name) then return false end
  end
  return source:count() > 0
end

--- Open a table: fields between commas, semicolons, tabs or bars (the one that
--- comes most often in the first line), in quotes or not, packed by gzip or not.
---
--- Returns nil: a file that cannot be read; rows of different lengths; quotes
--- that do not end.
---
---     local table, message = mrt.data.csv "houses.csv"
---
--- Raises: an option that there is not; a file's faults are a message.
---@param path string
---@param given? {header: boolean?}  default: there is one when no field of the
---  first row is a number
---@return mrt.data.Table? table
---@return string? message
---@return string? code
return function(path, given)
  local o = options.read("csv", given, { header = options.of "boolean" })
  local source, message, code = core.open_source(path, "csv")
  if not source then return nil, message, code end
  local header = o.header
  if header == nil then header = has_header(source) end
  local self = setmetatable({ source = source, skipped = header and 1 or 0,
    names = {}, index = {}, rows = 0 }, Table)
  for i = 1, source:count() do
    local info = source:get(i)
    self.names[i] = header and info.name or tostring(i)
    self.index[self.names[i]] = self.index[self.names[i]] or i
    self.rows = info.shape[1] - self.skipped
  end
  return self
end
