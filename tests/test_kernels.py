"""The Triton kernels, without a GPU: interpreted they agree with the built-ins, and they compile for one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from relpos.spec.alibi import ALiBi
from relpos.spec.rope import RoPE

pytest.importorskip("triton", reason="needs the extra `triton`")
HERE = Path(__file__).parent
# Over 1 + the number: two roundings, and what scores make of them that T5 does not divide by √D.
ALLOWED = {"float32": 1e-5, "bfloat16": 0.06, "float16": 0.008}


def interpreted(*arguments):
    """Run the kernels in Triton's interpreter, in a process that has read its variable."""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, cwd=HERE)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("scheme", ["alibi", "t5", "clipped", "rope"])
def test_a_kernel_agrees_with_the_built_in_and_so_do_its_gradients(scheme):
    lines = interpreted("interpreted_kernels.py", scheme, "float32", "bfloat16").splitlines()
    assert len(lines) >= 16
    for line in lines:
        settings, size, causal, dtype, found = json.loads(line)
        assert max(found) < ALLOWED[dtype], (settings, size, causal, dtype, found)


@pytest.mark.exhaustive
@pytest.mark.parametrize("scheme", ["alibi", "t5", "clipped", "rope"])
def test_a_kernel_agrees_in_float16(scheme):
    for line in interpreted("interpreted_kernels.py", scheme, "float16").splitlines():
        assert max(json.loads(line)[-1]) < ALLOWED["float16"], line


@pytest.mark.parametrize("hook", ["slopes", "line", "rotation"])
def test_a_kernel_compiles_for_a_gpu_that_is_not_there(hook):
    from relpos.perf.kernels import compiled

    found = list(compiled("sm_90", dtypes=("bfloat16",), hooks=(hook,)))
    assert [one.kernel for one in found] == ["forward", "of_queries", "of_keys"]
    assert all(one.code_bytes > 1000 for one in found)


def test_without_a_gpu_and_without_the_interpreter_a_kernel_says_what_it_needs():
    from relpos.impls.kernels import alibi

    q = torch.zeros(1, 2, 3, 4)
    said = r"alibi: the Triton kernel needs tensors on a GPU, got `q` on cpu; move them there, or set TRITON_INTERPRET=1"
    with pytest.raises(RuntimeError, match=said):
        alibi.attention(ALiBi(num_heads=2), q, q, q, 3, 3, 0)


def test_a_rotation_of_odd_width_is_refused_by_name():
    from relpos.impls.kernels import rope

    q = torch.zeros(1, 2, 3, 5)
    with pytest.raises(RuntimeError, match="rope: the Triton kernel needs an even width, got `head_dim` 5; use `rotate`"):
        rope.attention(RoPE(head_dim=5, rotary_dim=4, base=100.0), q, q, q, 3, 3, 0)
