"""The forward kernel: a block of queries against all keys it sees, with the running maximum and divisor of a softmax."""

import triton
import triton.language as tl

from relpos.impls.kernels._tile import columns_of, pairs, scores


@triton.jit
def forward(
    q, k, v, bias, cosine, sine, columns, out, divisor,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row,
    num_heads, query_length, key_length, offset, scale,
    GROUP: tl.constexpr, HALF: tl.constexpr, DIM: tl.constexpr, PADDED: tl.constexpr, VALUES: tl.constexpr,
    VALUES_PADDED: tl.constexpr, HOOK: tl.constexpr, TURNED: tl.constexpr, CAUSAL: tl.constexpr, WIDEN: tl.constexpr,
    ROWS: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """out [B, H, Lq, Dv] and the logarithms of the divisors [B, H, Lq], both contiguous; one program per block and head."""
    batch, head = tl.program_id(1) // num_heads, tl.program_id(1) % num_heads
    shared = head // GROUP
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    a, b, there_a, there_b = columns_of(columns, HALF, DIM, PADDED, TURNED)
    q_a, q_b = pairs(q + batch * q_batch + head * q_head, q_row, rows, query_length, a, b, there_a, there_b, cosine, sine,
                     offset, HALF, PADDED, TURNED, WIDEN)  # fmt: skip
    d = tl.arange(0, VALUES_PADDED)
    highest = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    found = tl.zeros([ROWS, VALUES_PADDED], tl.float32)
    end = key_length
    if CAUSAL:
        end = tl.maximum(tl.minimum(key_length, (tl.program_id(0) + 1) * ROWS + offset), 0)
    for first in range(0, end, KEYS):
        keys = first + tl.arange(0, KEYS)
        k_a, k_b = pairs(k + batch * k_batch + shared * k_head, k_row, keys, key_length, a, b, there_a, there_b, cosine, sine,
                         0, HALF, PADDED, TURNED, WIDEN)  # fmt: skip
        s = scores(q_a, q_b, k_a, k_b, rows, keys, query_length, key_length, offset, scale, bias, head, HOOK, CAUSAL)
        higher = tl.maximum(highest, tl.max(s, 1))
        safe = tl.where(higher == float("-inf"), 0.0, higher)  # a row that sees nothing yet
        p = tl.exp(s - safe[:, None])
        shrunk = tl.exp(tl.where(highest == float("-inf"), float("-inf"), highest - safe))
        values = tl.load(
            v + batch * v_batch + shared * v_head + keys[:, None] * v_row + d[None, :],
            mask=(keys < key_length)[:, None] & (d < VALUES)[None, :], other=0.0,
        )  # fmt: skip
        if WIDEN:
            values = values.to(tl.float32)
        total = total * shrunk + tl.sum(p, 1)
        found = found * shrunk[:, None] + tl.dot(p.to(values.dtype), values, input_precision="ieee")
        highest = higher
    whole = tl.where(total > 0, total, 1.0)
    found = found / whole[:, None]
    at = tl.program_id(1) * query_length + rows
    inside = rows < query_length
    tl.store(
        out + at[:, None] * VALUES + d[None, :], found.to(out.dtype.element_ty), mask=inside[:, None] & (d < VALUES)[None, :]
    )
    tl.store(divisor + at, tl.where(total > 0, highest + tl.log(whole), float("-inf")), mask=inside)
