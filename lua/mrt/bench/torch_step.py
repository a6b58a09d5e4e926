#!/usr/bin/env python3
"""torch_step.py -- time and memory of one training step in PyTorch, eager

Prints one line of JSON for a case of `mrt bench step`: the same model, optimizer and
shapes, attention by scaled_dot_product_attention; in bf16 or f16 by autocast around the
forward pass and the loss (f16: the loss scaled as GradScaler does).

SPDX-License-Identifier: MIT"""
import argparse, json, os, time

parser = argparse.ArgumentParser()
parser.add_argument("case", choices=["gpt", "gpt-small", "gpt2", "lstm", "mlp",
                                     "resnet18"])
parser.add_argument("--seconds", type=float, default=8.0)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--cpu", action="store_true", help="processor time")
parser.add_argument("--precision", choices=["f32", "bf16", "f16"], default="f32")
parser.add_argument("--warmup", type=int, default=3)
flags = parser.parse_args()
os.environ.setdefault("OMP_NUM_THREADS", str(flags.threads))

import torch, torch.nn as nn, torch.nn.functional as F  # noqa: E402

from torch_gpt import GPT  # noqa: E402

torch.set_num_threads(flags.threads)
torch.manual_seed(1)

SHAPES = {  # vocabulary, context, layers, dim, heads, batch, tokens
    "gpt": (65, 256, 6, 384, 6, 12, 256),
    "gpt-small": (65, 64, 4, 128, 4, 12, 64),
    "gpt2": (50257, 1024, 12, 768, 12, 1, 256),
}


class Residual(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        conv = lambda i, k, s: nn.Conv2d(i, width, k, s, k // 2, bias=False)
        self.conv1, self.norm1 = conv(inputs, 3, stride), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = conv(width, 3, 1), nn.BatchNorm2d(width)
        same = stride == 1 and inputs == width
        self.shortcut = nn.Identity() if same else nn.Sequential(
            conv(inputs, 1, stride), nn.BatchNorm2d(width))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


def resnet18():
    layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    inputs = 64
    for width in (64, 128, 256, 512):
        layers += [Residual(inputs, width, 1 if width == 64 else 2),
                   Residual(width, width, 1)]
        inputs = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(512, 10))


class LSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(65, 512)
        self.lstm = nn.LSTM(512, 512, 2, batch_first=True)
        self.head = nn.Linear(512, 65)

    def forward(self, ids):
        return self.head(self.lstm(self.tokens(ids))[0])


def memory(name):
    for line in open("/proc/self/status"):
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024


def build(case):
    if case == "mlp":
        model = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(),
                              nn.Linear(1024, 1024), nn.ReLU(),
                              nn.Linear(1024, 10))
        return (model, torch.optim.Adam(model.parameters(), 1e-3),
                torch.randn(128, 784), torch.randint(10, (128,)))
    if case == "resnet18":
        model = resnet18()
        opt = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9,
                              weight_decay=5e-4)
        return model, opt, torch.randn(64, 3, 32, 32), torch.randint(10, (64,))
    if case == "lstm":
        model = LSTM()
        ids = lambda: torch.randint(65, (32, 64))
        return model, torch.optim.Adam(model.parameters(), 1e-3), ids(), ids()
    vocab, context, layers, dim, heads, batch, tokens = SHAPES[case]
    model = GPT(vocab, context, layers, dim, heads)
    opt = torch.optim.AdamW(model.parameters(), 3e-4, betas=(0.9, 0.95),
                            weight_decay=0.1)
    ids = lambda: torch.randint(vocab, (batch, tokens))
    return model, opt, ids(), ids()


torch.zeros(4, 4) @ torch.zeros(4, 4)
before = memory("VmRSS")
try:
    open("/proc/self/clear_refs", "w").write("5")
except OSError:
    pass
model, opt, x, y = build(flags.case)


NARROW = {"f32": None, "bf16": torch.bfloat16, "f16": torch.float16}[flags.precision]
scaler = torch.amp.GradScaler("cpu", enabled=NARROW is torch.float16)


def step():
    opt.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=NARROW, enabled=NARROW is not None):
        z = model(x)
        loss = F.cross_entropy(z.reshape(-1, z.shape[-1]), y.reshape(-1))
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    return loss.item()


for _ in range(flags.warmup):
    step()
clock = time.process_time if flags.cpu else time.perf_counter
times, began = [], time.perf_counter()
while len(times) < 5 or time.perf_counter() - began < flags.seconds:
    t = clock()
    loss = step()
    times.append(clock() - t)
times.sort()
print(json.dumps({
    "case": flags.case, "library": "torch " + torch.__version__,
    "ms_min": round(times[0] * 1e3, 3),
    "ms_med": round(times[len(times) // 2] * 1e3, 3), "steps": len(times),
    "rss_growth_MB": round((memory("VmHWM") - before) / 2**20, 1),
    "params": sum(p.numel() for p in model.parameters()),
    "loss": round(loss, 4)}))
