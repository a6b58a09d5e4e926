"""torch_models.py -- the models of `mrt bench step` in PyTorch

The same functions as in cases.lua and heldout.lua, with as many parameters and the same
optimizers, each as its users write it: scaled_dot_product_attention, nn.RMSNorm, nn.LSTM.

SPDX-License-Identifier: MIT"""
import torch, torch.nn as nn, torch.nn.functional as F

from torch_gpt import GPT

GPTS = {  # vocabulary, context, layers, dim, heads, batch, tokens
    "gpt": (65, 256, 6, 384, 6, 12, 256),
    "gpt-small": (65, 64, 4, 128, 4, 12, 64),
    "gpt2": (50257, 1024, 12, 768, 12, 1, 256),
    "gpt2-b4t64": (50257, 1024, 12, 768, 12, 4, 64),
}


# ---- convolutions ---------------------------------------------------------------------

class Residual(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        conv = lambda i, k, s: nn.Conv2d(i, width, k, s, k // 2, bias=False)
        self.conv1, self.norm1 = conv(inputs, 3, stride), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = conv(width, 3, 1), nn.BatchNorm2d(width)
        same = stride == 1 and inputs == width
        self.shortcut = nn.Identity() if same else nn.Sequential(
            conv(inputs, 1, stride), nn.BatchNorm2d(width))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


def resnet18():
    layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    inputs = 64
    for width in (64, 128, 256, 512):
        layers += [Residual(inputs, width, 1 if width == 64 else 2),
                   Residual(width, width, 1)]
        inputs = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(512, 10))


def double(inputs, width):
    layers = []
    for i in (inputs, width):
        layers += [nn.Conv2d(i, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width),
                   nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    def __init__(self, inputs, classes, depth, width):
        super().__init__()
        widths = [width << i for i in range(depth + 1)]
        self.downs = nn.ModuleList([double(a, b) for a, b in zip([inputs] + widths, widths)])
        self.raises = nn.ModuleList([nn.ConvTranspose2d(w, w // 2, 2, 2)
                                     for w in widths[:0:-1]])
        self.ups = nn.ModuleList([double(w, w // 2) for w in widths[:0:-1]])
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        kept = []
        for i, down in enumerate(self.downs):
            x = down(F.max_pool2d(x, 2) if i else x)
            kept.append(x)
        kept.pop()
        for larger, up in zip(self.raises, self.ups):
            x = up(torch.cat((kept.pop(), larger(x)), 1))
        return self.head(x).permute(0, 2, 3, 1)


class Inverted(nn.Module):
    def __init__(self, inputs, width, stride, wider):
        super().__init__()
        inner = inputs * wider
        conv = lambda i, o, k, **more: (nn.Conv2d(i, o, k, padding=k // 2, bias=False, **more),
                                        nn.BatchNorm2d(o))
        first = (*conv(inputs, inner, 1), nn.ReLU6()) if wider > 1 else ()
        self.layers = nn.Sequential(*first, *conv(inner, inner, 3, stride=stride, groups=inner),
                                    nn.ReLU6(), *conv(inner, width, 1))
        self.same = stride == 1 and inputs == width

    def forward(self, x):
        y = self.layers(x)
        return x + y if self.same else y


def mobilenet():
    layers = [nn.Conv2d(3, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6()]
    inputs = 32
    for wider, width, count, stride in ((1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2),
                                        (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                                        (6, 320, 1, 1)):
        for i in range(count):
            layers.append(Inverted(inputs, width, 1 if i else stride, wider))
            inputs = width
    return nn.Sequential(*layers, nn.Conv2d(inputs, 1280, 1, bias=False),
                         nn.BatchNorm2d(1280), nn.ReLU6(), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Linear(1280, 10))


def vgg11():
    layers, inputs = [], 3
    for width, count in ((64, 1), (128, 1), (256, 2), (512, 2), (512, 2)):
        for _ in range(count):
            layers += [nn.Conv2d(inputs, width, 3, 1, 1), nn.BatchNorm2d(width), nn.ReLU()]
            inputs = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


# ---- transformers ---------------------------------------------------------------------

def heads_of(x, count):
    return x.view(x.shape[0], x.shape[1], count, -1).transpose(1, 2)


def together(y):
    return y.transpose(1, 2).flatten(2)


class EncoderBlock(nn.Module):
    """Norms before each half (ViT), or after its sum (BERT)."""

    def __init__(self, dim, heads, eps, before):
        super().__init__()
        self.heads, self.before = heads, before
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps), nn.LayerNorm(dim, eps)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.fc, self.out = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def attention(self, x):
        q, k, v = (heads_of(t, self.heads) for t in self.qkv(x).chunk(3, -1))
        return self.proj(together(F.scaled_dot_product_attention(q, k, v)))

    def mlp(self, x):
        return self.out(F.gelu(self.fc(x)))

    def forward(self, x):
        if self.before:
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.mlp(x))


class ViT(nn.Module):
    def __init__(self, image, patch, dim, layers, heads, classes):
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.positions = nn.Parameter(torch.randn(1, (image // patch) ** 2 + 1, dim) * 0.02)
        self.patches = nn.Conv2d(3, dim, patch, patch)
        self.blocks = nn.Sequential(*[EncoderBlock(dim, heads, 1e-6, True)
                                      for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(dim, 1e-6), nn.Linear(dim, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


class BERT(nn.Module):
    def __init__(self, vocab, context, dim, layers, heads):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, dim), nn.Embedding(context, dim)
        self.types, self.norm = nn.Embedding(2, dim), nn.LayerNorm(dim, 1e-12)
        self.blocks = nn.Sequential(*[EncoderBlock(dim, heads, 1e-12, False)
                                      for _ in range(layers)])
        self.dense, self.norm2 = nn.Linear(dim, dim), nn.LayerNorm(dim, 1e-12)
        self.head = nn.Linear(dim, vocab)
        self.head.weight = self.tokens.weight
        for table in (self.tokens, self.positions, self.types):
            nn.init.normal_(table.weight, 0, 0.02)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions.weight[:ids.shape[1]] + self.types.weight[0]
        x = self.blocks(self.norm(x))
        return self.head(self.norm2(F.gelu(self.dense(x))))


class LlamaBlock(nn.Module):
    def __init__(self, dim, heads, kv_heads, hidden):
        super().__init__()
        width = dim // heads
        linear = lambda a, b: nn.Linear(a, b, bias=False)
        self.heads, self.kv_heads = heads, kv_heads
        self.norm1, self.norm2 = nn.RMSNorm(dim, 1e-5), nn.RMSNorm(dim, 1e-5)
        self.q, self.proj = linear(dim, dim), linear(dim, dim)
        self.k, self.v = linear(dim, kv_heads * width), linear(dim, kv_heads * width)
        self.gate, self.up = linear(dim, hidden), linear(dim, hidden)
        self.down = linear(hidden, dim)

    def forward(self, x, cos, sin):
        def turn(t):
            a, b = t.chunk(2, -1)
            return t * cos + torch.cat((-b, a), -1) * sin
        h = self.norm1(x)
        q, k = turn(heads_of(self.q(h), self.heads)), turn(heads_of(self.k(h), self.kv_heads))
        v = heads_of(self.v(h), self.kv_heads)
        y = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, is_causal=True,
                                           enable_gqa=True)
        x = x + self.proj(together(y))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self, vocab, context, dim, layers, heads, kv_heads, hidden):
        super().__init__()
        self.tokens, self.head = nn.Embedding(vocab, dim), nn.Linear(dim, vocab, bias=False)
        self.blocks = nn.ModuleList([LlamaBlock(dim, heads, kv_heads, hidden)
                                     for _ in range(layers)])
        self.norm = nn.RMSNorm(dim, 1e-5)
        width = dim // heads
        each = 10000.0 ** (-torch.arange(0, width, 2) / width)
        angles = torch.outer(torch.arange(context).float(), each).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, 0, 0.02)

    def forward(self, ids):
        x, cos, sin = self.tokens(ids), self.cos[:ids.shape[1]], self.sin[:ids.shape[1]]
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.head(self.norm(x))


# ---- the others -----------------------------------------------------------------------

class LSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(65, 512)
        self.lstm = nn.LSTM(512, 512, 2, batch_first=True)
        self.head = nn.Linear(512, 65)

    def forward(self, ids):
        return self.head(self.lstm(self.tokens(ids))[0])


def mlp():
    return nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(),
                         nn.Linear(1024, 10))


def gpt(name):
    vocab, context, layers, dim, heads, batch, tokens = GPTS[name]
    return (lambda: GPT(vocab, context, layers, dim, heads), NANO, ids(vocab, batch, tokens),
            ids(vocab, batch, tokens))


# ---- the cases ------------------------------------------------------------------------

def numbers(*shape):
    return lambda: torch.randn(shape)


def ids(most, *shape):
    return lambda: torch.randint(most, shape)


ADAM = torch.optim.Adam, dict(lr=1e-3)
NANO = torch.optim.AdamW, dict(lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)
ADAMW = torch.optim.AdamW, dict(lr=3e-4, weight_decay=0.1)
SGD = torch.optim.SGD, dict(lr=0.1, momentum=0.9, weight_decay=5e-4)

CASES = {  # what makes the model, its optimizer, what makes inputs and targets
    "mlp": (mlp, ADAM, numbers(128, 784), ids(10, 128)),
    "resnet18": (resnet18, SGD, numbers(64, 3, 32, 32), ids(10, 64)),
    "lstm": (LSTM, ADAM, ids(65, 32, 64), ids(65, 32, 64)),
    "unet": (lambda: UNet(3, 4, 3, 32), ADAMW, numbers(8, 3, 64, 64), ids(4, 8, 64, 64)),
    "vit": (lambda: ViT(32, 4, 384, 6, 6, 10), ADAMW, numbers(8, 3, 32, 32), ids(10, 8)),
    "mobilenet": (mobilenet, SGD, numbers(32, 3, 32, 32), ids(10, 32)),
    "llama": (lambda: Llama(4096, 256, 384, 6, 6, 2, 1024), ADAMW, ids(4096, 2, 256),
              ids(4096, 2, 256)),
    "bert": (lambda: BERT(8192, 128, 384, 6, 6), ADAMW, ids(8192, 4, 128), ids(8192, 4, 128)),
    "vgg": (vgg11, SGD, numbers(32, 3, 32, 32), ids(10, 32)),
    **{name: gpt(name) for name in GPTS},
}


def build(name):
    """Model, class and options of its optimizer, inputs, targets."""
    make, (optimizer, options), x, y = CASES[name]
    return make(), optimizer, options, x(), y()
