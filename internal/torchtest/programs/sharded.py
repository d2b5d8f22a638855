"""Trains a model in two processes, replicated and sharded. Prints what rank 1 sees of the parameters, which are those of rank 0.

Usage: sharded.py [PART …]
"""

import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch_npu  # noqa: F401
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DistributedDataParallel

STEPS = 6


def model(seed):
    """Its sizes are odd, so that shards are padded."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(23, 41), nn.BatchNorm1d(41), nn.ReLU(), nn.Linear(41, 3))


def same(name, got):
    return all(torch.equal(g.cpu(), want) for g, want in zip(got, model(0).parameters(), strict=True)) and name


def train(m):
    optimizer = torch.optim.SGD(m.parameters(), lr=0.0)
    for _ in range(STEPS):
        optimizer.zero_grad(set_to_none=False)
        m(torch.ones(4, 23).npu()).sum().backward()
        optimizer.step()
    torch.npu.synchronize()


def replicated(rank):
    m = DistributedDataParallel(model(rank).npu(), device_ids=[rank])
    said = same("equal", m.parameters())
    train(m)
    return said


class Partly(nn.Module):
    """No rank uses the first layer. Only rank 0 uses the second one."""

    def __init__(self, rank):
        super().__init__()
        self.rank, self.used, self.first, self.second = rank, model(rank), nn.Linear(3, 5), nn.Linear(3, 5)

    def forward(self, x):
        y = self.used(x)
        return self.second(y) if self.rank == 0 else y


def unused(rank):
    """The ranks reduce which parameters were used, so rank 1 has a gradient of the layer that only rank 0 uses."""
    m = DistributedDataParallel(Partly(rank).npu(), device_ids=[rank], find_unused_parameters=True)
    train(m)
    return m.module.first.weight.grad is None, m.module.second.weight.grad is None


def flat(rank):
    m = FullyShardedDataParallel(model(rank), device_id=rank, sync_module_states=True)
    shard = [p.numel() for p in m.parameters()]
    with FullyShardedDataParallel.summon_full_params(m):
        said = same("equal", m.parameters())
    train(m)
    return shard, said


def sharded(rank):
    m = model(0).npu()
    fully_shard(m, mesh=init_device_mesh("npu", (2,)))
    shards = [tuple(p.to_local().shape) for p in m.parameters()]
    said = same("equal", [p.full_tensor() for p in m.parameters()])
    train(m)
    return shards, said


PARTS = [replicated, unused, flat, sharded]


def main(rank, address):
    torch.npu.set_device(rank)
    dist.init_process_group("hccl", init_method="file://" + address, rank=rank, world_size=2)
    for part in PARTS:
        if len(sys.argv) == 1 or part.__name__ in sys.argv[1:]:
            said = part(rank)
            if rank == 1:
                print(part.__name__, said, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(main, (os.path.join(folder, "store"),), nprocs=2)
