#!/usr/bin/env python3
"""folders.py -- folders as tokenizers are published in, and the ids of transformers' AutoTokenizer

    python spec/text/folders.py spec/text/folders.json          # what folders_spec.lua reads
    python spec/text/folders.py --random 2000 FOLDER            # folders, random texts and ids there

A file is written once, by name, in "files" (base64 where it is binary); a folder has the names of
files, or their JSON.

SPDX-License-Identifier: MIT"""
import base64
import json
import os
import random
import sys
import tempfile

import sentencepiece
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
from transformers import AutoTokenizer  # noqa: E402

TEXT = """The quick brown fox jumps over the lazy dog. It's the dog's 3rd nap, isn't it?
We'll see 12345 foxes in 2026; they've been naïve -- déjà vu, façade, coöperate!
The lazy dog sleeps and sleeps, and the quick fox runs and runs and jumps. 中文句子。
""" * 3
TEXTS = ["", "the dog", "The  quick\n\nfox's 12345", "naïve Déjà VU café", "中文 foxes句子",
         "the<mask> dog <s>x</s> lazy", " [MASK] the [CLS]dog[SEP] [UNK]", "runs<new>and<x> <yy>y",
         "jump <|im_end|> s <ent>\n the", "x<extra_id_0> <extra_id_9>the", "<a><b> <pad><|endoftext|>"]
MARKS = ("<s> </s> <pad> <unk> <mask> [CLS] [SEP] [MASK] [UNK] [PAD] <|endoftext|> <|im_end|> <ent> <new> <x> "
         "<yy> <tool> <a> <b> <extra_id_0> <extra_id_3> <extra_id_9>").split()


def token(content, **flags):
    return {"content": content, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False,
            "special": True, **flags}


