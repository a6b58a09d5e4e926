#!/usr/bin/env python3
"""models.py -- the other side of `mrt bench models`: random models of each family

    models.py make FOLDER [NAME...]   folders of transformers, with what they compute
    models.py back FOLDER [NAME...]   reads FOLDER/NAME.back, and compares its logits
    models.py draw COUNT SEED         names of random configurations (models_draw.py)

Of each name: NAME, the model in f32; NAME.bf16, the same rounded; NAME.grad, whose
weights are the gradients of the loss; NAME.ref.safetensors, what it reads, and logits.  The loss
is the mean cross entropy of each next token; of encoders, the logits times factors.

SPDX-License-Identifier: MIT"""
import copy, sys

import models_draw

VOCAB, DIM, LAYERS, CONTEXT = 99, 32, 3, 64
READ = ("input_ids", "attention_mask", "token_type_ids", "pixel_values")
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

BERT = dict(BASE, type_vocab_size=2)
DISTIL = dict(vocab_size=VOCAB, dim=DIM, n_layers=LAYERS, n_heads=4, hidden_dim=48,
              max_position_embeddings=CONTEXT)
VIT = dict(hidden_size=DIM, num_hidden_layers=LAYERS, num_attention_heads=4, intermediate_size=48,
           image_size=16, patch_size=4, pooler_output_size=DIM)
# name: config class, its arguments, class of the model
ENCODERS = {
    "bert": ("BertConfig", BERT, "BertForMaskedLM"),
    "bert classes": ("BertConfig", dict(BERT, num_labels=5), "BertForSequenceClassification"),
    "roberta": ("RobertaConfig", dict(BASE, type_vocab_size=1), "RobertaForMaskedLM"),
    "roberta classes": ("RobertaConfig", dict(BASE, type_vocab_size=1, num_labels=3),
                        "RobertaForSequenceClassification"),
    "distilbert": ("DistilBertConfig", DISTIL, "DistilBertForMaskedLM"),
    "distilbert classes": ("DistilBertConfig", dict(DISTIL, num_labels=2),
                           "DistilBertForSequenceClassification"),
    "vit": ("ViTConfig", dict(VIT, num_labels=7), "ViTForImageClassification"),
}


def path(folder, name):
    return folder + "/" + name.replace(" ", "_")


def case(name):
    """Config class, its arguments, and of encoders the class of the model."""
    if "#" in name:
        return models_draw.draw(name)
    return CASES.get(name) or ENCODERS[name]


def is_encoder(name):
    return len(case(name)) > 2


def config(name):
    import transformers
    cls, arguments = case(name)[:2]
    return getattr(transformers, cls)(**copy.deepcopy(arguments))


def kind(name):
    import transformers
    return getattr(transformers, case(name)[2]) if is_encoder(name) \
        else transformers.AutoModelForCausalLM


def new(name):
    made = config(name)
    made._experts_implementation = "eager"  # of all sizes
    return kind(name)(made) if is_encoder(name) else kind(name).from_config(made)


def inputs(torch, name):
    """What a model reads, by transformers' names."""
    if name.startswith("vit"):
        return {"pixel_values": torch.randn(2, 3, 16, 16)}
    tokens = torch.randint(3, VOCAB, (2, 24))
    if not is_encoder(name):
        return {"input_ids": tokens}
    mask = torch.ones_like(tokens)
    mask[1, 17:] = 0
    padding = config(name).pad_token_id
    tokens[tokens == padding] = 7
    tokens[1, 17:] = padding
    read = {"input_ids": tokens, "attention_mask": mask}
    if name.startswith("bert"):
        read["token_type_ids"] = (torch.arange(24) > 9).long().repeat(2, 1)
    return read


def loss_of(torch, logits, tokens):
    rows = logits[:, :-1].reshape(-1, logits.shape[-1])
    return torch.nn.functional.cross_entropy(rows.float(), tokens[:, 1:].reshape(-1))


