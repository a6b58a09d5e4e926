"""models_draw.py -- configurations that nobody wrote down, for `mrt bench models --random`

draw(name) gives the config class, its arguments and (of encoders) the class of the model for a
name such as `qwen2#17`; the same name gives the same draw.  `forms(...)` writes config.json in
another of the forms that published folders have.

SPDX-License-Identifier: MIT"""
import json, random

VOCAB, CONTEXT, TOKENS = 99, 64, 24

FAMILIES = {
    "gpt2": "GPT2Config", "llama": "LlamaConfig", "mistral": "MistralConfig",
    "mixtral": "MixtralConfig", "qwen2": "Qwen2Config", "qwen2_moe": "Qwen2MoeConfig",
    "qwen3": "Qwen3Config", "qwen3_moe": "Qwen3MoeConfig", "gemma": "GemmaConfig",
    "gemma2": "Gemma2Config", "gemma3": "Gemma3TextConfig", "phi": "PhiConfig",
    "phi3": "Phi3Config", "olmo": "OlmoConfig", "olmo2": "Olmo2Config", "neox": "GPTNeoXConfig",
    "opt": "OPTConfig", "bert": "BertConfig", "roberta": "RobertaConfig",
    "distilbert": "DistilBertConfig", "vit": "ViTConfig",
}
ACTS = ["silu", "gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "relu", "swish"]
ODD_ACTS = ["quick_gelu", "tanh", "relu2", "gelu_python", "mish", "gelu_accurate"]


def act(r):
    return r.choice(ODD_ACTS) if r.random() < 0.05 else r.choice(ACTS)


def eps(r):
    return r.choice([1e-12, 1e-6, 1e-5, 1e-3, 0.1])


def turns(r, width, context, kinds, base=None):
    """rope_parameters, or none."""
    kind = r.choice(kinds)
    if kind is None:
        return None
    out = dict(rope_type=kind, rope_theta=base or r.choice([100.0, 10000.0, 1e6, 12345.5]))
    if kind in ("linear", "dynamic", "yarn", "llama3"):
        out["factor"] = r.choice([1.0, 1.5, 2.0, 4.0, 8.0])
    short = r.choice([8, 16, context // 2, context])
    if kind == "llama3":
        low = r.choice([1.0, 2.0])
        out.update(low_freq_factor=low, high_freq_factor=low * r.choice([2.0, 4.0]),
                   original_max_position_embeddings=short)
    if kind == "yarn":
        if r.random() < 0.7:
            out["original_max_position_embeddings"] = short
        for name, values in dict(beta_fast=[8.0, 32.0], beta_slow=[0.5, 1.0], truncate=[False, True],
                                 attention_factor=[0.7, 1.2], mscale=[1.0, 0.7],
                                 mscale_all_dim=[0.5, 1.0]).items():
            if r.random() < 0.25:
                out[name] = r.choice(values)
    if kind == "longrope":
        out.update(short_factor=[round(r.uniform(1, 2), 3) for _ in range(width // 2)],
                   long_factor=[round(r.uniform(1, 5), 3) for _ in range(width // 2)],
                   original_max_position_embeddings=short)
        if r.random() < 0.3:
            out["attention_factor"] = r.choice([0.8, 1.3])
        if r.random() < 0.3:
            out["factor"] = r.choice([2.0, 4.0])
    return out


KINDS = [None, None, "default", "linear", "dynamic", "llama3", "yarn", "longrope"]


def plain(r, square=False):
    """Sizes; square: heads times head_dim is the width."""
    heads = r.choice([1, 2, 3, 4, 6])
    width = r.choice([2, 4, 6, 8, 10, 16])
    dim = heads * width if square else r.choice([heads * width, 2 * heads * r.choice([3, 5, 8])])
    return heads, width, dict(
        vocab_size=r.choice([VOCAB, 101, 128]), hidden_size=dim, num_hidden_layers=r.randint(1, 5),
        num_attention_heads=heads, max_position_embeddings=r.choice([TOKENS, 32, CONTEXT]),
        intermediate_size=r.choice([1, 7, 20, 48]))


def like_llama(r, family, square=False, kinds=KINDS):
    heads, width, o = plain(r, square)
    if not square:
        if o["hidden_size"] != heads * width or r.random() < 0.5:
            o["head_dim"] = width
    width = o.get("head_dim", o["hidden_size"] // heads)
    o["num_key_value_heads"] = r.choice([n for n in range(1, heads + 1) if heads % n == 0])
    o["rms_norm_eps"], o["tie_word_embeddings"] = eps(r), r.random() < 0.3
    o["hidden_act"] = act(r) if r.random() < 0.5 else "silu"
    given = turns(r, width, o["max_position_embeddings"], kinds)
    if given:
        o["rope_parameters"] = given
        if given["rope_type"] == "dynamic" and given["factor"] > 1 and r.random() < 0.7:
            o["max_position_embeddings"] = 16
    o["pad_token_id"], o["bos_token_id"], o["eos_token_id"] = None, None, r.choice([None, 0, 1])
    return o


def window(r, o):
    o["sliding_window"] = r.choice([None, 1, 2, 8, 23, 24, 100])


def types(r, o):
    o["layer_types"] = [r.choice(["sliding_attention", "full_attention"])
                        for _ in range(o["num_hidden_layers"])]


def experts(r, o, name):
    o[name], o["num_experts_per_tok"] = r.choice([1, 3, 4, 8]), 1
    o["num_experts_per_tok"] = r.randint(1, o[name])


def llama(r):
    o = like_llama(r, "llama")
    o.update(attention_bias=r.random() < 0.4, mlp_bias=r.random() < 0.4)
    return o


def mistral(r):
    o = like_llama(r, "mistral")
    window(r, o)
    return o


def mixtral(r):
    o = like_llama(r, "mixtral")
    window(r, o)
    experts(r, o, "num_local_experts")
    return o


def qwen(kind, moe=False):
    def make(r):
        o = like_llama(r, kind, square=kind == "qwen2")
        o["use_sliding_window"] = r.random() < 0.6
        window(r, o)
        if kind == "qwen2" or not moe:
            if o["sliding_window"] is None:
                o["use_sliding_window"] = False
            o["max_window_layers"] = r.randint(0, o["num_hidden_layers"])
            if r.random() < 0.4 and o["use_sliding_window"]:
                types(r, o)
        if kind == "qwen3":
            o["attention_bias"] = r.random() < 0.4
        if moe:
            experts(r, o, "num_experts")
            o.update(moe_intermediate_size=r.choice([8, 24]), norm_topk_prob=r.random() < 0.5,
                     decoder_sparse_step=r.choice([1, 1, 2, 3]),
                     mlp_only_layers=r.choice([[], [0], [1]]))
            if kind == "qwen2":
                o.update(shared_expert_intermediate_size=r.choice([8, 40]),
                         qkv_bias=r.random() < 0.6)
        return o
    return make


def gemma(kind):
    def make(r):
        o = like_llama(r, "gemma", kinds=KINDS if kind != "gemma3" else [None])
        o.setdefault("head_dim", o["hidden_size"] // o["num_attention_heads"])
        o["attention_bias"] = r.random() < 0.3
        o["tie_word_embeddings"] = r.random() < 0.8
        if kind == "gemma":
            return o
        name = o.pop("hidden_act")
        o["hidden_activation"] = name if r.random() < 0.3 else "gelu_pytorch_tanh"
        window(r, o)
        o["sliding_window"] = o["sliding_window"] or 8
        o["query_pre_attn_scalar"] = r.choice([8, 16, 24, 256])
        o["attn_logit_softcapping"] = r.choice([None, 1.0, 5.0, 50.0])
        o["final_logit_softcapping"] = r.choice([None, 2.0, 30.0])
        if r.random() < 0.5:
            types(r, o)
        if kind == "gemma3" and r.random() < 0.7:
            o["rope_parameters"] = {
                "full_attention": turns(r, o["head_dim"], o["max_position_embeddings"],
                                        ["default", "linear", "yarn", "llama3"]),
                "sliding_attention": turns(r, o["head_dim"], o["max_position_embeddings"],
                                           ["default", "default", "linear"])}
        return o
    return make


def partial(r, o, width, kinds):
    part = r.choice([p for p in (0.25, 0.4, 0.5, 0.75, 1.0) if int(width * p) >= 2 and int(width * p) % 2 == 0]
                    or [1.0])
    given = turns(r, int(width * part), o["max_position_embeddings"], kinds) or \
        dict(rope_type="default", rope_theta=10000.0)
    o["rope_parameters"] = dict(given, partial_rotary_factor=part)
    grows = given["rope_type"] == "dynamic" and given["factor"] > 1
    o["max_position_embeddings"] = 16 if grows else max(TOKENS, o["max_position_embeddings"])


def phi(r):
    o = like_llama(r, "phi", square=True)
    o.pop("rms_norm_eps")
    o["layer_norm_eps"], o["qk_layernorm"] = eps(r), r.random() < 0.4
    partial(r, o, o["hidden_size"] // o["num_attention_heads"],
            ["default", "linear", "dynamic", "yarn", "llama3"])
    return o


def phi3(r):
    o = like_llama(r, "phi3", square=True, kinds=["default"])
    window(r, o)
    width = o["hidden_size"] // o["num_attention_heads"]
    partial(r, o, width, ["default", "default", "longrope"])
    o["original_max_position_embeddings"] = r.choice([16, o["max_position_embeddings"]])
    if o["rope_parameters"]["rope_type"] == "longrope":
        o["rope_parameters"].pop("factor", None)
        o["rope_parameters"]["original_max_position_embeddings"] = \
            o["original_max_position_embeddings"]
    return o


def olmo(kind):
    def make(r):
        o = like_llama(r, kind, square=True)
        o["attention_bias"] = r.random() < 0.4
        if kind == "olmo":
            o.pop("rms_norm_eps")
            o["clip_qkv"] = r.choice([None, 0.1, 1.0, 8.0])
        return o
    return make


def neox(r):
    heads, width, o = plain(r, True)
    o.update(layer_norm_eps=eps(r), tie_word_embeddings=r.random() < 0.3, hidden_act=act(r),
             attention_bias=r.random() < 0.6, use_parallel_residual=r.random() < 0.6)
    partial(r, o, width, ["default", "default", "linear", "dynamic", "yarn"])
    return o


def opt(r):
    heads, width, o = plain(r, True)
    dim = o["hidden_size"]
    o["ffn_dim"] = o.pop("intermediate_size")
    o.update(activation_function=act(r), enable_bias=r.random() < 0.7,
             do_layer_norm_before=r.random() < 0.7, tie_word_embeddings=r.random() < 0.8,
             word_embed_proj_dim=r.choice([dim, dim, 20]), pad_token_id=r.choice([None, 1]),
             _remove_final_layer_norm=r.random() < 0.1,
             layer_norm_elementwise_affine=r.random() < 0.9)
    return o


def gpt2(r):
    heads, width, o = plain(r, True)
    return dict(vocab_size=o["vocab_size"], n_embd=o["hidden_size"], n_head=heads,
                n_layer=o["num_hidden_layers"], n_positions=o["max_position_embeddings"],
                n_inner=r.choice([None, 20, 48]), activation_function=act(r),
                layer_norm_epsilon=eps(r), scale_attn_weights=r.random() < 0.7,
                scale_attn_by_inverse_layer_idx=r.random() < 0.3,
                reorder_and_upcast_attn=r.random() < 0.2, tie_word_embeddings=r.random() < 0.8,
                bos_token_id=0, eos_token_id=0)


def encoder(kind):
    def make(r):
        heads, width, o = plain(r, True)
        o["max_position_embeddings"] = CONTEXT
        o.update(hidden_act=act(r), layer_norm_eps=eps(r), type_vocab_size=r.choice([1, 2, 3]),
                 num_labels=r.choice([1, 2, 5]))
        if kind == "bert" and o["type_vocab_size"] == 1:
            o["type_vocab_size"] = 2
        if kind == "roberta":
            o["type_vocab_size"], o["pad_token_id"] = 1, r.choice([0, 1, 2])
        return o
    return make


def distilbert(r):
    o = encoder("distilbert")(r)
    return dict(vocab_size=o["vocab_size"], dim=o["hidden_size"], n_heads=o["num_attention_heads"],
                n_layers=o["num_hidden_layers"], hidden_dim=o["intermediate_size"],
                max_position_embeddings=CONTEXT, activation=r.choice(["gelu", "relu"]),
                sinusoidal_pos_embds=r.random() < 0.2, num_labels=o["num_labels"])


def vit(r):
    o = encoder("vit")(r)
    for name in ("vocab_size", "type_vocab_size", "max_position_embeddings"):
        o.pop(name)
    o.update(image_size=16, patch_size=r.choice([2, 4, 8]), num_channels=3,
             qkv_bias=r.random() < 0.7, pooler_output_size=o["hidden_size"])
    return o


DRAWS = dict(
    gpt2=gpt2, llama=llama, mistral=mistral, mixtral=mixtral, qwen2=qwen("qwen2"),
    qwen2_moe=qwen("qwen2", True), qwen3=qwen("qwen3"), qwen3_moe=qwen("qwen3", True),
    gemma=gemma("gemma"), gemma2=gemma("gemma2"), gemma3=gemma("gemma3"), phi=phi, phi3=phi3,
    olmo=olmo("olmo"), olmo2=olmo("olmo2"), neox=neox, opt=opt, bert=encoder("bert"),
    roberta=encoder("roberta"), distilbert=distilbert, vit=vit)
TOPS = {
    "bert": ["BertForMaskedLM", "BertForSequenceClassification", "BertForTokenClassification"],
    "roberta": ["RobertaForMaskedLM", "RobertaForSequenceClassification",
                "RobertaForTokenClassification"],
    "distilbert": ["DistilBertForMaskedLM", "DistilBertForSequenceClassification",
                   "DistilBertForTokenClassification"],
    "vit": ["ViTForImageClassification"],
}


def names(count, seed):
    """As many names, the families in turn."""
    families = list(DRAWS)
    return ["%s#%d" % (families[i % len(families)], seed + i // len(families))
            for i in range(count)]


def draw(name):
    family = name.split("#")[0]
    r = random.Random(name)
    arguments = DRAWS[family](r)
    top = (r.choice(TOPS[family]),) if family in TOPS else ()
    return (FAMILIES[family], arguments, *top)


def old_form(values):
    """rope_parameters as rope_theta and rope_scaling, and the names of dtype of old."""
    given = values.pop("rope_parameters", None)
    if given and "full_attention" in given:
        full, local = given["full_attention"], given["sliding_attention"]
        if local.get("rope_type", "default") != "default":
            values["rope_parameters"] = given
            return values
        values["rope_local_base_freq"] = local["rope_theta"]
        given = full
    if given:
        given = dict(given)
        values["rope_theta"] = given.pop("rope_theta")
        part = given.pop("partial_rotary_factor", None)
        if part is not None:
            values["partial_rotary_factor"] = part
        if given.get("rope_type", "default") != "default":
            values["rope_scaling"] = given
    if "dtype" in values:
        values["torch_dtype"] = values.pop("dtype")
    return values


def forms(name, path, config):
    """Write config.json anew, as an older program would, or without what is the default; where
    transformers itself reads it as another config, it stays as it was."""
    r = random.Random(name + " form")
    kind = r.choice(["new", "old", "short", "old short"])
    with open(path) as f:
        text = f.read()
    values = json.loads(text)
    if "short" in kind:
        usual = type(config)().to_dict()
        keep = {"model_type", "architectures", "hidden_size", "num_hidden_layers", "vocab_size",
                "num_attention_heads", "intermediate_size", "id2label", "label2id"}
        values = {k: v for k, v in values.items() if k in keep or k not in usual or usual[k] != v}
    if "old" in kind:
        values = old_form(values)
    with open(path, "w") as f:
        json.dump(values, f)
    same = lambda c: {k: v for k, v in c.to_dict().items() if "version" not in k}
    try:
        if same(type(config).from_pretrained(path.rsplit("/", 1)[0])) == json.loads(
                json.dumps(same(type(config).from_dict(json.loads(text)))), object_hook=numbered):
            return kind
    except Exception:
        pass
    with open(path, "w") as f:
        f.write(text)
    return "new"


def numbered(d):
    return {int(k) if k.isdigit() else k: v for k, v in d.items()}
