"""Derivatives of swin_v2: of the network inside the sigmoid, of the temperatures, and of the lengths under the cosine.

With s = sigmoid(x) and X the sum of magnitudes inside it, the slope 16·s(1 − s) is off by at most X times itself, hence
S = 16·s(1 − s)·(1 + X)·∂X/∂|p|. Of a cosine, ∂cos/∂q_c = (k̂_c − cos·q̂_c) / |q|: both terms, and three roundings each for
lengths and products as in the definition's `content_magnitude`.
"""

from math import log

import numpy as np

from relpos.conformance.plan import Inputs
from relpos.spec.attention import repeated
from relpos.spec.positions import Positions
from relpos.spec.swin_v2 import LARGEST, SHORTEST


def of_parameter(given: Inputs, name: str, *, bias: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """J and S of every entry of a parameter, [B, …, H, Lq, Lk]."""
    if name == "logit_scale":
        return _of_temperature(given, bias)
    samples = [_of_network(given, name, given.query_positions.row(b), given.key_positions.row(b)) for b in range(len(given.q))]
    return np.stack([J for J, _ in samples]), np.stack([S for _, S in samples])


def of_vectors(given: Inputs, name: str, column: int) -> tuple[np.ndarray, np.ndarray]:
    """J and S of one column of q or k, [B, H, Lq, Lk]."""
    q, k = given.q, repeated(given.k, given.q.shape[1])
    lengths = [np.maximum(np.linalg.norm(x, axis=-1)[..., None], SHORTEST) for x in (q, k)]
    q, k = q / lengths[0], k / lengths[1]
    own, other = q[..., column][..., None], k[..., column][..., None, :]
    length = lengths[0]
    if name == "k":
        own, other, length = other, own, lengths[1].swapaxes(-1, -2)
    τ = np.minimum(given.params["logit_scale"], LARGEST)[:, None, None]
    own = np.where(length > SHORTEST, own, 0.0)  # a length that is fixed does not move
    cosine, size = q @ k.swapaxes(-1, -2), np.abs(q) @ np.abs(k).swapaxes(-1, -2)
    J = np.exp(τ) * (other - cosine * own) / length
    return J, np.exp(τ) * (3 + np.abs(τ)) * (np.abs(other) + size * np.abs(own)) / length


def _of_temperature(given: Inputs, bias: bool) -> tuple[np.ndarray, np.ndarray]:
    s, k = given.settings, repeated(given.k, given.q.shape[1])
    H = s.num_heads
    J, S = (np.zeros((len(given.q), H, H, given.q.shape[2], k.shape[2])) for _ in range(2))
    for b, h in np.ndindex(len(given.q), H):
        if not bias and given.params["logit_scale"][h] < LARGEST:
            J[b, h, h] = s.content(given.params, given.q[b], k[b])[h]
            S[b, h, h] = s.content_magnitude(given.params, given.q[b], k[b])[h]
    return J, S


def _of_network(given: Inputs, name: str, queries: Positions, keys: Positions) -> tuple[np.ndarray, np.ndarray]:
    s, (U, b, V) = given.settings, (given.params[n] for n in ("cpb_in", "cpb_bias", "cpb_out"))
    shape = (*given.params[name].shape, s.num_heads, len(queries), len(keys))
    J, S = np.zeros(shape), np.zeros(shape)
    for a, i in enumerate(queries):
        for e, j in enumerate(keys):
            c = s.coordinates_of(i, j)
            if c is None:
                continue
            size = 2 * np.abs(c) + (c != 0) / log(8)
            units, sizes = np.maximum(0, U @ c + b), np.abs(U) @ size + np.abs(b)
            p = np.exp(-np.logaddexp(0, -(V @ units)))
            slope, loose = 16 * p * (1 - p), 1 + np.abs(V) @ sizes
            on = (units > 0).astype(np.float64)
            x = _inside(name, V * on, units, c)
            X = _inside(name, np.abs(V), sizes, size)
            J[..., a, e], S[..., a, e] = slope * x, slope * loose * X
    return J, S


def _inside(name: str, V: np.ndarray, units: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The derivative of V · units inside the sigmoid, [parameter …, H]."""
    if name == "cpb_bias":
        return V.T
    if name == "cpb_in":
        return V.T[:, None, :] * c[None, :, None]
    return np.eye(len(V))[:, None, :] * units[None, :, None]
