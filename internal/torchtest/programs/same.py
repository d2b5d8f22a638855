"""Compares results of the device with those of the CPU: operators one by one, then a decoder that learns one batch.

Prints a line for each difference, and the numbers of comparisons and of training steps.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

compared = 0


def close(a, b, tolerance):
    return a.shape == b.shape and a.dtype == b.dtype and torch.allclose(a.double(), b.cpu().double(), rtol=tolerance, atol=tolerance, equal_nan=True)


def same(name, function, *args, tolerance=1e-5):
    global compared
    compared += 1
    on_cpu = function(*args)
    on_npu = function(*[a.npu() if isinstance(a, torch.Tensor) else a for a in args])
    if isinstance(on_cpu, torch.Tensor):
        on_cpu, on_npu = [on_cpu], [on_npu]
    if not all(close(a, b, tolerance) for a, b in zip(on_cpu, on_npu)):
        print("differs:", name)


def gradients(function):
    def run(*args):
        leaves = [a.detach().clone().requires_grad_() if a.is_floating_point() else a for a in args]
        function(*leaves).sum().backward()
        return [a.grad for a in leaves if a.requires_grad]

    return run


def tanh_gelu(x):
    return F.gelu(x, approximate="tanh")


def operators():
    x, y, z = torch.randn(7, 33), torch.randn(7, 33), torch.randn(33)
    whole, mask = torch.randint(-5, 5, (7, 33)), x > 0
    a, b = torch.randn(4, 5, 6), torch.randn(4, 6, 7)
    words, picks, classes = torch.randn(11, 6), torch.randint(0, 11, (3, 4)), torch.randint(0, 33, (7,))
    same("add", torch.add, x, z)
    same("add alpha", lambda p, q: torch.add(p, q, alpha=2.5), x, y)
    same("add strided", lambda p, q: p.t()[1:20:3] + q.t()[2:21:3], x, y)
    same("add whole", lambda p: p + p + 3, whole)
    same("add half", torch.add, x.half(), y.half(), tolerance=1e-3)
    same("sub", lambda p, q: 1 - (p - q), x, y)
    same("mul", lambda p, q: p * q * 3, x, y)
    same("mul whole by real", lambda p: p * 0.5, whole)
    same("div", lambda p, q: p / q / 3, x, y)
    for name in "abs neg relu ceil floor round trunc sin cos erf isfinite sign square tanh sigmoid exp reciprocal".split():
        same(name, getattr(torch, name), x * 3)
    for name in "sqrt rsqrt log".split():
        same(name, getattr(torch, name), x.abs() + 0.1)
    for name in "eq ne lt le gt ge".split():
        same(name, getattr(torch, name), x.round(), y.round())
        same(name + " of whole and real", lambda p, name=name: getattr(torch, name)(p, 0.5), whole)
    same("clamp", lambda p: p.clamp(-0.5, 0.5), x)
    same("pow", lambda p: p**3, x)
    same("lerp", lambda p, q: torch.lerp(p, q, 0.3), x, y)
    same("addcmul", lambda p, q: torch.addcmul(p, p, q, value=0.3), x, y)
    same("addcdiv", lambda p, q: torch.addcdiv(p, p, q.abs() + 1, value=0.3), x, y)
    same("logic", lambda p, q: torch.logical_and(p, q) | torch.logical_not(p), mask, y > 0)
    same("where", torch.where, mask, x, y)
    same("masked_fill", lambda p, m: p.masked_fill(m, -1e9), x, mask)
    for dtype in (torch.half, torch.bfloat16, torch.int32, torch.int64, torch.uint8, torch.bool):
        same(f"to {dtype}", lambda p, dtype=dtype: p.abs().to(dtype), x * 5)
    same("sum", lambda p: [p.sum(), p.sum(0), p.sum(1, keepdim=True)], x)
    same("sum whole", lambda p, m: [p.sum(), m.sum()], whole, mask)
    same("mean, amax, max", lambda p: [p.mean(-1), p.amax(1), p.max()], x)
    same("max and place", lambda p: [*p.max(1), p.argmax(0)], x)
    same("all, any", lambda m: [m.all(), m.any(1)], mask)
    same("norms", lambda p: [p.norm(), torch.linalg.vector_norm(p, 1, dim=0)], x)
    same("cat, stack", lambda p, q: [torch.cat([p, q], 1), torch.stack([p, q], 1)], x, y)
    same("softmax", lambda p: [p.softmax(-1), p.softmax(0), p.log_softmax(1)], x)
    same("products", lambda p, q: [p @ q, p @ q[0], p[0] @ q[0]], a, b)
    same("addmm", lambda p, q, r: torch.addmm(r, p, q.t(), beta=0.5, alpha=2), x, y, torch.randn(7))
    same("product of bfloat16", lambda p, q: p @ q.t(), x.bfloat16(), y.bfloat16(), tolerance=3e-2)
    same("vectors", lambda p, q: [p @ q, torch.dot(q, q)], x, z)
    same("arange, linspace", lambda p: [torch.arange(3, 20, 3, device=p.device), torch.linspace(-1, 2, 9, device=p.device)], x)
    same("triangles", lambda p: [p.tril(), p.triu(2)], a)
    same("picks", lambda p, i: [F.embedding(i, p), p.index_select(0, i[0])], words, picks)
    same("gather", lambda p, i: p.gather(1, i), x, torch.randint(0, 33, (7, 5)))
    same("layer_norm", lambda p: F.layer_norm(p, (5, 6)), a)
    same("losses", lambda p, t: [F.cross_entropy(p, t), F.nll_loss(p, t, reduction="none"), F.nll_loss(p, t, reduction="sum")], x, classes)
    same("mse_loss", F.mse_loss, x, y)
    same("nothing", lambda p: [(p + 1).sum(), p @ p.t()], torch.zeros(0, 3))
    same("gradient of layer_norm", gradients(lambda p, w, v: F.layer_norm(p, (6,), w, v) * p), a, torch.randn(6), torch.randn(6), tolerance=1e-4)
    same("gradient of products", gradients(lambda p, q: (p @ q) ** 2), a, b, tolerance=1e-4)
    same("gradient of picks", gradients(lambda p, i: F.embedding(i, p)), words, picks)
    ignored = classes.clone()
    ignored[2] = -100
    same("gradient of cross_entropy", gradients(F.cross_entropy), x, ignored)
    for function in (tanh_gelu, F.silu, torch.tanh, torch.sigmoid, torch.relu, lambda p: p.softmax(-1), lambda p: p.log_softmax(-1)):
        same("gradient of a function", gradients(lambda p, function=function: function(p) * p), x)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.mix(self.before(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        later = torch.ones(length, length, device=x.device).triu(1).bool()
        mixed = scores.masked_fill(later, float("-inf")).softmax(-1) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(tanh_gelu(self.up(self.after(x))))


class Decoder(nn.Module):
    def __init__(self, words=64, width=32, layers=2, heads=4, length=16):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.blocks(self.words(tokens) + self.places(places))))


def losses(device, optimizer, steps=20):
    torch.manual_seed(1)
    model = Decoder().to(device)
    step = optimizer(model.parameters())
    torch.manual_seed(2)
    tokens = torch.randint(0, 64, (4, 17)).to(device)
    all_of = []
    for _ in range(steps):
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        step.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        step.step()
        all_of.append(loss.item())
    return all_of


def train():
    steps = 0
    for name, optimizer in (
        ("AdamW, lists", lambda p: torch.optim.AdamW(p, lr=1e-2, foreach=True)),
        ("AdamW", lambda p: torch.optim.AdamW(p, lr=1e-2, foreach=False)),
        ("SGD", lambda p: torch.optim.SGD(p, lr=1e-2)),
    ):
        for i, (on_cpu, on_npu) in enumerate(zip(losses("cpu", optimizer), losses("npu", optimizer))):
            steps += 1
            if abs(on_cpu - on_npu) > 1e-5:
                print("differs:", name, "step", i, on_cpu, on_npu)
    print("trained", steps)


if __name__ == "__main__":
    torch.manual_seed(0)
    operators()
    print("compared", compared)
    train()
