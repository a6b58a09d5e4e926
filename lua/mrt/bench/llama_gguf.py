"""llama_gguf.py -- llama.cpp's side of mrt bench gguf: FOLDER TEXT

FOLDER has model.gguf, logits.npy and ours.txt: ids, greedy ids, and tokens of each line of TEXT.

SPDX-License-Identifier: MIT
"""
import sys

import llama_cpp
import numpy as np


def main():
    folder, text = sys.argv[1:]
    ids, greedy, *lines = [
        [int(i) for i in line.split()] for line in open(folder + "/ours.txt").read().split("\n")[:-1]
    ]
    n = len(ids)
    m = llama_cpp.Llama(folder + "/model.gguf", n_ctx=n + len(greedy) + 8, logits_all=True,
                        verbose=False, n_threads=1, type_k=0, type_v=0, n_batch=n + 8)
    m.eval(ids)
    theirs = np.array(m.scores[:n])
    ours = np.load(folder + "/logits.npy")
    made = []
    while len(made) < len(greedy):
        made.append(int(np.argmax(m.scores[m.n_tokens - 1])))
        m.eval(made[-1:])
    same = next((i for i, (a, b) in enumerate(zip(made, greedy)) if a != b), len(made))
    texts = [t for t in open(text, encoding="utf-8").read().split("\n") if t][: len(lines)]
    equal = sum(m.tokenize(t.encode(), add_bos=True, special=True) == line
                for t, line in zip(texts, lines))
    print("%.2e of %-8.2f    %2d of %-4d %d of %d" % (np.abs(theirs - ours).max(),
          np.abs(ours).max(), same, len(greedy), equal, len(lines)))


main()
