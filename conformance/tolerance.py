"""How far a right implementation may be off: error ≤ c · (s(n)·u·M + u_p·P + n·η), element by element.

    u    unit roundoff of the working dtype
    M    sum of the magnitudes of the terms of the declared form, in float64 (`magnitude.py`, one formula per form and output)
    u_p  unit roundoff in which positions become angles: never coarser than float32, whatever the working dtype, because
         an angle formed in bfloat16 is wrong by whole radians past position 256
    P    sum of the magnitudes that multiply an error of the angle
    n·η  n rounded terms, each of which may underflow to zero below the smallest normal number η
    s(n) growth of the error of a long sum: max(1, √(n/32)). Summed one after another, n roundings of partial sums add up to
         √n of one if they are independent (Higham & Mary, "A New Approach to Probabilistic Rounding Error Analysis", 2019);
         up to 32 terms that is in c
    c    what first order leaves out (order of summation, several roundings of one term); calibrated below

c is measured, not chosen: `python -m relpos.conformance.calibrate` runs the built-in implementations and rewritings of them
(another order of summation, slopes by powers in float32, exponentials in base 2) over 400 drawn inputs of each,
in every dtype it claims, and prints the largest error in units of s(n)·u·M + u_p·P + n·η. c is the next power of two above
twice that. In float64 the
definition rounds as much as the implementation, so both errors are in the figure.
"""

from dataclasses import dataclass
from math import sqrt

from relpos.conformance.precision import smallest_normal, unit_roundoff

# kind of result → c; beside it the largest error measured, in units: float64, float32, bfloat16, float16.
C: dict[str, float] = {
    "bias": 4.0,  # 1.88  1.78  0.36  0.81   slopes as powers of a rounded base, 128 heads; Swin v2's network
    "embedding": 2.0,  # 0.00  1.00  1.00  0.88
    "rotated": 8.0,  # 3.69  3.08  2.00  1.65   float64: a table beside angles one by one; float32: powers of xpos
    "logits": 16.0,  # 4.76  3.11  0.96  0.88   float64: the Music Transformer's q·k and q·E, each summed apart
    "output": 4.0,  # 1.24  0.98  0.64  0.62
    "gradient": 8.0,  # 2.18  1.73  2.05  1.48
}

# Finite stand-in for poison in masked keys: a quarter of the dtype's maximum, so that sums of it do not overflow.
POISON_FRACTION = 0.25

SUMMED_IN_C = 32  # terms: the calibration draws at most 8 keys and 8 columns, and c is twice what was measured


def growth(terms: int) -> float:
    """s(n), how much more the roundings of a sum of n terms may add up to than c covers."""
    return max(1.0, sqrt(terms / SUMMED_IN_C))


@dataclass(frozen=True)
class Units:
    """The roundoffs that apply to one working dtype."""

    u: float
    u_position: float
    eta: float


def units(dtype: str) -> Units:
    """Roundoffs of a working dtype; angles are owed in float32 at least."""
    u = unit_roundoff(dtype)
    return Units(u, min(u, unit_roundoff("float32")), smallest_normal(dtype))
