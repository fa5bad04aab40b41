"""Products with every distance in order, moved so that each lies at its pair: as a view, and by the published trick.

Column c of x [..., n, W] is the distance c − (n − 1), key minus query, of the first query against what it is multiplied with.
"""

from torch import Tensor
from torch.nn.functional import pad


def aligned(x: Tensor, columns: int) -> Tensor:
    """x [..., n, n + columns] as [..., n, columns]: entry (i, j) is column j − i + n − 1 of row i, right for every pair.

    A view. The last column of x is read by nobody: with it, a row of the view is never longer than its stride (n = 1).
    """
    n, width = x.shape[-2:]
    return x.flatten(-2).narrow(-1, n - 1, n * (width - 1)).unflatten(-1, (n, width - 1))[..., :columns]


def spread(weights: Tensor) -> Tensor:
    """The transpose of `aligned`: [..., n, columns] -> [..., n, n + columns], every weight at the column of its distance."""
    n, columns = weights.shape[-2:]
    flat = pad(weights, (0, n - 1)).flatten(-2)
    return pad(flat, (n - 1, 1)).unflatten(-1, (n, n + columns))


def skewed(x: Tensor) -> Tensor:
    """Pad, reshape, slice, as published: x [..., n, m] whose last column is the last query's own position.

    out[i, j] = x[i, j − i + n − 1] for j ≤ i + m − n. Beyond lies 0, and then what belongs to the next query.
    """
    n, m = x.shape[-2:]
    return pad(x, (1, 0)).flatten(-2).unflatten(-1, (m + 1, n))[..., 1:, :].reshape(x.shape)


def unskewed(weights: Tensor) -> Tensor:
    """Back, as published: out[i, r] = weights[i, i + r − (n − 1)] of [..., n, n], for weights that are 0 after the query."""
    n = weights.shape[-1]
    padded = pad(weights, (0, 0, 1, 0)).flatten(-2)
    return padded.unflatten(-1, (n, n + 1))[..., 1:]
