--- merges.lua -- the tokenizer of vocab.json and merges.txt
---
--- Neither says how texts are cut into words: the class does, or the caller.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local json = require "mrt.util.json"
local published = require "mrt.text.published"

local merges = {}

local function lines_of(text)
  local list = {}
  for line in text:gmatch "[^\r\n]+" do
    if #list > 0 or not line:find "^#version" then list[#list + 1] = line end
  end
  return json.array(list)
end

-- Texts get a space in front, which is what a tokenizer.json can say.
local function open_spaced(vocab, list)
  local ids, message, code = core.read_file(vocab)
  if not ids then return nil, message, code end
  local lines
  lines, message, code = core.read_file(list)
  if not lines then return nil, message, code end
  local ok, text = pcall(json.encode, lines_of(lines))
  if not ok then return nil, list .. ": not UTF-8", "data" end
  return core.parse_tokenizer(vocab, table.concat { [[{"pre_tokenizer":
    {"type": "ByteLevel", "add_prefix_space": true, "use_regex": true},
    "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": ]], ids,
    [[, "merges": ]], text, "}}" })
end

--- Open them.
---@param root string
---@param o {pattern: string?}
---@param config table  tokenizer_config.json
---@param class string  as published.class gives it
---@return table? found
---@return string? message
---@return string? code
function merges.open(root, o, config, class)
  local vocab, list = root .. "/vocab.json", root .. "/merges.txt"
  local pattern = o.pattern or published.merges[class]
  if published.other_merges[class] and not o.pattern then
    return nil, ("%s: how %s cuts texts is not known: a tokenizer.json is wanted, or a `pattern`")
      :format(root, config.tokenizer_class or class), "data"
  end
  local handle, message, code
  if not config.add_prefix_space then
    handle, message, code = core.open_merges(vocab, list, pattern)
  elseif not pattern then
    handle, message, code = open_spaced(vocab, list)
  else
    return nil, root .. ": add_prefix_space with a pattern is not understood", "data"
  end
  if not handle then return nil, message, code end
  if published.composed[class] then handle:compose() end
  local known = (class == "" or class == "gpt2") and published.gpt2(handle) or nil
  return { core = handle, plain = true, known = known }
end

return merges
