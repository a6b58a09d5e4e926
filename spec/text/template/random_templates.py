"""random_templates.py -- templates by chance, of what templates are made of

Expressions are of a kind (text, number, list, dict, any) so that most of them have a value;
one in ten is of another kind than is wanted there.
"""
import random

NAMES = {"t": ["s", "w", "u"], "n": ["n", "k", "f"], "l": ["xs", "ws", "ms"], "d": ["d", "m"], "a": ["zz", "no"]}
VALUES = {"s": "Hello, World", "w": "  añ ÇÉ\n\tß 😀 x  ", "u": "ΑΣ it's \"q\"\\", "n": 7, "k": -3, "f": 2.5,
          "xs": [3, 1, 2, 2, 0], "ws": ["b", "A", "c", "", "a b"], "d": {"a": 1, "b": [1, 2], "c": None, "é": "x"},
          "ms": [{"role": "user", "content": "Hi", "n": 2}, {"role": "assistant", "content": " yo ", "n": 1},
                 {"role": "user", "content": [{"type": "text", "text": "p"}], "n": 3}],
          "m": {"role": "user", "content": "x", "items": 5}, "no": None}
TEXTS = ["''", "'a'", "'b c'", "\"it's\"", "'ä😀'", "'\\n'", "' '", "'Abc'", "'<think>x</think>y'", "'a,b,,c'", "'%s|%d'"]


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.loops = 0
        self.within = False
        self.scope = []

    def one(self, *choices):
        c = self.r.choice(choices)
        return c() if callable(c) else c

    def make(self, kind, depth):
        if self.r.random() < 0.015:
            kind = self.r.choice("tnlda")
        if kind == "a":
            kind = self.r.choice("tnldab")
        if depth <= 0 or self.r.random() < 0.15:
            return self.leaf(kind)
        return {"t": self.text, "n": self.number, "l": self.list, "d": self.dict, "a": self.any,
                "b": self.truth}[kind](depth - 1)

    def leaf(self, kind):
        r = self.r
        if r.random() < 0.6 and kind in NAMES:
            return r.choice(NAMES[kind] + (self.scope if kind == "a" else []))
        return {"t": lambda: r.choice(TEXTS), "n": lambda: r.choice(["0", "1", "2", "-1", "1.5", "10", "3"]),
                "l": lambda: r.choice(["[]", "[1, 2]", "['a', 'b']", "(1, 'x')", "range(4)"]),
                "d": lambda: r.choice(["{}", "{'a': 1}", "{'b': 2, 'a': none}"]),
                "a": lambda: r.choice(["none", "true", "false", "zz"]),
                "b": lambda: r.choice(["true", "false", "s", "xs", "none"])}[kind]()

    def text(self, d):
        m = self.make
        t, n = lambda: m("t", d), lambda: m("n", d)
        small = lambda: self.r.choice(["0", "1", "2", "-1", "3", "none", n()])
        method = lambda *names: f"{self.bracket(t())}.{self.r.choice(names)}"
        return self.one(
            lambda: f"({t()} ~ {m('a', d)})", lambda: f"({t()} + {t()})", lambda: f"{self.bracket(t())}[{small()}:{small()}]",
            lambda: f"{self.bracket(t())}[{small()}]", lambda: f"{self.bracket(t())}[::{self.r.choice(['2', '-1', '-2'])}]",
            lambda: method("strip", "lstrip", "rstrip", "upper", "lower", "title", "capitalize", "swapcase") + "()",
            lambda: method("strip", "lstrip", "rstrip") + f"({t()})", lambda: method("replace") + f"({t()}, {t()})",
            lambda: method("replace") + f"({t()}, {t()}, {small()})", lambda: f"{t()}.join({self.r.choice(['ws', 'xs', m('l', d)])})",
            lambda: f"({t()} | {self.one('trim', 'upper', 'lower', 'title', 'capitalize', 'string', 'indent', 'reverse')})",
            lambda: f"({t()} | replace({t()}, {t()}))", lambda: f"({m('a', d)} | tojson{self.one('', '(indent=2)', '(ensure_ascii=true)', '(sort_keys=true)')})",
            lambda: f"({m('l', d)} | join({t()}))", lambda: f"({m('a', d)} | string)", lambda: f"({t()} if {m('b', d)} else {t()})",
            lambda: f"({t()} if {m('b', d)})", lambda: f"({t()} * {small()})", lambda: f"({m('a', d)} | default({t()}{self.one('', ', true')}))",
            lambda: f"('%s-%r' % ({m('a', d)}, {t()}))", lambda: f"'{{}} {{!r:>6}}|{{:^5}}'.format({n()}, {t()}, {t()})",
            lambda: f"('%05.1f|%-4d|%x' % ({n()}, {n()}, {n()}))", lambda: method("zfill", "ljust", "rjust", "center") + f"({small()})",
            lambda: method("removeprefix", "removesuffix") + f"({t()})", lambda: f"({t()} | truncate({self.one('5', '3', '9')}, {m('b', d)}))",
            lambda: f"({t()} | indent({small()}, {m('b', d)}, {m('b', d)}))", lambda: f"({t()} | center({small()}))")

    def number(self, d):
        m = self.make
        n = lambda: m("n", d)
        method = lambda *names: f"{self.bracket(m('t', d))}.{self.r.choice(names)}"
        return self.one(
            lambda: f"({n()} {self.r.choice(['+', '-', '*', '//', '%', '/', '**'])} {n()})", lambda: f"-{self.bracket(n())}",
            lambda: f"({m('a', d)} | length)", lambda: f"({m('a', d)} | int)", lambda: f"({m('a', d)} | float)",
            lambda: f"({n()} | round{self.one('', '(1)', '(0, *[])', '(method=chr)', '(1, %r)' % 'floor')})".replace("chr", "'ceil'"),
            lambda: f"({n()} | abs)", lambda: f"({m('l', d)} | {self.one('sum', 'min', 'max', 'first', 'last', 'count')})",
            lambda: method("find", "count", "rfind", "index") + f"({m('t', d)})", lambda: method("find", "count", "rfind") + f"({m('t', d)}, {n()}, {n()})",
            lambda: f"{self.bracket(m('l', d))}.{self.one('index', 'count')}({m('a', d)})")

    def list(self, d):
        m = self.make
        l = lambda: m("l", d)
        attr = lambda: self.r.choice(["'role'", "'content'", "'n'", "'content.0.text'", "'zz'"])
        test = lambda: self.r.choice(["'string'", "'defined'", "'none'", "'odd'", "'mapping'", "'equalto', 'user'", "'in', ['user', 1]",
                                      "'gt', 1", "'ne', 2", "'number'", "'true'", "'iterable'", "'sequence'"])
        return self.one(
            lambda: f"[{m('a', d)}, {m('a', d)}]", lambda: f"({m('a', d)}, {m('a', d)})", lambda: f"({m('a', d)},)",
            lambda: f"({l()} + {l()})", lambda: f"{self.bracket(l())}[{m('n', d)}:]", lambda: f"{self.bracket(l())}[::-1]",
            lambda: f"{self.bracket(m('t', d))}.split({self.one('', chr(39) + ',' + chr(39), lambda: m('t', d))})",
            lambda: f"{self.bracket(m('t', d))}.{self.one('split', 'rsplit')}({self.one('none', lambda: m('t', d))}, {m('n', d)})",
            lambda: f"{self.bracket(m('t', d))}.{self.one('splitlines()', 'splitlines(true)', 'partition(s)', 'rpartition(w)')}",
            lambda: f"({m('a', d)} | list)", lambda: f"({l()} | sort{self.one('', '(reverse=true)', '(case_sensitive=true)')})",
            lambda: f"({l()} | {self.one('reverse', 'unique', 'list', 'select', 'reject')} | list)",
            lambda: f"({l()} | map({self.one(chr(39) + 'upper' + chr(39), chr(39) + 'string' + chr(39), chr(39) + 'tojson' + chr(39), chr(39) + 'length' + chr(39), chr(39) + 'default' + chr(39) + ', 1')}) | list)",
            lambda: f"(ms | map(attribute={attr()}{self.one('', ', default=5')}) | list)", lambda: f"({l()} | {self.one('select', 'reject')}({test()}) | list)",
            lambda: f"(ms | {self.one('selectattr', 'rejectattr')}({attr()}{self.one('', lambda: ', ' + test())}) | list)",
            lambda: f"(ms | sort(attribute={attr()}))", lambda: f"({m('d', d)}.{self.one('items', 'keys', 'values')}() | list)",
            lambda: f"({m('d', d)} | {self.one('items | list', 'dictsort', 'list', 'dictsort(reverse=true)')})",
            lambda: f"range({m('n', d)})", lambda: f"({l()} | batch({self.one('2', '3, 0')}) | list)",
            lambda: f"{self.bracket(m('d', d))}.{self.one('keys', 'values', 'items')}()")

    def dict(self, d):
        m = self.make
        return self.one(
            lambda: f"{{{m('t', d)}: {m('a', d)}, {m('t', d)}: {m('a', d)}}}", lambda: f"{{'a': {m('a', d)}}}",
            lambda: f"dict(a={m('a', d)}, **{m('d', d)})", lambda: f"{self.bracket(m('d', d))}.copy()", lambda: "ms[0]")

    def any(self, d):
        m = self.make
        key = lambda: self.r.choice(["'a'", "'b'", "'zz'", "'items'", "0", "1", "-1"])
        return self.one(
            lambda: f"{self.bracket(m('d', d))}[{key()}]", lambda: f"{self.bracket(m('d', d))}.{self.one('a', 'b', 'role', 'zz', 'é')}",
            lambda: f"{self.bracket(m('d', d))}.get({m('a', d)}, {m('a', d)})", lambda: f"{self.bracket(m('l', d))}[{m('n', d)}]",
            lambda: f"({m('l', d)} | {self.one('first', 'last', 'min', 'max')})", lambda: f"({m('a', d)} {self.one('or', 'and')} {m('a', d)})",
            lambda: f"ms[{m('n', d)}].content", lambda: f"{self.bracket(m('a', d))}.{self.one('x', 'role', 'upper')}",
            lambda: f"({m('a', d)} | d({m('a', d)}))")

    def truth(self, d):
        m = self.make
        test = lambda: self.r.choice(["defined", "undefined", "none", "string", "number", "mapping", "sequence", "iterable", "true",
                                      "false", "boolean", "integer", "float", "odd", "even", "divisibleby(2)", "divisibleby 3", "lower",
                                      "upper", "callable", "eq 1", "in [1, 'a']", "sameas none", "gt(1)", "lt 2"])
        return self.one(
            lambda: f"({m('a', d)} {self.one('==', '!=', '<', '>=', '>', '<=')} {m('a', d)})",
            lambda: f"({m('n', d)} {self.one('==', '!=', '<', '>=', '>', '<=')} {m('n', d)})",
            lambda: f"({m('t', d)} {self.one('in', 'not in', '<', '==')} {m('t', d)})", lambda: f"({m('a', d)} {self.one('in', 'not in')} {m('l', d)})",
            lambda: f"({m('n', d)} < {m('n', d)} <= {m('n', d)})", lambda: f"(not {m('a', d)})", lambda: f"({m('b', d)} {self.one('and', 'or')} {m('b', d)})",
            lambda: f"({m('a', d)} is {self.one('', 'not ')}{test()})",
            lambda: f"{self.bracket(m('t', d))}.{self.one('startswith', 'endswith')}({m('t', d)})",
            lambda: f"{self.bracket(m('t', d))}.{self.one('isspace', 'isupper', 'islower')}()")

    def bracket(self, text):
        return text if text[0] not in "-" else f"({text})"

    def space(self):
        return self.r.choice(["", "", "", "\n", "\n  ", " ", "  \n", "\t", "\n\n", "x", " x\n"])

    def tag(self, text):
        a, b = self.r.choice(["", "", "", "-", "+"]), self.r.choice(["", "", "", "-"])
        return f"{{%{a} {text} {b}%}}"

    def body(self, depth):
        return "".join(self.statement(depth) for _ in range(self.r.randint(1, 2)))

    def statement(self, depth):
        r, m = self.r, self.make
        out = self.space()
        kind = r.random()
        if depth <= 0 or kind < 0.45:
            a, b = r.choice(["", "", "-"]), r.choice(["", "", "-"])
            return out + f"{{{{{a} {m('a', 3)} {b}}}}}" + self.space()
        if kind < 0.55:
            name = r.choice(["v", "q"])
            self.scope = self.scope + [name]
            return out + self.tag(f"set {name} = {m('a', 2)}")
        if kind < 0.6:
            return out + self.tag("set ns.x = " + m("a", 2)) + "{{ ns.x }}"
        if kind < 0.75:
            text = self.tag("if " + m("b", 2)) + self.body(depth - 1)
            if r.random() < 0.4:
                text += self.tag("elif " + m("b", 2)) + self.body(depth - 1)
            if r.random() < 0.5:
                text += self.tag("else") + self.body(depth - 1)
            return out + text + self.tag("endif")
        if kind < 0.9:
            outer, self.scope = self.scope, self.scope + ["i", "loop.index", "loop.first", "loop.last", "loop.previtem"]
            names = r.choice(["i", "i", "i", "i, j"])
            over = "d.items()" if names != "i" else m("l", 2)
            text = self.tag(f"for {names} in {over}" + (f" if {m('b', 1)}" if r.random() < 0.2 else ""))
            text += self.body(depth - 1)
            if r.random() < 0.2:
                text += self.tag("if loop.index > 1") + self.tag(r.choice(["break", "continue"])) + self.tag("endif") + "z"
            if r.random() < 0.2:
                text += self.tag("else") + self.body(depth - 1)
            self.scope = outer
            return out + text + self.tag("endfor")
        if kind < 0.94:
            return out + self.tag("set blk") + self.body(depth - 1) + self.tag("endset") + "{{ blk }}"
        if kind < 0.97:
            return out + self.tag(f"macro mac(p, o={m('a', 1)})") + "{{ p }}" + self.body(depth - 1) + self.tag("endmacro") \
                + "{{ mac(" + m("a", 1) + ") }}"
        return out + r.choice(["{# note #}", "{#- n -#}", self.generation(depth)])

    def generation(self, depth):
        """One in another has places there that are of neither."""
        if self.within:
            return ""
        self.within = True
        text = self.tag("generation") + self.body(depth - 1) + self.tag("endgeneration")
        self.within = False
        return text


def random_case(seed):
    maker = Maker(seed)
    template = "{% set ns = namespace(x=0) %}" + maker.body(3)
    return {"name": f"seed {seed}", "template": template, "values": VALUES}
