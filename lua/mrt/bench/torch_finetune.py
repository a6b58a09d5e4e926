#!/usr/bin/env python3
"""torch_finetune.py -- time and memory of fine-tuning steps in PyTorch with peft

Prints one line of JSON for a case of `mrt bench finetune`: the same decoder by
transformers, gradient checkpointing, fused AdamW, peft's adapters on all linear layers;
in bf16 a bf16 base under autocast.  A step is taken, and its seconds printed, for each line
"step" that is read (turns.lua).

SPDX-License-Identifier: MIT"""
import argparse, json, os, sys, time

parser = argparse.ArgumentParser()
parser.add_argument("case", choices=["lora-bf16", "lora-f32", "full-f32", "full-bf16"])
parser.add_argument("--layers", type=int, default=30)
flags = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = "1"

import torch  # noqa: E402
import peft  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

torch.set_num_threads(1)
torch.manual_seed(1)
method, dtype = flags.case.split("-")


def status(key):
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith(key + ":"):
                return int(line.split()[1]) / 1024


base = status("VmRSS")
model = LlamaForCausalLM(LlamaConfig(
    vocab_size=49152, hidden_size=576, num_hidden_layers=flags.layers, num_attention_heads=9,
    num_key_value_heads=3, intermediate_size=1536, max_position_embeddings=512,
    tie_word_embeddings=True))
if dtype == "bf16" and method == "lora":
    model = model.to(torch.bfloat16)
model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
if method == "lora":
    model.enable_input_require_grads()
    model = peft.get_peft_model(model, peft.LoraConfig(r=8, lora_alpha=16,
                                                       target_modules="all-linear"))
model.train()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4,
                              fused=True)
ids = torch.randint(0, 49152, (4, 512))
while sys.stdin.readline() == "step\n":
    before = time.process_time()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bf16"):
        loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    loss.item()
    print("%.9f" % (time.process_time() - before), flush=True)
print(json.dumps({"growth": round(status("VmHWM") - base, 1)}))
