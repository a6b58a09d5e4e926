--- chat_spec.lua -- conversations as texts, and which bytes of them the assistant speaks
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"

local function user(text) return { role = "user", content = text } end
local function assistant(text) return { role = "assistant", content = text } end

local function template(source) return assert(mrt.text.template(source)) end

-- What the assistant speaks, as texts.
local function spoken(source, messages, values)
  local text, spans = mrt.text.chat_spans(template(source), messages, values)
  if not text then return nil, spans end
  local parts = {}
  for i, span in ipairs(spans) do parts[i] = text:sub(span[1], span[2]) end
  return parts, text
end

local turns = "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</>\n{% endfor %}"
  .. "{% if add_generation_prompt %}<assistant>{% endif %}"

-- Writes thoughts behind the last question alone, as models that think have it.
local thinking = [[
{%- set ns = namespace(last=-1) -%}
{%- for m in messages %}
  {%- if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}
{%- endfor -%}
{%- for m in messages -%}
<{{ m.role }}>
{%- if m.role == 'assistant' and loop.index0 > ns.last %}
  {{- '<think>' ~ m.reasoning_content }}</think>
{%- endif -%}
{{ m.content }}</>
{%- endfor -%}
{%- if add_generation_prompt %}<assistant>{% endif -%}
]]

local dialogue = { user "Hi", assistant " Hé! ", user "More", assistant "No." }

describe("a conversation", function()
  it("is written with what templates expect", function()
    local all = template "{{ tools is none }} {{ documents is none }} {{ add_generation_prompt }}"
    assert.equal("True True False", mrt.text.chat(all, {}))
    local tools = template "{{ tools[0].name }}{% if add_generation_prompt %}!{% endif %}"
    assert.equal("f!", mrt.text.chat(tools, {},
      { tools = { { name = "f" } }, add_generation_prompt = true }))
    local thoughts = template
      "{% for m in messages %}{{ m.reasoning_content }}{{ m.thinking }}.{% endfor %}"
    assert.equal("aa.bb..", mrt.text.chat(thoughts, { { role = "assistant", thinking = "a" },
      { role = "assistant", reasoning_content = "b" }, user "c" }))
  end)

  it("has parts of text as content", function()
    local source = "{% for p in messages[0].content %}{{ p.text }}{% endfor %}"
    local parts = { { type = "text", text = "a" }, { type = "text", text = "b" } }
    assert.equal("ab", mrt.text.chat(template(source), { { role = "user", content = parts } }))
  end)

  it("keeps the order of names that JSON had", function()
    local tools = assert(mrt.text.json '[{"type": "function", "a": {"z": null, "b": 1.0}}]')
    assert.equal('{"type": "function", "a": {"z": null, "b": 1.0}}',
      mrt.text.chat(template "{{ tools[0] | tojson }}", {}, { tools = tools }))
  end)
end)

describe("what the assistant speaks", function()
  it("is what {% generation %} marks", function()
    local source = "{% for m in messages %}{% if m.role == 'assistant' %}<a>{% generation %}"
      .. "{{ m.content }}</>{% endgeneration %}{% else %}é{{ m.content }}{% endif %}{% endfor %}"
    local parts, text = spoken(source, dialogue)
    assert.same({ " Hé! </>", "No.</>" }, parts)
    assert.equal("éHi<a> Hé! </>éMore<a>No.</>", text)
  end)

  it("is told by prefixes without them", function()
    local parts, text = spoken(turns, dialogue)
    assert.same({ "Hé!</>\n", "No.</>\n" }, parts)
    assert.equal("<user>Hi</>\n<assistant>Hé!</>\n<user>More</>\n<assistant>No.</>\n", text)
    assert.same({}, spoken(turns, { user "Hi" }))
    assert.same({ "Well</>\n" }, spoken(turns, { assistant "Well", user "Hi" }))
  end)

  it("is told where earlier turns are written otherwise than the last", function()
    local messages = { user "Hi", assistant "A", user "More", assistant "B" }
    for i = 2, 4, 2 do messages[i].reasoning_content = "t" .. i end
    local parts, text = spoken(thinking, messages)
    assert.equal("<user>Hi</><assistant>A</><user>More</><assistant><think>t4</think>B</>", text)
    assert.same({ "A</>", "<think>t4</think>B</>" }, parts)
  end)

  it("is told where a conversation ends otherwise than its turns", function()
    local source = "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>{% endfor %}"
      .. "{% if add_generation_prompt %}<assistant>{% else %}<eos>{% endif %}"
    assert.same({ " Hé! <end>", "No.<end><eos>" }, spoken(source, dialogue))
  end)

  it("is told by prefixes where the marks are in a macro", function()
    local source = "{% macro say(t) %}{% generation %}{{ t }}{% endgeneration %}{% endmacro %}"
      .. "{% for m in messages %}{{ say(m.content) }};{% endfor %}"
    assert.same({ "b;" }, spoken(source, { user "a", assistant "b" }))
  end)

  it("is refused where it cannot be told", function()
    local source = "{{ messages | length }}{% for m in messages %}{{ m.content }}{% endfor %}"
    local parts, message = spoken(source, dialogue)
    assert.is_nil(parts)
    assert.matches("where message 2 is in the text cannot be told", message)
    parts, message = spoken("{{ raise_exception('never') }}", dialogue)
    assert.is_nil(parts)
    assert.matches("never", message)
  end)
end)

describe("JSON", function()
  it("is read with the order of its names", function()
    local source = ' {"b": [1, -2.5e1, true, null, "\\u00e9\\ud83d\\ude00\\n"], "a": {}} '
    local value = assert(mrt.text.json(source))
    assert.same({ 1, -25.0, true, mrt.text.none, "é😀\n" }, value.b)
    assert.same({ "b", "a" }, getmetatable(value).__jsonorder)
    assert.equal(false, (mrt.text.json "false"))
  end)

  it("is refused where it is none, at its byte", function()
    for _, text in ipairs { "", "{", "[1,]", '{"a" 1}', "01", "1.", "nul", '"\\x"', '"\n"', "[1] 2",
      '"\\ud800"', "\xff", "99999999999999999999", ("["):rep(100), "'a'", '{"a": 1,}' } do
      local value, message, code = mrt.text.json(text)
      assert.is_nil(value, text)
      assert.matches("JSON", message)
      assert.equal("data", code)
    end
  end)
end)
