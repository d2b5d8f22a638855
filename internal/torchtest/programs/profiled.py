"""Trains a small net under torch.profiler, which profiles 4 of 8 steps.

Usage: profiled.py PROFILE
"""

import sys

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

device = torch.device("npu:0")
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(16, 64), torch.randn(16, 8)


def write(p):
    p.export_chrome_trace(sys.argv[1])


with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=4, repeat=1), on_trace_ready=write) as p:
    for _ in range(8):
        with record_function("batch"):
            inputs, wanted = x.to(device), y.to(device)
        loss = nn.functional.mse_loss(model(inputs), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()
        p.step()
print("done")
