"""Calls the Triton kernels in the interpreter beside the built-in they must agree with, and prints the largest differences.

Run in a process of its own, with TRITON_INTERPRET=1: Triton reads it when it is imported.
"""

import json
import sys

import torch

from relpos.impls import alibi, clipped, rope, t5
from relpos.impls.kernels import alibi as alibi_kernel
from relpos.impls.kernels import clipped as clipped_kernel
from relpos.impls.kernels import rope as rope_kernel
from relpos.impls.kernels import t5 as t5_kernel
from relpos.spec.alibi import ALiBi
from relpos.spec.clipped import Clipped
from relpos.spec.rope import RoPE
from relpos.spec.t5 import T5

H, GROUPS, D = 4, 2, 6
SIZES = [(5, 7, 2), (37, 40, 3), (1, 9, 8), (40, 33, 0)]  # ragged tiles, one query, queries that see no future
LAYOUTS: list[dict] = [{}, {"layout": "half"}, {"rotary_dim": 4}, {"layout": "half", "rotary_dim": 2}]
SETTINGS = {
    "alibi": [ALiBi(num_heads=H, distance=d) for d in ("symmetric", "causal", "half_half")],
    "t5": [T5(num_heads=H), T5(num_heads=H, cross_attention=True)],
    "clipped": [Clipped(num_heads=H, max_distance=5), Clipped(num_heads=H, max_distance=2, heads="shared", beyond="zero")],
    "rope": [RoPE(head_dim=D, base=100.0, **more) for more in LAYOUTS],
}


def pair(scheme, settings, q, k, v, table, size, causal):
    """The kernel's output and the built-in's."""
    Lq, Lk, offset = size
    at = torch.arange(offset, offset + Lq), torch.arange(Lk)
    if scheme == "t5":
        own = ({"table": table},)
    else:
        own = (table[:, : 1 if settings.heads == "shared" else H],) if scheme == "clipped" else ()
    kernel, built_in = {
        "alibi": (alibi_kernel, alibi), "t5": (t5_kernel, t5), "clipped": (clipped_kernel, clipped), "rope": (rope_kernel, rope)
    }[scheme]  # fmt: skip
    got = kernel.attention(settings, *own, q, k, v, *size, causal=causal)
    return got, built_in.attention(settings, *own, q, k, v, *at, causal=causal)


def difference(scheme, settings, size, causal, dtype):
    """Largest differences of the output and of all gradients, over 1 plus the number itself."""
    torch.manual_seed(sum(size))
    Lq, Lk, _ = size
    q, k, v = (torch.randn(2, h, n, D).to(dtype).requires_grad_() for h, n in ((H, Lq), (GROUPS, Lk), (GROUPS, Lk)))
    rows = {"t5": 32, "clipped": 2 * getattr(settings, "max_distance", 0) + 1}.get(scheme, 1)
    table = torch.randn(rows, H, requires_grad=True)
    got, want = pair(scheme, settings, q, k, v, table, size, causal)
    learned = (table,) if scheme == "clipped" or (scheme == "t5" and not settings.cross_attention) else ()
    cotangent = torch.randn(want.shape).to(dtype)
    grads = [torch.autograd.grad(x, (q, k, v, *learned), cotangent) for x in (got, want)]
    pairs = [(a.float(), b.float()) for a, b in ((got, want), *zip(*grads, strict=True))]
    return [float(((a - b).abs() / (1 + b.abs())).max()) for a, b in pairs]


def main():
    """One JSON line per case: scheme, settings, size, direction, dtype, differences."""
    scheme, *dtypes = sys.argv[1:]
    for settings in SETTINGS[scheme]:
        for size in SIZES:
            for causal in (False, True):
                for dtype in dtypes:
                    found = difference(scheme, settings, size, causal, getattr(torch, dtype))
                    sys.stdout.write(json.dumps([str(settings), size, causal, dtype, found]) + "\n")


if __name__ == "__main__":
    main()
