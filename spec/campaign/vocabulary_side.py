# vocabulary_side.py -- the cases of vocabulary.lua, computed by PyTorch
#
#     python3 vocabulary_side.py CASES.json INPUTS.safetensors RESULTS.safetensors ANSWERS.lua
#
# A case is an expression of tensors a, b, c ...  Floats are computed in f64 unless
# the case says `as_given`.  ANSWERS.lua returns by case the kinds of its results, or
# why it was refused.
#
# SPDX-License-Identifier: MIT

import json
import math
import sys
import warnings

import torch
import torch.nn.functional as F

from torch_side import load, save

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def kind(t):
    if t.dtype == torch.bool:
        return "bool"
    return "float" if t.is_floating_point() else "integer"


def listed(y):
    if isinstance(y, torch.Tensor):
        return [y]
    if isinstance(y, (bool, int, float)):
        return [torch.tensor(y, dtype=torch.float64 if isinstance(y, float) else None)]
    return [t for t in y if t is not None]


def compute(case, given, results):
    name = "c%d." % case["id"]
    x = [given[name + "i%d" % (k + 1)] for k in range(case["inputs"])]
    if not case["as_given"]:
        x = [t.double() if t.is_floating_point() else t for t in x]
    x = [t.requires_grad_() if k + 1 in case["reals"] else t for k, t in enumerate(x)]
    names = {"torch": torch, "F": F, "math": math}
    names.update(zip(LETTERS, x))
    y = listed(eval(case["call"], names))[:case["results"]]
    mine = {name + "o%d" % (k + 1): t for k, t in enumerate(y)}
    ys = [y[k - 1] for k in case["grad"]]
    if ys and any(t.requires_grad for t in ys):
        dys = [given[name + "d%d" % k].to(y[k - 1].dtype) for k in case["grad"]]
        pairs = [(t, d) for t, d in zip(ys, dys) if t.requires_grad]
        dx = torch.autograd.grad([t for t, _ in pairs], [x[k - 1] for k in case["reals"]],
                                 [d for _, d in pairs], allow_unused=True)
        for k, t in zip(case["reals"], dx):
            mine[name + "g%d" % k] = torch.zeros_like(x[k - 1]) if t is None else t
    results.update(mine)
    return "kinds={%s}" % ",".join('"%s"' % kind(t) for t in y)


def main(cases, inputs, out, answers):
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    given, results, lines = load(inputs), {}, []
    for case in json.load(open(cases)):
        try:
            told = compute(case, given, results)
        except Exception as e:
            told = "refused=%s" % json.dumps(str(e).split("\n")[0][:160], ensure_ascii=True)
        lines.append("[%d]={%s}," % (case["id"], told))
    with open(answers, "w") as f:
        f.write("return {\n%s\n}\n" % "\n".join(lines))
    save(out, results)


main(*sys.argv[1:5])
