"""golden_peft.py -- what peft computes of small models with adapters: golden_peft.lua

    python spec/pretrained/golden_peft.py

Wants torch, transformers and peft.  Numbers of models and adapters follow from a formula
that the spec knows too.  What is kept of each case is config.json, the keys of
adapter_config.json that say something, the shapes of the adapter's tensors, and the logits
of the last position.

SPDX-License-Identifier: MIT
"""
import json
import os
import tempfile

import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

VOCAB, TIME = 24, 9
COMMON = {"vocab_size": VOCAB, "hidden_size": 16, "num_hidden_layers": 2,
          "num_attention_heads": 4, "intermediate_size": 24, "max_position_embeddings": 32}
CASES = {
    "llama": ("llama", dict(COMMON, num_key_value_heads=2, tie_word_embeddings=True),
              dict(r=3, lora_alpha=6, target_modules="all-linear")),
    "llama, patterns": ("llama", dict(COMMON, num_key_value_heads=2, tie_word_embeddings=False),
                        dict(r=2, lora_alpha=5, target_modules=["q_proj", "down_proj"],
                             rank_pattern={"down_proj": 4}, alpha_pattern={"q_proj": 3},
                             use_rslora=True, layers_to_transform=[1])),
    "gpt2": ("gpt2", {"vocab_size": VOCAB, "n_embd": 16, "n_layer": 2, "n_head": 4,
                      "n_positions": 32},
             dict(r=3, lora_alpha=6, target_modules=["c_attn", "c_proj"], fan_in_fan_out=True)),
    "gpt_neox": ("gpt_neox", dict(COMMON, rotary_pct=0.5),
                 dict(r=3, lora_alpha=4, target_modules=["query_key_value", "dense"])),
}
IDLE = {"transformers_version", "architectures", "use_cache", "initializer_range", "dtype",
        "attention_dropout", "hidden_dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop",
        "classifier_dropout", "bos_token_id", "eos_token_id", "pad_token_id"}


def numbers(name, shape):
    n = 1
    for d in shape:
        n *= d
    i = torch.arange(n, dtype=torch.int64)
    x = ((i * i * 3 + i * 37 + sum(name.encode()) * 11) % 101 - 50).float() / 256
    norm = len(shape) == 1 and name.endswith("weight")
    return (x * 0.5 + 1 if norm else x).reshape(shape)


def rewrite(path):
    tensors = {k: numbers(k, v.shape) for k, v in load_file(path).items()}
    save_file(tensors, path, {"format": "pt"})
    return tensors


def case(name, folder):
    kind, config, lora = CASES[name]
    model = transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.for_model(kind, **config)).float()
    model.save_pretrained(folder)
    rewrite(folder + "/model.safetensors")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).float()
    peft.get_peft_model(model, peft.LoraConfig(**lora)).save_pretrained(folder + "/adapter")
    adapters = rewrite(folder + "/adapter/adapter_model.safetensors")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).float()
    model = peft.PeftModel.from_pretrained(model, folder + "/adapter").eval()
    tokens = (torch.arange(2 * TIME).reshape(2, TIME) * 7 + 3) % VOCAB
    logits = model(input_ids=tokens).logits[:, -1].reshape(-1).tolist()
    base = json.load(open(folder + "/config.json"))
    said = json.load(open(folder + "/adapter/adapter_config.json"))
    if isinstance(said["target_modules"], list):
        said["target_modules"].sort()
    shapes = ", ".join("[%s] = { %d, %d }" % (json.dumps(k), *v.shape)
                       for k, v in sorted(adapters.items()))
    return "[%s] = { config = [==[%s]==],\n  adapter = [==[%s]==],\n  shapes = { %s },\n" \
           "  logits = { %s } },\n" % (
               json.dumps(name), json.dumps({k: v for k, v in base.items() if k not in IDLE}),
               json.dumps({k: v for k, v in said.items() if v or k == "lora_dropout"}), shapes,
               ", ".join("%.7g" % v for v in logits))


if __name__ == "__main__":
    with open(os.path.dirname(os.path.abspath(__file__)) + "/golden_peft.lua", "w") as out:
        out.write("-- golden_peft.lua -- written by golden_peft.py\n-- luacheck: ignore 631\n"
                  "return {\n")
        for one in sorted(CASES):
            with tempfile.TemporaryDirectory() as place:
                out.write(case(one, place))
        out.write("}\n")
