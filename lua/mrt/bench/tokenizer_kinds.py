#!/usr/bin/env python3
"""tokenizer_kinds.py -- the other side of `mrt bench tokenizers`: Hugging Face's tokenizers,
sentencepiece and tiktoken

    tokenizer_kinds.py make FOLDER KIND TEXT...    train a tokenizer of this kind on the texts
    tokenizer_kinds.py cases FOLDER COUNT SEED TEXT...
                                              random strings, their ids and the ids' text
    tokenizer_kinds.py kinds                       the kinds that can be made here

A case is three strings with their lengths (u32) before them: UTF-8, i32 ids, UTF-8.

SPDX-License-Identifier: MIT"""
import base64, json, os, random, struct, sys  # noqa: E401

from tokenizers import AddedToken, Regex, Tokenizer  # noqa: E402
from tokenizers import decoders as D, models as M, normalizers as N  # noqa: E402
from tokenizers import pre_tokenizers as P, processors, trainers  # noqa: E402

VOCAB = 4000
BYTES = P.ByteLevel.alphabet()
PLAIN = P.ByteLevel(add_prefix_space=False, use_regex=False)
ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|" + REST
QWEN2 = ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|" + REST
SMALL, LARGE = r"\p{Ll}\p{Lm}\p{Lo}\p{M}", r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}"
O200K = (r"[^\r\n\p{L}\p{N}]?[" + LARGE + "]*[" + SMALL + "]+" + ENDINGS
         + r"?|[^\r\n\p{L}\p{N}]?[" + LARGE + "]+[" + SMALL + "]*" + ENDINGS
         + r"?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DBRX = (ENDINGS + r"|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*|"
        r"\s*[\r\n]|\s+(?!\S)|\s+")
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?"
            r"[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++"
          r"[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s")
MARK = "\u2581"
FALLBACK = [f"<0x{i:02X}>" for i in range(256)]


def split(pattern, behavior="isolated", invert=False):
    return P.Split(Regex(pattern), behavior, invert)


def added(text, **how):
    return AddedToken(text, **how)


# ---- byte-pair encoding of bytes ------------------------------------------------------

def of_bytes(files, pre, norm=None, special=("<|endoftext|>",), more=(), post=None,
             decoder=None, alphabet=BYTES, **model):
    t = Tokenizer(M.BPE(**model))
    if norm:
        t.normalizer = norm
    t.pre_tokenizer, t.decoder = pre, decoder or D.ByteLevel()
    marks = {k: v for k, v in model.items() if k.endswith(("_prefix", "_suffix"))}
    t.train(files, trainers.BpeTrainer(vocab_size=VOCAB, initial_alphabet=alphabet,
                                       special_tokens=list(special), show_progress=False, **marks))
    if more:
        t.add_tokens(list(more))
    if post:
        t.post_processor = post(t)
    return t


def template(*parts):
    def of(t):
        tokens = [(p, t.token_to_id(p)) for p in parts if p != "$A"]
        return processors.TemplateProcessing(single=" ".join(parts), special_tokens=tokens)
    return of


def gpt2(files):
    return of_bytes(files, P.ByteLevel(add_prefix_space=False))


def roberta(files):
    return of_bytes(files, P.ByteLevel(add_prefix_space=False), special=[
        "<s>", "<pad>", "</s>", "<unk>", added("<mask>", lstrip=True, special=True)],
        post=lambda t: processors.RobertaProcessing(("</s>", 2), ("<s>", 0)))


def prefix_space(files):
    return of_bytes(files, P.ByteLevel(add_prefix_space=True))


def llama3(files):
    special = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|eot_id|>"]
    return of_bytes(files, P.Sequence([split(LLAMA3), PLAIN]), special=special,
                    ignore_merges=True, post=lambda t: processors.Sequence(
                        [processors.ByteLevel(), template("<|begin_of_text|>", "$A")(t)]))


def qwen2(files):
    return of_bytes(files, P.Sequence([split(QWEN2), PLAIN]), norm=N.NFC(), more=[
        "<tool_call>", added("<|im_start|>", special=True, normalized=False)])


def smollm(files):
    return of_bytes(files, P.Sequence([P.Digits(individual_digits=True),
                                       P.ByteLevel(add_prefix_space=False)]))


def deepseek(files):
    return of_bytes(files, P.Sequence([
        split(r"\p{N}{1,3}"), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
        split(DEEPSEEK), PLAIN]))


def o200k(files):
    return of_bytes(files, P.Sequence([split(O200K), PLAIN]))


def dbrx(files):
    return of_bytes(files, P.Sequence([split(DBRX, "removed", True), PLAIN]))


