"""Uses each part of the framework's backend once. Prints a line a part.

Usage: smoke.py [PART …]
"""

import os
import sys
import tempfile

import torch
from torch import nn
from torch.nn import functional as F


def available():
    """The first question is asked before the runtime is initialised."""
    return torch.npu.is_available(), torch.npu.device_count() >= 1


def copies():
    x = torch.arange(1 << 16, dtype=torch.float32)
    y = x.npu()
    pinned = x.pin_memory().npu(non_blocking=True)
    torch.npu.synchronize()
    return torch.equal(x, y.cpu()), torch.equal(x, pinned.cpu())


def views():
    x = torch.arange(24, dtype=torch.int64).npu()
    return x[8:16].cpu().tolist() == list(range(8, 16)), x[4:].data_ptr() - x.data_ptr()


def gradients():
    layer = nn.Linear(32, 16).npu()
    x = torch.ones(8, 32, device="npu", requires_grad=True)
    layer(x).sum().backward()
    return tuple(x.grad.shape), tuple(layer.weight.grad.shape)


def absent_bias():
    return tuple(nn.Linear(32, 16, bias=False).npu()(torch.ones(8, 32, device="npu")).shape)


def autocast():
    with torch.autocast("npu", dtype=torch.float16):
        return str(nn.Linear(32, 16).npu()(torch.ones(8, 32, device="npu")).dtype)


def convolution():
    layer = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)).npu()
    return tuple(layer(torch.ones(2, 3, 16, 16, device="npu")).shape)


def attention():
    q = torch.ones(2, 4, 16, 32, device="npu", dtype=torch.float16)
    return tuple(F.scaled_dot_product_attention(q, q, q).shape)


def streams():
    side, done = torch.npu.Stream(), torch.npu.Event(enable_timing=True)
    x = torch.ones(1024, device="npu")
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        y = x + 1
        x.record_stream(side)
        done.record()
    torch.npu.current_stream().wait_event(done)
    done.synchronize()
    return done.query(), tuple(y.shape)


def graphs():
    x = torch.ones(8, 32, device="npu")
    layer = nn.Linear(32, 32).npu()
    with torch.no_grad():
        layer(x)
        torch.npu.synchronize()
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            y = layer(x)
        for _ in range(3):
            graph.replay()
    torch.npu.synchronize()
    return tuple(y.shape)


def checkpoint():
    layer = nn.Linear(32, 16).npu()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "layer.pt")
        torch.save(layer.state_dict(), path)
        loaded = torch.load(path, map_location="npu:0")
    return torch.equal(layer.weight.cpu(), loaded["weight"].cpu())


def memory():
    x = torch.empty(1 << 20, device="npu")
    held = torch.npu.memory_allocated() >= x.nbytes
    del x
    torch.npu.empty_cache()
    return held


def two_devices():
    if torch.npu.device_count() < 2:
        return "one device"
    x = torch.arange(1 << 12, dtype=torch.float32)
    y = x.to("npu:0").to("npu:1")
    return str(y.device), torch.equal(x, y.cpu())


PARTS = [available, copies, views, gradients, absent_bias, autocast, convolution, attention, streams, graphs, checkpoint, memory, two_devices]

for part in PARTS:
    if len(sys.argv) == 1 or part.__name__ in sys.argv[1:]:
        print(part.__name__, part(), flush=True)
