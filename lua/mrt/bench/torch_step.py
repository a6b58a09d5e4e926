#!/usr/bin/env python3
"""torch_step.py -- time and memory of one training step in PyTorch

Prints one line of JSON for a case of `mrt bench step`: the same model, optimizer and
shapes (torch_models.py); in bf16 or f16 by autocast around the forward pass and the loss
(f16: the loss scaled as GradScaler does).  --peer is how its users would run it:

    eager                  as PyTorch is by default
    fused                  the optimizer's fused kernel, or foreach where it has none
    compile                that, and forward pass and loss by torch.compile
    channels-last          fused, weights and images with the channels last
    compile-channels-last  compiled, and so

torch.compile wants a C++ compiler.  With --in-turn a step is taken, and its seconds printed,
for each line "step" that is read (turns.lua).

SPDX-License-Identifier: MIT"""
import argparse, json, os, sys, time

PEERS = ("eager", "fused", "compile", "channels-last", "compile-channels-last")

parser = argparse.ArgumentParser()
parser.add_argument("case")
parser.add_argument("--peer", choices=PEERS, default="eager")
parser.add_argument("--seconds", type=float, default=8.0)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--cpu", action="store_true", help="processor time")
parser.add_argument("--in-turn", action="store_true", help="steps as they are asked for")
parser.add_argument("--precision", choices=["f32", "bf16", "f16"], default="f32")
parser.add_argument("--warmup", type=int, default=3)
flags = parser.parse_args()
os.environ.setdefault("OMP_NUM_THREADS", str(flags.threads))

import torch, torch.nn.functional as F  # noqa: E402

import torch_models  # noqa: E402

torch.set_num_threads(flags.threads)
torch.manual_seed(1)
if flags.case not in torch_models.CASES:
    sys.exit("torch_step.py: no case '%s'" % flags.case)


def memory(name):
    for line in open("/proc/self/status"):
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024


def optimizer_of(kind, params, options):
    if flags.peer == "eager":
        return kind(params, **options)
    try:
        return kind(params, fused=True, **options)
    except (RuntimeError, TypeError):
        return kind(params, foreach=True, **options)


torch.zeros(4, 4) @ torch.zeros(4, 4)
before = memory("VmRSS")
try:
    open("/proc/self/clear_refs", "w").write("5")
except OSError:
    pass
model, kind, options, x, y = torch_models.build(flags.case)
if flags.peer.endswith("channels-last"):
    model = model.to(memory_format=torch.channels_last)
    x = x.contiguous(memory_format=torch.channels_last)
opt = optimizer_of(kind, model.parameters(), options)
NARROW = {"f32": None, "bf16": torch.bfloat16, "f16": torch.float16}[flags.precision]
scaler = torch.amp.GradScaler("cpu", enabled=NARROW is torch.float16)


def loss_of(x, y):
    with torch.autocast("cpu", dtype=NARROW, enabled=NARROW is not None):
        z = model(x)
        return F.cross_entropy(z.reshape(-1, z.shape[-1]), y.reshape(-1))


if flags.peer.startswith("compile"):
    loss_of = torch.compile(loss_of)


def step():
    opt.zero_grad(set_to_none=True)
    loss = loss_of(x, y)
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    return loss.item()


for _ in range(flags.warmup):
    step()
clock = time.process_time if flags.cpu else time.perf_counter
times, began = [], time.perf_counter()


def timed():
    t = clock()
    loss = step()
    times.append(clock() - t)
    return loss


loss = 0.0
if flags.in_turn:
    while sys.stdin.readline() == "step\n":
        loss = timed()
        print("%.9f" % times[-1], flush=True)
else:
    while len(times) < 5 or time.perf_counter() - began < flags.seconds:
        loss = timed()
times.sort()
print(json.dumps({
    "case": flags.case, "peer": flags.peer, "library": "torch " + torch.__version__,
    "ms_min": round(times[0] * 1e3, 3),
    "ms_med": round(times[len(times) // 2] * 1e3, 3), "steps": len(times),
    "rss_growth_MB": round((memory("VmHWM") - before) / 2**20, 1),
    "params": sum(p.numel() for p in model.parameters()),
    "loss": round(loss, 4)}))
