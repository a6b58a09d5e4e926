# torch_side.py -- the cases of torch.lua, computed by PyTorch
#
#     python3 torch_side.py CASES.json INPUTS.safetensors RESULTS.safetensors
#
# Floats are computed in f64 whatever their dtype was, so that results are wanted
# values and not another rounding; integers stay what they are.  A case that PyTorch
# refuses has no results.
#
# SPDX-License-Identifier: MIT

import json
import math
import struct
import sys

import torch
import torch.nn.functional as F

DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16,
          "BF16": torch.bfloat16, "I64": torch.int64, "I32": torch.int32,
          "U8": torch.uint8, "BOOL": torch.bool}
OF_CAST = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16,
           "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32,
           "u8": torch.uint8, "bool": torch.bool}


def load(path):
    data = open(path, "rb").read()
    (n,) = struct.unpack("<Q", data[:8])
    out = {}
    for name, info in json.loads(data[8:8 + n]).items():
        if name == "__metadata__":
            continue
        first, last = info["data_offsets"]
        dtype = DTYPES[info["dtype"]]
        raw = bytearray(data[8 + n + first:8 + n + last])
        t = torch.frombuffer(raw, dtype=dtype) if raw else torch.empty(0, dtype=dtype)
        out[name] = t.reshape(info["shape"]).clone()
    return out


def save(path, tensors):
    head, parts, at = {}, [], 0
    for name, t in tensors.items():
        t = t.detach().contiguous()
        t = t.to(torch.float64) if t.is_floating_point() else t.to(torch.int64)
        raw = t.numpy().tobytes()
        kind = "F64" if t.is_floating_point() else "I64"
        head[name] = {"dtype": kind, "shape": list(t.shape),
                      "data_offsets": [at, at + len(raw)]}
        parts.append(raw)
        at += len(raw)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


def dim(o, name="dim", default=None):
    d = o.get(name, default)
    return d - 1 if d is not None and d > 0 else d


def dims(o, x):
    d = o.get("dim")
    if d is None:
        return tuple(range(x.dim()))
    d = d if isinstance(d, list) else [d]
    return tuple(v - 1 if v > 0 else v for v in d)


def reduce(f):
    def run(x, o):
        d = dims(o, x[0])
        return f(x[0], d, o.get("keepdim", False)) if d or x[0].dim() else f(x[0], (), False)
    return run


def total(x, d, keep):
    if not x.is_floating_point():
        x = x.to(torch.int64)
    return x.sum(d, keepdim=keep) if d else x.clone()


def product(x, d, keep):
    rank = x.dim()
    for one in sorted((v % rank for v in d), reverse=True):
        x = x.prod(one, keepdim=keep)
    return x


def truth(f):
    def run(x, d, keep):
        rank = x.dim()
        for one in sorted((v % rank for v in d), reverse=True):
            x = f(x, one, keepdim=keep)
        return x
    return run


def extreme(f):
    return lambda x, d, keep: f(x, d, keepdim=keep) if x.dim() else x.clone()


def place(f):
    def run(x, o):
        d = dim(o)
        flat = f(x[0], d, keepdim=o.get("keepdim", False) and d is not None)
        return flat.reshape([1] * x[0].dim()) if d is None and o.get("keepdim") else flat
    return run


def remainder(x, y):
    if x.is_floating_point():
        return torch.remainder(x, y)
    # x % 0 and the least % -1 end the process there; here both are 0
    safe = torch.where((y == 0) | (y == -1), torch.ones_like(y), y)
    return torch.where(y == 0, torch.zeros_like(x), torch.remainder(x, safe))


def pow_(x, y):
    return torch.pow(x.double(), y.double())


def first(x):   # channels last to PyTorch's order
    return x.permute(0, x.dim() - 1, *range(1, x.dim() - 1))


def last(y):
    return y.permute(0, *range(2, y.dim()), 1)


def pair(v, default):
    v = default if v is None else v
    return tuple(v) if isinstance(v, list) else (v, v)


def conv2d(x, o):
    return last(F.conv2d(first(x[0]), x[1], x[2] if len(x) > 2 else None,
                         pair(o.get("stride"), 1), pair(o.get("padding"), 0),
                         pair(o.get("dilation"), 1), o.get("groups", 1)))


def max_pool2d(x, o):
    k = pair(o["kernel"], 1)
    return last(F.max_pool2d(first(x[0]), k, pair(o.get("stride"), list(k)),
                             pair(o.get("padding"), 0), pair(o.get("dilation"), 1),
                             o.get("ceil_mode", False)))


def avg_pool2d(x, o):
    k = pair(o["kernel"], 1)
    return last(F.avg_pool2d(first(x[0]), k, pair(o.get("stride"), list(k)),
                             pair(o.get("padding"), 0), o.get("ceil_mode", False),
                             o.get("count_include_pad", True)))


def at(x, i):
    return x[i] if len(x) > i else None


def rms_norm(x, o):
    y = x[0] * torch.rsqrt((x[0] * x[0]).mean(-1, keepdim=True) + o.get("eps", 1e-5))
    return y if len(x) < 2 else y * x[1]


