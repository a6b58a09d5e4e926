--- language_server.lua -- what emmylua_ls says of files, where there is one
---
--- SPDX-License-Identifier: MIT

local files = require "support.files"
local json = require "mrt.util.json"

local server = {}

--- Is there one on PATH?
function server.present() return os.execute "command -v emmylua_ls >/dev/null 2>&1" == true end

local function message(fields)
  fields.jsonrpc = "2.0"
  local text = json.encode(fields)
  return ("Content-Length: %d\r\n\r\n%s"):format(#text, text)
end

-- The messages that it writes.
local function each(text)
  local at = 1
  return function()
    local n, body = text:match("^Content%-Length: (%d+)\r\n[^{]*()", at)
    if not n then return nil end
    at = body + n
    return assert(json.decode(text:sub(body, at - 1)))
  end
end

-- Opening all files, and asking for what is wrong in each.
local function requests(folder, names)
  local open, ask = {}, {}
  for i, name in ipairs(names) do
    local uri = ("file://%s/%s"):format(folder, name)
    open[i] = message { method = "textDocument/didOpen", params = { textDocument = { uri = uri,
      languageId = "lua", version = 1, text = files.read(folder .. "/" .. name) } } }
    ask[i] = message { id = i, method = "textDocument/diagnostic",
      params = { textDocument = { uri = uri } } }
  end
  return table.concat(open), table.concat(ask)
end

--- What is wrong in the files of a folder, which has its settings in .emmyrc.json.
---@param folder string
---@param names string[]
---@return {file: string, line: integer, code: string, message: string}[]
function server.check(folder, names)
  local uri = "file://" .. folder
  local open, ask = requests(folder, names)
  local begin = message { id = 0, method = "initialize", params = { rootUri = uri,
    workspaceFolders = { { uri = uri, name = "spec" } },
    capabilities = { workspace = { configuration = false },
      textDocument = { diagnostic = { dynamicRegistration = false } } } } }
    .. message { method = "initialized", params = { none = 0 } }
  local out = files.name()
  os.execute(("(cat '%s'; sleep 1; cat '%s'; sleep 5; cat '%s'; sleep 3) | emmylua_ls "
    .. "--log-level error >'%s' 2>/dev/null"):format(files.temporary(begin),
    files.temporary(open), files.temporary(ask), out))
  local list, answered = {}, 0
  for answer in each(files.read(out)) do
    local name = answer.result and names[answer.id]
    answered = answered + (name and 1 or 0)
    for _, item in ipairs(name and answer.result.items or {}) do
      list[#list + 1] = { file = name, line = item.range.start.line + 1, code = item.code,
        message = item.message }
    end
  end
  assert(answered == #names, ("%d of %d files were looked at"):format(answered, #names))
  return list
end

return server
