"""golden.py -- writes golden.json: templates, and what jinja2 makes of them

    python spec/text/template/golden.py > spec/text/template/golden.json

The templates are this project's own, and use what published chat templates use.  Needs
transformers, whose set-up of jinja2 is what models are published for.
"""
import json

from compare import expected
from conversations import CONVERSATIONS, TIME, TOKENS, WEATHER

CHAT = {}

CHAT["turns"] = r"""{{- bos_token }}
{%- if messages and messages[0].role == 'system' %}
    {%- set system = messages[0].content %}
    {%- set turns = messages[1:] %}
{%- else %}
    {%- set system = none %}
    {%- set turns = messages %}
{%- endif %}
{%- for message in turns %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('users and assistants take turns') }}
    {%- endif %}
    {%- if loop.first and system is not none %}
        {%- set content = '<<' ~ system|trim ~ '>>\n' ~ message['content'] %}
    {%- else %}
        {%- set content = message['content'] %}
    {%- endif %}
    {%- if message.role == 'user' %}
        {{- '[U] ' + content + ' [/U]' }}
    {%- else %}
        {% generation %}{{ ' ' + content | trim + eos_token }}{% endgeneration %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %} {% endif %}
"""

CHAT["tools"] = r"""{#- Tools as JSON, calls as JSON, results in groups. -#}
{%- macro text_of(content) -%}
    {%- if content is string -%}{{ content }}
    {%- elif content is iterable -%}
        {%- for part in content -%}
            {{ part.text if part.type == 'text' else '<' ~ part['type'] ~ '>' }}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro -%}
{% set ns = namespace(last=-1, results=0) %}
{% for message in messages[::-1] %}
    {% if message.role == "user" and ns.last == -1 %}
        {% set ns.last = messages|length - 1 - loop.index0 %}
    {% endif %}
{% endfor %}
{% if tools %}
<|system|>
Tools:
{% for tool in tools %}
{{ tool | tojson }}
{% endfor %}
{{ tools|map(attribute='function')|map(attribute='name')|join(', ') }}
{{ tools[0].function.parameters.properties | tojson(indent=2) }}
{% endif -%}
{% for message in messages if message.role != 'system' or not tools %}
<|{{ message.role }}|>
    {%- if message.role == 'assistant' and message.tool_calls is defined and message.tool_calls %}
        {%- if message.content %}{{ '\n' + message.content }}{% endif %}
        {%- for call in message.tool_calls %}
            {%- if call.function is defined %}{% set call = call.function %}{% endif %}
            {{- '\n<call>{"name": "' + call.name + '", "arguments": ' }}
            {%- if call.arguments is string %}{{ call.arguments }}{% else %}{{ call.arguments | tojson }}{% endif %}
            {{- '}</call>' }}
        {%- endfor %}
    {%- elif message.role == 'tool' %}
        {%- if loop.first or loop.previtem.role != 'tool' %}{{ '\n<results>' }}{% endif %}
        {{- '\n' ~ text_of(message.content) }}
        {%- if loop.last or loop.nextitem.role != 'tool' %}{{ '\n</results>' }}{% endif %}
        {%- set ns.results = ns.results + 1 %}
    {%- else %}
        {%- set content = text_of(message.content) %}
        {%- if '</think>' in content %}
            {%- set thought = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\n') %}
            {%- if loop.index0 > ns.last %}{{ '\n(' + thought.strip() + ')' }}{% endif %}
        {%- endif %}
        {{- '\n' }}{% if message.role == 'assistant' %}{% generation %}{{ content }}</s>{% endgeneration %}{% else %}{{ content }}{% endif %}
    {%- endif %}

{% endfor %}
{% if ns.results %}results: {{ ns.results }}
{% endif %}
{% if add_generation_prompt %}
<|assistant|>
{% if enable_thinking is defined and enable_thinking is false %}
<think></think>
{% endif %}
{% endif %}
"""

