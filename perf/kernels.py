"""Compiles the Triton kernels for a GPU that need not be there: what every hook and precision comes to."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from relpos.conformance import console
from relpos.conformance.errors import UsageError

TARGETS = {"sm_80": 80, "sm_90": 90}
WIDTH, TILE, WARP = 64, 64, 32
POINTERS = ("q", "k", "v", "gradient", "out", "bias", "cosine", "sine", "columns", "divisor", "delta", "to_q", "to_k", "to_v",
            "to_bias")  # fmt: skip
LOW = ("q", "k", "v", "gradient", "out")  # in the precision of the call; all others are float32, and columns whole numbers
TYPES = {"float32": "*fp32", "bfloat16": "*bf16", "float16": "*fp16"}
HOOKS = {"slopes": (1, False), "line": (2, False), "rotation": (0, True)}


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """One kernel as it was compiled: bytes of its machine code and of the shared memory of a block."""

    kernel: str
    hook: str
    dtype: str
    target: str
    code_bytes: int
    shared_bytes: int


def run_kernels(options: argparse.Namespace) -> int:
    """Compile all kernels for a target and print a line for each. UsageError: Triton is missing, or interprets."""
    if find_spec("triton") is None:
        raise UsageError("--kernels needs triton: pip install 'relpos[triton]'.")
    number = 0
    for one in compiled(options.kernels):
        said = f"{one.code_bytes / 1024:.1f} KiB of code, {one.shared_bytes / 1024:.1f} KiB shared"
        console.show_lines([f"{one.kernel}, {one.hook}, {one.dtype}: {one.target}, {said}"])
        number += 1
    console.show_lines([f"{number} kernels compiled for {options.kernels}; none was run"])
    return 0


def compiled(
    target: str, dtypes: tuple[str, ...] = ("float32", "bfloat16"), hooks: tuple[str, ...] = tuple(HOOKS)
) -> Iterator[Compiled]:
    """Every kernel under every hook, causal, in width 64. UsageError where Triton interprets: then nothing can be compiled."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from relpos.impls.kernels._backward import of_keys, of_queries
    from relpos.impls.kernels._forward import forward

    if not isinstance(forward, triton.JITFunction):
        raise UsageError("--kernels compiles nothing under TRITON_INTERPRET=1: unset it.")
    where = GPUTarget("cuda", TARGETS[target], WARP)
    for kernel in (forward, of_queries, of_keys):
        for hook in hooks:
            for dtype in dtypes:
                constants = _constants(kernel, hook)
                source = ASTSource(kernel, _signature(kernel, dtype, constants), constants)
                found: Any = triton.compile(source, target=where, options={"enable_fp_fusion": True})
                sizes = {"code_bytes": len(found.asm["cubin"]), "shared_bytes": found.metadata.shared}
                yield Compiled(kernel=kernel.__name__, hook=hook, dtype=dtype, target=target, **sizes)


def _constants(kernel: Any, hook: str) -> dict[str, Any]:
    kind, turned = HOOKS[hook]
    half = WIDTH // 2
    every = {
        "GROUP": 1, "HALF": half, "DIM": WIDTH, "PADDED": half, "VALUES": WIDTH, "VALUES_PADDED": WIDTH, "HOOK": kind,
        "TURNED": turned, "CAUSAL": True, "WIDEN": False, "LEARNED": kind == 2, "ROWS": TILE, "KEYS": TILE,
    }  # fmt: skip
    return {name: value for name, value in every.items() if name in kernel.arg_names}


def _signature(kernel: Any, dtype: str, constants: dict[str, Any]) -> dict[str, str]:
    def kind(name: str) -> str:
        if name in constants:
            return "constexpr"
        if name not in POINTERS:
            return "fp32" if name == "scale" else "i32"
        return "*i64" if name == "columns" else TYPES[dtype] if name in LOW else "*fp32"

    return {name: kind(name) for name in kernel.arg_names}
