--- pre.lua -- how byte-level tokenizers cut a text into words, under llama.cpp's names
---
--- llama.cpp knows published patterns by name and no others; what a name stands for is here
--- as tokenizer.json says it.
---
--- SPDX-License-Identifier: MIT

local pre = {}

local WORDS <const> = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
local REST <const> = "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
local CASED <const> = "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*"
  .. "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+%s|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+"
  .. "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*%s|\\p{N}%s| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+"
  .. "|\\s+(?!\\S)|\\s+"
local SHORT <const> = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"

-- name; pattern; ignore: a word that is a token needs no merges
local patterns = {
  { "qwen2", WORDS .. "\\p{N}" .. REST },
  { "llama-bpe", WORDS .. "\\p{N}{1,3}" .. REST, ignore = true },
  { "dbrx", WORDS .. "\\p{N}{1,3}" .. REST },
  { "gpt-4o", CASED:format(SHORT, SHORT, "{1,3}") },
  { "tekken", CASED:format("", "", ""), ignore = true },
}
local alike = { llama3 = "llama-bpe", ["llama-v3"] = "llama-bpe", ["smaug-bpe"] = "dbrx",
  ["deepseek-r1-qwen"] = "qwen2", megrez = "qwen2", stablelm2 = "qwen2", ["phi-2"] = "gpt-2",
  olmo = "gpt-2", mpt = "gpt-2", ["jina-v2-de"] = "gpt-2", exaone4 = "gpt-2",
  starcoder = "smollm", refact = "smollm", codeshell = "smollm", ["command-r"] = "smollm",
  exaone = "smollm", minerva = "smollm", llama4 = "gpt-4o" }

local function is_bytes(part, regex)
  return type(part) == "table" and part.type == "ByteLevel" and part.add_prefix_space ~= true
    and (part.use_regex ~= false) == regex
end

local function is_digits(part)
  return type(part) == "table" and part.type == "Digits" and part.individual_digits == true
end

-- The pattern by which a part cuts, each match a word.
local function pattern_of(part)
  if type(part) ~= "table" or part.type ~= "Split" or part.invert == true then return nil end
  local pattern = type(part.pattern) == "table" and part.pattern.Regex
  local behavior = part.behavior
  return (behavior == "Isolated" or behavior == "Removed") and pattern or nil
end

-- The name of a pattern behind which bytes are only named.
local function name_of(pattern, ignore)
  for _, one in ipairs(patterns) do
    if one[2] == pattern and (one.ignore or false) == ignore then return one[1] end
  end
end

--- The name of a tokenizer.json's pre_tokenizer; nil: llama.cpp has none.
---@param given table?    pre_tokenizer
---@param ignore boolean  the model's ignore_merges
---@return string?
function pre.name(given, ignore)
  if type(given) ~= "table" then return nil end
  local parts = given.type == "Sequence" and given.pretokenizers or { given }
  local first, last = parts[1], parts[#parts]
  if #parts == 2 and is_bytes(last, false) then return name_of(pattern_of(first), ignore) end
  if ignore or not is_bytes(last, true) then return nil end
  if #parts == 1 then return "gpt-2" end
  return #parts == 2 and is_digits(first) and "smollm" or nil
end

--- The pre_tokenizer and ignore_merges of a name; nil: the name is not known here.
---@param name string
---@return table? pre_tokenizer
---@return boolean? ignore
function pre.of(name)
  name = alike[name] or name
  local bytes = { type = "ByteLevel", add_prefix_space = false, trim_offsets = true,
    use_regex = true }
  if name == "gpt-2" then return bytes, false end
  if name == "smollm" then
    return { type = "Sequence", pretokenizers = { { type = "Digits", individual_digits = true },
      bytes } }, false
  end
  for _, one in ipairs(patterns) do
    if one[1] == name then
      bytes.use_regex = false
      return { type = "Sequence", pretokenizers = { { type = "Split",
        pattern = { Regex = one[2] }, behavior = "Isolated", invert = false }, bytes } },
        one.ignore or false
    end
  end
end

return pre
