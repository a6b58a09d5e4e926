#!/usr/bin/env python3
"""models.py -- the other side of `mrt bench models`: random models of each family

    models.py make FOLDER [NAME...]   folders of transformers, with what they compute
    models.py back FOLDER [NAME...]   reads FOLDER/NAME.back, and compares its logits

Of each name: NAME, the model in f32; NAME.bf16, the same rounded; NAME.grad, whose
weights are the gradients of the loss; NAME.ref.safetensors, tokens and logits.  The loss
is the mean cross entropy of each next token.

SPDX-License-Identifier: MIT"""
import copy, math, sys

VOCAB, DIM, LAYERS, CONTEXT = 99, 32, 3, 64
BASE = dict(vocab_size=VOCAB, hidden_size=DIM, num_hidden_layers=LAYERS, num_attention_heads=4,
            max_position_embeddings=CONTEXT, intermediate_size=48)
GROUPED = dict(BASE, num_key_value_heads=2)


def scaled(kind, **more):
    return dict(rope_type=kind, rope_theta=10000.0, **more)


# name: config class, its arguments
CASES = {
    "gpt2": ("GPT2Config", dict(vocab_size=VOCAB, n_embd=DIM, n_layer=LAYERS, n_head=4,
                                n_positions=CONTEXT, bos_token_id=0, eos_token_id=0)),
    "llama": ("LlamaConfig", GROUPED),
    "llama tied": ("LlamaConfig", dict(GROUPED, tie_word_embeddings=True, attention_bias=True,
                                       mlp_bias=True)),
    "llama3": ("LlamaConfig", dict(GROUPED, rope_parameters=scaled(
        "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=16))),
    "llama linear": ("LlamaConfig", dict(GROUPED, rope_parameters=scaled("linear", factor=4.0))),
    "llama dynamic": ("LlamaConfig", dict(GROUPED, max_position_embeddings=16,
                                          rope_parameters=scaled("dynamic", factor=4.0))),
    "llama yarn": ("LlamaConfig", dict(GROUPED, rope_parameters=scaled(
        "yarn", factor=4.0, original_max_position_embeddings=16))),
    "smollm": ("LlamaConfig", dict(BASE, hidden_size=36, num_attention_heads=9,
                                   num_key_value_heads=3, tie_word_embeddings=True)),
    "mistral": ("MistralConfig", dict(GROUPED, sliding_window=8)),
    "mixtral": ("MixtralConfig", dict(GROUPED, num_local_experts=4, num_experts_per_tok=2)),
    "qwen2": ("Qwen2Config", dict(GROUPED, use_sliding_window=True, sliding_window=8,
                                  max_window_layers=1)),
    "qwen2_moe": ("Qwen2MoeConfig", dict(GROUPED, num_experts=6, num_experts_per_tok=2,
                                         moe_intermediate_size=24, decoder_sparse_step=2,
                                         shared_expert_intermediate_size=40)),
    "qwen3": ("Qwen3Config", dict(GROUPED, head_dim=16)),
    "qwen3_moe": ("Qwen3MoeConfig", dict(GROUPED, head_dim=16, num_experts=6,
                                         num_experts_per_tok=3, moe_intermediate_size=24,
                                         mlp_only_layers=[0], norm_topk_prob=True)),
    "gemma": ("GemmaConfig", dict(GROUPED, head_dim=16, pad_token_id=None)),
    "gemma2": ("Gemma2Config", dict(GROUPED, head_dim=16, pad_token_id=None, sliding_window=8,
                                    query_pre_attn_scalar=24, final_logit_softcapping=3.0,
                                    attn_logit_softcapping=5.0)),
    "gemma3": ("Gemma3TextConfig", dict(
        GROUPED, head_dim=16, pad_token_id=None, sliding_window=8,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters={"full_attention": dict(scaled("linear", factor=8.0), rope_theta=1e6),
                         "sliding_attention": scaled("default")})),
    "phi": ("PhiConfig", dict(GROUPED, qk_layernorm=True)),
    "phi3": ("Phi3Config", dict(GROUPED, pad_token_id=None, eos_token_id=0, sliding_window=10)),
    "phi3 long": ("Phi3Config", dict(
        GROUPED, pad_token_id=None, eos_token_id=0, original_max_position_embeddings=16,
        rope_parameters=scaled("longrope", short_factor=[1.0, 1.1, 1.2, 1.3],
                               long_factor=[1.0, 2.0, 3.0, 4.0],
                               original_max_position_embeddings=16))),
    "olmo": ("OlmoConfig", dict(GROUPED, clip_qkv=0.5, pad_token_id=None, eos_token_id=0)),
    "olmo2": ("Olmo2Config", dict(GROUPED, pad_token_id=None, eos_token_id=0)),
    "neox": ("GPTNeoXConfig", BASE),
    "neox serial": ("GPTNeoXConfig", dict(BASE, use_parallel_residual=False,
                                          attention_bias=False)),
    "opt": ("OPTConfig", dict(vocab_size=VOCAB, hidden_size=DIM, ffn_dim=48, pad_token_id=None,
                              num_hidden_layers=LAYERS, num_attention_heads=4,
                              max_position_embeddings=CONTEXT)),
    "opt 350m": ("OPTConfig", dict(vocab_size=VOCAB, hidden_size=DIM, ffn_dim=48,
                                   num_hidden_layers=LAYERS, num_attention_heads=4,
                                   pad_token_id=None, max_position_embeddings=CONTEXT,
                                   word_embed_proj_dim=20, do_layer_norm_before=False)),
}


def path(folder, name):
    return folder + "/" + name.replace(" ", "_")


def config(name):
    import transformers
    cls, arguments = CASES[name]
    return getattr(transformers, cls)(**copy.deepcopy(arguments))


def loss_of(torch, logits, tokens):
    rows = logits[:, :-1].reshape(-1, logits.shape[-1])
    return torch.nn.functional.cross_entropy(rows.float(), tokens[:, 1:].reshape(-1))


def make(folder, names):
    import torch, transformers
    from safetensors.torch import save_file
    for name in names:
        torch.manual_seed(len(name))
        model = transformers.AutoModelForCausalLM.from_config(config(name)).float().eval()
        for p in model.parameters():
            p.data += torch.randn_like(p) * 0.05
        where = path(folder, name)
        model.save_pretrained(where)
        tokens = torch.randint(0, VOCAB, (2, 24))
        logits = model(tokens).logits
        loss_of(torch, logits, tokens).backward()
        gradients = copy.deepcopy(model)
        for p, g in zip(gradients.parameters(), model.parameters()):
            p.data = g.grad.clone() if g.grad is not None else torch.zeros_like(p)
        gradients.save_pretrained(where + ".grad")
        narrow = copy.deepcopy(model).bfloat16()
        narrow.save_pretrained(where + ".bf16")
        own = narrow(tokens).logits.float()
        save_file({"tokens": tokens.int(), "logits": logits.detach().clone(),
                   "bf16": own.detach().clone(),
                   "rounded": narrow.float()(tokens).logits.detach().clone()},
                  where + ".ref.safetensors")


def back(folder, names):
    import transformers
    from safetensors.torch import load_file
    for name in names:
        where = path(folder, name)
        ref = load_file(where + ".ref.safetensors")
        try:
            model, about = transformers.AutoModelForCausalLM.from_pretrained(
                where + ".back", output_loading_info=True)
        except Exception as e:
            print(name.replace(" ", "_"), "refused:", str(e).split("\n")[0])
            continue
        logits = model.eval()(ref["tokens"].long()).logits
        away = (logits - ref["logits"]).abs().max() / ref["logits"].abs().max()
        odd = [k for k, v in about.items() if v]
        print(name.replace(" ", "_"), "odd: " + ",".join(odd) if odd else "%.3g" % float(away))


if __name__ == "__main__":
    import transformers
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    names = [n for n in CASES if not sys.argv[3:] or n.replace(" ", "_") in sys.argv[3:]]
    {"make": make, "back": back}[sys.argv[1]](sys.argv[2], names)
    if sys.argv[1] == "make":
        print(" ".join(n.replace(" ", "_") for n in names))
