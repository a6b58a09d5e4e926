"""golden.py -- what transformers computes of small models of each family: golden.lua

    python spec/pretrained/golden.py

Wants torch and transformers.  The cases are those of `mrt bench models`, with numbers that
follow from a formula that the spec knows too.  What is kept of each is config.json, the
logits of the last position of two rows, the loss, and of the gradient of each tensor of the
file, in order of their names, its norm and a sum of its numbers, each times a weight.

SPDX-License-Identifier: MIT
"""
import json
import os
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE + "/../../lua/mrt/bench")
import models

VOCAB, TIME = 40, 20
IDLE = {"transformers_version", "architectures", "use_cache", "initializer_range", "dtype",
        "attention_dropout", "hidden_dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop",
        "output_router_logits", "router_aux_loss_coef", "bos_token_id", "eos_token_id"}


def numbers(name, shape):
    n = 1
    for d in shape:
        n *= d
    i = torch.arange(n, dtype=torch.int64)
    x = ((i * i * 3 + i * 37 + sum(name.encode()) * 11) % 101 - 50).float() / 256
    norm = len(shape) == 1 and name.endswith("weight")
    return (x * 0.5 + 1 if norm else x).reshape(shape)


def weighted(x):
    i = torch.arange(x.numel(), dtype=torch.int64)
    return float((x.reshape(-1).double() * ((i * 13) % 17 - 8).double()).sum())


def made(name, folder):
    config = models.config(name)
    config.vocab_size = VOCAB
    model = transformers.AutoModelForCausalLM.from_config(config).float()
    model.save_pretrained(folder)
    tensors = load_file(folder + "/model.safetensors")
    save_file({k: numbers(k, v.shape) for k, v in tensors.items()},
              folder + "/model.safetensors", {"format": "pt"})
    return transformers.AutoModelForCausalLM.from_pretrained(folder).float().eval()


def lua(values):
    return "{ " + ", ".join("%.8g" % v for v in values) + " }"


def case(name, folder):
    model = made(name, folder)
    tokens = (torch.arange(2 * TIME).reshape(2, TIME) * 7 + 3) % VOCAB
    tokens[1] = (tokens[1] * 3 + 1) % VOCAB
    logits = model(tokens).logits
    loss = models.loss_of(torch, logits, tokens)
    loss.backward()
    for p in model.parameters():
        p.data = p.grad.clone() if p.grad is not None else torch.zeros_like(p)
    config = json.load(open(folder + "/config.json"))
    model.save_pretrained(folder)
    gradients = load_file(folder + "/model.safetensors")
    order = sorted(gradients)
    text = json.dumps({k: v for k, v in config.items() if k not in IDLE})
    return "[%s] = { config = [==[%s]==],\n  logits = %s,\n  loss = %.8g,\n  norms = %s,\n" \
           "  sums = %s },\n" % (
               json.dumps(name), text, lua(logits[:, -1].reshape(-1).tolist()), float(loss),
               lua([float(gradients[k].double().norm()) for k in order]),
               lua([weighted(gradients[k]) for k in order]))


transformers.logging.set_verbosity_error()
with open(HERE + "/golden.lua", "w") as out, tempfile.TemporaryDirectory() as root:
    out.write("-- golden.lua -- written by golden.py\n-- luacheck: ignore 631\nreturn {\n")
    for i, name in enumerate(models.CASES):
        out.write(case(name, "%s/%d" % (root, i)))
    out.write("}\n")
