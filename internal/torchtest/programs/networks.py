"""Trains networks on the device and on the CPU, each on one batch, and compares every gradient, parameter, buffer and state of the optimizer.

networks.py NAME...: convolutions, lstm, gru, attention. Prints a line for the first difference of each, and the numbers of steps and of comparisons.
"""

import sys

import torch
from torch import nn
from torch.nn import functional as F

STEPS = 20
TOLERANCE = 2e-4


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 12, 3, stride=2, padding=2, dilation=2, groups=2, bias=False)
        self.up = nn.ConvTranspose2d(12, 6, 2, stride=2)
        self.norm1, self.norm2 = nn.BatchNorm2d(8), nn.BatchNorm2d(12)
        self.head = nn.Linear(24, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm1(self.first(x))), 3, 2, 1)
        x = F.avg_pool2d(F.relu(self.norm2(self.second(x))), 2, 1, 1)
        return self.head(F.adaptive_avg_pool2d(self.up(x), (2, 2)).flatten(1))


class Recurrent(nn.Module):
    def __init__(self, layer, width=10, **how):
        super().__init__()
        self.layer, self.head = layer(6, 10, batch_first=True, **how), nn.Linear(width, 5)

    def forward(self, x):
        return self.head(self.layer(x)[0][:, -1])


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix, self.head = nn.Linear(16, 48), nn.Linear(16, 5)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.mix(x).view(batch, length, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
        x = F.scaled_dot_product_attention(q, k, v, is_causal=True) + F.scaled_dot_product_attention(q, k, v)
        return self.head(x.transpose(1, 2).reshape(batch, length, width).mean(1))


NETWORKS = {
    "convolutions": (Convolutions, (4, 3, 15, 13), lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9)),
    "lstm": (lambda: Recurrent(nn.LSTM), (4, 7, 6), lambda p: torch.optim.AdamW(p, lr=1e-2)),
    "gru": (lambda: Recurrent(nn.GRU, 20, num_layers=2, bidirectional=True), (4, 7, 6), lambda p: torch.optim.AdamW(p, lr=1e-2)),
    "attention": (Attention, (4, 7, 16), lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9)),
}


def steps(device, network, dims, optimizer):
    """What each step leaves, by name."""
    torch.manual_seed(1)
    model = network()
    x, y = torch.randn(dims), torch.randint(0, 5, dims[:1])
    model, x, y = model.to(device), x.to(device), y.to(device)
    step = optimizer(model.parameters())
    for _ in range(STEPS):
        step.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        step.step()
        left = {"loss": loss.detach()}
        for name, p in model.named_parameters():
            left["parameter " + name], left["gradient " + name] = p.detach(), p.grad
            left.update({f"{key} of {name}": v for key, v in step.state[p].items() if isinstance(v, torch.Tensor)})
        left.update({"buffer " + name: v for name, v in model.named_buffers()})
        yield {name: v.cpu().double().clone() for name, v in left.items()}
    model.eval()
    yield {"evaluated": model(x).detach().cpu().double()}


def main(names):
    for name in names:
        compared, different = 0, ""
        for i, (cpu, npu) in enumerate(zip(steps("cpu", *NETWORKS[name]), steps("npu", *NETWORKS[name]))):
            for what, v in cpu.items():
                compared += 1
                size = max(1, v.abs().max().item())
                if not different and not torch.allclose(v, npu[what], rtol=TOLERANCE, atol=TOLERANCE * size):
                    different = f"step {i}: {what}: {(v - npu[what]).abs().max().item()} of {size}"
        if different:
            print("differs:", name, different)
        print(name, i, compared)


main(sys.argv[1:])
