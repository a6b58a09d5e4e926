--- corpus.lua -- files for the fuzz targets to begin with: `mrt corpus.lua FOLDER`
---
--- Small files of every format as they should be, and those that have been
--- used against readers like ours: sizes that overflow, counts that lie, deep
--- nesting, names that come twice.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"

local root = arg[1]

local function write(format, name, bytes)
  core.make_folders(root .. "/" .. format)
  local file <close> = assert(io.open(root .. "/" .. format .. "/" .. name, "wb"))
  assert(file:write(bytes))
end

local function path(format, name)
  core.make_folders(root .. "/" .. format)
  return root .. "/" .. format .. "/" .. name
end

local tensors = {
  a = mrt.arange(6):reshape(2, 3):to "f32", b = mrt.tensor { true, false },
  c = mrt.arange(4):to "bf16", d = mrt.tensor(3), e = mrt.zeros(0, 3),
  f = mrt.arange(300):to "i32", g = mrt.arange(9):to "u8", h = mrt.ones(2, 2):to "f16",
  i = mrt.arange(5):to "f64",
}

-- ---- safetensors -----------------------------------------------------------

local function safetensors(name, header, data)
  write("safetensors", name, string.pack("<I8", #header) .. header .. (data or ""))
end

local entry = '{"dtype":"%s","shape":%s,"data_offsets":[%s]}'
local function one(dtype, shape, offsets)
  return '{"w":' .. entry:format(dtype, shape, offsets) .. "}"
end

assert(mrt.save(path("safetensors", "good.safetensors"), tensors, { k = "v" }))
do -- without checksums, which nearly every change would end at
  local file <close> = assert(io.open(path("safetensors", "good.safetensors"), "rb"))
  local bytes = file:read "a"
  local header, data = string.unpack("<s8", bytes)
  safetensors("plain", (header:gsub('"mrt.crc32":"%x+",', "")), bytes:sub(data))
end
safetensors("empty", "{}")
safetensors("spaces", "  " .. one("F32", "[2]", "0,8") .. "   ", ("x"):rep(8))
safetensors("twice", '{"w":' .. entry:format("U8", "[1]", "0,1") .. ',"w":'
  .. entry:format("U8", "[1]", "1,2") .. "}", "xx")
safetensors("gap", one("U8", "[1]", "1,2"), "xx")
safetensors("overlap", '{"v":' .. entry:format("U8", "[2]", "0,2") .. ',"w":'
  .. entry:format("U8", "[2]", "1,3") .. "}", "xxx")
safetensors("overflow", one("F32", "[4611686018427387904,4]", "0,0"))
safetensors("overflow2", one("U8", "[9223372036854775807,9223372036854775807]", "0,1"), "x")
safetensors("huge", one("U8", "[1099511627776]", "0,1099511627776"), "x")
safetensors("zero", one("F32", "[0,9223372036854775807]", "0,0"))
safetensors("f8", one("F8_E4M3", "[2]", "0,2"), "xx")
safetensors("f4", one("F4", "[2]", "0,1"), "x")
safetensors("rank", one("U8", "[1,1,1,1,1,1,1,1,1]", "0,1"), "x")
safetensors("metadata", '{"__metadata__":{"a":"b","c":1}}')
safetensors("deep", ("["):rep(5000) .. ("]"):rep(5000))
safetensors("deeper", '{"w":' .. ('{"w":'):rep(3000) .. "1" .. ("}"):rep(3001))
safetensors("list", one("U8", "[" .. ("1,"):rep(5000) .. "1]", "0,1"), "x")
safetensors("text", '{"w\\u0000\\ud800":1}')
write("safetensors", "long", string.pack("<I8", 1 << 62))
write("safetensors", "none", "")
write("shards", "good", '{"metadata":{"total_size":8},"weight_map":{"w":"no.safetensors"}}')
write("shards", "up", '{"weight_map":{"w":"../x","v":""}}')
write("shards", "none", '{"weight_map":{}}')

-- ---- gguf --------------------------------------------------------------------

local function plain(...)
  local some = {}
  for _, name in ipairs { ... } do some[name] = tensors[name] end
  return some
end
assert(mrt.save(path("gguf", "good.gguf"), plain("a", "c", "d", "e", "f", "h", "i"),
  { ["general.architecture"] = "llama", u = 1, i = -1, f = 0.5, b = true, s = "text",
    tokens = { "a", "", "bc" }, types = { 1, 2, 3 }, ["general.alignment"] = 64 }))
for _, type_ in ipairs { "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_k", "q5_k", "q6_k" } do
  local w = mrt.arange(512):reshape(2, 256):to "f32" / 9
  assert(mrt.save(path("gguf", type_ .. ".gguf"), { w = w }, nil, { type = type_ }))
end
-- types that are only read, in files that differ from those above in a number
for name, code in pairs { q2_k = 10, q3_k = 11, iq4_nl = 20, iq4_xs = 23, mxfp4 = 39,
  iq1_s = 19 } do
  write("gguf", name, string.pack("<c4I4I8I8s8I4I8I4I8", "GGUF", 3, 1, 0, "w", 1, 256, code, 0)
    .. ("\7"):rep(500))
end
local function gguf(name, keys, infos, rest)
  write("gguf", name, string.pack("<c4I4I8I8", "GGUF", 2, infos, keys) .. rest)
end
gguf("none", 0, 0, "")
gguf("counts", 1 << 40, 1 << 40, "")
gguf("list", 1, 0, string.pack("<s8I4I4I8", "k", 9, 8, 1 << 62))
gguf("lists", 1, 0, string.pack("<s8I4I4I8", "k", 9, 9, 1 << 62))
gguf("rank", 0, 1, string.pack("<s8I4", "w", 0xffffffff))
gguf("overflow", 0, 1, string.pack("<s8I4I8I8I4I8", "w", 2, 1 << 62, 1 << 62, 0, 0))
write("gguf", "big", string.pack(">c4I4I8I8", "GGUF", 3, 0, 0))

-- ---- npy, npz --------------------------------------------------------------

local function npy(descr, fortran, shape, data, version)
  local text = ("{'descr': %s, 'fortran_order': %s, 'shape': %s, }"):format(descr, fortran,
    shape)
  local length = version == 1 and "<I2" or "<I4"
  local front = "\x93NUMPY" .. string.char(version, 0)
  text = text .. (" "):rep(-(#front + string.packsize(length) + #text + 1) % 64) .. "\n"
  return front .. string.pack(length, #text) .. text .. data
end

for name, bytes in pairs {
  good = npy("'<f4'", "False", "(2, 3)", ("x"):rep(24), 1),
  fortran = npy("'>i2'", "True", "(2, 3)", ("x"):rep(12), 2),
  scalar = npy("'|b1'", "False", "()", "\1", 3),
  one = npy("'<u2'", "False", "(3,)", ("x"):rep(6), 1),
  object = npy("'|O'", "False", "(1,)", "\x80\x04.", 1),
  record = npy("[('a', '<f4')]", "False", "(1,)", "xxxx", 1),
  overflow = npy("'<f8'", "False", "(4611686018427387904, 4)", "", 1),
  huge = npy("'<f8'", "False", "(99999999999999999999,)", "", 1),
  short = npy("'<f8'", "False", "(1000000000,)", "xx", 1),
  long = "\x93NUMPY\2\0\xff\xff\xff\xff{",
  none = "",
} do
  write("npy", name, bytes)
end

assert(mrt.save(path("npz", "stored.npz"), tensors))
assert(mrt.save(path("npz", "deflated.npz"), tensors, { compress = true }))
write("npz", "none", "")
write("npz", "empty", "PK\5\6" .. ("\0"):rep(18))
write("npz", "count", "PK\5\6" .. ("\0"):rep(4) .. ("\xff"):rep(4) .. ("\0"):rep(10))
write("npz", "end64", "PK\6\7" .. ("\0"):rep(4) .. ("\xff"):rep(8) .. ("\0"):rep(4)
  .. "PK\5\6" .. ("\0"):rep(18))

-- ---- idx, CIFAR, tokens ----------------------------------------------------

write("idx", "images", "\0\0\8\3" .. string.pack(">I4I4I4", 2, 3, 4) .. ("x"):rep(24))
write("idx", "labels", "\0\0\8\1" .. string.pack(">I4", 5) .. ("\3"):rep(5))
write("idx", "doubles", "\0\0\14\1" .. string.pack(">I4d", 1, 0.5))
write("idx", "overflow", "\0\0\14\4" .. ("\xff"):rep(16))
write("idx", "rank", "\0\0\8\xff")
write("idx", "none", "")
-- gzip of an idx file of two labels, and trailers that lie
local stored = "\0\0\8\1" .. string.pack(">I4", 2) .. "\1\2"
local gzip = "\x1f\x8b\8\0\0\0\0\0\0\3" .. "\1" .. string.pack("<I2I2", #stored, ~#stored & 0xffff)
  .. stored
write("idx", "gzip", gzip .. string.pack("<I4I4", 0, #stored))
write("idx", "bomb", gzip .. string.pack("<I4I4", 0, 0xffffffff))
write("idx", "wrong", gzip .. string.pack("<I4I4", 0, 3))
write("cifar10", "good", (("\3" .. ("x"):rep(3072)):rep(3)))
write("cifar10", "label", "\xff" .. ("x"):rep(3072))
write("cifar10", "short", "\3")
write("cifar100", "good", (("\3\9" .. ("x"):rep(3072)):rep(2)))
write("cifar100", "short", "")
write("tokens", "raw", string.pack("<I2I2I2", 1, 2, 50256))
write("tokens", "odd", "xxx")
write("tokens", "none", "")
local function llm(magic, version, count, data)
  return string.pack("<i4i4I4", magic, version, count) .. ("\0"):rep(1012) .. data
end
write("tokens", "gpt2", llm(20240520, 1, 3, ("x"):rep(6)))
write("tokens", "llama3", llm(20240801, 7, 2, ("x"):rep(8)))
write("tokens", "count", llm(20240520, 1, 0xffffffff, "xx"))
write("tokens", "version", llm(20240520, 2, 1, "xx"))
write("tokens", "cut", string.pack("<i4", 20240520))

-- ---- csv -------------------------------------------------------------------

write("csv", "good", "a,b,label\r\n1,2.5,cat\n-3e2, 4 ,\"a \"\"dog\"\"\"\n\n5,,\"x,\ny\"\n")
write("csv", "tabs", "\xef\xbb\xbf1\t2\n3\t4")
write("csv", "ragged", "1;2\n3\n")
write("csv", "quote", '1,"2\n3,4')
write("csv", "after", '1,"2"x\n')
write("csv", "none", "")
write("csv", "blank", "\n\r\n\n")
write("csv", "commas", (","):rep(3000) .. "\n")
write("csv", "long", ("9"):rep(3000) .. "\n1")

-- ---- byte-pair encoding ----------------------------------------------------

local function bpe(name, vocab, merges, text)
  write("bpe", name, vocab .. "\0" .. merges .. "\0" .. text)
end
bpe("good", '{"a":0,"b":1,"\u{120}":2,"ab":3,"\u{120}ab":4,"!":5,"\u{c3}":6,"\u{a9}":7}',
  "#version: 0.2\na b\n\u{120} ab\n", "ab ab  a!b\xc3\xa9 aabab")
bpe("again", '{"a":0,"aa":1,"aaaa":2}', "a a\naa aa\n", ("a"):rep(999))
bpe("ids", '{"a":0,"b":0}', "", "ab")
bpe("gap", '{"a":0,"b":7}', "", "ab")
bpe("nonsense", '{"a":0,"b":1}', "a b\n", "ab")
bpe("deep", '{"a":{"b":0}}', "", "")

-- ---- tokenizers ------------------------------------------------------------

local golden = require "mrt.util.json".decode(assert(io.open "spec/text/golden.json"):read "a")
local alphabet <const> = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

local function decode64(text)
  local bits, have, out = 0, 0, {}
  for digit in text:gmatch "[%w+/]" do
    bits, have = bits << 6 | alphabet:find(digit, 1, true) - 1, have + 6
    if have >= 8 then
      have = have - 8
      out[#out + 1] = string.char(bits >> have & 255)
    end
  end
  return table.concat(out)
end

local folders <const> = { ["tokenizer.json"] = "tokenizer", ["tokenizer.model"] = "sentencepiece",
  ["cl100k_base.tiktoken"] = "tiktoken" }
for kind, given in pairs(golden) do
  write(folders[given.file], kind, decode64(given.data))
end

local rest <const> = [=["model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "\u2581": 3},
  "merges": ["a b"], "unk_token": "a"}}]=]
local function part(name, json) write("tokenizer", name, "{" .. json .. ", " .. rest) end
part("pattern", [=["pre_tokenizer": {"type": "Split", "behavior": "Contiguous", "invert": true,
  "pattern": {"Regex": "(?i:'s)|[^\\s\\p{L}&&[^x]]{1,3}+|\\b\\w++(?!\\S)|$"}}]=])
part("slow", [=["pre_tokenizer": {"type": "Split", "behavior": "Isolated",
  "pattern": {"Regex": "(?:a+)+$|(\\p{L}*)*x"}}]=])
part("grow", [=["normalizer": {"type": "Sequence", "normalizers": [{"type": "Replace",
  "pattern": {"Regex": ""}, "content": "aaaaaaaa"}, {"type": "Prepend", "prepend": "xx"},
  {"type": "NFKD"}, {"type": "BertNormalizer"}, {"type": "Nmt"}, {"type": "StripAccents"}]}]=])
part("decoders", [=["decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern":
  {"String": "a"}, "content": "\u2581"}, {"type": "ByteFallback"}, {"type": "Metaspace",
  "replacement": "\u2581"}, {"type": "CTC"}, {"type": "Strip", "content": " ", "start": 1,
  "stop": 1}, {"type": "WordPiece"}, {"type": "BPEDecoder"}, {"type": "Fuse"}]}]=])
part("added", [=["added_tokens": [{"id": 9, "content": "ab", "lstrip": true, "rstrip": true,
  "single_word": true}, {"id": 7, "content": "b", "special": true}], "truncation":
  {"max_length": 3, "direction": "Left"}, "post_processor": {"type": "BertProcessing",
  "sep": ["b", 1], "cls": ["a", 12]}]=])
write("tokenizer", "deep", ("["):rep(5000))
write("tokenizer", "none", "")
write("sentencepiece", "none", "")
write("sentencepiece", "cut", "\10\4\10\2ab\18\255\255\255\255\255\255\255\255\255\1")
write("tiktoken", "gap", "YQ== 0\nYg== 99999999\n")
write("tiktoken", "twice", "YQ== 0\nYQ== 1\n")
