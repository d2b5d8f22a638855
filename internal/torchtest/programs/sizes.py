"""Runs inference by captured graphs of several sizes, as a server does. Prints the number of requests.

Usage: sizes.py [REQUESTS]
"""

import random
import sys

import torch
from torch import nn

SIZES = [1, 2, 4, 8]
WIDTH = 64


def capture(model, size, pool):
    tokens = torch.zeros(size, WIDTH, device="npu")
    for _ in range(2):
        model(tokens)
    torch.npu.synchronize()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph, pool=pool):
        out = model(tokens)
    return graph, tokens, out


@torch.no_grad()
def main(requests):
    model = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.LayerNorm(WIDTH)).npu().eval()
    pool = torch.npu.graph_pool_handle()
    captured = {size: capture(model, size, pool) for size in reversed(SIZES)}
    choose = random.Random(0)
    for _ in range(requests):
        wanted = choose.randint(1, SIZES[-1])
        graph, tokens, out = captured[min(s for s in SIZES if s >= wanted)]
        tokens[:wanted].copy_(torch.ones(wanted, WIDTH))
        graph.replay()
        out[:wanted].cpu()
    print("requests", requests)


main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
