#!/usr/bin/env python3
"""generate.py -- the other sides of `mrt bench generate`: transformers, llama.cpp

Prints one line: processor time of a token (the median) and of one of the prompt, seconds
on one thread, and bytes (0: not known).  Weights are random.

SPDX-License-Identifier: MIT"""
import argparse, os, tempfile, time

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")
parser = argparse.ArgumentParser()
parser.add_argument("side", choices=["transformers", "llama"])
parser.add_argument("kind")
parser.add_argument("--context", type=int, default=512)
parser.add_argument("--count", type=int, default=48)
flags = parser.parse_args()

LAYERS, DIM, HEADS, KEYS, HIDDEN, VOCAB = 30, 576, 9, 3, 1536, 49152
WIDTH = DIM // HEADS
prompt = [(i + 1) * 7919 % VOCAB for i in range(flags.context - flags.count)]


def run(first, following):
    """Times of `first(prompt)` and of `following(id)`, each of which gives an id."""
    before = time.process_time()
    token = first(prompt)
    prefill = (time.process_time() - before) / len(prompt)
    times = []
    for _ in range(flags.count - 1):
        before = time.process_time()
        token = following(token)
        times.append(time.process_time() - before)
    print(f"token {sorted(times)[(len(times) - 1) // 2]:.6f} prefill {prefill:.6f} bytes 0")


def transformers_side():
    import torch
    from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM
    torch.set_num_threads(1)
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[flags.kind]
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCAB, hidden_size=DIM, intermediate_size=HIDDEN, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=KEYS, max_position_embeddings=2048,
        tie_word_embeddings=True)).to(dtype).eval()
    cache = DynamicCache()

    @torch.inference_mode()
    def step(ids):
        y = model(torch.tensor([ids]), past_key_values=cache, use_cache=True, logits_to_keep=1)
        return int(y.logits[0, -1].argmax())

    run(step, lambda token: step([token]))


def write_gguf(path):
    """A model without a vocabulary; matrices of the kind, norms in f32."""
    import gguf, numpy as np
    from gguf.quants import quantize
    kind = {"f32": "F32", "bf16": "BF16", "int8": "Q8_0", "q8_0": "Q8_0", "q4_0": "Q4_0"}
    kind = gguf.GGMLQuantizationType[kind[flags.kind.split("/")[0]]]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(2048)
    writer.add_embedding_length(DIM)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEYS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(100000.0)
    writer.add_rope_dimension_count(WIDTH)
    writer.add_vocab_size(VOCAB)
    writer.add_tokenizer_model("none")
    draw = np.random.default_rng(0)

    def matrix(name, *shape):
        x = draw.standard_normal(shape, dtype=np.float32) * 0.02
        writer.add_tensor(name, quantize(x, kind), raw_dtype=kind)

    def norm(name):
        writer.add_tensor(name, np.ones(DIM, dtype=np.float32))

    matrix("token_embd.weight", VOCAB, DIM)
    norm("output_norm.weight")
    for i in range(LAYERS):
        at = f"blk.{i}."
        norm(at + "attn_norm.weight")
        norm(at + "ffn_norm.weight")
        matrix(at + "attn_q.weight", DIM, DIM)
        matrix(at + "attn_k.weight", KEYS * WIDTH, DIM)
        matrix(at + "attn_v.weight", KEYS * WIDTH, DIM)
        matrix(at + "attn_output.weight", DIM, DIM)
        matrix(at + "ffn_gate.weight", HIDDEN, DIM)
        matrix(at + "ffn_up.weight", HIDDEN, DIM)
        matrix(at + "ffn_down.weight", DIM, HIDDEN)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def llama_side():
    import numpy as np
    from llama_cpp import Llama
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.gguf")
        write_gguf(path)
        model = Llama(path, n_ctx=flags.context, n_threads=1, n_threads_batch=1, use_mmap=False,
                      verbose=False)

        def step(ids):
            model.eval(ids)
            return int(np.argmax(model.scores[model.n_tokens - 1 if model._logits_all else 0]))

        run(step, lambda token: step([token]))


transformers_side() if flags.side == "transformers" else llama_side()
