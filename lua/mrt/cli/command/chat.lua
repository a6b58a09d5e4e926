--- chat.lua -- `mrt chat FOLDER`: talk with a model.
--
-- What was said stays in the cache, so that a turn reads only what is new.  Ctrl-C ends
-- an answer, Ctrl-D the program.
--
-- SPDX-License-Identifier: MIT

local json = require "mrt.util.json"
local format = require "mrt.util.format"
local generation = require "mrt.cli.generation"

local help <const> = [[
/reset       forget what was said
/save FILE   append it to a file, as a line of JSON: {"messages": [...]}
/help        this
Ctrl-C ends an answer, Ctrl-D the program]]

---@class mrt.Chat
---@field messages {role: string, content: string}[]
local Chat = {}
Chat.__index = Chat

function Chat:reset()
  self.messages = {}
  if self.args.system then
    self.messages[1] = { role = "system", content = self.args.system }
  end
end

-- ---- what the model reads ----------------------------------------------------

-- Ids of the messages, up to where the answer begins.
local function ids_of(self)
  local tokenizer = self.model.tokenizer
  local text, message = tokenizer:chat(self.messages, { generation_prompt = true })
  if not text then return nil, message end
  return tokenizer:encode(text, { special = false, parse_special = true })
end

-- Forget the oldest question and its answer; false: there is none but the last.
local function forget(self)
  local first = self.messages[1].role == "system" and 2 or 1
  if #self.messages - first < 2 then return false end
  table.remove(self.messages, first)
  while #self.messages > first and self.messages[first].role ~= "user" do
    table.remove(self.messages, first)
  end
  return true
end

-- Ids that leave room for an answer, and how many tokens that may have.
local function prompt_of(self)
  local most = self.options.context
  while true do
    local ids, message = ids_of(self)
    if not ids then return nil, message end
    local room = most - #ids
    if room >= math.min(self.least, most // 4) then return ids, room end
    if not forget(self) then
      return nil, ("%d tokens, the context of %d leaves no room to answer"):format(#ids, most)
    end
    io.stderr:write "(the oldest messages no longer fit into the context)\n"
  end
end

-- ---- a turn ------------------------------------------------------------------

local function answer(stream)
  for piece in stream do
    io.write(piece)
    io.flush()
  end
end

-- Answer the last message: false and why not, after which it is as if not said.
function Chat:turn()
  local ids, room = prompt_of(self)
  if not ids then
    table.remove(self.messages)
    return false, room
  end
  local o = self.options
  o.prompt, o.count = ids, math.min(self.args.count or room, room)
  local stream = self.model:generate(o)
  local ok, problem = self.terminal.call(function() answer(stream) end)
  io.write "\n"
  local stopped = not ok and tostring(problem):find "interrupt"
  if not ok and not stopped then
    table.remove(self.messages)
    return false, (tostring(problem):match "^[^\n]*")
  end
  table.insert(self.messages, { role = "assistant",
    content = format.utf8(table.concat(stream.rows[1].pieces)) })
  return true
end

-- ---- commands ----------------------------------------------------------------

local commands = {}

function commands.reset(self) self:reset() end
function commands.help() print(help) end

function commands.save(self, path)
  if path == "" then return generation.complain("chat", "/save FILE wanted") end
  local text = json.encode({ messages = self.messages },
    { order = { "role", "content" }, lossy = true })
  local file, message = io.open(path, "a")
  local ok = file
  if file then ok, message = file:write(text, "\n") end
  if file then file:close() end
  if not ok then generation.complain("chat", "%s", message) end
end

-- What to do with a line.
local function take(self, line)
  local name, rest = line:match "^/(%a+)%s*(.-)%s*$"
  if name and commands[name] then return commands[name](self, rest) end
  if name then return generation.complain("chat", "no command '/%s'; /help lists them", name) end
  if not line:find "%S" then return end
  table.insert(self.messages, { role = "user", content = line })
  local ok, message = self:turn()
  if not ok then generation.complain("chat", "%s", message) end
end

function Chat:loop()
  local terminal = self.terminal
  local prompt = terminal.typed and "> " or ""
  while true do
    local line = terminal.read(prompt)
    if line == nil then break end
    if line then
      if line:find "%S" then terminal.remember(line) end
      take(self, line)
    end
  end
  if terminal.typed then io.write "\n" end
end

local function start(args)
  local model, message = generation.open(args)
  if not model then return nil, message end
  if not model.tokenizer.chat_template then
    return nil, args.folder .. ": the tokenizer has no chat template; mrt generate goes on with "
      .. "plain texts"
  end
  local self = setmetatable({ model = model, args = args, least = 64,
    terminal = require "mrt.terminal", options = generation.options(model, args) }, Chat)
  local o = self.options
  o.keep, o.context = true, o.context or math.min(model.context, 4096)
  self:reset()
  o.prompt, o.count = { 0 }, o.context
  generation.tell(args, model, model:generate(o))
  self:loop()
  return true
end

return generation.parser {
  name = "mrt chat",
  about = "Talk with a model.",
  { "FOLDER", "a model: a folder as transformers writes it, or a .gguf file" },
  { "--system TEXT", "what it is told first" },
  more = help,
  run = generation.command("chat", start),
}
