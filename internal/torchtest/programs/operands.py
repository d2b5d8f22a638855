# Runs five operators 30 times: with a transposed tensor, a list, a scalar, and shapes of two kinds. Executors are kept after the first times.
import torch
import torch_npu  # noqa: F401

a, b = torch.ones(4, 8).npu(), torch.ones(8, 3).npu()
for i in range(30):
    c = (a[: 4 - i % 2] @ b).relu() * 2.5
    d = torch.cat([c, c], 1).t().contiguous()
    torch.npu.synchronize()
print(d.cpu().sum().item())
