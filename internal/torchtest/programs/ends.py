"""Ends in the way that its argument names: return, exception, interrupt, terminate or abort."""

import os
import signal
import sys
import time

import torch

x = torch.ones(1024, device="npu")
y = x.to(torch.uint16)  # the simulator does not compute it
print("launched", flush=True)
if sys.argv[1] == "exception":
    raise RuntimeError("on purpose")
if sys.argv[1] == "interrupt":
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(600)  # another thread may take the signal
if sys.argv[1] == "terminate":
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(600)
if sys.argv[1] == "abort":
    os.abort()
print("ended", tuple(y.shape))