def neox(files):
    return of_bytes(files, P.ByteLevel(add_prefix_space=False), norm=N.NFC(), special=[
        "<|endoftext|>", "<|padding|>"], more=[added(" " * k) for k in range(2, 10)])


def phi(files):
    spaces = [added(" " * k, normalized=False) for k in range(2, 32)]
    return of_bytes(files, P.ByteLevel(add_prefix_space=False), more=spaces + ["\t\t"])


def falcon(files):
    return of_bytes(files, P.Sequence([
        P.Punctuation("contiguous"), P.ByteLevel(add_prefix_space=False),
        P.Digits(individual_digits=False), split("[0-9][0-9][0-9]")]))


def bloom(files):
    return of_bytes(files, P.Sequence([split(r" ?[^(\s|[.,!?…。，、।۔،])]+"), PLAIN]))


def clip(files):
    pattern = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    return of_bytes(files, P.Sequence([split(pattern, "removed", True),
                                       P.ByteLevel(add_prefix_space=False)]),
                    norm=N.Sequence([N.NFC(), N.Replace(Regex(r"\s+"), " "), N.Lowercase()]),
                    decoder=D.BPEDecoder("</w>"), end_of_word_suffix="</w>",
                    unk_token="<|endoftext|>")


def prefixed(files):
    return of_bytes(files, P.Whitespace(), special=["[UNK]"], decoder=D.WordPiece(), alphabet=[],
                    continuing_subword_prefix="##", unk_token="[UNK]")


# ---- byte-pair encoding as sentencepiece has it ---------------------------------------

