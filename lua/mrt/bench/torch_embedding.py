#!/usr/bin/env python3
"""torch_embedding.py -- the cases of `mrt bench embedding` in PyTorch, eager

Prints a line for each: its name, the median and the least of the milliseconds.

SPDX-License-Identifier: MIT"""
import argparse, os, time

parser = argparse.ArgumentParser()
for name, value in dict(rows=1000000, width=64, bags=512, ids=20, threads=2).items():
    parser.add_argument("--" + name, type=int, default=value)
parser.add_argument("--seconds", type=float, default=2.0)
flags = parser.parse_args()
os.environ.setdefault("OMP_NUM_THREADS", str(flags.threads))

import torch, torch.nn as nn, torch.nn.functional as F  # noqa: E402

torch.set_num_threads(flags.threads)
torch.manual_seed(1)
all_ids = [torch.randint(0, flags.rows, (flags.bags, flags.ids)) for _ in range(16)]
target = torch.randn(flags.bags, flags.width)


def timed(name, fn):
    times, began = [], time.perf_counter()
    for i in range(3):
        fn(i)
    while len(times) < 5 or time.perf_counter() - began < flags.seconds:
        start = time.perf_counter()
        fn(len(times))
        times.append((time.perf_counter() - start) * 1e3)
    times.sort()
    print(f"{name}\t{times[len(times) // 2]:.4f}\t{times[0]:.4f}", flush=True)


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
    "adam, lazy": lambda p: torch.optim.SparseAdam(p, lr=0.1),
}


def step_of(layer, make):
    bag = layer == "bag"
    model = (nn.EmbeddingBag(flags.rows, flags.width, mode="sum", sparse=True) if bag
             else nn.Embedding(flags.rows, flags.width, sparse=True))
    optimizer = make(list(model.parameters()))

    def step(i):
        optimizer.zero_grad()
        y = model(all_ids[i % 16])
        loss = F.mse_loss(y if bag else y.sum(1), target)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


for layer in ("bag", "embedding"):
    for name, make in OPTIMIZERS.items():
        timed(f"{layer}, {name}", step_of(layer, make))

w = torch.randn(flags.rows, flags.width)
dy = torch.randn(flags.bags, flags.ids, flags.width)
small = min(flags.rows, 50000)
with torch.no_grad():
    timed("embedding", lambda i: F.embedding(all_ids[i % 16], w))
    timed("embedding_bag", lambda i: F.embedding_bag(all_ids[i % 16], w, mode="sum"))
    timed("embedding_grad", lambda i: torch.ops.aten.embedding_dense_backward(
        dy, all_ids[i % 16] % small, small, -1, False))
p = nn.Parameter(torch.randn(10000000))
p.grad = torch.randn(10000000)
for fused in (False, True):
    sgd = torch.optim.SGD([p], lr=1e-6, fused=fused, foreach=None if fused else True)
    timed("sgd 10^7" + ("" if fused else ", foreach"), lambda i: sgd.step())
