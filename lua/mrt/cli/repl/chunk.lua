--- chunk.lua -- what is typed at the prompt as functions; `local` lasts
---
--- A chunk means what it would mean in a file behind all chunks before it.  The locals that
--- it declares outside all blocks are captured at its end by a function that is put there,
--- and a later chunk that mentions one is compiled as a function with an upvalue of that
--- name, which debug.upvaluejoin makes the captured variable itself.  So functions that
--- captured a local see what later chunks assign, and the other way round; `local x` again
--- is a new variable and leaves the old one to whoever captured it; a <const> stays one;
--- what is <close> is closed when the prompt ends.
---
--- This keeps variables.  A hook that reads them at the chunk's end (debug.getlocal) keeps
--- values only, and text that is rewritten so that locals are fields of an environment
--- loses shadowing, <const> and captured variables.  Lua's compiler sees the text as it
--- was typed, but for one call before its end, where the lexer says: if that will not do
--- (a goto over the declaration), the chunk runs as it is, and its locals end with it.
---
--- Nothing is kept of a chunk that raises.
---
--- SPDX-License-Identifier: MIT

local lexer = require "mrt.cli.repl.lexer"

local NAME <const> = "=stdin"

---@class mrt.repl.Variable
---@field cell function  its first upvalue is the variable, which it returns
---@field const boolean

---@class mrt.repl.Chunks
---@field variables table<string, mrt.repl.Variable>  the locals so far
---@field closing { value: any, name: string }[]      what is <close>
local Chunks = {}
Chunks.__index = Chunks

-- ---- what a chunk declares ---------------------------------------------------

local opens = { ["do"] = 1, ["function"] = 1, ["if"] = 1, ["repeat"] = 1,
  ["end"] = -1, ["until"] = -1 }

