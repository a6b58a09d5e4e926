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

import torch, torch.nn as nn, torch.nn.functional as F  # noqa: E402


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.fc, self.out = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.heads, -1).transpose(1, 2)
                   for t in self.qkv(self.norm1(x)).split(C, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(B, T, C))
        return x + self.out(F.gelu(self.fc(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(flags.vocab, flags.dim)
        self.positions = nn.Embedding(flags.context, flags.dim)
        self.blocks = nn.Sequential(*[Block(flags.dim, flags.heads)
                                      for _ in range(flags.layers)])
        self.norm = nn.LayerNorm(flags.dim)
        self.head = nn.Linear(flags.dim, flags.vocab, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens):
        at = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.blocks(self.tokens(tokens) + self.positions(at))))


torch.manual_seed(1)
model = GPT().cuda()
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
