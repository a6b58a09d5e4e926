"""golden_gguf.py -- what llama.cpp's converter makes of small models: gguf_golden.lua

    LLAMA_CPP=folder of llama.cpp's sources python spec/pretrained/golden_gguf.py

Wants torch, transformers and gguf.  Of each architecture a model of two layers is made, whose
numbers follow from a formula that the spec knows too, and converted without its tokenizer.  What
is kept is config.json, names and shapes of its tensors, the converter's keys, and of each of its
tensors the shape and a sum of its numbers, each times its place.

SPDX-License-Identifier: MIT
"""
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers as t

sys.path.insert(0, os.environ["LLAMA_CPP"])
sys.path.insert(0, os.environ["LLAMA_CPP"] + "/gguf-py")
import gguf
from conversion import get_model_class
from conversion.base import ModelBase, TextModel

SMALL = dict(vocab_size=40, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, intermediate_size=48, max_position_embeddings=64)
LEARNED = dict(vocab_size=40, n_embd=32, n_layer=2, n_head=4, n_positions=64)
WHOLE = {k: v for k, v in SMALL.items() if k != "num_key_value_heads"}
LLAMA3 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0,
              high_freq_factor=4.0, original_max_position_embeddings=8192)
YARN = dict(rope_type="yarn", rope_theta=1e6, factor=4.0, original_max_position_embeddings=16)
LONG = dict(rope_type="longrope", rope_theta=1e4, short_factor=[1.0, 1.25, 1.5, 1.75],
            long_factor=[1.0, 2.0, 3.0, 4.0], original_max_position_embeddings=32)
EXPERTS = dict(num_experts=3, num_experts_per_tok=2, moe_intermediate_size=16,
               decoder_sparse_step=1)
CONFIGS = {
    "llama": t.LlamaConfig(**SMALL, rope_parameters=LLAMA3),
    "tied": t.LlamaConfig(**SMALL, tie_word_embeddings=True, attention_bias=True, mlp_bias=True),
    "mixtral": t.MixtralConfig(**SMALL, num_local_experts=3, num_experts_per_tok=2,
                               sliding_window=None),
    "qwen2": t.Qwen2Config(**SMALL, rope_parameters=YARN),
    "qwen3": t.Qwen3Config(**SMALL, head_dim=16),
    "qwen2_moe": t.Qwen2MoeConfig(**SMALL, **EXPERTS, shared_expert_intermediate_size=24),
    "qwen3_moe": t.Qwen3MoeConfig(**SMALL, **EXPERTS, head_dim=8, norm_topk_prob=True),
    "gemma": t.GemmaConfig(**SMALL, head_dim=8),
    "gemma2": t.Gemma2Config(**SMALL, head_dim=8, sliding_window=16, query_pre_attn_scalar=8),
    "gemma3_text": t.Gemma3TextConfig(**SMALL, head_dim=8, sliding_window=16,
                                      query_pre_attn_scalar=8),
    "gpt2": t.GPT2Config(**LEARNED),
    "gpt_neox": t.GPTNeoXConfig(**WHOLE, rotary_pct=0.25),
    "phi": t.PhiConfig(**{**WHOLE, "intermediate_size": 128}, partial_rotary_factor=0.5),
    "phi3": t.Phi3Config(**SMALL, pad_token_id=None, rope_parameters=LONG,
                         original_max_position_embeddings=32),
    "olmo": t.OlmoConfig(**SMALL, clip_qkv=2.0),
    "olmo2": t.Olmo2Config(**SMALL),
}
IDLE = ("general.name", "general.type", "general.size_label", "general.basename", "GGUF.",
        "general.quantization_version", "tokenizer.", "general.license", "general.file_type",
        "general.sampling", "general.finetune")


def number(name, count):
    """Multiples of 1/64 that depend on the name and the place."""
    seed = sum(name.encode())
    return ((np.arange(count, dtype=np.int64) * 37 + seed * 11) % 101 - 50).astype(np.float32) / 64


def weighted(x):
    x = x.astype(np.float64).ravel()
    return float((x * (np.arange(x.size) % 97 + 1)).sum())


# fields that the converter wants in an older form
OLDER = dict(gpt2=dict(n_ctx=64), gpt_neox=dict(rotary_pct=0.25))
load_hparams = ModelBase.load_hparams


def convert(folder, config):
    older = OLDER.get(config.model_type, {})
    ModelBase.load_hparams = staticmethod(lambda *a, **k: {**load_hparams(*a, **k), **older})
    kind = get_model_class(config.architectures[0])
    kind.set_vocab = TextModel._set_vocab_none
    out = Path(folder) / "out.gguf"
    with torch.inference_mode():
        kind(Path(folder), gguf.LlamaFileType.ALL_F32, out).write()
    return gguf.GGUFReader(out)


def make(config):
    model = t.AutoModelForCausalLM.from_config(config)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        from safetensors.numpy import load_file, save_file

        tensors = load_file(folder + "/model.safetensors")
        shapes = {k: list(v.shape) for k, v in tensors.items()}
        save_file({k: number(k, v.size).reshape(v.shape) for k, v in tensors.items()},
                  folder + "/model.safetensors", {"format": "pt"})
        if config.model_type == "gemma3_text":  # its converter asks how many tokens there are
            words = {"model": {"vocab": {str(i): i for i in range(40)}}, "added_tokens": []}
            Path(folder, "tokenizer.json").write_text(json.dumps(words))
        read = convert(folder, model.config)
        text = json.loads(Path(folder, "config.json").read_text())
        keys = {k: f.contents() for k, f in read.fields.items() if not k.startswith(IDLE)}
        sums = {x.name: [[int(d) for d in reversed(x.shape)], weighted(np.array(x.data))]
                for x in read.tensors}
    return dict(config=text, shapes=shapes, keys=keys, tensors=sums)


def lua(value):
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, list):
        return "{" + ",".join(lua(v) for v in value) + "}"
    return "{" + ",".join(f"[{lua(k)}]={lua(v)}" for k, v in value.items()) + "}"


def main():
    out = ["-- gguf_golden.lua -- written by golden_gguf.py", "-- luacheck: ignore 631", "return {"]
    for name, config in CONFIGS.items():
        one = make(config)
        one["config"] = json.dumps(one["config"])
        out.append(f"{name} = {{ config = {lua(one['config'])},")
        out.append(f"  shapes = {lua(one['shapes'])},")
        out.append(f"  keys = {lua(one['keys'])},")
        out.append(f"  tensors = {lua(one['tensors'])} }},")
    out.append("}")
    Path("spec/pretrained/gguf_golden.lua").write_text("\n".join(out) + "\n")


main()
