"""Backward kernels: one per block of queries, for queries and biases, one per block of keys, for keys and values.

Both compute a tile's weights once more, p = exp(score − divisor); with δ = Σ out · g they move by p · (g · v − δ).
"""

import triton
import triton.language as tl

from relpos.impls.kernels._tile import LINE, columns_of, pairs, scores, turned_back


@triton.jit
def moved(s, divisor, delta, gradient, values):
    """Weights of a tile, and gradients of its scores."""
    p = tl.exp(s - tl.where(divisor == float("-inf"), 0.0, divisor)[:, None])
    p = tl.where(s == float("-inf"), 0.0, p)
    return p, p * (tl.dot(gradient, tl.trans(values), input_precision="ieee") - delta[:, None])


@triton.jit
def values_of(x, stride, rows, length, VALUES: tl.constexpr, VALUES_PADDED: tl.constexpr, WIDEN: tl.constexpr):
    """Rows of v, or of the gradient of the output."""
    d = tl.arange(0, VALUES_PADDED)
    found = tl.load(x + rows[:, None] * stride + d[None, :], mask=(rows < length)[:, None] & (d < VALUES)[None, :], other=0.0)
    if WIDEN:
        found = found.to(tl.float32)
    return found


@triton.jit
def store_pairs(to, rows, length, a, b, there_a, there_b, left, right, DIM: tl.constexpr):
    """Columns a and b into contiguous rows of DIM float32 numbers."""
    inside = (rows < length)[:, None]
    tl.store(to + rows[:, None] * DIM + a[None, :], left, mask=inside & there_a[None, :])
    tl.store(to + rows[:, None] * DIM + b[None, :], right, mask=inside & there_b[None, :])


