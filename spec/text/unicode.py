#!/usr/bin/env python3
"""unicode.py -- which characters are of which kind for Hugging Face's tokenizers

    python spec/text/unicode.py kinds >core/text/kinds.def
    python spec/text/unicode.py scripts >core/text/scripts.def
    python spec/text/unicode.py patterns

Its parts have tables of different ages: `kinds` asks them, character by character,
and writes ranges; `scripts` asks which characters UnicodeScripts leaves together; `patterns` prints what Oniguruma knows that Python's unicodedata
(of Unicode 14 in Debian 12, as PCRE2's there) does not, category by category
(core/text/newer.c), and marks whose order normal forms do not know (core/text/forms.c).

SPDX-License-Identifier: MIT"""
import sys
import unicodedata

from tokenizers import Regex, normalizers, pre_tokenizers

everything = [c for c in range(1, 0x110000) if not 0xd800 <= c < 0xe000]


def ranges(codes):
    out = []
    for c in sorted(codes):
        if out and (out[-1][1] == c - 1 or (out[-1][1] == 0xd7ff and c == 0xe000)):
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def vanish(normalizer, before=""):
    return [c for c in everything if normalizer.normalize_str(before + chr(c)) == before]


def stand_apart(splitter):
    return [c for c in everything if len(splitter.pre_tokenize_str("a" + chr(c) + "a")) > 1]


def kinds():
    bert = normalizers.BertNormalizer
    return {
        "mark": vanish(normalizers.StripAccents()),
        "nonspacing": vanish(bert(False, False, True, False), "a"),
        "other": vanish(bert(True, False, False, False)),
        "punctuation": stand_apart(pre_tokenizers.Punctuation()),
        "numeric": stand_apart(pre_tokenizers.Digits()),
    }


def print_kinds():
    for name, codes in kinds().items():
        line = f"KIND({name}"
        for low, high in ranges(codes):
            part = f"R(0x{low:x}, 0x{high:x})"
            line += ","
            if len(line) + len(part) > 77:
                print(line)
                line = " "
            line += " " + part
        print(line + ")")


def members(pattern):
    """Characters that match, each asked on a line of its own."""
    replace, found = normalizers.Replace(Regex(pattern), "\n"), set()
    codes = [c for c in everything if c != 10]
    for i in range(0, len(codes), 512):
        part = codes[i:i + 512]
        text = replace.normalize_str("\n\n".join(map(chr, part)))
        found |= {c for k, c in enumerate(part) if text[3 * k] != chr(c)}
    return found


def print_patterns():
    for name in ("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp "
                 "Cc Cf Co").split():
        ours = {c for c in everything if unicodedata.category(chr(c)) == name}
        theirs = members(r"\p{%s}" % name)
        for sign, codes in (("+", theirs - ours), ("-", ours - theirs)):
            if codes:
                print(name, sign, " ".join(f"{a:x}-{b:x}" for a, b in ranges(codes)))


def print_marks():
    form = normalizers.NFD()
    first, last = chr(0x334), chr(0x345)  # of the least and the largest class
    wrong = []
    for c in everything:
        k, s = unicodedata.combining(chr(c)), chr(c)
        moves = form.normalize_str(s + first)[0] == first and s != first
        moves |= form.normalize_str(last + s)[0] == s and s != last
        if moves != (k > 0) and k != 1:
            wrong.append(c)
    print("marks", " ".join(f"{a:x}-{b:x}" for a, b in ranges(wrong)))


def scripts():
    """A number for each character; none for those that are in any script."""
    cut, known, out = pre_tokenizers.UnicodeScripts(), [], {}

    def together(a, b):
        return len(cut.pre_tokenize_str(chr(a) + chr(b))) == 1
    for c in [0] + everything:
        if together(ord("A"), c) and together(ord("\u044f"), c):
            continue
        same = [k for k, one in enumerate(known) if together(one, c)]
        if not same:
            known.append(c)
        out[c] = same[0] + 1 if same else len(known)
    return out


def print_scripts():
    line, of = "", scripts()
    for k in range(1, max(of.values()) + 1):
        for low, high in ranges(c for c in of if of[c] == k):
            of[low] = (low, high, k)
    for low, high, k in (v for _, v in sorted(of.items()) if isinstance(v, tuple)):
        part = f"S(0x{low:x}, 0x{high:x}, {k})"
        if len(line) + len(part) > 78:
            print(line)
            line = ""
        line += (" " if line else "") + part
    print(line)


if sys.argv[1:] == ["kinds"]:
    print_kinds()
elif sys.argv[1:] == ["scripts"]:
    print_scripts()
else:
    print_marks()
    print_patterns()
