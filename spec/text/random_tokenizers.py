"""random_tokenizers.py -- tokenizers drawn at random, and texts for them

A tokenizer is a random list of normalizers, pre-tokenizers and decoders, a random model trained on
a small text, random added tokens and post-processors, as Hugging Face's tokenizers saves it.

SPDX-License-Identifier: MIT"""
import base64
import importlib.util
import json
import random
import sys

from tokenizers import Tokenizer
from tokenizers import models, trainers

spec = importlib.util.spec_from_file_location("kinds", "lua/mrt/bench/tokenizer_kinds.py")
kinds = importlib.util.module_from_spec(spec)
spec.loader.exec_module(kinds)

MARK = "\u2581"
TEXT = """The quick brown fox jumps over the lazy dog. It's the dog's 3rd nap, isn't it?
We'll see 12345 foxes in 2026; they've been naïve -- déjà vu, façade, coöperate!
Русский текст и ελληνικά και עברית. 日本語のテキスト。 한국어 문장. 中文句子。 x<s>y</s>
\tThe lazy dog sleeps, and  sleeps, AND the quick fox runs and runs ▁ and jumps.\u00a0e\u0301 ﬁ
"""
PATTERNS = [r"\s+", r"\w+", r"\d", r"[aeiou]", r"\p{L}+", r"\p{N}{1,3}", r"\s+(?!\S)|\s+", " ?[^\\s]+",
            r"[^\r\n\p{L}\p{N}]?\p{L}+", r"^\s", r"\s$", r"(?i:the|and)", r"[\p{P}\p{S}]", r".{3}",
            r"x*", r"\b", r"(?=[A-Z])", " {2,}", r"^", r"$", r"\p{M}", r"[一-龥]+", r"\p{Lu}\p{Ll}*",
            r"[^\x00-\x7f]+", "'s|'t", r"\S+\s*", r"(?<=\s)\S", r"\n", r"\A.", r".\z"]
STRINGS = [" ", "a", "the", MARK, "\n", "  ", "e\u0301", "''", "é", ".", ""]
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
FORMS = ["NFC", "NFD", "NFKC", "NFKD"]


def pattern(r):
    return {"String": r.choice(STRINGS[:-1])} if r.random() < .4 else {"Regex": r.choice(PATTERNS)}


def flag(r):
    return r.random() < .5


def charsmap():
    """A few rules of sentencepiece, compiled by it."""
    import io
    import tempfile
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2 as pb
    rules = [("\u2460", "1"), ("\uff21", "A"), ("\ufb01", "fi"), ("e\u0301", "\u00e9"), ("\t", " "),
             ("\u3000", " "), ("\n", " "), ("\r", ""), ("\u200b", ""), ("\u1e9e", "ss"), ("\x01", ""),
             ("\u00a0", " "), ("a", "bc"), ("\u0130", "i\u0307")]
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as file:
        for a, b in rules:
            file.write(" ".join(f"{ord(c):X}" for c in a) + "\t"
                       + " ".join(f"{ord(c):X}" for c in b) + "\n")
        file.flush()
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([TEXT]), model_writer=model, vocab_size=120, minloglevel=3,
            hard_vocab_limit=False, normalization_rule_tsv=file.name)
    m = pb.ModelProto()
    m.ParseFromString(model.getvalue())
    return base64.b64encode(m.normalizer_spec.precompiled_charsmap).decode()


MAP = None


def normalizer(r):
    global MAP
    k = r.randrange(14)
    if k < 4:
        return {"type": FORMS[k]}
    if k == 4:
        return {"type": "Strip", "strip_left": flag(r), "strip_right": flag(r)}
    if k == 5:
        return {"type": "BertNormalizer", "clean_text": flag(r), "handle_chinese_chars": flag(r),
                "strip_accents": r.choice([None, True, False]), "lowercase": flag(r)}
    if k in (6, 7):
        return {"type": "Replace", "pattern": pattern(r), "content": r.choice(STRINGS)}
    if k == 8:
        return {"type": "Prepend", "prepend": r.choice(STRINGS[:-1])}
    if k == 9:
        MAP = MAP or charsmap()
        return {"type": "Precompiled", "precompiled_charsmap": MAP}
    if k == 10 and r.random() < .5:
        return {"type": "ByteLevel"}
    return {"type": r.choice(["Lowercase", "StripAccents", "Nmt"])}


