"""One tile of scores: what forward and backward compute alike, in Triton.

    query positions  i + offset │ score(i, j) = scale · (a_i · a_j + b_i · b_j) + bias(j − i − offset)
    keys             j          │ a, b: the two columns of every pair, turned as they are loaded, or as they are

A hook is chosen when the kernel is compiled:
    SLOPES   bias = −past · distance before the query, −future · distance after it: ALiBi under all its rules; infinity: never
    LINE     a number per distance, looked up: T5's buckets, clipped tables, any function of the distance
    TURNED   pairs are multiplied by e^(iθ) of their position: a rotation inside the load

In the interpreter 16-bit numbers are wrong as they are, so they are widened as soon as they are loaded (WIDEN).
Source: the tiling of Dao (FlashAttention-2, 2023); hooks after Dong et al. (FlexAttention, 2024), written for a position alone.
"""

import triton
import triton.language as tl

NONE, SLOPES, LINE = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)


@triton.jit
def columns_of(columns, HALF: tl.constexpr, DIM: tl.constexpr, PADDED: tl.constexpr, TURNED: tl.constexpr):
    """Columns a and b of all pairs, and which of them there are."""
    m = tl.arange(0, PADDED)
    there = m < HALF
    a, b = m, m + HALF
    if TURNED:
        a = tl.load(columns + m, mask=there, other=0)
        b = tl.load(columns + HALF + m, mask=there, other=0)
    return a, b, there, there & (b < DIM)


@triton.jit
def pairs(
    x, stride, rows, length, a, b, there_a, there_b, cosine, sine, first,
    HALF: tl.constexpr, PADDED: tl.constexpr, TURNED: tl.constexpr, WIDEN: tl.constexpr,
):  # fmt: skip
    """Rows of x as their columns a and b, turned where they are to be; `first` is the table's row of row 0."""
    inside = (rows < length)[:, None]
    left = tl.load(x + rows[:, None] * stride + a[None, :], mask=inside & there_a[None, :], other=0.0)
    right = tl.load(x + rows[:, None] * stride + b[None, :], mask=inside & there_b[None, :], other=0.0)
    if WIDEN:
        left, right = left.to(tl.float32), right.to(tl.float32)
    if TURNED:
        at = (rows[:, None] + first) * HALF + tl.arange(0, PADDED)[None, :]
        c = tl.load(cosine + at, mask=inside & there_a[None, :], other=1.0)
        s = tl.load(sine + at, mask=inside & there_a[None, :], other=0.0)
        wide_left, wide_right = left.to(tl.float32), right.to(tl.float32)
        left = (wide_left * c - wide_right * s).to(left.dtype)
        right = (wide_left * s + wide_right * c).to(right.dtype)
    return left, right


@triton.jit
def turned_back(left, right, cosine, sine, rows, length, first, there, HALF: tl.constexpr, PADDED: tl.constexpr):
    """Gradients of turned pairs as gradients of the pairs."""
    at = (rows[:, None] + first) * HALF + tl.arange(0, PADDED)[None, :]
    mask = (rows < length)[:, None] & there[None, :]
    c = tl.load(cosine + at, mask=mask, other=1.0)
    s = tl.load(sine + at, mask=mask, other=0.0)
    return left * c + right * s, right * c - left * s


@triton.jit
def scores(
    q_a, q_b, k_a, k_b, rows, keys, query_length, key_length, offset, scale, bias, head,
    HOOK: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Scores of a tile, [rows, keys], −∞ where nothing is seen."""
    found = tl.dot(q_a, tl.trans(k_a), input_precision="ieee") + tl.dot(q_b, tl.trans(k_b), input_precision="ieee")
    found = found * scale
    distance = keys[None, :] - rows[:, None] - offset
    seen = (rows < query_length)[:, None] & (keys < key_length)[None, :]
    if HOOK == SLOPES:
        past, future = tl.load(bias + 2 * head), tl.load(bias + 2 * head + 1)
        far = distance.to(tl.float32)
        found += tl.where(distance < 0, far * past, tl.where(distance > 0, -far * future, 0.0))
    if HOOK == LINE:
        wide = query_length + key_length - 1
        found += tl.load(bias + head * wide + distance + query_length - 1 + offset, mask=seen, other=0.0)
    if CAUSAL:
        seen = seen & (distance <= 0)
    return tl.where(seen, found, float("-inf"))
