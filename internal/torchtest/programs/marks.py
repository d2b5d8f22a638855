"""Eight steps in ranges of the framework, each with two ranges inside."""
import torch
import torch_npu

x = torch.ones(32, 32).npu()
for i in range(8):
    step = torch_npu.npu.mstx.range_start("train step %d" % i)
    forward = torch_npu.npu.mstx.range_start("forward")
    y = x @ x
    torch_npu.npu.mstx.range_end(forward)
    torch_npu.npu.mstx.range_push("loss")
    y.sum().item()
    torch_npu.npu.mstx.range_pop()
    torch_npu.npu.mstx.range_end(step)
