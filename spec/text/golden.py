#!/usr/bin/env python3
"""golden.py -- small tokenizers of all kinds, and what other programs make of texts

    python spec/text/golden.py spec/text/golden.json

For each kind: the tokenizer's file (base64), and [text, ids, text of the ids] by Hugging Face's
tokenizers, sentencepiece or tiktoken.  Kinds are those of `mrt bench tokenizers`.

SPDX-License-Identifier: MIT"""
import base64
import importlib.util
import json
import os
import sys
import tempfile

spec = importlib.util.spec_from_file_location("kinds", "lua/mrt/bench/tokenizer_kinds.py")
kinds = importlib.util.module_from_spec(spec)
spec.loader.exec_module(kinds)

TEXT = """The quick brown fox jumps over the lazy dog. It's the dog's 3rd nap, isn't it?
We'll see 12345 foxes in 2026; they've been naïve -- déjà vu, façade, coöperate!
Русский текст и ελληνικά και עברית. 日本語のテキスト。 한국어 문장. 中文句子。
The lazy dog sleeps and sleeps, and the quick fox runs and runs and jumps.
""" * 3

CASES = ["", " ", "the dog", " the  quick\n\nfox's 12345", "It'S isn't we'LL", "naïve café e\u0301",
         "ﬁ ½ ① Ａ ﷺ", "日本語のdog", "한국어 ᄒ\u1161", "ελληνικά ΣΊΣΥΦΟΣ", "\u05e2\u05d1 \u200b\ufeffx",
         "👩‍👧 🦊!", "a\tb\r\nc \u3000d", "<s>the</s> [SEP] <|endoftext|>x", "x" * 70, "\u2581the ▁",
         "İstanbul ẞ ß", "क्षि a\u0316\u0301b", "…—“quoted”", "3.14159 1,000,000", "\u1e9b\u0323",
         "<sep>[Q] q  <mask> the ", "\U00013441\u0897 \u1c89"]

SMALL_RULES = [("\u2460", "1"), ("\uff21", "A"), ("\ufb01", "fi"), ("e\u0301", "\u00e9"), ("\t", " "),
               ("\u3000", " "), ("\n", " "), ("\r", " "), ("\u200b", ""), ("\u1e9e", "ss")]


def write_rules(path):
    with open(path, "w") as file:
        for a, b in SMALL_RULES:
            file.write(" ".join(f"{ord(c):X}" for c in a) + "\t"
                       + " ".join(f"{ord(c):X}" for c in b) + "\n")


def main():
    out = {}
    with tempfile.TemporaryDirectory() as folder:
        text, rules = folder + "/text", folder + "/rules"
        with open(text, "w") as file:
            file.write(TEXT)
        write_rules(rules)
        kinds.rules_named = lambda name: (dict(normalization_rule_name=name) if name == "identity"
                                          else dict(normalization_rule_tsv=rules))
        for name in ("llama3 qwen2 o200k clip prefixed llama2 mistral "
                     "bert_uncased word_level behaviors t5 albert nmt sp_unigram "
                     "sp_unigram_bytes sp_bpe sp_bpe_suffix cl100k").split():
            many = name in ("llama2", "mistral", "gemma", "without_bytes", "sp_unigram_bytes")
            kinds.VOCAB = 640 if many else 340
            place = f"{folder}/{name}"
            kinds.make(place, name, [text])
            encode, decode, _ = kinds.open_theirs(place)
            file = os.listdir(place)[0]
            with open(f"{place}/{file}", "rb") as f:
                data = f.read()
            if file == "tokenizer.json":
                data = json.dumps(json.loads(data), ensure_ascii=False,
                                  separators=(",", ":")).encode()
            cases = []
            for s in CASES:
                ids = encode(s)
                cases.append([s, ids, decode(ids)])
            out[name] = {"file": file, "data": base64.b64encode(data).decode(), "cases": cases}
            print(name, len(data), file=sys.stderr)
    with open(sys.argv[1], "w") as f:
        json.dump(out, f, ensure_ascii=True, indent=0, separators=(",", ":"))
        f.write("\n")


main()
