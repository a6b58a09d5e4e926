"""golden.py -- writes golden.json: what transformers makes of small encoders

    python spec/nn/encoder/golden.py > spec/nn/encoder/golden.json

Weights are by a formula that the spec knows too (`weight`), inputs by another: only results
are stored.  Of gradients there is the length and the product with the weights' formula; padding
has no part in the loss.
"""
import contextlib
import json
import os
import sys
import tempfile

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import (BertConfig, BertForMaskedLM, BertForSequenceClassification,
                          BertForTokenClassification, BertModel, DistilBertConfig,
                          DistilBertForMaskedLM, DistilBertForSequenceClassification, RobertaConfig,
                          RobertaForMaskedLM, RobertaForSequenceClassification, ViTConfig,
                          ViTForImageClassification, ViTModel, XLMRobertaConfig, XLMRobertaModel)

BERT = dict(vocab_size=23, hidden_size=16, num_hidden_layers=2, num_attention_heads=4,
            intermediate_size=24, max_position_embeddings=8)
DISTIL = dict(vocab_size=23, dim=16, n_layers=2, n_heads=2, hidden_dim=24,
              max_position_embeddings=8)
VIT = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=24,
           image_size=8, patch_size=4, num_channels=2, pooler_output_size=16)
CASES = {
    "bert_words": (BertForMaskedLM, BertConfig(**BERT)),
    "bert_classes": (BertForSequenceClassification,
                     BertConfig(**BERT, hidden_act="gelu_new", num_labels=3)),
    "bert_tokens": (BertForTokenClassification, BertConfig(**BERT, hidden_act="relu")),
    "bert": (BertModel, BertConfig(**BERT, layer_norm_eps=1e-5)),
    "distilbert_words": (DistilBertForMaskedLM, DistilBertConfig(**DISTIL)),
    "distilbert_classes": (DistilBertForSequenceClassification, DistilBertConfig(**DISTIL)),
    "roberta_words": (RobertaForMaskedLM, RobertaConfig(**BERT, type_vocab_size=1)),
    "roberta_classes": (RobertaForSequenceClassification,
                        RobertaConfig(**BERT, type_vocab_size=1, num_labels=4)),
    "xlm_roberta": (XLMRobertaModel, XLMRobertaConfig(**BERT)),
    "vit_classes": (ViTForImageClassification, ViTConfig(**VIT, num_labels=5)),
    "vit": (ViTModel, ViTConfig(**VIT, qkv_bias=False)),
}


def formula(count, k):
    """Element j of tensor k, both from 0."""
    return (((np.arange(count) * 7919 + k * 104729) % 1009) - 504) / 1260


def weight(name, k, shape):
    values = formula(int(np.prod(shape)), k)
    if "norm" in name.lower() and name.endswith("weight"):
        values = values + 1
    return torch.tensor(values.reshape(shape), dtype=torch.float32)


def inputs(name):
    if name.startswith("vit"):
        return {"pixel_values": torch.tensor(formula(2 * 2 * 8 * 8, 77).reshape(2, 2, 8, 8),
                                             dtype=torch.float32)}
    j = torch.arange(12).reshape(2, 6)
    mask = ((j != 4) & (j != 5) & (j != 11)).long()
    padding = 1 if "roberta" in name else 0
    given = {"input_ids": (2 + (j * 7 + 3) % 21) * mask + padding * (1 - mask), "attention_mask": mask}
    if name.startswith("bert"):
        given["token_type_ids"] = (j % 6 > 2).long()
    return given


def rounded(tensor):
    return [float(f"{x:.8g}") for x in tensor.detach().double().flatten().tolist()]


def case(name, kind, config):
    with tempfile.TemporaryDirectory() as folder:
        kind(config).save_pretrained(folder)
        path = os.path.join(folder, "model.safetensors")
        old = load_file(path)
        names = sorted(old)
        save_file({n: weight(n, k, old[n].shape) for k, n in enumerate(names)}, path,
                  metadata={"format": "pt"})
        model = kind.from_pretrained(folder).eval()
        out = model(**inputs(name))
        y = out.logits if "logits" in out else out.last_hidden_state
        pooled = out.get("pooler_output")
        factors = torch.tensor(formula(y.numel(), 5).reshape(y.shape))
        if y.dim() == 3 and not name.startswith("vit"):
            factors = factors * inputs(name)["attention_mask"][..., None]
        loss = (y * factors).sum()
        loss.backward()
        for p in model.parameters():
            p.data = p.grad if p.grad is not None else torch.zeros_like(p)
        model.save_pretrained(folder)
        grads = load_file(path)
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
            config = json.load(f)
    return {"config": config,
            "tensors": [[n, list(old[n].shape)] for n in names],
            "logits": rounded(y), "pooled": None if pooled is None else rounded(pooled),
            "grads": [rounded(torch.stack([
                grads[n].double().norm(),
                (grads[n].double().flatten() * torch.tensor(formula(grads[n].numel(), k))).sum()]))
                for k, n in enumerate(names)]}


def main():
    with contextlib.redirect_stdout(sys.stderr):
        cases = {name: case(name, *row) for name, row in CASES.items()}
    print("{" + ",\n".join(f"{json.dumps(n)}: {json.dumps(c)}" for n, c in cases.items()) + "}")


main()