def make(folder, names):
    import torch
    from safetensors.torch import save_file
    for name in names:
        try:
            make_one(folder, name, torch, save_file)
            print(name.replace(" ", "_"), flush=True)
        except Exception as e:
            if "#" not in name:
                raise
            print(name, "not drawn:", str(e).split("\n")[0][:200], file=sys.stderr)


def make_one(folder, name, torch, save_file):
    torch.manual_seed(sum(name.encode()) if "#" in name else len(name))
    model = new(name).float().eval()
    for p in model.parameters():
        p.data += torch.randn_like(p) * 0.05
    where = path(folder, name)
    model.save_pretrained(where)
    read = inputs(torch, name)
    logits = model(**read).logits
    factors = torch.randn_like(logits)
    if "attention_mask" in read and logits.dim() == 3:
        factors = factors * read["attention_mask"][..., None]
    loss = (logits * factors).sum() if is_encoder(name) \
        else loss_of(torch, logits, read["input_ids"])
    loss.backward()
    close = nearby(torch, model, read, factors) if "#" in name else 0.0
    gradients = copy.deepcopy(model)
    for p, g in zip(gradients.parameters(), model.parameters()):
        p.data = g.grad.clone() if g.grad is not None else torch.zeros_like(p)
    gradients.save_pretrained(where + ".grad")
    narrow = copy.deepcopy(model).bfloat16()
    narrow.save_pretrained(where + ".bf16")
    own = narrow(**read).logits.float()
    kept = {n: x if x.is_floating_point() else x.int() for n, x in read.items()}
    save_file({**kept, "logits": logits.detach().clone(), "factors": factors,
               "nearby": torch.tensor(close),
               "bf16": own.detach().clone(),
               "rounded": narrow.float()(**read).logits.detach().clone()},
              where + ".ref.safetensors")
    if "#" in name:
        for end in ("", ".grad", ".bf16"):
            models_draw.forms(name, where + end + "/config.json", model.config)


def nearby(torch, model, read, factors):
    """How far gradients go when weights change by as much as f32 rounds them: as models.lua
    compares gradients.  Nobody can be asked to come closer."""
    other = copy.deepcopy(model)
    other.zero_grad()
    for p in other.parameters():
        p.data *= 1 + 6e-8 * torch.randn_like(p)
    logits = other(**read).logits
    loss = (logits * factors).sum() if "labels" in read or "attention_mask" in read or \
        "pixel_values" in read else loss_of(torch, logits, read["input_ids"])
    loss.backward()
    pairs = [(p.grad, q.grad) for p, q in zip(model.parameters(), other.parameters())
             if p.grad is not None]
    most = max(float(a.norm()) for a, _ in pairs)
    return max(float((a - b).norm()) / max(float(a.norm()), most / 1000) for a, b in pairs)


def back(folder, names):
    import transformers
    from safetensors.torch import load_file
    for name in names:
        where = path(folder, name)
        ref = load_file(where + ".ref.safetensors")
        try:
            saved = type(config(name)).from_pretrained(where + ".back")
            saved._experts_implementation = "eager"
            model, about = kind(name).from_pretrained(where + ".back", config=saved,
                                                      output_loading_info=True)
        except Exception as e:
            print(name.replace(" ", "_"), "refused:", str(e).split("\n")[0])
            continue
        read = {n: x if x.is_floating_point() else x.long() for n, x in ref.items()
                if n in READ}
        logits = model.eval()(**read).logits
        away = (logits - ref["logits"]).abs().max() / ref["logits"].abs().max()
        odd = [k for k, v in about.items() if v]
        print(name.replace(" ", "_"), "odd: " + ",".join(odd) if odd else "%.3g" % float(away))


if __name__ == "__main__":
    import transformers
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    wanted = sys.argv[3:]
    names = [n for n in (*CASES, *ENCODERS) if not wanted or n.replace(" ", "_") in wanted]
    names += [n for n in wanted if "#" in n]
    if sys.argv[1] == "draw":
        print(" ".join(models_draw.names(int(sys.argv[2]), int(sys.argv[3]))))
    else:
        {"make": make, "back": back}[sys.argv[1]](sys.argv[2], names)