@triton.jit
def of_queries(
    q, k, v, gradient, bias, cosine, sine, columns, divisor, delta, to_q, to_bias,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row,
    num_heads, query_length, key_length, offset, scale,
    GROUP: tl.constexpr, HALF: tl.constexpr, DIM: tl.constexpr, PADDED: tl.constexpr, VALUES: tl.constexpr,
    VALUES_PADDED: tl.constexpr, HOOK: tl.constexpr, TURNED: tl.constexpr, CAUSAL: tl.constexpr, WIDEN: tl.constexpr,
    LEARNED: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """to_q [B, H, Lq, D]; to_bias [H, Lq + Lk − 1], added to, for heads of several blocks and samples share it."""
    place = tl.program_id(1)
    batch, head = place // num_heads, place % num_heads
    shared = head // GROUP
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    a, b, there_a, there_b = columns_of(columns, HALF, DIM, PADDED, TURNED)
    q_a, q_b = pairs(q + batch * q_batch + head * q_head, q_row, rows, query_length, a, b, there_a, there_b, cosine, sine,
                     offset, HALF, PADDED, TURNED, WIDEN)  # fmt: skip
    asked = values_of(gradient + place * query_length * VALUES, VALUES, rows, query_length, VALUES, VALUES_PADDED, WIDEN)
    lse = tl.load(divisor + place * query_length + rows, mask=rows < query_length, other=float("-inf"))
    d = tl.load(delta + place * query_length + rows, mask=rows < query_length, other=0.0)
    left, right = tl.zeros([ROWS, PADDED], tl.float32), tl.zeros([ROWS, PADDED], tl.float32)
    end = key_length
    if CAUSAL:
        end = tl.maximum(tl.minimum(key_length, (tl.program_id(0) + 1) * ROWS + offset), 0)
    for first in range(0, end, KEYS):
        keys = first + tl.arange(0, KEYS)
        k_a, k_b = pairs(k + batch * k_batch + shared * k_head, k_row, keys, key_length, a, b, there_a, there_b, cosine, sine,
                         0, HALF, PADDED, TURNED, WIDEN)  # fmt: skip
        values = values_of(v + batch * v_batch + shared * v_head, v_row, keys, key_length, VALUES, VALUES_PADDED, WIDEN)
        s = scores(q_a, q_b, k_a, k_b, rows, keys, query_length, key_length, offset, scale, bias, head, HOOK, CAUSAL)
        ds = moved(s, lse, d, asked, values)[1]
        left += tl.dot(ds.to(k_a.dtype), k_a, input_precision="ieee")
        right += tl.dot(ds.to(k_b.dtype), k_b, input_precision="ieee")
        if LEARNED and HOOK == LINE:
            distance = keys[None, :] - rows[:, None] + query_length - 1
            seen = (rows < query_length)[:, None] & (keys < key_length)[None, :]
            tl.atomic_add(to_bias + head * (query_length + key_length - 1) + distance, ds, mask=seen)
    left, right = left * scale, right * scale
    if TURNED:
        left, right = turned_back(left, right, cosine, sine, rows, query_length, offset, there_a, HALF, PADDED)
    store_pairs(to_q + place * query_length * DIM, rows, query_length, a, b, there_a, there_b, left, right, DIM)


@triton.jit
def of_keys(
    q, k, v, gradient, bias, cosine, sine, columns, divisor, delta, to_k, to_v,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row,
    num_heads, query_length, key_length, offset, scale,
    GROUP: tl.constexpr, HALF: tl.constexpr, DIM: tl.constexpr, PADDED: tl.constexpr, VALUES: tl.constexpr,
    VALUES_PADDED: tl.constexpr, HOOK: tl.constexpr, TURNED: tl.constexpr, CAUSAL: tl.constexpr, WIDEN: tl.constexpr,
    ROWS: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """to_k [B, Hkv, Lk, D] and to_v [B, Hkv, Lk, Dv]: one program per block of keys goes through all heads that share them."""
    groups = num_heads // GROUP
    batch, shared = tl.program_id(1) // groups, tl.program_id(1) % groups
    keys = tl.program_id(0) * KEYS + tl.arange(0, KEYS)
    a, b, there_a, there_b = columns_of(columns, HALF, DIM, PADDED, TURNED)
    k_a, k_b = pairs(k + batch * k_batch + shared * k_head, k_row, keys, key_length, a, b, there_a, there_b, cosine, sine,
                     0, HALF, PADDED, TURNED, WIDEN)  # fmt: skip
    values = values_of(v + batch * v_batch + shared * v_head, v_row, keys, key_length, VALUES, VALUES_PADDED, WIDEN)
    left, right = tl.zeros([KEYS, PADDED], tl.float32), tl.zeros([KEYS, PADDED], tl.float32)
    to_values = tl.zeros([KEYS, VALUES_PADDED], tl.float32)
    begin = 0
    if CAUSAL:  # earlier queries do not see the first of these keys
        begin = tl.maximum(tl.program_id(0) * KEYS - offset, 0) // ROWS * ROWS
    for one in range(0, GROUP):
        head = shared * GROUP + one
        place = batch * num_heads + head
        for first in range(begin, query_length, ROWS):
            rows = first + tl.arange(0, ROWS)
            q_a, q_b = pairs(q + batch * q_batch + head * q_head, q_row, rows, query_length, a, b, there_a, there_b, cosine,
                             sine, offset, HALF, PADDED, TURNED, WIDEN)  # fmt: skip
            asked = values_of(
                gradient + place * query_length * VALUES, VALUES, rows, query_length, VALUES, VALUES_PADDED, WIDEN
            )
            lse = tl.load(divisor + place * query_length + rows, mask=rows < query_length, other=float("-inf"))
            d = tl.load(delta + place * query_length + rows, mask=rows < query_length, other=0.0)
            s = scores(q_a, q_b, k_a, k_b, rows, keys, query_length, key_length, offset, scale, bias, head, HOOK, CAUSAL)
            p, ds = moved(s, lse, d, asked, values)
            to_values += tl.dot(tl.trans(p.to(asked.dtype)), asked, input_precision="ieee")
            left += tl.dot(tl.trans(ds.to(q_a.dtype)), q_a, input_precision="ieee")
            right += tl.dot(tl.trans(ds.to(q_b.dtype)), q_b, input_precision="ieee")
    left, right = left * scale, right * scale
    if TURNED:
        left, right = turned_back(left, right, cosine, sine, keys, key_length, 0, there_a, HALF, PADDED)
    at = tl.program_id(1) * key_length
    store_pairs(to_k + at * DIM, keys, key_length, a, b, there_a, there_b, left, right, DIM)
    d = tl.arange(0, VALUES_PADDED)
    mask = (keys < key_length)[:, None] & (d < VALUES)[None, :]
    tl.store(to_v + (at + keys)[:, None] * VALUES + d[None, :], to_values, mask=mask)
