"""Small programs that use third-party libraries, for scripts/test-gpu.sh to record and replay. Each prints `ok` if its results
are right. `have` prints which libraries are installed and find a GPU."""
import sys


def have():
    for name in ("torch", "cupy", "triton"):
        try:
            module = __import__(name)
            print(name, module.__version__)
            if name == "torch" and not module.cuda.is_available():
                print("torch sees no GPU")
            elif name == "cupy" and module.cuda.runtime.getDeviceCount() == 0:
                print("cupy sees no GPU")
            else:
                print("have", name)
        except Exception as e:  # the library can't be used, for any reason
            print(name, "is not here:", e)


def torch():
    import torch

    x = torch.arange(1000.0).cuda()
    assert (x * 2 + 1).sum().item() == 1000 * 999 + 1000
    assert torch.allclose((x @ x.reshape(1000, 1)).cpu(), torch.tensor([332833500.0]), rtol=1e-3)


def graph():
    import torch

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).cuda()
    x = torch.zeros(16, 64, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad():
        for _ in range(3):
            net(x)
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured), torch.no_grad():
        y = net(x)
    for _ in range(5):
        x.copy_(torch.randn(16, 64))
        captured.replay()
        with torch.no_grad():
            assert torch.allclose(y, net(x), rtol=1e-4, atol=1e-5)
    print("sum", y.double().sum().item())


def cupy():
    import cupy

    x = cupy.arange(1000, dtype=cupy.float32)
    double = cupy.RawKernel('extern "C" __global__ void twice(float *x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= 2; }', "twice")
    double((8,), (128,), (x, cupy.int32(1000)))
    assert (cupy.asnumpy(x) == [2.0 * i for i in range(1000)]).all()


def triton():
    import torch
    import triton_kernel

    x, y = torch.arange(1000.0).cuda(), torch.ones(1000).cuda()
    assert torch.equal(triton_kernel.add(x, y).cpu(), torch.arange(1000.0) + 1)


if __name__ == "__main__":
    wanted = sys.argv[1] if len(sys.argv) > 1 else "have"
    {"have": have, "torch": torch, "graph": graph, "cupy": cupy, "triton": triton}[wanted]()
    if wanted != "have":
        print(f"{wanted}: ok")