def batch_norm(x, o):
    flat = x[0].reshape(-1, x[0].shape[-1])
    y = (flat - flat.mean(0)) * torch.rsqrt(flat.var(0, unbiased=False) + o.get("eps", 1e-5))
    y = y.reshape(x[0].shape)
    y = y if len(x) < 2 else y * x[1]
    return y if len(x) < 3 else y + x[2]


def group_norm(x, o):
    return last(F.group_norm(first(x[0]), o["groups"], at(x, 1), at(x, 2), o.get("eps", 1e-5)))


def lstm_cell(x, o):
    i, f, g, out = (x[0] + x[1]).chunk(4, -1)
    i, f, g, out = torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(out)
    c = f * x[2] + i * g
    return [None, c, out * torch.tanh(c)]


def gru_cell(x, o):
    ar, az, an = x[0].chunk(3, -1)
    br, bz, bn = x[1].chunk(3, -1)
    r, z = torch.sigmoid(ar + br), torch.sigmoid(az + bz)
    n = torch.tanh(an + r * bn)
    return [None, (1 - z) * n + z * x[2]]


def attention(x, o):
    q, k, v = (t.transpose(1, 2) for t in x)
    T, S, D = q.shape[2], k.shape[2], q.shape[3]
    times = q.shape[1] // max(k.shape[1], 1)
    k, v = k.repeat_interleave(times, 1), v.repeat_interleave(times, 1)
    scale = o.get("scale", 0.0) or 1 / math.sqrt(D)
    s = q @ k.transpose(-1, -2) * scale
    if o.get("causal"):
        seen = torch.arange(S)[None, :] <= torch.arange(T)[:, None] + (S - T)
        s = s.masked_fill(~seen, -math.inf)
        none = ~seen.any(-1) if S else torch.ones(T, dtype=torch.bool)
        p = torch.softmax(s.masked_fill(none[:, None], 0.0), -1)
        p = p.masked_fill(none[:, None], 0.0)
    else:
        p = torch.softmax(s, -1)
    return (p @ v).transpose(1, 2)


