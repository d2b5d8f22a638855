"""Times a training step of a decoder (4 layers, width 128, batches of 16 times 64) on the CPU and on the device, in turn.

pace.py ROUNDS: prints for each round "operators.gpt.cpu" and "operators.gpt.npu" with the milliseconds of a warm step.
"""

import sys
import time

import torch
from torch.nn import functional as F

from same import Decoder


def stepper(device):
    torch.manual_seed(1)
    model = Decoder(words=256, width=128, layers=4, heads=4, length=64).to(device)
    step = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.randint(0, 256, (16, 65)).to(device)

    def once():
        step.zero_grad()
        F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()
        step.step()
        return next(model.parameters()).sum().item()

    return once


steppers = {device: stepper(device) for device in ("cpu", "npu")}
for once in steppers.values():
    once()
    once()
for _ in range(int(sys.argv[1])):
    for device, once in steppers.items():
        start = time.monotonic()
        once()
        print(f"operators.gpt.{device}", round(1000 * (time.monotonic() - start), 2), flush=True)