CHAT["schema"] = r"""{%- macro kind(spec, required=[]) %}
    {%- if spec.type == 'array' -%} list[{{ kind(spec['items']) }}]
    {%- elif spec.enum is defined -%} {{ spec.enum | map('tojson') | join(' | ') }}
    {%- elif spec.type is iterable and spec.type is not string -%} {{ spec.type | join(' or ') }}
    {%- else -%} {{ spec.type }}{% endif %}
{%- endmacro %}
{%- for tool in tools or [] %}{% set f = tool.function -%}
def {{ f.name }}(
    {%- for name, spec in f.parameters.properties.items() -%}
        {{ name }}: {{ kind(spec) }}{{ '' if name in f.parameters.get('required', []) else ' = ' ~ spec.default }}
        {%- if not loop.last %}, {% endif %}
    {%- endfor %}):
    """ + '"""' + r"""{{ f.description | replace('\n', ' ') | upper }}""" + '"""' + r"""
{% endfor %}
{%- for m in messages %}{{ loop.index }}/{{ loop.length }} {{ m.role|title }}: {{ (m.content or '')|string|indent(2) }}
{% else %}nothing
{% endfor %}"""

EXPRESSIONS = r"""
{{ 1 }} {{ 1.0 }} {{ 0.1 }} {{ 1e16 }} {{ 1e-5 }} {{ 123456789.125 }} {{ 1/3 }} {{ -0.0 }} {{ 1e300*1e10 }}
{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 4 / 2 }}
{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ -2 ** 2 }} {{ 2 ** 3 ** 2 }} {{ 1 ~ 2 + 3 }} {{ 'a' ~ none ~ true ~ 1.5 }}
{{ true + 1 }} {{ 'ab' * 3 }} {{ [1] * 2 + [2] }} {{ (1, 2) + (3,) }} {{ 3 * 'x' }} {{ 'x' * -1 }}
{{ none }} {{ true }} {{ undefined_thing }}| {{ [none, true, 'it\'s', "a\"b", 'both\'"', 1.5, (), (1,), {'a': [1]}] }}
{{ 'tab\t nl\n bs\\ é \u00e9 \x41 \101 \d' }} {{ ['tab\t nl\n bs\\ é \u00a0 \u200b \x00 😀'] }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ '1' == 1 }} {{ [1, 2] == [1, 2.0] }} {{ {'a': 1} == {'a': 1} }} {{ [1] < [1, 2] }}
{{ 'a' in 'abc' }} {{ 2 in [1, 2] }} {{ 'k' in {'k': 1} }} {{ 3 not in (1, 2) }} {{ not 1 in [1] }} {{ 1 in range(3) }}
{{ 0 or 'x' }} {{ '' and 1 }}| {{ none or [] }} {{ 1 and 2 }} {{ not [] }} {{ not 'a' or true }}
{{ 'yes' if 1 else 'no' }} {{ 'yes' if 0 }}| {{ 'a' if 0 else 'b' if 0 else 'c' }} {{ [1 if x is defined else 2] }}
{{ 'hello'[1] }} {{ 'hello'[-1] }} {{ 'hello'[9] }}| {{ 'hello'[1:3] }} {{ 'hello'[::-1] }} {{ 'hello'[-3:] }} {{ 'häß€😀'[1:4] }} {{ 'häß€😀'|length }} {{ 'hello'[::2] }}
{{ [1,2,3][1:] }} {{ [1,2,3][-2:-1] }} {{ [1,2,3][5:] }} {{ (1,2,3)[:2] }} {{ range(10)[2:8:3] }} {{ [1,2,3][::-2] }} {{ range(5)|list }} {{ range(5, 0, -2)|list }} {{ range(2, 4) }}
{{ {'a': 1}.a }} {{ {'a': 1}['a'] }} {{ {'a': 1}.b }}| {{ {'items': 1}['items'] }} {{ {'a': 1}.get('b') }} {{ {'a': 1}.get('b', 2) }} {{ {'a': 1, 'b': 2}.items()|list }} {{ {'a': 1}.keys() }} {{ {'a': 1}.values()|list }}
{{ {1: 'a', true: 'b', 1.0: 'c'} }} {{ {'b': 1, 'a': 2, 'b': 3} }} {{ {(none): 1} }} {{ {'a': 1}|length }} {{ {'x': {'y': 2}}.x.y }}
{{ ' a b '.strip() }}| {{ 'xxaxx'.strip('x') }} {{ ' a '.lstrip() }}| {{ 'a.b.c'.split('.') }} {{ ' a  b '.split() }} {{ 'a.b.c'.split('.', 1) }} {{ 'a.b.c'.rsplit('.', 1) }} {{ 'a b c d'.split(none, 2) }} {{ 'a b  c d '.rsplit(none, 2) }}
{{ 'abc'.upper() }} {{ 'ABC'.lower() }} {{ 'they\'re bill\'s'.title() }} {{ 'they\'re bill-smith (a) {b} [c] <d> éa'|title }} {{ 'hELLO wORLD'.capitalize() }} {{ 'Straße ΑΣ ﬁ ǆ İ'.upper() }} {{ 'ΑΣ ΣΑΣ İI Ǆ ß'.lower() }} {{ 'ǆa ﬁb ßc'.title() }} {{ 'aBß'.swapcase() }}
{{ 'hello'.startswith('he') }} {{ 'hello'.endswith(('x', 'lo')) }} {{ 'hello'.find('l') }} {{ 'héllo'.find('l', 3) }} {{ 'hello'.rfind('l') }} {{ 'hello'.index('e') }} {{ 'hello'.count('l') }} {{ 'hello'.find('z') }} {{ 'abcabc'.find('c', -2) }} {{ 'a'.find('') }}
{{ 'hello'.replace('l', 'L') }} {{ 'hello'.replace('l', 'L', 1) }} {{ 'ab'.replace('', '-') }} {{ 'hello'|replace('l', '') }} {{ '-'.join(['a', 'b']) }} {{ 'a\nb\r\nc'.splitlines() }} {{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'abc'.removeprefix('a').removesuffix('c') }}
{{ '7'.zfill(3) }} {{ '-7'.zfill(4) }} {{ 'a'.ljust(3) }}| {{ 'a'.rjust(3, '*') }} {{ 'ab'.center(5, '.') }} {{ '12'.isdigit() }} {{ 'a1'.isalnum() }} {{ 'ab'.isalpha() }} {{ 'AB'.isupper() }} {{ 'ab'.islower() }} {{ ' '.isspace() }}
{{ '%s is %d, %.2f, %5s|%-5s|%05d %x %%' % ('a', 3, 2.5, 'x', 'y', 42, 255) }} {{ '%s' % 1 }} {{ '%(a)s' % {'a': 5} }} {{ '%s-%s'|format(1, none) }} {{ '%r' % ('x',) }} {{ '%+d %e' % (5, 12345.678) }}
{{ '{} {}'.format(1, 'a') }} {{ '{1} {0}'.format(1, 'a') }} {{ '{a} {b[0]} {c.d}'.format(a=1, b=[2], c={'d': 3}) }} {{ '{:>5}|{:<5}|{:^5}|{:05d}|{:.2f}|{:,}'.format('a', 'b', 'c', 42, 3.14159, 1234567) }} {{ '{{}} {!r}'.format('x') }}
{{ [3,1,2]|sort }} {{ ['b','A','c']|sort }} {{ ['b','A','c']|sort(case_sensitive=true) }} {{ [3,1,2]|sort(reverse=true) }} {{ [{'n': 2}, {'n': 1}]|sort(attribute='n') }} {{ {'b': 1, 'a': 2}|dictsort }} {{ {'b': 1, 'a': 2}|dictsort(by='value') }}
{{ [1,2,3]|first }} {{ [1,2,3]|last }} {{ []|first }}| {{ 'abc'|first }} {{ [1,2,3]|sum }} {{ [1,2.5]|sum }} {{ [{'n': 2}]|sum(attribute='n') }} {{ [3,1]|min }} {{ [3,1]|max }} {{ ['b','A']|min }} {{ -3|abs }} {{ [1,2,3]|reverse|list }} {{ 'abc'|reverse }}
{{ ['a','A','b']|unique|list }} {{ [1,2,3,4,5]|batch(2)|list }} {{ [1,2,3]|batch(2, 0)|list }} {{ {'a': 1}|items|list }} {{ 'abc'|list }} {{ [1,[2]]|join('-') }} {{ [{'a': 1}, {'a': 2}]|join(', ', attribute='a') }}
{{ [1,2,3,4]|select('odd')|list }} {{ [1,2,3,4]|reject('odd')|list }} {{ [0,1,'']|select|list }} {{ [{'a': 1}, {'b': 2}]|selectattr('a', 'defined')|list }} {{ [{'a': 1}, {'a': 2}]|selectattr('a', 'equalto', 2)|list }} {{ [{'a': 0}, {'a': 2}]|rejectattr('a')|list }} {{ [{'r': 'x'}]|selectattr('r', 'in', ['x', 'y'])|list|length }}
{{ ['a','b']|map('upper')|list }} {{ [{'a': {'b': 1}}]|map(attribute='a.b')|list }} {{ [{}, {'a': 1}]|map(attribute='a', default=0)|list }} {{ ['a']|map('replace', 'a', 'b')|join }} {{ [[1, 2]]|map(attribute=1)|list }} {{ [1.6]|map('int')|list }}
{{ '3'|int }} {{ 'x'|int }} {{ 'x'|int(7) }} {{ '3.7'|int }} {{ 3.9|int }} {{ -3.9|int }} {{ '0x1f'|int(base=16) }} {{ '2.5'|float }} {{ 'x'|float }} {{ 1|float }} {{ 2.5|round }} {{ 3.5|round }} {{ 2.675|round(2) }} {{ 2.1|round(0, 'ceil') }} {{ 2.9|round(method='floor') }} {{ 1|string }} {{ 1.0|string|length }}
{{ x|default('d') }} {{ ''|default('d') }}| {{ ''|default('d', true) }} {{ none|default('d') }} {{ none|d('d', boolean=true) }} {{ 'ab'|upper|lower|capitalize }} {{ ' x '|trim }}| {{ 'xax'|trim('x') }} {{ 'a b'|title }} {{ 5|length if false else 'n' }} {{ 'a b c'|wordcount }} {{ 'hello world foo'|truncate(11, leeway=0) }} {{ 'hello world'|truncate(5, true) }}
{{ 'a\nb\n\nc'|indent }}| {{ 'a\nb'|indent(2, true) }}| {{ 'a\n\nb'|indent(1, blank=true) }}| {{ 'a\nb'|indent('> ') }} {{ '<b>'|safe }} {{ '<'|safe + '>&' }} {{ {'a':1}|attr('keys') is callable }}
{{ {'a': [1, 2.0, none, true, "q\"\\\n\u0001é😀</b>"], 'b': {}, 'c': []}|tojson }} {{ [1, {'a': 2}]|tojson(indent=2) }} {{ 'é😀'|tojson(ensure_ascii=true) }} {{ {'b': 1, 'a': (1, 2)}|tojson(sort_keys=true) }} {{ {'a': 1, 'b': [1, 2]}|tojson(separators=(',', ':')) }} {{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }} {{ [1]|tojson(indent='\t') }} {{ []|tojson(indent=4) }}
{{ 1 is odd }} {{ 2 is even }} {{ 9 is divisibleby(3) }} {{ 9 is divisibleby 3 }} {{ x is defined }} {{ x is undefined }} {{ none is none }} {{ 1 is number }} {{ true is number }} {{ true is integer }} {{ 1.0 is float }} {{ 'a' is string }} {{ {} is mapping }} {{ [] is sequence }} {{ 'a' is iterable }} {{ 1 is iterable }} {{ true is boolean }} {{ true is true }} {{ 1 is true }} {{ false is false }} {{ 'a' is lower }} {{ 'A' is upper }} {{ 1 is eq 1 }} {{ 2 is gt(1) }} {{ 1 is in [1] }} {{ 1 is sameas 1 }} {{ range is callable }} {{ x is not defined }} {{ {}.items() is sequence }} {{ 3 is not none and true }}
{% set a, b = 1, [2] %}{{ a }}{{ b }}{% set (c, d) = 'xy' %}{{ c }}{{ d }} {% set e = 1, 2 %}{{ e }} {% set f %}[{{ a }}]{% endset %}{{ f }} {% set g | upper | trim %} abc {% endset %}{{ g }}
{% for i in [1, 2, 3] %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }}{{ loop.changed(i // 2) }} {% endfor %}
{% for i in [1, 2, 3, 4] if i % 2 == 0 %}{{ i }}/{{ loop.length }} {% else %}none{% endfor %}{% for i in [] %}{% else %}empty{% endfor %}{% for a, b in [[1, 2], (3, 4)] %}{{ a }}{{ b }} {% endfor %}{% for k, v in {'x': 1}.items() %}{{ k }}={{ v }}{% endfor %}{% for c in 'añ' %}{{ c }}.{% endfor %}{% for k in {'a': 1} %}{{ k }}{% endfor %}
{% for i in range(6) %}{% if i == 1 %}{% continue %}{% elif i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %} {% for i in [1] %}{% break %}{% else %}else{% endfor %}
{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}{% if true %}{% set x = 9 %}{% endif %}{{ x }} {% set ns = namespace(a=1, b='c') %}{% for i in [1, 2] %}{% set ns.a = ns.a + i %}{% set ns.n = i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.n }}{{ ns.zz }}|
{% for i in [1, 2] %}{% for j in 'ab' %}{{ i }}{{ j }}{{ loop.index }}{% set outer = loop %} {% endfor %}{{ loop.index }} {% endfor %}{{ outer is defined }}
{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(c=5, a=4) }} {{ m() }}| {% set v = m(0) %}{{ v|length }} {{ m(*[7, 8]) }} {{ m(**{'a': 6}) }}
{% macro w(x) %}<{{ caller(x) }}>{% endmacro %}{% call(y) w(3) %}{{ y * 2 }}{% endcall %} {% macro opt() %}{{ caller() if caller else 'alone' }}{% endmacro %}{{ opt() }} {% macro va() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ va(1, 2, z=3) }} {% macro rec(n) %}{{ n }}{% if n > 0 %}{{ rec(n - 1) }}{% endif %}{% endmacro %}{{ rec(3) }}
{% set top = 'T' %}{% macro see() %}{{ top }}{{ late }}{% set top = 'in' %}{{ top }}{% endmacro %}{% set late = 'L' %}{{ see() }}{{ top }}
{% with a = 1, b = 2 %}{{ a + b }}{% endwith %} {% filter upper %}abc {{ 'd' }}{% endfilter %} {% raw %}{{ raw }} {% x %}{% endraw %} {# comment {{ }} #}after {% print 1, 'a' %} {{ dict(a=1, **{'b': 2}) }} {{ dict([['k', 'v']]) }}
a  {%- if true -%}  b  {%- endif -%}  c {{- ' d ' -}}  e {#- x -#} f
{{ 'a' 'b' "c" }} {{ [1, 2,] }} {{ {'a': 1,} }} {{ (1) }} {{ () }} {{ 1_000 }} {{ 0x1F }} {{ 0b11 }} {{ 0o17 }} {{ 1.5e3 }} {{ [1][0] }} {{ {'a': 'b'}.a.upper() }} {{ [[1, 2]].0.1 }} {{ 1.5.__class__ }}|
{{ messages[0]['content']['text'] }}| {{ messages.foo }}| {{ 'x'.foo }}| {{ none.foo }}| {{ (1).foo }}| {{ messages[-1] }}| {{ messages['a'] }}|
{{ raise_exception('stop') }}
{{ nothing.here }}
{{ nothing() }}
{{ nothing + 1 }}
{{ nothing['a'] }}
{{ 1 + 'a' }}
{{ 'a' + 1 }}
{{ 1 / 0 }}
{{ 1 < 'a' }}
{{ none in 'a' }}
{{ [1].append(2) }}
{{ {'a': 1}.update({'b': 2}) }}
{{ {'a': 1}.pop('a') }}
{{ ''.join([1]) }}
{{ [1, 2]|items|list }}
{{ 5|length }}
{{ none|join }}
{{ undefined_thing|tojson }}
{{ {}|nosuchfilter }}
{{ 1 is nosuchtest }}
{{ namespace(_a=1) }}
{{ 'abc'.index('z') }}
{{ '%d' % 'a' }}
{% for a, b in [1] %}{% endfor %}
{% set a, b = [1] %}
{% set x.y = 1 %}
{% if %}{% endif %}
{% if 1 %}
{% endif %}
{% for x in [1] %}
{% break %}
{{ 1 +
{{ 'a }}
{{ (1 }}
{{ a b }}
{{ 1 = 2 }}
{% set 1 = 2 %}
{% macro m(a, b=1, c) %}{% endmacro %}
{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{% endmacro %}{{ m(z=2) }}
{# open
{% raw %} x
{% unknown %}
{{ range(100001) }}
"""

