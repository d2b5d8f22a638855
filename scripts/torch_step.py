"""A model's forward and training steps, reproducible, for scripts/test-gpu.sh to record and replay. The argument is their number."""
import sys
import time

import torch

torch.manual_seed(0)
torch.use_deterministic_algorithms(True)
torch.backends.cuda.matmul.allow_tf32 = False
# Attention as separate matrix products: fused kernels add in an undefined order.
for way in ("flash", "mem_efficient", "cudnn"):
    getattr(torch.backends.cuda, f"enable_{way}_sdp", lambda on: None)(False)
width, heads, words = 128, 4, 64
layer = torch.nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True)
model = torch.nn.Sequential(torch.nn.Embedding(words, width), layer, torch.nn.Linear(width, words)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
inputs, wanted = torch.randint(0, words, (16, 32)).cuda(), torch.randint(0, words, (16, 32)).cuda()
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 10
warm = min(5, steps - 1)
for step in range(steps):
    if step == warm:
        torch.cuda.synchronize()
        began = time.monotonic()
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(inputs).flatten(0, 1), wanted.flatten())
    loss.backward()
    optimizer.step()
    if step % 10 == 0 or step == steps - 1:
        print(f"step {step}: {loss.item():.9f}")
torch.cuda.synchronize()
took = (time.monotonic() - began) * 1e3
model.eval()
with torch.no_grad():
    print("forward", model(inputs).double().sum().item())
print(f"work: {took:.3f} ms: ok")