def rope(x, o):
    x = x[0]
    T, D = x.shape[-3], x.shape[-1]
    turn = torch.arange(T, dtype=torch.float64) + o.get("offset", 0)
    speed = o.get("base", 1e4) ** (-2.0 * torch.arange(D // 2, dtype=torch.float64) / max(D, 1))
    angle = (turn[:, None] * speed)[:, None, :] * (-1 if o.get("inverse") else 1)
    c, s = torch.cos(angle), torch.sin(angle)
    if o.get("interleaved"):
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack([a * c - b * s, a * s + b * c], -1).flatten(-2)
    a, b = x[..., :D // 2], x[..., D // 2:]
    return torch.cat([a * c - b * s, a * s + b * c], -1)


def embedding_bag(x, o):
    mode = o.get("mode", "mean")
    if len(x) > 2:
        return F.embedding_bag(x[1].long(), x[0], x[2].long(), mode=mode)
    ids = x[1].long()
    y = F.embedding_bag(ids.reshape(-1, ids.shape[-1]), x[0], mode=mode)
    return y.reshape(*ids.shape[:-1], x[0].shape[1])


def cross_entropy(x, o):
    C = x[0].shape[-1]
    y = F.cross_entropy(x[0].reshape(-1, C), x[1].reshape(-1).long(), reduction="none",
                        ignore_index=o.get("ignore_index", -100),
                        label_smoothing=o.get("label_smoothing", 0.0))
    return y.reshape(x[1].shape)


def pad(x, o):
    d = dim(o) % x[0].dim()
    sides = [0] * (2 * x[0].dim())
    sides[2 * (x[0].dim() - 1 - d):2 * (x[0].dim() - d)] = o.get("before", 0), o.get("after", 0)
    return F.pad(x[0], sides)


def cumsum(x, o):
    d = dim(o)
    flip = (lambda t: t.flip(d)) if o.get("reverse") else (lambda t: t)
    return flip(torch.cumsum(flip(x[0]), d))


def slice_(x, o):
    d, f, l = dim(o), o.get("first", 1), o.get("last", -1)
    n = x[0].shape[d]
    f, l = f - 1 if f > 0 else n + f, l if l > 0 else n + l + 1
    return x[0].narrow(d, f, max(l - f, 0))


def global_norm(x, o):
    return torch.cat([t.reshape(-1) for t in x]).norm()


def arange(x, o):
    return torch.arange(o.get("start", 0), o["stop"], o.get("step", 1), dtype=torch.float64)


ONE = {"neg": torch.neg, "abs": torch.abs, "sign": torch.sign, "exp": torch.exp,
       "log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "reciprocal": torch.reciprocal,
       "sin": torch.sin, "cos": torch.cos, "tanh": torch.tanh, "sigmoid": torch.sigmoid,
       "relu": F.relu, "erf": torch.erf, "floor": torch.floor, "ceil": torch.ceil,
       "round": torch.round, "isnan": torch.isnan, "logical_not": torch.logical_not,
       "silu": F.silu, "copy": torch.clone, "detach": torch.clone,
       "softplus": lambda x: torch.logaddexp(x, torch.zeros_like(x))}
TWO = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": pow_,
       "maximum": torch.maximum, "minimum": torch.minimum, "remainder": remainder,
       "eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt,
       "ge": torch.ge, "logical_and": torch.logical_and, "logical_or": torch.logical_or,
       "matmul": torch.matmul}
OPERATORS = {
    "where": lambda x, o: torch.where(*x), "linear": lambda x, o: F.linear(*x),
    "gelu": lambda x, o: F.gelu(x[0], approximate=o.get("approximate", "none")),
    "cast": lambda x, o: x[0].to(OF_CAST[o["dtype"]]),
    "full": lambda x, o: torch.full(o["shape"], o["value"], dtype=torch.float64),
    "arange": arange, "conv2d": conv2d, "max_pool2d": max_pool2d, "avg_pool2d": avg_pool2d,
    "adaptive_avg_pool2d":
        lambda x, o: last(F.adaptive_avg_pool2d(first(x[0]), pair(o["size"], 1))),
    "softmax": lambda x, o: torch.softmax(x[0], dim(o, default=-1)),
    "log_softmax": lambda x, o: torch.log_softmax(x[0], dim(o, default=-1)),
    "cross_entropy": cross_entropy,
    "layer_norm": lambda x, o: F.layer_norm(x[0], x[0].shape[-1:], at(x, 1), at(x, 2),
                                            o.get("eps", 1e-5)),
    "rms_norm": rms_norm, "batch_norm": batch_norm, "group_norm": group_norm,
    "lstm_cell": lstm_cell, "gru_cell": gru_cell, "attention": attention, "rope": rope,
    "sum": reduce(total), "prod": reduce(product), "any": reduce(truth(torch.any)),
    "all": reduce(truth(torch.all)), "amax": reduce(extreme(torch.amax)),
    "amin": reduce(extreme(torch.amin)), "argmax": place(torch.argmax),
    "argmin": place(torch.argmin), "global_norm": global_norm,
    "cat": lambda x, o: torch.cat(x, dim(o, default=1)), "pad": pad, "cumsum": cumsum,
    "gather": lambda x, o: torch.gather(x[0], dim(o), x[1].long()),
    "scatter_add": lambda x, o: torch.scatter_add(x[0], dim(o), x[1].long(), x[2]),
    "embedding": lambda x, o: F.embedding(x[1].long(), x[0]), "embedding_bag": embedding_bag,
    "reshape": lambda x, o: x[0].reshape(o["shape"]),
    "permute": lambda x, o: x[0].permute([d - 1 if d > 0 else d for d in o["dims"]]),
    "transpose": lambda x, o: x[0].transpose(dim(o, "dim0"), dim(o, "dim1")),
    "expand": lambda x, o: x[0].expand(o["shape"]), "slice": slice_,
    "split": lambda x, o: list(x[0].split(o["size"], dim(o, default=1))),
}
OPERATORS.update({n: (lambda x, o, f=f: f(x[0])) for n, f in ONE.items()})
OPERATORS.update({n: (lambda x, o, f=f: f(x[0], x[1])) for n, f in TWO.items()})
AS_GIVEN = {"remainder", "cast"}    # jumps: computed in the inputs' own dtype


def compute(case, given, results):
    name = "c%d." % case["id"]
    x = [given[name + "i%d" % (k + 1)] for k in range(case["inputs"])]
    exact = case["op"] in AS_GIVEN and not case["grad"]
    x = [t.double() if t.is_floating_point() and not exact else t for t in x]
    if case["grad"]:
        x = [t.requires_grad_() if t.is_floating_point() else t for t in x]
    y = OPERATORS[case["op"]](x, case["options"])
    y = y if isinstance(y, (list, tuple)) else [y]
    for k, t in enumerate(y):
        if t is not None:
            results[name + "o%d" % (k + 1)] = t
    if case["grad"]:
        ys = [y[k - 1] for k in case["grad"]]
        dys = [given[name + "d%d" % k].double() for k in case["grad"]]
        reals = [k for k, t in enumerate(x) if t.requires_grad]
        dx = torch.autograd.grad(ys, [x[k] for k in reals], dys, allow_unused=True)
        for k, t in zip(reals, dx):
            results[name + "g%d" % (k + 1)] = torch.zeros_like(x[k]) if t is None else t


def main(cases, inputs, out):
    torch.set_num_threads(1)
    given, results = load(inputs), {}
    for case in json.load(open(cases)):
        case["options"] = case["options"] or {}
        if case["op"] not in OPERATORS:
            continue
        mine = {}
        try:
            compute(case, given, mine)
            results.update(mine)
        except (RuntimeError, IndexError, ValueError, TypeError) as e:
            print("%s: %s" % (case["op"], str(e).split("\n")[0][:100]), file=sys.stderr)
    save(out, results)


if __name__ == "__main__":
    main(*sys.argv[1:4])
