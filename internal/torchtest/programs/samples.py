"""Compares operators of the device with those of the CPU on samples of PyTorch's own database, and their gradients.

samples.py [number]: at most so many samples of each operator and data type, drawn by stratum; 0 for all. Prints a line for each difference, one for each
operator with the numbers of comparisons and of samples that were left out, and one with the sums.
"""

import math
import random
import sys
import types
import unittest
import warnings

import torch
import torch_npu  # noqa: F401

# The database imports it, and only its tests use it.
sys.modules.setdefault("expecttest", types.SimpleNamespace(TestCase=unittest.TestCase, assert_expected_inline=None))

from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

warnings.filterwarnings("ignore")

# Operators of the database that the simulator computes.
NAMES = """
    abs add addcdiv addcmul addmm all amax amin any argmax argmin baddbmm bitwise_and bitwise_not bitwise_or bmm cat ceil clamp clamp_max clamp_min cos cumsum
    dot eq equal erf exp flip floor ge gather gt index_put index_select isclose isfinite le lerp linalg.vector_norm log log_softmax logical_and logical_not
    logical_or lt masked_fill masked_select matmul max maximum mean min minimum mm mul mv ne neg nn.functional.adaptive_avg_pool2d nn.functional.avg_pool2d nn.functional.batch_norm nn.functional.binary_cross_entropy_with_logits
    nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d nn.functional.conv_transpose2d nn.functional.cross_entropy
    nn.functional.embedding nn.functional.layer_norm nn.functional.leaky_relu nn.functional.max_pool2d nn.functional.mse_loss nn.functional.nll_loss nn.functional.relu
    nn.functional.scaled_dot_product_attention nn.functional.silu nn.functional.threshold nonzero pow reciprocal round rsqrt rsub sigmoid sign sin softmax sqrt square stack sub sum tanh tril triu true_divide
    trunc unique where
""".split()
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.bool]
TOLERANCE = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}

# The gradients of their other arguments are missing in torch_npu, or have a shape that only the device knows.
INPUT_ONLY = ["masked_fill", "nn.functional.binary_cross_entropy_with_logits"]


def own(name, dtype, sample):
    """Why the device differs here, whatever operators compute."""
    args = tensors((sample.args, sample.kwargs))
    if name == "exp" and not dtype.is_floating_point:
        return "torch_npu keeps whole numbers"
    if name == "index_put" and any(t.dtype == torch.bool for t in args):
        return "only the device knows the shape of a list of places"
    if name == "matmul" and sample.input.dim() != args[0].dim() and sample.input.numel() * args[0].numel() == 0:
        return "torch_npu reshapes an empty tensor"
    if name == "nn.functional.layer_norm" and math.prod(sample.args[0]) == 1:
        return "the CPU multiplies its rounding by 1 / sqrt(eps)"
    if name.startswith("nn.functional.") and ("conv" in name or "pool2d" in name) and not dtype.is_floating_point:
        return "the device has no such operators for whole numbers"
    if name == "nn.functional.max_pool2d" and sample.kwargs["return_indices"]:
        return "torch_npu returns a mask"
    if name == "unique" and sample.kwargs.get("dim") is not None:
        return "the simulator does not compute this operator"
    if sample.kwargs.get("dropout_p"):
        return "random numbers are the device's own"
    return None


def tensors(tree):
    return [x for x in tree_flatten(tree)[0] if isinstance(x, torch.Tensor)]


def stratum(sample):
    """The kind of a sample: what its tensors are like, and which arguments it has."""
    kinds = {
        (min(t.dim(), 4), t.numel() == 0, t.is_contiguous(), t.dtype) for t in tensors((sample.input, sample.args))
    }
    return str(sorted(map(str, kinds))) + str(sorted(sample.kwargs)) + str(len(sample.args))


def drawn(samples, number):
    if not number or len(samples) <= number:
        return samples
    draw = random.Random(1)
    strata = {}
    for s in samples:
        strata.setdefault(stratum(s), []).append(s)
    groups = [draw.sample(g, len(g)) for _, g in sorted(strata.items())]
    draw.shuffle(groups)
    picked = [g[i] for i in range(max(map(len, groups))) for g in groups if i < len(g)]
    return picked[:number]


def close(a, b):
    if not isinstance(a, torch.Tensor):
        return a == b
    b = b.cpu()
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.is_floating_point():
        tolerance = TOLERANCE.get(a.dtype, 1e-7)
        # Sums of many products are compared with their size.
        size = a.double().nan_to_num(0, 0, 0).abs().max().item() if a.numel() else 0
        return torch.allclose(a.double(), b.double(), rtol=tolerance, atol=tolerance * max(1, size), equal_nan=True)
    return torch.equal(a, b)


def call(op, sample, device):
    """The results of an operator and the gradients of its arguments."""

    def moved(x):
        if isinstance(x, torch.Tensor):
            t = x.detach()
            if device != "cpu":
                t = place(t, device)
            else:
                t = t.clone(memory_format=torch.preserve_format)
            return t.requires_grad_(x.requires_grad)
        return torch.device(device) if isinstance(x, torch.device) else x

    args = tree_map(moved, (sample.input, sample.args, sample.kwargs))
    result = op(args[0], *args[1], **args[2])
    results = [r for r in tree_flatten(result)[0] if isinstance(r, (torch.Tensor, bool))]
    leaves = [t for t in tensors(args[0] if op.name in INPUT_ONLY else args) if t.requires_grad]
    sums = [r.sum() for r in results if isinstance(r, torch.Tensor) and r.requires_grad]
    if leaves and sums:
        results += [g for g in torch.autograd.grad(sum(sums), leaves, allow_unused=True) if g is not None]
    return results


def place(t, device):
    """A copy with the same strides."""
    if t.is_contiguous() or t.numel() == 0:
        return t.to(device)
    size = 1 + sum((d - 1) * s for d, s in zip(t.shape, t.stride()))
    storage = torch.as_strided(t, (size,), (1,), t.storage_offset()).to(device)
    return storage.as_strided(t.shape, t.stride())


def main(number):
    total = 0
    for op in op_db:
        if op.name not in NAMES:
            continue
        compared = left = 0
        for dtype in DTYPES:
            if dtype not in op.supported_dtypes("cpu"):
                continue
            gradient = dtype == torch.float32 and op.supports_autograd
            torch.manual_seed(0)
            for sample in drawn(list(op.sample_inputs("cpu", dtype, requires_grad=gradient)), number):
                if own(op.name, dtype, sample):
                    left += 1
                    continue
                try:
                    on_cpu = call(op, sample, "cpu")
                except Exception:
                    left += 1
                    continue
                try:
                    on_npu = call(op, sample, "npu")
                except Exception as e:
                    print("fails:", op.name, op.variant_test_name, dtype, sample.summary()[:300], str(e).split("\n")[0][:200])
                    continue
                compared += 1
                if len(on_cpu) != len(on_npu) or not all(close(a, b) for a, b in zip(on_cpu, on_npu)):
                    print("differs:", op.name, op.variant_test_name, dtype, sample.summary()[:400])
        total += compared
        print("operator", op.name, op.variant_test_name or "-", compared, left)
    print("compared", total)


main(int(sys.argv[1]) if len(sys.argv) > 1 else 4)
