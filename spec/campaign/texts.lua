--- texts.lua -- chat templates and GGUF's tokenizers, changed at random
---
--- What is not understood is refused by a message; nothing raises, and each input ends within
--- seconds.
---
--- SPDX-License-Identifier: MIT

local codec = require "mrt.util.json"
local gguf = require "mrt.text.gguf"
local mrt = require "mrt"

local INPUTS <const>, LONGEST <const> = 2000, 5
local limits <const> = { steps = 200000, bytes = 4 << 20, depth = 50 }
local messages <const> = { { role = "system", content = "Be kind." },
  { role = "user", content = "Hi" }, { role = "assistant", content = "Hello" } }

local function pick(list) return list[math.random(#list)] end

-- ---- templates ---------------------------------------------------------------------

local words <const> = { "{{", "}}", "{%", "%}", "{#", "#}", "for x in messages", "endfor", "if",
  "endif", "set a = ", "macro m(x)", "endmacro", "|length", "|join(',')", "|tojson", "[", "]", "(",
  ")", "'", '"', "*", "**", "9999999", "~", "range(100000)", ".items()", "recursive", "loop(x)",
  "namespace()", "generation", "endgeneration", "-", "\\", "\xff", "\0", "e9", "is defined", "a",
  "{{ a * 99999 }}", "[::-1]", "|replace('a', 'aaaaaaaa')", "filter upper", "call", "else" }

local function changed(text, other)
  for _ = 1, math.random(4) do
    local at, n = math.random(0, #text), math.random(0, 12)
    local kind = math.random(4)
    if kind == 1 then
      text = text:sub(1, at) .. text:sub(at + n + 1)
    elseif kind == 2 then
      text = text:sub(1, at) .. pick(words) .. text:sub(at + 1)
    elseif kind == 3 then
      local from = math.random(0, #other)
      text = text:sub(1, at) .. other:sub(from, from + n * 4) .. text:sub(at + n + 1)
    else
      text = text:sub(1, at) .. text:sub(at, at + n):rep(math.random(3)) .. text:sub(at + 1)
    end
  end
  return text
end

local function read_templates()
  local file <close> = assert(io.open "spec/text/template/golden.json")
  local list = codec.decode(file:read "a").templates
  for i = #list, 1, -1 do
    if type(list[i]) ~= "string" then list[i] = list[#list]; list[#list] = nil end
  end
  return list
end

local function try_template(list)
  local source = changed(pick(list), pick(list))
  return source, function()
    local template = mrt.text.template(source, limits)
    if template then
      mrt.text.chat(template, messages, { tools = { { type = "function" } } })
      mrt.text.chat_spans(template, messages)
    end
  end
end

-- ---- GGUF's keys -------------------------------------------------------------------

local odd <const> = { -1, 0, 1, 3, 1 << 40, 0.5, 0 / 0, 1 / 0, "", "x", true, false, {}, { 1 },
  { "a", 1 } }
local texts <const> = { "a", "b", "ab", "\u{2581}", "\u{2581}a", "\u{120}", "\u{120}a", "<s>",
  "</s>", "<0x41>", "<0xFF>", "\xff", "\x80a", "", "\u{e9}", ("a"):rep(40), "a b" }

local function some(n, make)
  local list = {}
  for i = 1, n do list[i] = make() end
  return list
end

local function keys()
  local n, m = math.random(0, 24), {}
  local function put(name, value) m["tokenizer.ggml." .. name] = value end
  put("model", pick { "gpt2", "llama", "t5", "llama" })
  put("pre", pick { "default", "qwen2", "gpt-2", "llama-bpe" })
  put("tokens", some(n, function() return pick(texts) end))
  put("token_type", some(n, function() return math.random(6) end))
  put("scores", some(n, function() return pick { -1, 0, -2.5, math.random() } end))
  put("merges", some(math.random(0, 4), function() return pick(texts) .. " " .. pick(texts) end))
  for _, name in ipairs { "bos", "eos", "unknown", "padding" } do
    put(name .. "_token_id", math.random(-1, n + 1))
    put("add_" .. name .. "_token", math.random(2) == 1)
  end
  put("add_space_prefix", math.random(2) == 1)
  local names = {}
  for name in pairs(m) do names[#names + 1] = name end
  table.sort(names)
  for _ = 1, math.random(0, 3) do
    local name = pick(names)
    if type(m[name]) == "table" and math.random(2) == 1 then
      m[name][math.random(#m[name] + 1)] = pick(odd)
    else
      m[name] = pick(odd)
    end
  end
  return m
end

local function try_keys()
  local metadata = keys()
  return "keys of " .. tostring(metadata["tokenizer.ggml.model"]), function()
    local found = gguf.from("fuzz", metadata)
    if found then
      pcall(found.core.encode, found.core, "ab a\u{e9}\xff<s>", true, false)
    end
  end
end

-- ---- a round -----------------------------------------------------------------------

return {
  about = "chat templates and GGUF's tokenizers that nobody vouches for: refused, or used, in time",
  unit = "inputs", program = "sanitized", timeout = 1200,
  round = function(seed)
    math.randomseed(seed)
    local list, findings = read_templates(), {}
    for i = 1, INPUTS do
      local what, try = (i % 2 == 0 and try_template or try_keys)(list)
      local before = os.clock()
      local ok, message = xpcall(try, debug.traceback)
      local took = os.clock() - before
      if not ok or took > LONGEST then
        findings[#findings + 1] = ("input %d of seed %d: %s\n%q\n"):format(i, seed,
          ok and ("%.1f s"):format(took) or message, what)
      end
    end
    return INPUTS, findings
  end,
}
