"""Trains a small decoder with a planted problem. Prints the number of steps.

Usage: planted.py PROBLEM
"""

import sys
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, WORDS, LENGTH, BATCH = 64, 4, 128, 32, 4
AT = 20  # the step with a problem of one step


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).view(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        mixed = (q @ k.transpose(-1, -2)).softmax(-1) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        look(x)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.blocks = nn.Embedding(WORDS, WIDTH), nn.Sequential(Block(), Block())
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens):
        return self.head(self.blocks(self.words(tokens)))


def look(x):
    """What people add to see how the training goes."""
    if problem == "item":
        x.detach().abs().max().item()
    if problem == "synchronize":
        torch.npu.synchronize()


def spin(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


class Training:
    def __init__(self, steps):
        self.kept, self.longest = [], 0
        self.model = Decoder().npu()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.text = torch.randint(WORDS, (steps, BATCH, LENGTH + 1)).pin_memory()

    def batch(self, step):
        if problem == "stall" and step == AT:
            time.sleep(max(0.08, 10 * self.longest))
        if problem == "pageable":
            return self.text[step].clone().npu()
        return self.text[step].npu(non_blocking=True)

    def step(self, step):
        begun = time.perf_counter()
        tokens = self.batch(step)
        if problem == "python":
            spin(0.05)
        logits = self.model(tokens[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, WORDS), tokens[:, 1:].reshape(-1))
        self.optimizer.zero_grad()
        loss.backward()
        if problem == "small":
            for _ in range(300):
                loss = loss.detach() + 1
        if problem == "cast":
            for _ in range(600):
                loss.detach().half()
        self.optimizer.step()
        self.after(step, loss)
        self.longest = max(self.longest, time.perf_counter() - begun) if step > 2 else 0

    def after(self, step, loss):
        match problem:
            case "item" | "synchronize":
                look(loss)
            case "empty_cache":
                torch.empty(8 << 20, dtype=torch.uint8, device="npu")
                torch.npu.empty_cache()
            case "leak":
                self.kept.append(torch.ones(16 << 10, device="npu"))
            case "checkpoint" if step == AT:
                with tempfile.TemporaryFile() as f:
                    torch.save(self.model.state_dict(), f)
                    time.sleep(10 * self.longest)  # the disk
                    torch.save(self.optimizer.state_dict(), f)
            case "memory" if step == AT:
                while True:
                    self.kept.append(torch.empty(4 << 30, dtype=torch.uint8, device="npu"))


def main():
    torch.manual_seed(0)
    steps = 160 if problem == "leak" else 24
    training = Training(steps)
    for step in range(steps):
        training.step(step)
    torch.npu.synchronize()
    print("steps", steps)


problem = sys.argv[1]
main()
