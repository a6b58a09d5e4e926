--- compare.lua -- what compare.py wrote of other programs, beside what is here
---
---     mrt spec/text/compare.lua FILE SHOW
---
--- SPDX-License-Identifier: MIT

local codec = require "mrt.util.json"
local mrt = require "mrt"

local path, most = arg[1], tonumber(arg[2])
local file <close> = assert(io.open(path, "rb"))
local bytes = file:read "a"
local temporary = path .. ".json"

local function write(text)
  local out <close> = assert(io.open(temporary, "wb"))
  out:write(text)
end

local function unpack_ids(packed)
  local ids = {}
  for i = 1, #packed // 4 do ids[i] = string.unpack("<i4", packed, 4 * i - 3) end
  return ids
end

local function show(ids) return "{" .. table.concat(ids, " ") .. "}" end

-- Is it the text, with U+FFFD for what is no UTF-8?
local function is_lossy(ours, theirs)
  return not utf8.len(ours) and ours:gsub("[\x80-\xff]", "") == theirs:gsub("[\x80-\xff]", "")
end

local function streamed(tok, ids)
  local stream, parts = tok:stream { skip_special = false }, {}
  for _, id in ipairs(ids) do parts[#parts + 1] = stream:push(id) end
  return table.concat(parts) .. stream:finish()
end

-- What differs; nil: nothing.
local function differs(tok, stream, skip, text, packed, plain, back, skipped)
  local fine, ids = pcall(tok.pack, tok, text)
  if packed == "error" then return nil end -- theirs refuses, or panics
  if not fine then return "ids", ids, show(unpack_ids(packed)) end
  if ids ~= packed then return "ids", show(unpack_ids(ids)), show(unpack_ids(packed)) end
  ids = tok:pack(text, { special = false })
  if ids ~= plain then return "plain", show(unpack_ids(ids)), show(unpack_ids(plain)) end
  if back == "error" then return nil end
  local list = unpack_ids(packed)
  local ours = tok:decode(list)
  if "text" .. ours ~= back and not is_lossy(ours, back:sub(5)) then return "text", ours, back end
  local short = skip and tok:decode(list, { skip_special = true })
  if short and "text" .. short ~= skipped and not is_lossy(short, skipped:sub(5)) then
    return "skipped", short, skipped
  end
  local pieces = stream and streamed(tok, list) or ours
  if pieces ~= ours and utf8.len(ours) and not ours:find("\u{fffd}", 1, true) then
    return "stream", pieces, "text" .. ours
  end
end

-- A tokenizer in a few words.
local function outline(json)
  local j = codec.decode(json)
  j.model.vocab, j.model.merges, j.version, j.padding = nil, nil, nil, nil
  local flags = {}
  for _, a in ipairs(j.added_tokens) do
    local words = { ("%q"):format(a.content) }
    for _, name in ipairs { "single_word", "lstrip", "rstrip", "normalized", "special" } do
      if a[name] then words[#words + 1] = name end
    end
    flags[#flags + 1] = table.concat(words, " ")
  end
  j.added_tokens = flags
  return (codec.encode(j):gsub('"precompiled_charsmap":"[^"]*"', "..."))
end

-- What is uncertain until the end is not given piece by piece.
local function may_stream(json)
  local decoder = json:match '"decoder": (.*)"model"'
  for _, name in ipairs { "CTC", "Strip", "BPEDecoder", "Replace" } do
    if decoder:find(name, 1, true) then return false end
  end
  return not (decoder:find("WordPiece", 1, true) and decoder:find("Sequence", 1, true))
end

local count, refused, wrong, strings, kinds, shown = 0, {}, 0, 0, {}, 0

local function report(seed, json, text, what, ours, theirs)
  if shown == most then return end
  shown = shown + 1
  print(("--- seed %d: %s of %q\n  %s"):format(seed, what, text, outline(json)))
  print("  here:  " .. tostring(ours):sub(1, 300))
  print("  there: " .. tostring(theirs):sub(1, 300))
end

local function compare(tok, seed, json, list)
  local bad, stream = false, may_stream(json)
  -- There a special token that normalizers change is not left out.
  local skip = not json:find '"normalized": true, "special": true'
  for _, case in ipairs(list) do
    strings = strings + 1
    local what, ours, theirs = differs(tok, stream, skip, table.unpack(case))
    if what then
      kinds[what] = (kinds[what] or 0) + 1
      if not bad then report(seed, json, case[1], what, ours, theirs) end
      bad = true
    end
  end
  wrong = wrong + (bad and 1 or 0)
end

local at = 1
while at <= #bytes do
  local json, seed, n
  json, seed, n, at = string.unpack("<s4I4I4", bytes, at)
  write(json)
  local list = {}
  for i = 1, n do
    list[i] = { string.unpack("<s4s4s4s4s4", bytes, at) }
    at = table.remove(list[i])
  end
  local tok, message = mrt.text.tokenizer(temporary)
  count = count + 1
  if tok then
    compare(tok, seed, json, list)
  else
    message = message:gsub("^[^:]*: ", "")
    refused[message] = (refused[message] or 0) + 1
  end
end
os.remove(temporary)
for message, k in pairs(refused) do print(("%6d refused: %s"):format(k, message)) end
for what, k in pairs(kinds) do print(("%6d strings with other %s"):format(k, what)) end
print(("%d tokenizers, %d strings, %d tokenizers differ"):format(count, strings, wrong))
os.exit(wrong == 0 and 0 or 1, true)
