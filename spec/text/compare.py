"""compare.py -- tokenizers drawn at random, here and by Hugging Face's tokenizers

    python spec/text/compare.py 1000 [--seed 1] [--strings 40]

Needs tokenizers, sentencepiece and build/mrt.  Each tokenizer encodes random strings; ids, and what
they are decoded to, at once and one by one, are compared.  Says what differs, and counts.

SPDX-License-Identifier: MIT"""
import argparse
import os
import random
import resource
import struct
import subprocess
import sys
import tempfile

from tokenizers import Tokenizer

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from random_tokenizers import random_tokenizer, texts  # noqa: E402


def pack(*parts):
    return b"".join(struct.pack("<I", len(p)) + p for p in parts)


def ids_of(ids):
    return struct.pack(f"<{len(ids)}i", *ids)


def attempt(f):
    """What it returns; None: it refuses, or panics."""
    try:
        return f()
    except BaseException as e:  # noqa: BLE001
        if isinstance(e, KeyboardInterrupt):
            raise
        return None


def cases(t, r, count):
    special = [a.content for a in t.get_added_tokens_decoder().values()]
    for s in texts(r, special, count):
        ids = attempt(lambda: t.encode(s).ids)
        plain = attempt(lambda: t.encode(s, add_special_tokens=False).ids)
        if ids is None or plain is None:
            yield pack(s.encode(), b"error", b"", b"", b"")
            continue
        back = attempt(lambda: t.decode(ids, skip_special_tokens=False))
        skipped = attempt(lambda: t.decode(ids, skip_special_tokens=True))
        if back is None or skipped is None:
            yield pack(s.encode(), ids_of(ids), ids_of(plain), b"error", b"error")
            continue
        yield pack(s.encode(), ids_of(ids), ids_of(plain), b"text" + back.encode(),
                   b"text" + skipped.encode())


def write_cases(path, seed, strings):
    """Append a tokenizer and its cases to the file; False: it cannot be made."""
    text = random_tokenizer(seed)
    if text is None:
        return False
    t = Tokenizer.from_str(text)
    all_cases = list(cases(t, random.Random(-seed), strings))
    with open(path, "ab") as out:
        out.write(pack(text.encode()) + struct.pack("<II", seed, len(all_cases)) + b"".join(all_cases))
    return True


def in_child(f, *args):
    """Does it return True, within bounds?  (Some take all memory there is.)"""
    pid = os.fork()
    if pid == 0:
        resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
        resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # Rust's panics
        os._exit(0 if attempt(lambda: f(*args)) else 1)
    return os.waitpid(pid, 0)[1] == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--strings", type=int, default=40)
    parser.add_argument("--show", type=int, default=10)
    o = parser.parse_args()
    seeds = range(o.seed, o.seed + o.count)
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/cases"
        made = sum(in_child(write_cases, path, seed, o.strings) for seed in seeds)
        here = os.path.dirname(os.path.abspath(__file__))
        env = dict(os.environ, MRT_DEVICE="declared", MRT_THREADS="1")
        status = subprocess.run(["build/mrt", os.path.join(here, "compare.lua"), path, str(o.show)],
                                env=env).returncode
    print(f"{made} of {o.count} tokenizers can be made")
    sys.exit(status)


if __name__ == "__main__":
    main()
