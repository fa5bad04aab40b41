"""How a figure grows with L: the fit y = a + b·L^p, with an interval from resampling; a claim only where it stands alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

EXPONENTS = np.linspace(0.0, 3.25, 651)  # all that are tried
DEGENERATE = 1e-9  # of a determinant: two columns that are one
RESAMPLED = 400
LOW, HIGH = 2.5, 97.5  # percent: the 95 % interval
FLAT = 1.05  # over all lengths: what grows by less is constant
FEWEST = 4  # lengths; three numbers are fitted
# Growths that have a name, and the half-way marks between them: an interval that reaches beyond a mark names nothing.
NAMED = {0.0: "constant", 1.0: "linear", 2.0: "quadratic", 3.0: "cubic"}


@dataclass(frozen=True)
class Fit:
    """y = a + b·L^p, p with its 95 % interval; residual: largest relative error of the fit."""

    a: float
    b: float
    p: float
    low: float
    high: float
    residual: float

    @property
    def word(self) -> str:
        """Its name, where the interval excludes the neighbours; empty otherwise."""
        for exponent, name in NAMED.items():
            if exponent - 0.5 < self.low and self.high < exponent + 0.5:
                return name
        return ""


def fit(lengths: Sequence[int], samples: Sequence[Sequence[float]], *, seed: int) -> Fit | None:
    """Fit the medians of the samples of each length; the interval resamples within lengths. None: too few lengths."""
    L = np.array(lengths, dtype=np.float64)
    if len(np.unique(L)) < FEWEST:
        return None
    drawn, resampled = np.random.default_rng(seed), RESAMPLED if max(len(s) for s in samples) > 1 else 0
    again = [np.median(drawn.choice(s, (resampled, len(s))), axis=1) for s in map(np.asarray, samples)]
    y = np.array([np.median(s) for s in samples])
    a, b, p = _fitted(L, np.vstack([y, np.stack(again, axis=1)]))
    low, high = np.percentile(p[1:], [LOW, HIGH]) if resampled else (p[0], p[0])
    residual = float(np.max(np.abs((a[0] + b[0] * L ** p[0]) / y - 1)))
    return Fit(float(a[0]), float(b[0]), float(p[0]), float(low), float(high), residual)


def _fitted(L: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """a, b and p of every row of y [rows, lengths], a and b not negative.

    Relative least squares: a thousandth matters as much at short lengths as at long ones. For each exponent tried, a and b
    solve the normal equations; where one of them would be negative it is 0 and the other is fitted alone.
    """
    s = (L / L.max()) ** EXPONENTS[:, None]  # [exponents, lengths]
    one, w = np.ones_like(s), 1 / y
    A, d = (w**2) @ one.T, w @ one.T
    B, C, e = (w**2) @ s.T, (w**2) @ (s**2).T, w @ s.T
    with np.errstate(divide="ignore", invalid="ignore"):
        det = A * C - B**2
        a, b = (d * C - e * B) / det, (A * e - B * d) / det
    alone = ~(det > DEGENERATE * A * C) | (b < 0)  # L^0 is the intercept once more
    a, b = np.where(alone, d / A, a), np.where(alone, 0.0, b)
    a, b = np.where(a < 0, 0.0, a), np.where(a < 0, e / C, b)
    best = np.argmax(a * d + b * e, axis=1)  # what the fit explains: the rest is the squared error
    best[y.max(axis=1) < FLAT * y.min(axis=1)] = 0  # then any exponent fits with a b that is nothing
    row, p = np.arange(len(y)), EXPONENTS[best]
    return a[row, best], b[row, best] / L.max() ** p, p


def claimed_exponent(claim: str) -> float:
    """Highest power of L in a claim of memory such as "B*H*Lq*Lk + B*H*Lq*D", with Lq = Lk = L."""
    terms = claim.replace(" ", "").split("+")
    return float(max(sum(factor in ("L", "Lq", "Lk") for factor in term.split("*")) for term in terms))


def against_claim(found: Fit, claim: str) -> str:
    """Words where a measured growth of memory goes beyond what the card claims; empty: it does not."""
    owed = claimed_exponent(claim)
    if found.low > owed + 0.25:
        return f"peak memory grows like L^{found.p:.2f}, the card claims {claim}"
    return ""
