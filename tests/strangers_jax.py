"""Right implementations in JAX, as somebody writes them who has never seen torch."""

import jax
import jax.numpy as jnp


def slopes(num_heads):
    """The authors' rule, by recursion."""
    if num_heads & (num_heads - 1) == 0:
        return [2 ** (-8 * (h + 1) / num_heads) for h in range(num_heads)]
    p = 2 ** (num_heads.bit_length() - 1)
    return slopes(p) + slopes(2 * p)[0::2][: num_heads - p]


def bias(num_heads, query_positions, key_positions):
    m = jnp.array(slopes(num_heads)).reshape(-1, 1, 1)
    return -m * jnp.abs(query_positions[:, None] - key_positions[None, :])


def by_lengths(num_heads, query_length, key_length, offset):
    return bias(num_heads, jnp.arange(offset, offset + query_length), jnp.arange(key_length))


def in_dtype(num_heads, query_positions, key_positions, dtype):
    return bias(num_heads, query_positions, key_positions).astype(dtype)


def jitted(q, k, v, num_heads, query_positions, key_positions, mask):
    return _attend(q, k, v, bias(num_heads, query_positions, key_positions), mask)


@jax.jit
def _attend(q, k, v, bias, mask):
    logits = jnp.einsum("bhid,bhjd->bhij", q, k) / q.shape[-1] ** 0.5 + bias
    empty = ~mask.any(-1, keepdims=True)
    weights = jax.nn.softmax(jnp.where(mask & ~empty, logits, jnp.where(empty, 0.0, -jnp.inf)), axis=-1)
    return jnp.where(empty, 0.0, weights) @ v


def rotate(x, positions, head_dim):
    """Neighbouring columns are a pair."""
    m = jnp.arange(0, head_dim, 2)
    angles = positions[:, None] * 10000.0 ** (-m / head_dim)
    a, b = x[..., 0::2], x[..., 1::2]
    pairs = jnp.stack([a * jnp.cos(angles) - b * jnp.sin(angles), a * jnp.sin(angles) + b * jnp.cos(angles)], axis=-1)
    return pairs.reshape(x.shape)


class Clipped:
    """A plain class that is given its table, which JAX code keeps outside."""

    def __init__(self, max_distance):
        self.k = max_distance

    def __call__(self, table, query_positions, key_positions):
        row = jnp.clip(query_positions[:, None] - key_positions[None, :], -self.k, self.k) + self.k
        return jnp.asarray(table)[row].transpose(2, 0, 1)


class Decoder:
    """A class with a cache and a step."""

    def __init__(self, num_heads):
        self.num_heads, self.kept = num_heads, None

    def step(self, q, k, v):
        if self.kept is not None:
            k, v = (jnp.concatenate(pair, axis=2) for pair in zip(self.kept, (k, v), strict=True))
        self.kept = (jnp.asarray(k), jnp.asarray(v))
        j = jnp.arange(k.shape[2])
        i = j[-q.shape[2] :]
        return _attend(q, k, v, bias(self.num_heads, i, j), (j[None, :] <= i[:, None])[None, None])
