#!/usr/bin/env python3
"""torch_gpu.py -- a GPT-2 training step in PyTorch on a GPU

torch.compile, scaled_dot_product_attention, bf16 autocast, fused AdamW: the other side of
`mrt bench gpu`.  Prints one line of JSON: milliseconds a step, peak bytes.

SPDX-License-Identifier: MIT"""
import argparse, time

parser = argparse.ArgumentParser()
for name, value in dict(layers=12, heads=12, dim=768, context=1024, batch=16, steps=20,
                        vocab=50304).items():
    parser.add_argument("--" + name, type=int, default=value)
flags = parser.parse_args()

import torch, torch.nn.functional as F  # noqa: E402

from torch_gpt import GPT  # noqa: E402


torch.manual_seed(1)
model = GPT(flags.vocab, flags.context, flags.layers, flags.dim, flags.heads).cuda()
update = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1, fused=True)
compiled = torch.compile(model)
shape = (flags.batch, flags.context)
x = torch.randint(0, flags.vocab, shape, device="cuda")
y = torch.randint(0, flags.vocab, shape, device="cuda")


def step():
    with torch.autocast("cuda", torch.bfloat16):
        loss = F.cross_entropy(compiled(x).view(-1, flags.vocab), y.view(-1))
    update.zero_grad(set_to_none=True)
    loss.backward()
    update.step()
    return loss


for _ in range(5):
    step()
torch.cuda.synchronize()
torch.cuda.reset_peak_memory_stats()
began = time.perf_counter()
for _ in range(flags.steps):
    loss = step()
torch.cuda.synchronize()
ms = (time.perf_counter() - began) / flags.steps * 1e3
print('{"ms": %.3f, "bytes": %d}' % (ms, torch.cuda.max_memory_reserved()))
