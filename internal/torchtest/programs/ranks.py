"""Two ranks in two processes: collectives of numbers that the host made, and training steps that reduce gradients."""
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch_npu  # noqa: F401


def collectives(rank):
    said = []

    def say(what, tensors):
        said.append(what + " " + " ".join(str(t.cpu().tolist()) for t in tensors))

    for dtype in torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64:
        x = torch.tensor([1 + rank, 20 - rank], dtype=dtype).npu()
        dist.all_reduce(x)
        say(f"sum of {dtype}", [x])
    x = torch.tensor([1.0 + rank, 20.0 - rank]).npu()
    dist.all_reduce(x, op=dist.ReduceOp.MAX)
    say("maximum", [x])
    x = (torch.arange(3) + 100 * rank).npu()
    parts = [torch.empty_like(x) for _ in range(2)]
    dist.all_gather(parts, x)
    say("all_gather", parts)
    x = torch.tensor([7.0 * (1 + rank)]).npu()
    dist.broadcast(x, 1)
    say("broadcast", [x])
    x, part = torch.tensor([1 + rank, 5 + rank], dtype=torch.int32).npu(), torch.zeros(1, dtype=torch.int32).npu()
    dist.reduce_scatter_tensor(part, x)
    if rank == 0:
        dist.send(part, 1)
    else:
        dist.recv(part, 0)
    say("reduce_scatter and send", [part])
    out = torch.zeros(2, dtype=torch.int32).npu()
    dist.all_to_all_single(out, x)
    say("all_to_all", [out])
    dist.barrier()
    return said


def main(rank, address):
    torch.npu.set_device(rank)
    dist.init_process_group("hccl", init_method="file://" + address, rank=rank, world_size=2)
    said = collectives(rank)
    model = torch.nn.Linear(8, 8).npu()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.ones(4, 8).npu()).sum().backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
        optimizer.step()
    torch.npu.synchronize()
    dist.destroy_process_group()
    if rank == 1:
        print("\n".join(said))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(main, (os.path.join(folder, "store"),), nprocs=2)