-- The names behind `local`, word i; each with its attribute, if any.
local function declared(words, i, list)
  if words[i + 1].text == "function" then
    list[#list + 1] = { name = words[i + 2].text }
    return
  end
  repeat
    i = i + 1
    local one = { name = words[i].text }
    list[#list + 1] = one
    if words[i + 1] and words[i + 1].text == "<" then
      one.attribute = words[i + 2]
      i = i + 3
    end
    i = i + 1
  until not words[i] or words[i].text ~= ","
end

-- Of a chunk that compiles: the locals outside all blocks, in order; where its last
-- `return` begins, if it has one; and the names that it mentions.
local function look(words)
  local list, names, depth, returns = {}, {}, 0, nil
  for i, word in ipairs(words) do
    if word.kind == "name" then
      names[word.text] = true
    elseif word.kind == "keyword" then
      if depth == 0 and word.text == "local" then declared(words, i, list) end
      if depth == 0 and word.text == "return" then returns = word.from end
      depth = depth + (opens[word.text] or 0)
    end
  end
  return list, returns, names
end

-- ---- compiling ---------------------------------------------------------------

-- Load `body`, text of a function, with the locals that it mentions; `helper` is called
-- by the name that make(name) puts into the body.
---@param self mrt.repl.Chunks
local function load_with(self, names, helper, make)
  local helper_name = "__prompt"
  while names[helper_name] do helper_name = helper_name .. "_" end
  local head = {}
  for name, variable in pairs(self.variables) do
    if names[name] or name == "_ENV" then
      head[#head + 1] = name .. (variable.const and " <const>" or "")
    end
  end
  head[#head + 1] = helper_name
  local count = #head
  head = ("local %s = ... return function(...) "):format(table.concat(head, ", "))
  local outer, message = load(head .. make(helper_name) .. "\nend", NAME, "t")
  if not outer then return nil, message end
  local given = {}
  given[count] = helper
  local f = outer(table.unpack(given, 1, count))
  local n = 1
  while true do
    local name = debug.getupvalue(f, n)
    if not name then return f end
    local variable = self.variables[name]
    if variable then debug.upvaluejoin(f, n, variable.cell, 1) end
    n = n + 1
  end
end

-- A function that has nothing but upvalue n of f, the same variable: what else f has may go.
local function alone(f, n)
  local function cell() return n end -- n is not what it returns
  debug.upvaluejoin(cell, 1, f, n)
  return cell
end

-- Keep the variables of a chunk that has run, which `captured` returns.
local function keep(self, list, captured)
  local values, places = { captured() }, {}
  local n = 1
  while true do
    local name = debug.getupvalue(captured, n)
    if not name then break end
    places[name] = n
    n = n + 1
  end
  for i, one in ipairs(list) do
    local value, at = values[i], places[one.name]
    -- A constant has no variable: the compiler has put it where it is read.
    local cell = at and alone(captured, at) or function() return value end
    self.variables[one.name] = { cell = cell, const = one.attribute ~= nil }
  end
end

-- `local x <close>` is to stay open: it becomes <const>, of the same length.
local function without_close(source, list)
  for _, one in ipairs(list) do
    local word = one.attribute
    if word and word.text == "close" then
      source = source:sub(1, word.from - 1) .. "const" .. source:sub(word.to + 1)
    end
  end
  return source
end

local function check_closable(list, values)
  for i, one in ipairs(list) do
    local value = values[i]
    if one.attribute and one.attribute.text == "close" and value then
      local meta = debug.getmetatable(value)
      if type(meta) ~= "table" or rawget(meta, "__close") == nil then
        error(("variable '%s' got a non-closable value"):format(one.name), 3)
      end
    end
  end
end

-- Names once each, as the end of the chunk sees them.
local function visible(list)
  local last, out = {}, {}
  for _, one in ipairs(list) do last[one.name] = one end
  for _, one in ipairs(list) do
    if last[one.name] == one then out[#out + 1] = one end
  end
  return out
end

local function statements(self, source, words)
  local all, returns, names = look(words)
  local list = visible(all)
  if #list == 0 then return load_with(self, names, nil, function() return source end) end
  local text, parts = without_close(source, list), {}
  for i, one in ipairs(list) do parts[i] = one.name end
  local function captured(f)
    local values = { f() }
    check_closable(list, values)
    keep(self, list, f)
    for i, one in ipairs(list) do
      if one.attribute and one.attribute.text == "close" and values[i] then
        self.closing[#self.closing + 1] = { name = one.name, value = values[i] }
      end
    end
  end
  local at = returns or words[#words].to + 1
  local f, message = load_with(self, names, captured, function(helper)
    return ("%s %s(function() return %s end) %s"):format(text:sub(1, at - 1), helper,
      table.concat(parts, ", "), text:sub(at))
  end)
  if f or not message:find "jumps into the scope" then return f, message end
  return load_with(self, names, nil, function() return source end)
end

-- What an expression is worth.  A call of `return f(x)` would leave no line for its
-- errors; the line of an error is that of the last word.
local function expression(self, source, words)
  local _, _, names = look(words)
  local last = #words
  while words[last].text == ";" do last = last - 1 end
  return load_with(self, names, select, function(helper)
    return ("return %s(1, %s)"):format(helper, source:sub(1, words[last].to))
  end)
end

--- Compile `source` as an expression, else as statements.
---@param source string
---@return function? chunk
---@return string? message
---@return mrt.repl.Word[]? words
function Chunks:compile(source)
  local is_expression, why = load("return " .. source, NAME, "t")
  local words = lexer.words(source)
  local make = is_expression and words[1] and words[1].text ~= ";" and expression
  if not make then
    local whole, message = load(source, NAME, "t")
    if not whole then return nil, why and why:find "<eof>$" and why or message end
    make = statements
  end
  local chunk, message = make(self, source, words)
  return chunk, message, words
end

--- The value of a local of the prompt.
---@param name string
---@return boolean exists
---@return any value
function Chunks:get(name)
  local variable = self.variables[name]
  if not variable then return false end
  return true, variable.cell()
end

--- Close what is <close>, the latest first.
---@param complain fun(message: string)
function Chunks:close(complain)
  for i = #self.closing, 1, -1 do
    local value = self.closing[i].value
    local ok, message = pcall(function() debug.getmetatable(value).__close(value, nil) end)
    if not ok then complain(tostring(message)) end
  end
  self.closing = {}
end

--- Chunks that have no locals yet.
---@return mrt.repl.Chunks
return function() return setmetatable({ variables = {}, closing = {} }, Chunks) end