def of_pieces(files, pre=None, norm=None, decoder=None, **model):
    t = Tokenizer(M.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = N.Sequence([N.Prepend(MARK), N.Replace(" ", MARK)])
    t.pre_tokenizer = P.Split(MARK, "merged_with_next")
    t.train(files, trainers.BpeTrainer(vocab_size=VOCAB, limit_alphabet=300, show_progress=False,
                                       special_tokens=["<unk>", "<s>", "</s>"] + FALLBACK))
    j = json.loads(t.to_str())
    j["added_tokens"] = [a for a in j["added_tokens"] if a["id"] < 3]
    j["model"].update(model)
    t = Tokenizer.from_str(json.dumps(j))
    t = Tokenizer.from_str(json.dumps(dict(j, pre_tokenizer=None, normalizer=None)))
    if pre:
        t.pre_tokenizer = pre
    if norm:
        t.normalizer = norm
    t.decoder = decoder or D.Sequence([D.Replace(MARK, " "), D.ByteFallback(), D.Fuse(),
                                       D.Strip(" ", 1, 0)])
    t.post_processor = template("<s>", "$A")(t)
    return t


def llama2(files):
    return of_pieces(files, norm=N.Sequence([N.Prepend(MARK), N.Replace(" ", MARK)]))


def mistral(files):
    return of_pieces(files, pre=P.Metaspace(MARK, prepend_scheme="first", split=False))


def gemma(files):
    return of_pieces(files, pre=P.Split(" ", "merged_with_previous"), norm=N.Replace(" ", MARK),
                     decoder=D.Sequence([D.Replace(MARK, " "), D.ByteFallback(), D.Fuse()]))


def without_bytes(files):
    return of_pieces(files, norm=N.Sequence([N.Prepend(MARK), N.Replace(" ", MARK)]),
                     byte_fallback=False)


def without_fusing(files):
    return of_pieces(files, norm=N.Sequence([N.Prepend(MARK), N.Replace(" ", MARK)]),
                     byte_fallback=False, fuse_unk=False)


# ---- WordPiece, words, unigram --------------------------------------------------------

def of_words(files, norm, **decoder):
    t = Tokenizer(M.WordPiece(unk_token="[UNK]"))
    t.normalizer, t.pre_tokenizer, t.decoder = norm, P.BertPreTokenizer(), D.WordPiece(**decoder)
    t.train(files, trainers.WordPieceTrainer(vocab_size=VOCAB, show_progress=False, special_tokens=[
        "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    t.post_processor = template("[CLS]", "$A", "[SEP]")(t)
    return t


def bert_uncased(files):
    return of_words(files, N.BertNormalizer(lowercase=True))


def bert_cased(files):
    return of_words(files, N.BertNormalizer(lowercase=False, strip_accents=False), cleanup=False)


def word_level(files):
    t = Tokenizer(M.WordLevel(unk_token="[UNK]"))
    t.pre_tokenizer = P.Whitespace()
    t.train(files, trainers.WordLevelTrainer(vocab_size=VOCAB, special_tokens=["[UNK]"],
                                             show_progress=False))
    return t


def behaviors(files):
    t = Tokenizer(M.BPE(unk_token="[UNK]"))
    t.pre_tokenizer = P.Sequence([split(r"\d", "merged_with_previous"), split("[,;]",
                                 "merged_with_next"), split(r"\w+", "contiguous"),
                                 P.CharDelimiterSplit("x")])
    special = ["[UNK]", added("King", single_word=True),
               added("the", single_word=True, lstrip=True, rstrip=True)]
    t.train(files, trainers.BpeTrainer(vocab_size=VOCAB, special_tokens=special,
                                       show_progress=False))
    t.enable_truncation(20, direction="left")
    return t


def of_scores(files, norm, pre, decoder):
    t = Tokenizer(M.Unigram())
    t.normalizer, t.pre_tokenizer, t.decoder = norm, pre, decoder
    t.train(files, trainers.UnigramTrainer(vocab_size=VOCAB, unk_token="<unk>", show_progress=False,
                                           special_tokens=["<pad>", "</s>", "<unk>"]))
    return t


def rules_of(files, name):
    """sentencepiece's compiled rules, from a model that is made for them."""
    from sentencepiece import sentencepiece_model_pb2 as pb
    model = pb.ModelProto()
    model.ParseFromString(train_sp(files, "unigram", name))
    return model.normalizer_spec.precompiled_charsmap


def t5(files):
    return of_scores(files, N.Sequence([N.Precompiled(rules_of(files, "nmt_nfkc")),
                                        N.Replace(Regex(" {2,}"), " ")]),
                     P.Sequence([P.WhitespaceSplit(), P.Metaspace()]), D.Metaspace())


def xlmr(files):
    return of_scores(files, N.Sequence([N.Precompiled(rules_of(files, "nmt_nfkc")),
                                        N.Strip(False, True), N.Replace(Regex(" {2,}"), MARK)]),
                     P.Metaspace(), D.Metaspace())


def albert(files):
    return of_scores(files, N.Sequence([
        N.Replace("``", '"'), N.Replace("''", '"'), N.NFKD(), N.StripAccents(), N.Lowercase(),
        N.Precompiled(rules_of(files, "nmt_nfkc_cf")), N.Replace(Regex(" {2,}"), " ")]),
        P.Metaspace(), D.Metaspace())


def nmt(files):
    return of_scores(files, N.Sequence([N.Nmt(), N.NFKC(), N.Strip()]),
                     P.Metaspace(prepend_scheme="first"), D.Metaspace(prepend_scheme="first"))


# ---- sentencepiece, tiktoken ----------------------------------------------------------

def rules_named(name):
    return dict(normalization_rule_name=name)


def train_sp(files, kind, rules, **more):
    import io
    import sentencepiece
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        input=",".join(files), model_writer=model, vocab_size=VOCAB * 7 // 8, model_type=kind,
        character_coverage=0.9995, control_symbols=["<ctl>"], minloglevel=2,
        hard_vocab_limit=kind != "unigram", **rules_named(rules), **more)
    return model.getvalue()


SP = {
    "sp_unigram": ("unigram", "nmt_nfkc", dict(user_defined_symbols=["<sep>", "[Q]", "  "])),
    "sp_unigram_bytes": ("unigram", "nmt_nfkc_cf", dict(byte_fallback=True)),
    "sp_unigram_plain": ("unigram", "identity", dict(remove_extra_whitespaces=False)),
    "sp_bpe": ("bpe", "nmt_nfkc", dict(user_defined_symbols=["<sep>", "[Q]", "  "])),
    "sp_bpe_bytes": ("bpe", "identity", dict(byte_fallback=True, remove_extra_whitespaces=False)),
    "sp_bpe_suffix": ("bpe", "nfkc", dict(treat_whitespace_as_suffix=True)),
}


def cl100k(files):
    """Ranks in tiktoken's form: a trained vocabulary of bytes, by its order."""
    t = of_bytes(files, P.Sequence([split(LLAMA3), PLAIN]), special=())
    code, n = {}, 0
    for b in range(256):
        itself = 33 <= b <= 126 or 161 <= b <= 255 and b != 173
        code[chr(b if itself else 256 + n)] = b
        n += not itself
    tokens = [bytes(code[c] for c in t.id_to_token(i)) for i in range(t.get_vocab_size())]
    return b"".join(base64.b64encode(k) + b" %d\n" % i for i, k in enumerate(tokens))


HF = {f.__name__: f for f in (
    gpt2, roberta, prefix_space, llama3, qwen2, smollm, deepseek, o200k, dbrx, neox, phi, falcon,
    bloom, clip, prefixed, llama2, mistral, gemma, without_bytes, without_fusing, bert_uncased,
    bert_cased, word_level, behaviors, t5, xlmr, albert, nmt)}


def make(folder, kind, files):
    os.makedirs(folder, exist_ok=True)
    if kind in HF:
        HF[kind](files).save(folder + "/tokenizer.json")
        return
    if kind in SP:
        name, data = "tokenizer.model", train_sp(files, SP[kind][0], SP[kind][1], **SP[kind][2])
    else:
        name, data = "cl100k_base.tiktoken", cl100k(files)
    with open(f"{folder}/{name}", "wb") as file:
        file.write(data)


# ---- cases ----------------------------------------------------------------------------

def open_theirs(folder):
    """encode, decode, special tokens"""
    if os.path.exists(folder + "/tokenizer.json"):
        t = Tokenizer.from_file(folder + "/tokenizer.json")
        special = [a.content for a in t.get_added_tokens_decoder().values()]
        return (lambda s: t.encode(s).ids, lambda ids: t.decode(ids, skip_special_tokens=False),
                special)
    if os.path.exists(folder + "/tokenizer.model"):
        import sentencepiece
        sp = sentencepiece.SentencePieceProcessor(model_file=folder + "/tokenizer.model")
        return sp.encode, sp.decode, ["<sep>", "[Q]", "<ctl>", "<unk>", MARK, "<0xE4>", "<s>"]
    import tiktoken
    with open(folder + "/cl100k_base.tiktoken", "rb") as file:
        ranks = {base64.b64decode(a): int(b) for a, b in map(bytes.split, file)}
    t = tiktoken.Encoding("x", pat_str=CL100K, mergeable_ranks=ranks, special_tokens={})
    return t.encode_ordinary, t.decode, []


SPACES = [" ", "  ", "\t", "\n", "\r\n", "\u00a0", "\u2003", "\u3000", "\u200b", "\u180e",
          "\u2028", "\x85", "\v"]
ODD = ["'s", "'LL", "n't", "...", "''", "a\u0301\u0316", "e\u0301", "\ufb01", "\u1e9b\u0323",
       "\uac00\u11a8", "\ufdfa", "\u2460", "\u0130", "\u00df", "\U0001f469\u200d\U0001f467",
       "\U0001f1e9\U0001f1ea", "\u0915\u094d\u0937\u093f"]


def character(r):
    while True:
        k = r.random()
        low, high = ((0x20, 0x7f) if k < .35 else (0, 0x250) if k < .5 else
                     (0x300, 0x370) if k < .6 else (0x370, 0x3000) if k < .75 else
                     (0x3000, 0x10000) if k < .9 else (0x10000, 0x20000) if k < .98 else
                     (0x20000, 0x110000))
        c = r.randrange(low, high)
        if not 0xd800 <= c < 0xe000:
            return chr(c)


def part(r, text, special):
    k = r.random()
    if k < .45:
        at = r.randrange(len(text))
        return text[at:at + r.randrange(1, 30)]
    if k < .75:
        return "".join(character(r) for _ in range(r.randrange(1, 8)))
    if k < .85:
        return r.choice(SPACES) * r.randrange(1, 4)
    if k < .9 and special:
        return r.choice(special)
    if k < .95:
        return str(r.randrange(10 ** r.randrange(1, 9)))
    return r.choice(ODD + ["x" * r.randrange(1, 130)])


def cases(folder, count, seed, files):
    encode, decode, special = open_theirs(folder)
    r = random.Random(seed)
    with open(files[0], encoding="utf-8", errors="replace") as file:
        text = file.read()
    out = sys.stdout.buffer
    for i in range(count):
        s = "".join(part(r, text, special) for _ in range(r.randrange(0, 12)))
        ids = encode(s)
        for data in (s.encode(), struct.pack(f"<{len(ids)}i", *ids), decode(ids).encode()):
            out.write(struct.pack("<I", len(data)) + data)
    for name in files:  # and whole corpora
        with open(name, encoding="utf-8", errors="replace") as file:
            s = file.read()
        ids = encode(s)
        for data in (s.encode(), struct.pack(f"<{len(ids)}i", *ids), decode(ids).encode()):
            out.write(struct.pack("<I", len(data)) + data)


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2], sys.argv[3], sys.argv[4:])
    elif sys.argv[1] == "cases":
        cases(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:])
    else:
        print(" ".join(list(HF) + list(SP) + ["cl100k"]))
