"""Loads data in forked processes, through pinned memory, and forks itself after the import. Prints a line for each."""

import os

import torch
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, i):
        return torch.full((256,), float(i))


def main():
    child = os.fork()
    if child == 0:
        x = torch.ones(16).npu()
        os._exit(0 if x.cpu().sum().item() == 16 else 1)
    print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    total = 0
    for batch in DataLoader(Numbers(), batch_size=8, num_workers=2, pin_memory=True):
        batch = batch.npu(non_blocking=True)
        batch.to(torch.uint16)  # the simulator does not compute it
        total += int(batch.cpu().sum().item())
    print("total", total)


if __name__ == "__main__":
    main()