LINES = ["{% if true %}\n  a\n  {% endif %}\nb\n\n", "  {% if true %}\n\n a {% endif %}\n", "{{ 1 }}\n{{ 2 }}\n",
         "\t{# c #}\n x  {# c #} y\n", "a\r\nb\r{% set x = 1 %}\r\nc", "x {%+ if true %} y {%+ endif %}\n z",
         "{% if true +%}\n a{% endif %}", "  {{ 1 }}  \n  {% raw -%}  \n r {%- endraw %}\n q",
         "{% for i in [1,2] -%}\n  {{ i }}\n{%- endfor %}\n", "\n\n{%- set x = 1 -%}\n\n{{ x }}\n\n",
         "a {%- raw %} b {% endraw -%} c", " \u00a0{%- if true %}\u2003x\u3000{%- endif %}", ""]


def cases():
    values = {"messages": CONVERSATIONS["parts"]}
    for line in EXPRESSIONS.strip("\n").split("\n"):
        yield {"template": line, "values": values}
    for text in LINES:
        yield {"template": text, "values": {}}
    for name, template in CHAT.items():
        for which, messages in CONVERSATIONS.items():
            if which in ("bad_order", "blank", "call_none", "calls", "empty", "parts_all", "reasoning",
                         "system_two", "thinking", "starts_wrong", "ended"):
                tools = [WEATHER, TIME] if "call" in which or name == "schema" else None
                yield {"template": template, "values": {
                    "messages": messages, "tools": tools, "add_generation_prompt": which != "ended",
                    **TOKENS, **({"enable_thinking": False} if which == "blank" else {})}}


def main():
    templates, rows = [], []
    for case in cases():
        if case["template"] not in templates:
            templates.append(case["template"])
        want = expected(case)
        row = {"template": templates.index(case["template"]) + 1, "values": case["values"]}
        if "error" in want:
            row["error"] = True
        else:
            row["text"] = want["text"]
            data = want["text"]
            if want["spans"]:
                row["spans"] = [[len(data[:a].encode()) + 1, len(data[:b].encode())]
                                for a, b in want["spans"]]
        rows.append(row)
    print('{"templates": [\n' + ",\n".join(json.dumps(t, ensure_ascii=False) for t in templates) + "],")
    print('"rows": [\n' + ",\n".join(json.dumps(r, ensure_ascii=False) for r in rows) + "]}")


main()
