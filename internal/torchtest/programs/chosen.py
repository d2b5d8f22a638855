"""Trains a layer in one of several manners. Prints the addresses of the batches on the host, one a step.

Usage: chosen.py MANNER...

early       the device is awaited before the first step
tensors     tensors of the device's own are made before the first step
twice       each step reads two values
norm        each step reads a value before its gradients and one after them
marked      each step is a range
silent      no step waits; the loss is read at every tenth
captured    each step runs a captured graph
"""

import contextlib
import sys

import torch
import torch_npu
from torch import nn

STEPS, ROWS, WIDTH = 20, 8, 32


@contextlib.contextmanager
def step(marked):
    at = torch_npu.npu.mstx.range_start("train step", None) if marked else None
    yield
    if marked:
        torch_npu.npu.mstx.range_end(at)


def capture(model):
    x = torch.zeros(ROWS, WIDTH, device="npu")
    for _ in range(2):
        model(x)
    torch.npu.synchronize()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        model(x)
    return graph, x


def main(manners):
    batches = torch.ones(STEPS, ROWS, WIDTH)
    print(*[hex(b.data_ptr()) for b in batches], flush=True)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4)).npu()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    total = torch.zeros((), device="npu") if "tensors" in manners else None
    if "early" in manners:
        torch.ones(4, device="npu").mul_(2)
        torch.npu.synchronize()
    if "captured" in manners:
        with torch.no_grad():
            graph, x = capture(model)
            for batch in batches:
                x.copy_(batch)
                graph.replay()
                x.sum().item()
        return
    for i, batch in enumerate(batches):
        with step("marked" in manners):
            loss = model(batch.npu(non_blocking="silent" in manners)).square().mean()
            if "norm" in manners:
                loss.item()
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if total is not None:
                total += loss.detach()
            if "twice" in manners:
                loss.item(), norm.item()
            elif "silent" not in manners or i % 10 == 9:
                norm.item()


main(sys.argv[1:])
