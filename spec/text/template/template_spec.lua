--- template_spec.lua -- chat templates give what jinja2 gives, and refuse what they cannot
---
--- golden.json, by golden.py, has templates of this project's own and what jinja2 makes of
--- them as transformers sets it up.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"

local folder = debug.getinfo(1, "S").source:match "^@(.*)/[^/]*$"

local function read(name)
  local file <close> = assert(io.open(folder .. "/" .. name, "rb"))
  return assert(mrt.text.json(file:read "a"))
end

local function render(source, values, o)
  local template, message = mrt.text.template(source)
  if not template then return nil, message end
  return template:render(values, o)
end

-- The message with which a template is refused.
local function refused(source, values, limits)
  local template, message = mrt.text.template(source, limits)
  if not template then return message end
  local text, why, code = template:render(values)
  assert.is_nil(text, source)
  assert.equal("data", code)
  return why
end

describe("a template", function()
  it("gives what jinja2 gives", function()
    local golden = read "golden.json"
    assert.is_true(#golden.rows > 120)
    for _, row in ipairs(golden.rows) do
      local source = golden.templates[row.template]
      local template = mrt.text.template(source)
      local text, spans
      if template then text, spans = template:render_spans(row.values) end
      if row.error then
        assert.is_nil(text, source)
      else
        assert.equal(row.text, text, source .. "\n" .. tostring(spans))
        assert.same(row.spans or {}, spans, source)
      end
    end
  end)

  it("takes Lua's tables: lists, maps by name, an order of the names", function()
    assert.equal('{"a": 1, "b": [true, 2.5]}',
      render("{{ x | tojson }}", { x = { b = { true, 2.5 }, a = 1 } }))
    local ordered = setmetatable({ b = 1, a = 2, c = 3 }, { __jsonorder = { "c", "b" } })
    assert.equal('{"c": 3, "b": 1, "a": 2}', render("{{ x | tojson }}", { x = ordered }))
    local object = setmetatable({}, { __jsontype = "object" })
    assert.equal("[] {} null", render("{{ a|tojson }} {{ b|tojson }} {{ c|tojson }}",
      { a = {}, b = object, c = mrt.text.none }))
  end)

  it("refuses values that are none, by their place", function()
    for what, v in pairs { ["x%.a%[2%] is a function"] = { a = { 1, print } },
      ["x%.a is a string that is no UTF%-8"] = { a = "\xff" },
      ["x has the key 1%.5"] = { [1.5] = 1 }, ["x is neither a list"] = { 1, 2, a = 3 } } do
      assert.matches(what, refused("{{ x }}", { x = v }))
    end
    local circle = {}
    circle.a = circle
    assert.matches("lies in more than 64 tables", refused("{{ x }}", { x = circle }))
  end)

  it("says what it does not understand, and in which line", function()
    for source, message in pairs {
      ["\n{% include 'x' %}"] = "line 2 of the template: the statement 'include' is not understood",
      ["a\n\n{{ x | urlize }}"] = "line 3 of the template: the filter 'urlize' is not understood",
      ["{{ x is weird }}"] = "line 1 of the template: the test 'weird' is not understood",
      ["{% for a in b recursive %}{% endfor %}"] = "recursive loops are not understood",
      ["{{ 'a'.encode() }}"] = "the method encode of strings is not understood",
      ["{{ 'é'.isalpha() }}"] = "isalpha of text beyond ASCII is not understood",
      ["{% if a %}\n{% for b in c %}"] = "line 2 of the template: it is not closed: else or endfor",
      ["{{ a.b\n.c }}"] = "line 1 of the template: 'a' is undefined",
      ["\n{{ raise_exception('no ' ~ 1) }}"] = "line 2 of the template: no 1",
    } do
      assert.matches(message, refused(source), 1, true)
    end
    assert.matches("no UTF%-8", refused "\xff")
    assert.has_error(function() mrt.text.template(5) end)
    assert.has_error(function() mrt.text.template("", { stepps = 1 }) end)
  end)

  it("understands a filter that is never reached only where it is reached", function()
    assert.equal("b", render "{% if false %}{{ 1 | urlize }}{% else %}b{% endif %}")
    assert.matches("urlize", refused "{% if true %}{{ 1 | urlize }}{% endif %}")
  end)

  it("tells the time that it is given", function()
    assert.equal(os.date("%d %b %Y", 86400 * 200),
      render("{{ strftime_now('%d %b %Y') }}", {}, { now = 86400 * 200 }))
    assert.matches("%%Q is not understood", refused "{{ strftime_now('%Q') }}")
  end)

  it("sees nothing of the program", function()
    for _, name in ipairs { "os", "io", "require", "_G", "string", "mrt", "self" } do
      assert.equal("False", render("{{ " .. name .. " is defined }}"))
    end
    assert.equal("", render "{{ ''.__class__ }}{{ {}.__index }}{{ [].n }}{{ {}.keys.call }}")
  end)
end)

describe("a hostile template", function()
  local limits = { steps = 300000, bytes = 16 * 1048576 }

  local function bounded(source)
    local started, before = os.clock(), collectgarbage "count"
    local message = refused(source, {}, limits)
    assert.is_true(os.clock() - started < 4, source)
    assert.is_true(collectgarbage "count" - before < 64 * 1024, source)
    return message
  end

  it("ends in bounded time and memory", function()
    local double = "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}"
      .. "{% set ns.s = [ns.s, ns.s] %}{% endfor %}"
    local long = "{% set s = 'a' * 4000000 %}"
    for _, source in ipairs {
      "{{ 'x' * 999999999999 }}", "{{ [0] * 999999999999 }}",
      "{% set ns = namespace(s='xx') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}"
        .. "{% endfor %}",
      double .. "{{ ns.s }}", double .. "{{ ns.s|tojson }}",
      "{% set ns = namespace() %}{% set ns.s = [ns] %}{{ ns }}",
      "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% macro f(n) %}{{ f(n) ~ f(n) }}{% endmacro %}{{ f(1) }}",
      "{{ range(10 ** 18) }}", "{{ 10 ** 10 ** 10 }}", "{{ 9223372036854775807 + 1 }}",
      "{{ 'a'.ljust(10 ** 12) }}", "{{ '%999999999d' % 1 }}", "{{ '{:>999999999}'.format(1) }}",
      "{{ 'a'|center(10 ** 12) }}", "{{ 'a\nb'|indent(10 ** 12) }}",
      "{{ [1]|batch(10 ** 12, 0)|list }}",
      "{% set s = 'ab' * 2000000 %}{{ s.replace('a', s) }}",
      long .. "{% for i in range(99) %}{{ s.find('a' * 2000000 ~ 'b') }}{% endfor %}",
      long .. "{% for i in range(99) %}{{ ('a' * 2000000 ~ 'b') in s }}{% endfor %}",
      long .. "{% for i in range(99999) %}{{ s|trim|length }}{% endfor %}",
      long .. "{% for i in range(99999) %}{{ s is lower }}{% endfor %}",
      "{% set s = 'Σ' * 2000000 %}{% for i in range(99) %}{{ s.lower()|length }}{% endfor %}",
    } do
      assert.is_string(bounded(source))
    end
  end)

  it("is not read deeper than 100, nor in chains of more than 1000", function()
    assert.matches("deeper than 100", refused("{{ " .. ("("):rep(1000) .. (")"):rep(1000) .. " }}"))
    assert.matches("deeper than 100", refused("{{ " .. ("not "):rep(1000) .. "1 }}"))
    assert.matches("deeper than 100", refused(("{% if 1 %}"):rep(1000)))
    assert.matches("chain of more than 1000", refused("{{ a" .. (".a"):rep(5000) .. " }}"))
    assert.matches("chain of more than 1000", refused("{{ 1" .. ("+1"):rep(5000) .. " }}"))
    assert.matches("chain of more than 1000", refused("{{ 1" .. ("|int"):rep(5000) .. " }}"))
    assert.matches("at most 1048576", refused((" "):rep(1048577)))
  end)

  it("has limits that can be set", function()
    local loop = "{% for i in range(1000) %}x{% endfor %}"
    assert.equal(1000, #render(loop))
    assert.matches("more than 100 steps", refused(loop, {}, { steps = 100 }))
    assert.matches("more than 100 bytes", refused("{{ 'x' * 101 }}", {}, { bytes = 100 }))
  end)
end)

describe("a template with something changed", function()
  local golden = read "golden.json"
  local pieces = { "{%", "%}", "{{", "}}", "{#", "#}", "-", "(", ")", "[", "]", "{", "}", "'", '"',
    "\\", "|", " is ", " if ", " else ", " for ", " in ", " not ", ".", ",", ":", "=", "*", "**",
    "~", "%", "\n", "0", "1", "99999", "é", "\xff", "endif", "endfor", "loop", "none", "" }

  local function changed(random, source)
    for _ = 1, random(3) do
      local first = random(#source + 1)
      local last = first + random(0, 3) * random(0, 4) - 1
      source = source:sub(1, first - 1) .. pieces[random(#pieces)] .. source:sub(last + 1)
    end
    return source
  end

  it("is rendered or refused, and breaks nothing", function()
    local state = 12345
    local function random(low, high)
      if not high then low, high = 1, low end
      state = (state * 1103515245 + 12345) & 0x7fffffff
      return low + (state >> 8) % (high - low + 1)
    end
    local refusals, done = 0, 0
    for _ = 1, 1500 do
      local row = golden.rows[random(#golden.rows)]
      local source = changed(random, golden.templates[row.template])
      local template, message = mrt.text.template(source, { steps = 20000, bytes = 1000000 })
      if template then
        local text, why, code = template:render(row.values)
        assert.is_true(text ~= nil or type(why) == "string" and code == "data")
        done = done + 1
      else
        assert.is_string(message)
        refusals = refusals + 1
      end
    end
    assert.is_true(refusals > 200 and done > 200)
  end)
end)
