--- mrt bench tokenizers -- ids and speed, beside tokenizers, sentencepiece and tiktoken
---
---     mrt bench tokenizers --data FILE,FILE ... [--strings 100000] [--seed 1]
---                          [--kinds gpt2,llama3,...] [--folder DIR] [--python PROGRAM]
---
--- Tokenizers in the shapes of those that are published are trained on the files, by
--- tokenizer_kinds.py where PROGRAM (default python3) has Hugging Face's tokenizers,
--- sentencepiece and tiktoken, and kept in DIR.  Each encodes random strings of all of
--- Unicode, of pieces of the files and of special tokens, and the files as a whole, here and
--- there.  The table counts the strings, those with other ids, those whose ids become
--- another text (bytes that are no UTF-8 apart), and has megabytes a second of processor time
--- for the first file: the best of some runs.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"

local defaults = { strings = "100000", seed = "1", python = "python3" }

local function usage(message)
  error(message .. "\nmrt bench tokenizers --data FILE,FILE [--strings N] [--seed N] "
    .. "[--kinds A,B] [--folder DIR] [--python PROGRAM]", 0)
end

local function read_options(args)
  local o, i = {}, 1
  for name, value in pairs(defaults) do o[name] = value end
  while args[i] do
    local name = args[i]:match "^%-%-(%l+)$"
    local known = name and (defaults[name] or name == "data" or name == "kinds"
      or name == "folder")
    if not known or not args[i + 1] then usage(tostring(args[i]) .. " is not understood") end
    o[name], i = args[i + 1], i + 2
  end
  if not o.data then usage "--data is wanted" end
  return o
end

local function list(text)
  local all = {}
  for item in text:gmatch "[^,%s]+" do all[#all + 1] = item end
  return all
end

local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

local script <const> = package.searchpath("mrt.bench.tokenizers", package.path)
  :gsub("tokenizers%.lua$", "tokenizer_kinds.py")

-- The output of the other side; nil where it fails.
local function ask(o, ...)
  local words = { quote(o.python), quote(script) }
  for _, word in ipairs { ... } do words[#words + 1] = quote(word) end
  local pipe <close> = assert(io.popen(table.concat(words, " ")))
  local out = pipe:read "a"
  return pipe:close() and out or nil
end

local function tokenizer_of(o, kind, files)
  local folder = o.folder .. "/" .. kind
  local tok = mrt.text.tokenizer(folder)
  if not tok then
    core.make_folders(folder)
    if not ask(o, "make", folder, kind, table.unpack(files)) then return nil, "not made" end
    tok = assert(mrt.text.tokenizer(folder))
  end
  return tok, folder
end

local function unpack_ids(packed)
  local ids = {}
  for i = 1, #packed // 4 do ids[i] = string.unpack("<i4", packed, 4 * i - 3) end
  return ids
end

-- Is it the text, with U+FFFD for what is no UTF-8?
local function is_lossy(ours, theirs)
  return not utf8.len(ours) and ours:gsub("[\x80-\xff]", "") == theirs:gsub("[\x80-\xff]", "")
end

local function compare(tok, cases, plain)
  local n, other_ids, other_text, at = 0, 0, 0, 1
  local how = { special = not plain, parse_special = not plain }
  while at <= #cases do
    local text, ids, decoded
    text, ids, decoded, at = string.unpack("<s4s4s4", cases, at)
    n = n + 1
    local fine, packed = pcall(tok.pack, tok, text, how)
    if not fine or packed ~= ids then other_ids = other_ids + 1 end
    local ours = tok:decode(unpack_ids(ids))
    if ours ~= decoded and not is_lossy(ours, decoded) then other_text = other_text + 1 end
  end
  return n, other_ids, other_text
end

-- Megabytes a second.
local function speed(tok, text)
  local best = math.huge
  for _ = 1, 5 do
    local before = os.clock()
    tok:pack(text)
    best = math.min(best, os.clock() - before)
  end
  return #text / 1e6 / best
end

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

return function(...)
  local o = read_options { ... }
  local files = list(o.data)
  o.folder = o.folder or os.tmpname() .. ".tokenizers"
  local kinds = o.kinds and list(o.kinds) or list(ask(o, "kinds") or "")
  if #kinds == 0 then usage(o.python .. " lacks tokenizers, sentencepiece or tiktoken") end
  local text = read(files[1])
  print "kind               strings  other ids  other text    MB/s"
  for _, kind in ipairs(kinds) do
    local tok, folder = tokenizer_of(o, kind, files)
    local cases = tok and ask(o, "cases", folder, o.strings, o.seed, table.unpack(files))
    if cases then
      local n, ids, texts = compare(tok, cases, kind:find "^sp_" or kind == "cl100k")
      print(("%-17s %8d %10d %11d %7.1f"):format(kind, n, ids, texts, speed(tok, text)))
    else
      print(("%-17s %s"):format(kind, tok and "no cases" or folder))
    end
  end
end