def splitter(r, first):
    k = r.randrange(13)
    if k < 3:
        return {"type": "Split", "pattern": pattern(r), "behavior": r.choice(BEHAVIORS),
                "invert": flag(r)}
    if k < 5:
        return {"type": "Metaspace", "replacement": MARK if r.random() < .8 else "_",
                "prepend_scheme": r.choice(["first", "never", "always"]), "split": flag(r)}
    if k < 7 and first:
        return {"type": "ByteLevel", "add_prefix_space": flag(r), "trim_offsets": flag(r),
                "use_regex": flag(r)}
    if k == 7:
        return {"type": "Punctuation", "behavior": r.choice(BEHAVIORS)}
    if k == 8:
        return {"type": "Digits", "individual_digits": flag(r)}
    if k == 9:
        return {"type": "CharDelimiterSplit", "delimiter": r.choice("x -é")}
    if k == 10:
        return {"type": "FixedLength", "length": r.choice([1, 2, 5])} if flag(r) else \
            {"type": "UnicodeScripts"}
    return {"type": r.choice(["BertPreTokenizer", "Whitespace", "WhitespaceSplit"])}


def decoder(r):
    k = r.randrange(10)
    if k == 0:
        return {"type": "WordPiece", "prefix": r.choice(["##", "", "e"]), "cleanup": flag(r)}
    if k == 1:
        return {"type": "Metaspace", "replacement": MARK,
                "prepend_scheme": r.choice(["first", "never", "always"]), "split": True}
    if k == 2:
        return {"type": "BPEDecoder", "suffix": r.choice(["</w>", "e"])}
    if k == 3:
        return {"type": "Strip", "content": r.choice(" _é▁"), "start": r.randrange(3),
                "stop": r.randrange(3)}
    if k == 4:
        return {"type": "Replace", "pattern": pattern(r), "content": r.choice(STRINGS)}
    if k == 5:
        return {"type": "CTC", "pad_token": r.choice(["<pad>", "e"]),
                "word_delimiter_token": r.choice(["|", "t"]), "cleanup": flag(r)}
    return {"type": r.choice(["ByteLevel", "ByteFallback", "Fuse"])}


def sequence(r, make, key, most):
    n = r.randrange(most + 1)
    parts = [make(r) for _ in range(n)]
    if n == 0:
        return None
    if n == 1 and flag(r):
        return parts[0]
    return {"type": "Sequence", key: parts}


def splitters(r):
    n = r.randrange(4)
    parts = [splitter(r, i < 1 or r.random() < .3) for i in range(n)]
    return None if n == 0 else parts[0] if n == 1 and flag(r) else \
        {"type": "Sequence", "pretokenizers": parts}


def model(r, j):
    """Trained by the tokenizer that j says, of one of the models."""
    k = r.randrange(7)
    special = ["<unk>", "<s>", "</s>", "<pad>"]
    alphabet = kinds.BYTES if "ByteLevel" in json.dumps(j) else []
    if k < 3:
        marks = {}
        if r.random() < .15:
            marks["continuing_subword_prefix"] = "##"
        if r.random() < .15:
            marks["end_of_word_suffix"] = "</w>"
        m = models.BPE(**marks)
        t = trainers.BpeTrainer(vocab_size=r.choice([150, 400, 800]), special_tokens=special
                                + (kinds.FALLBACK if r.random() < .3 else []), show_progress=False,
                                initial_alphabet=alphabet, limit_alphabet=r.choice([40, 1000]), **marks)
        more = {"fuse_unk": flag(r), "byte_fallback": flag(r), "ignore_merges": r.random() < .3,
                "unk_token": r.choice(["<unk>", "<unk>", None])}
    elif k == 3:
        m = models.WordPiece(unk_token="<unk>")
        t = trainers.WordPieceTrainer(vocab_size=r.choice([150, 400]), special_tokens=special,
                                      show_progress=False)
        more = {"max_input_chars_per_word": r.choice([100, 6])}
    elif k == 4:
        m = models.WordLevel(unk_token="<unk>")
        t = trainers.WordLevelTrainer(vocab_size=200, special_tokens=special, show_progress=False)
        more = {}
    else:
        m = models.Unigram()
        t = trainers.UnigramTrainer(vocab_size=r.choice([150, 300]), special_tokens=special
                                    + (kinds.FALLBACK if r.random() < .3 else []),
                                    unk_token="<unk>", show_progress=False)
        more = {"byte_fallback": flag(r)}
    made = Tokenizer.from_str(json.dumps(dict(j, model=json.loads(Tokenizer(m).to_str())["model"])))
    made.train_from_iterator([TEXT[i:i + 97] for i in range(0, len(TEXT), 97)] * 2, t)
    out = json.loads(made.to_str())["model"]
    out.update(more)
    return out


