#!/usr/bin/env python3
"""odd.py -- corners of tokenizer.json, and what Hugging Face's tokenizers makes of them

    python spec/text/odd.py spec/text/odd.json

A list of [tokenizer.json, [[text, ids, text of the ids], ...]]: what compare.py has found, made small.

SPDX-License-Identifier: MIT"""
import json
import sys

from tokenizers import Tokenizer

MARK = "\u2581"
CHARACTERS = list("abcdehtx .,AT\u00bd\u00e9\u0301\u0416\u65e5\n") + [MARK, "the", MARK + "the", MARK + "a", "ab"]
WORDS = {"type": "WordLevel", "unk_token": "<unk>",
         "vocab": {w: i for i, w in enumerate(["<unk>"] + CHARACTERS)}}
FIRST = {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "first", "split": True}
SINGLE = {"type": "FixedLength", "length": 1}
TEXTS = ["", "the a", "  the\ta", "a the", "\n\n the", "\u00bda,\u00e9 the", "e\u0301the \u0416a\u65e5 \u65e5", "TheA a  ",
         "\u00af\u034b\u0327the", "a\u08cf\u0301 the"]


def bpe(vocab, merges, **more):
    return {"type": "BPE", "vocab": {w: i for i, w in enumerate(vocab)}, "merges": merges, **more}


def sequence(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


def normal(*parts):
    return {"type": "Sequence", "normalizers": list(parts)}


def split(pattern, behavior, invert=False):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


def replace(pattern, content):
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def added(content, at, **flags):
    return {"id": at, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": False, **flags}


STRIP = {"type": "Strip", "strip_left": True, "strip_right": False}
LETTERS = sequence(FIRST, SINGLE)
CASES = [
    # what is taken away or put at the beginning moves Metaspace's first place
    dict(normalizer=normal({"type": "Nmt"}, {"type": "NFKC"}, STRIP), pre_tokenizer=LETTERS),
    dict(normalizer=normal({"type": "NFC"}), pre_tokenizer=SINGLE),
    dict(normalizer=normal(replace(" {2,}", MARK)), pre_tokenizer=LETTERS),
    dict(normalizer=normal({"type": "Prepend", "prepend": "x"}, {"type": "NFD"}),
         pre_tokenizer=sequence(split(".", "Isolated"), FIRST, SINGLE)),
    dict(normalizer=normal({"type": "StripAccents"}, replace("^", MARK)), pre_tokenizer=LETTERS),
    dict(pre_tokenizer=LETTERS, added_tokens=[added("the", 20, lstrip=True), added("a", 1, rstrip=True)]),
    # tokens that are found in what others have taken
    dict(pre_tokenizer=SINGLE, added_tokens=[added("\n", 18, lstrip=True, rstrip=True), added("the", 20),
                                             added(" ", 9, rstrip=True)]),
    dict(normalizer={"type": "Lowercase"}, pre_tokenizer=SINGLE, decoder={"type": "Fuse"},
         added_tokens=[added("The", 25, normalized=True)]),
    # patterns
    dict(pre_tokenizer=split(r"\b", "Removed")), dict(pre_tokenizer=split(r"\w", "Isolated")),
    dict(pre_tokenizer=split(r"\s*", "MergedWithNext", True)),
    dict(pre_tokenizer={"type": "UnicodeScripts"}), dict(pre_tokenizer={"type": "FixedLength", "length": 3}),
    # characters without tokens
    dict(model=bpe(["a", "t", "h", "e", "at", "th", " "], [["a", "t"], ["t", "h"]])),
    dict(model=bpe(["<unk>", "a", "##t", "<0x23>", "<0x68>", "<0x65>", "<0x20>", "a##t"], [],
                   continuing_subword_prefix="##", byte_fallback=True, unk_token="<unk>")),
    dict(model=bpe(["t", "h", "e</w>", "<0x3C>", "<0x2F>", "<0x77>", "<0x3E>", "<0x61>"], [],
                   end_of_word_suffix="</w>", byte_fallback=True), pre_tokenizer={"type": "WhitespaceSplit"}),
]


def main():
    out = []
    for case in CASES:
        j = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
             "pre_tokenizer": None, "post_processor": None, "decoder": None, "model": WORDS}
        text = json.dumps({**j, **case})
        t = Tokenizer.from_str(text)
        cases = []
        for s in TEXTS + ["xat\u0416hh" * 12]:
            ids = t.encode(s).ids
            cases.append([s, ids, t.decode(ids, skip_special_tokens=False)])
        out.append([text, cases])
    with open(sys.argv[1], "w") as f:
        json.dump(out, f, indent=0, separators=(",", ":"))
        f.write("\n")


main()