def wordpiece():
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.train_from_iterator(TEXT.splitlines(), trainers.WordPieceTrainer(
        vocab_size=150, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    ids = t.get_vocab()
    return "\n".join(sorted(ids, key=ids.get)) + "\n"


def byte_level(folder):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.train_from_iterator(TEXT.splitlines(True), trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>"]))
    t.model.save(folder)
    files = {name: open(f"{folder}/{name}", encoding="utf-8").read() for name in ("vocab.json", "merges.txt")}
    return {**files, "tokenizer.json": json.dumps(json.loads(t.to_str()), ensure_ascii=False, separators=(",", ":"))}


def pieces(folder, **options):
    with open(folder + "/text", "w", encoding="utf-8") as file:
        file.write(TEXT)
    with open(folder + "/rules", "w", encoding="utf-8") as file:
        file.write("A\t20\n9\t20\nD\t20\n3000\t20\n")
    sentencepiece.SentencePieceTrainer.train(input=folder + "/text", model_prefix=folder + "/m", minloglevel=3,
                                             hard_vocab_limit=False,
                                             normalization_rule_tsv=folder + "/rules", **options)
    with open(folder + "/m.model", "rb") as file:
        return base64.b64encode(file.read()).decode()


def make_files():
    with tempfile.TemporaryDirectory() as folder:
        words = wordpiece()
        return {"words": words, "windows": words.replace("\n", "\r\n"), "twice": words + "the\n", **byte_level(folder),
                "unigram": pieces(folder, model_type="unigram", vocab_size=120, pad_id=0, eos_id=1, unk_id=2, bos_id=-1),
                "bpe": pieces(folder, model_type="bpe", vocab_size=380, byte_fallback=True, remove_extra_whitespaces=False)}


def config(name, **more):
    return {"tokenizer_config.json": {"tokenizer_class": name, **more}}


def model(name):
    return {"config.json": {"model_type": name}}


MASK = token("[MASK]", lstrip=True)
BERT, GPT2 = {"vocab.txt": "words"}, {"vocab.json": "vocab.json", "merges.txt": "merges.txt"}
JSON, T5, LLAMA = {"tokenizer.json": "tokenizer.json"}, {"spiece.model": "unigram"}, {"tokenizer.model": "bpe"}
FOLDERS = {
    "bert": {**BERT, **model("bert"), "tokenizer_config.json": {"do_lower_case": True, "model_max_length": 512}},
    "bert_cased": {**BERT, **config("BertTokenizer", do_lower_case=False)},
    "bert_accents": {**BERT, **config("BertTokenizer", strip_accents=False, tokenize_chinese_chars=False)},
    "bert_mask": {"vocab.txt": "twice", **config("BertTokenizerFast", do_lower_case=False, strip_accents=True),
                  "special_tokens_map.json": {"mask_token": MASK}},
    "distilbert": {"vocab.txt": "windows", **model("distilbert"), "added_tokens.json": {"<New>": 150}},
    "gpt2": {**GPT2, **model("gpt2")},
    "gpt2_prefix": {**GPT2, **config("GPT2Tokenizer", add_prefix_space=True)},
    "gpt2_bos": {**GPT2, **config("GPT2Tokenizer", add_bos_token=True, bos_token="</s>")},
    "gpt2_map": {**GPT2, **config("GPT2Tokenizer"), "added_tokens.json": {"<x>": 300, "<yy>": 301},
                 "special_tokens_map.json": {"bos_token": "<s>", "eos_token": token("</s>", rstrip=True)}},
    "qwen2": {**GPT2, **config("Qwen2Tokenizer", added_tokens_decoder={"300": token("<|im_end|>")},
                               bos_token=None, eos_token="<|endoftext|>", unk_token=None)},
    "roberta": {**GPT2, **model("roberta"), "special_tokens_map.json": {"mask_token": token("<mask>", lstrip=True)}},
    "t5": {**T5, **model("t5")},
    "t5_extra": {**T5, **config("T5Tokenizer", extra_ids=10)},
    "json_more": {**JSON, **config("PreTrainedTokenizerFast", bos_token="<s>", eos_token="<|im_end|>",
                                   added_tokens_decoder={"0": token("<s>"), "300": token("<|im_end|>"),
                                                         "301": token("<ent>", rstrip=True)})},
    "json_unlisted": {**JSON, **config("PreTrainedTokenizerFast", eos_token="<|im_end|>",
                                       additional_special_tokens=["<a>", "<b>"])},
    "json_flags": {**JSON, **config("PreTrainedTokenizerFast", added_tokens_decoder={
        "4": token("<mask>", lstrip=True), "2": token("</s>", special=False)})},
    "json_added": {**JSON, "added_tokens.json": {"<x>": 300}, "special_tokens_map.json": {"pad_token": "<pad>"}},
}


def write(root, files, name, parts):
    os.makedirs(f"{root}/{name}", exist_ok=True)
    for file, given in parts.items():
        data = files[given] if isinstance(given, str) else json.dumps(given)
        with open(f"{root}/{name}/{file}", "wb") as out:
            out.write(base64.b64decode(data) if file.endswith(".model") else data.encode())


def random_text():
    parts = []
    for _ in range(random.randint(0, 12)):
        kind = random.random()
        if kind < .5:
            at = random.randrange(len(TEXT) - 30)
            parts.append(TEXT[at:at + random.randint(1, 25)])
        elif kind < .7:
            parts.append(random.choice(MARKS))
        elif kind < .8:
            parts.append(random.choice([" ", "  ", "\n", "\t", " \n ", "\u3000"]))
        else:
            parts.append("".join(chr(random.choice([random.randrange(a, b) for a, b in (
                (32, 127), (0xa0, 0x250), (0x370, 0x500), (0x4e00, 0x4f00), (0x1f300, 0x1f650))]))
                for _ in range(random.randint(1, 5))))
    return "".join(parts)


PAIRS = [(1, 2, None, True), (0, 3, None, True), (3, 4, 20, True), (2, 1, 15, "only_first"), (1, 2, 24, "only_second"),
         (2, 3, 9, True), (1, 8, 24, True)]


def pair_of(tokenizer, texts, i):
    a, b, most, strategy = PAIRS[i]
    options = {} if most is None else {"max_length": most, "truncation": strategy}
    try:
        made = tokenizer(texts[a], texts[b], return_token_type_ids=True, **options)
    except BaseException:  # one text is too short to be cut
        return None
    return made["input_ids"], made["token_type_ids"]


def main():
    random.seed(1)
    many = sys.argv[1] == "--random"
    files, texts = make_files(), [random_text() for _ in range(int(sys.argv[2]))] if many else TEXTS
    out = {"texts": texts, "ids": {}, "cases": [[a, b, most, s if s is not True else None] for a, b, most, s in PAIRS]}
    with tempfile.TemporaryDirectory() as folder:
        root = sys.argv[3] if many else folder
        for name, parts in FOLDERS.items():
            write(root, files, name, parts)
            out["ids"][name] = AutoTokenizer.from_pretrained(f"{root}/{name}")(texts)["input_ids"]
            tokenizer = AutoTokenizer.from_pretrained(f"{root}/{name}")
            out.setdefault("pairs", {})[name] = [pair_of(tokenizer, texts, i) for i in range(len(PAIRS))]
        if not many:
            used = {v for parts in FOLDERS.values() for v in parts.values() if isinstance(v, str)}
            out["files"], out["folders"] = {k: v for k, v in files.items() if k in used}, FOLDERS
        with open(root + "/ids.json" if many else sys.argv[1], "w", encoding="utf-8") as file:
            json.dump(out, file, ensure_ascii=False, indent=None if many else 0, separators=(",", ":"))
            file.write("\n")


main()