def added(r, vocab, size):
    words = ["<unk>", "<s>", "</s>", "<pad>", "the", "The", "fox", " ", "  ", "[X]", "é", "e\u0301",
             "日本", "<|a|>", "<|a|>b", "\n", "ab", "is", MARK, MARK + "the", "\ufb01", "A", "'s", "12"]
    out, n = [], 0
    for w in r.sample(words, r.randrange(9)):
        at = vocab.get(w, size + n)
        n += w not in vocab
        out.append({"id": at, "content": w, "single_word": r.random() < .25, "lstrip": r.random() < .25,
                    "rstrip": r.random() < .25, "normalized": flag(r), "special": flag(r)})
    return sorted(out, key=lambda a: a["id"])


def post(r, depth=0):
    k = r.randrange(7 if depth == 0 else 4)
    if k == 0:
        return {"type": "BertProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1]}
    if k == 1:
        return {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1],
                "trim_offsets": flag(r), "add_prefix_space": flag(r)}
    if k == 2:
        return {"type": "ByteLevel", "add_prefix_space": flag(r), "trim_offsets": flag(r),
                "use_regex": flag(r)}
    if k == 3:
        def one(n):
            return {"SpecialToken": {"id": n, "type_id": r.randrange(2)}}
        a, b = {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}
        names = ["<s>", "</s>", "<pad>"]
        head, tail = ([one(r.choice(names)) for _ in range(r.randrange(3))] for _ in "ab")
        return {"type": "TemplateProcessing", "single": head + [a] + tail,
                "pair": head + [a] + tail + [b] + tail,
                "special_tokens": {n: {"id": n, "ids": [i], "tokens": [n]}
                                   for i, n in enumerate(names, 1)}}
    if k == 4:
        parts = [post(r, 1), {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True,
                              "use_regex": True}]
        return {"type": "Sequence", "processors": r.sample(parts, r.randrange(1, 3))}
    return None


def any_same(t, j):
    """Of tokens that normalizers make the same any may be found there, and nothing everywhere."""
    keys = [t.normalizer.normalize_str(a["content"]) if t.normalizer else a["content"]
            for a in j["added_tokens"] if a["normalized"]]
    return "" in keys or len(set(keys)) < len(keys)


def random_tokenizer(seed):
    """Its JSON; None: it cannot be trained."""
    r = random.Random(seed)
    j = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
         "normalizer": sequence(r, normalizer, "normalizers", 3), "pre_tokenizer": splitters(r),
         "post_processor": post(r), "decoder": sequence(r, decoder, "decoders", 3), "model": None}
    if r.random() < .15:
        j["truncation"] = {"direction": r.choice(["Left", "Right"]), "max_length": r.choice([14, 33]),
                           "strategy": r.choice(["LongestFirst", "OnlyFirst"]), "stride": r.randrange(3)}
    try:
        bare = dict(j, post_processor=None, decoder=None, truncation=None)
        j["model"] = model(r, bare)
        vocab = j["model"]["vocab"]
        if isinstance(vocab, list):
            vocab = {k: i for i, (k, _) in enumerate(vocab)}
        j["added_tokens"] = added(r, vocab, len(vocab))
        text = json.dumps(j)
        return None if any_same(Tokenizer.from_str(text), j) else text
    except BaseException as e:  # noqa: BLE001
        if isinstance(e, KeyboardInterrupt):
            raise
        return None


def texts(r, special, count):
    """Random strings."""
    alphabet = TEXT
    for _ in range(count):
        s = "".join(kinds.part(r, alphabet, special) for _ in range(r.randrange(0, 7)))
        if r.random() < .3:
            s = r.choice(kinds.SPACES + [MARK, "\x01", "\u0301", "\ufeff", "\u200b"]) + s
        yield s


if __name__ == "__main__":
    print(random_tokenizer(int(sys.argv[1])))
