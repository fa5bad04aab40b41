"""How a figure grows with L: the fit y = a + b·L^p, with an interval from resampling; a claim only where it stands alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar, nnls

COARSE = np.arange(0.0, 3.01, 0.25)  # exponents; the best of them is then refined between its neighbours
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
    medians = np.array([np.median(s) for s in samples])
    a, b, p, residual = _fitted(L, medians)
    drawn, exponents = np.random.default_rng(seed), []
    if max(len(s) for s in samples) > 1:
        for _ in range(RESAMPLED):
            again = np.array([np.median(drawn.choice(s, len(s))) for s in map(np.asarray, samples)])
            exponents.append(_fitted(L, again)[2])
    low, high = np.percentile(exponents, [LOW, HIGH]) if exponents else (p, p)
    return Fit(a, b, p, float(low), float(high), residual)


def _fitted(L: np.ndarray, y: np.ndarray) -> tuple[float, float, float, float]:
    """Relative least squares: a thousandth matters as much at short lengths as at long ones; a and b are not negative."""
    if y.max() < FLAT * y.min():  # then any exponent fits with a b that is nothing
        return float(np.median(y)), 0.0, 0.0, float(np.max(np.abs(np.median(y) / y - 1)))
    scaled = L / L.max()

    def solved(p: float) -> tuple[np.ndarray, float]:
        return nnls(np.stack([1 / y, scaled**p / y], axis=1), np.ones(len(y)))

    start = min(COARSE, key=lambda p: solved(p)[1])
    around = (max(start - COARSE[1], 0.0), start + COARSE[1])
    p = float(minimize_scalar(lambda p: solved(p)[1], bounds=around, method="bounded", options={"xatol": 1e-3}).x)
    a, b = solved(p)[0] / np.array([1.0, L.max() ** p])
    residual = float(np.max(np.abs((a + b * L**p) / y - 1)))
    return float(a), float(b), float(p), residual


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
