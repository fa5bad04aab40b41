"""Values for the names an implementation asks for, as tensors of the working dtype."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from relpos.conformance.errors import AdapterError, Refused
from relpos.conformance.expected import scale_of
from relpos.conformance.plan import Inputs
from relpos.conformance.precision import as_array, bfloat16, torch_dtype
from relpos.impls.card import Card
from relpos.spec.positions import Grid, Positions, in_one_context

# The same numbers at other places in memory, [B, H, L, D] or [B, L, H, D]; kernels may decline columns that lie apart.
COLUMNS_APART = ("column-major", "every-other-column")
ALONE = tuple({"storage": "column-major", "only": name} for name in ("q", "k", "v"))  # who asks it of one forgets another
STORAGES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "transposed": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "sliced": lambda x: torch.cat([x, x + 1], dim=-1)[..., : x.shape[-1]],
    "column-major": lambda x: x.mT.contiguous().mT,
    "every-other-column": lambda x: torch.stack([x, x + 1], dim=-1)[..., 0],
    "expanded": lambda x: _expanded(x),
}

# What is handed over in place of a tensor or array that was made for one call, by our name for it.
Hand = Callable[[str, Any], Any]


def as_made(name: str, made: Any) -> Any:
    """What was made is handed over."""
    del name
    return made


def _expanded(x: torch.Tensor) -> torch.Tensor:
    """Stride 0 along the axis of heads, if all heads hold the same numbers."""
    for axis in (1, 2):
        first = x.narrow(axis, 0, 1)
        if torch.equal(first.expand_as(x), x):
            return first.clone().expand_as(x)
    return x


class Provider:
    """Provides every name of the contract for one call; tensors are made once, so that gradients can be read from them."""

    def __init__(
        self,
        inputs: Inputs,
        card: Card,
        *,
        arrays: str,
        device: str,
        wanted: frozenset[str] = frozenset(),
        hand: Hand = as_made,
    ) -> None:
        self.inputs, self.card, self.arrays, self.device, self.wanted, self.hand = inputs, card, arrays, device, wanted, hand
        self.role = "query"
        self.leaves: dict[str, Any] = {}

    def value(self, name: str) -> Any:
        """The value of one of our names."""
        plain: dict[str, Callable[[], Any]] = {
            "settings": lambda: self.inputs.settings,
            "params": lambda: {p: self.tensor(p, a) for p, a in self.inputs.params.items()},
            "role": lambda: self.role,
            "causal": lambda: self.inputs.causal,
            "scale": self._scale,
            "head_indices": lambda: self._whole(np.array(self._heads(), dtype=np.int64)),
            "num_kv_heads": lambda: self.inputs.k.shape[1],
            "dtype": lambda: self._dtype(),
            "device": lambda: torch.device(self.device),
            "x": self._x,
            "positions": lambda: self.hand(f"positions of the {self.role}", self._positions(self._own_positions())),
            "query_positions": lambda: self.hand(name, self._positions(self.inputs.query_positions)),
            "key_positions": lambda: self.hand(name, self._positions(self.inputs.key_positions)),
            "query_length": lambda: len(self.inputs.query_positions),
            "key_length": lambda: len(self.inputs.key_positions),
            "offset": lambda: int(next(iter(self._own_positions().row(0)), 0)),
            "grid": lambda: self._grid(),
            "sequence_length": self._sequence_length,
            "mask": lambda: self.hand(name, self._mask()),
            "padding_mask": lambda: self.hand(name, self._padding_mask()),
        }
        if name in ("q", "k", "v"):
            return self.laid_out(name, getattr(self.inputs, name))
        if name in self.inputs.params:
            return self.tensor(name, self.inputs.params[name])
        if name in plain:
            return plain[name]()
        if not hasattr(self.inputs.settings, name):  # a learned tensor that there is not under these settings
            raise Refused(f"under these settings there is no `{name}`, which it asks for")
        return getattr(self.inputs.settings, name)

    def options(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Options of the implementation's own: the variant that is tried, else the first value that the card lists."""
        chosen = self.inputs.plan.extra.get("variant", {})
        return {name: chosen.get(name, self.card.variants[name][0]) for name in names}

    def tensor(self, name: str, array: np.ndarray) -> Any:
        """A leaf of the working dtype, made once per name."""
        if name not in self.leaves:
            plain = self._float(array)
            stored, only = (self.inputs.plan.extra.get(key) for key in ("storage", "only"))
            if stored and only in (None, name) and plain.ndim == 4 and self._torch():
                plain = STORAGES[stored](plain)
            plain = self.hand(name, plain)
            self.leaves[name] = plain.requires_grad_(name in self.wanted) if self._torch() else plain
        leaf = self.leaves[name]
        # As in a model, where what comes in was computed by a layer below and holds no gradient of its own.
        return leaf.clone() if self.inputs.plan.extra.get("computed") and name in self.wanted else leaf

    def laid_out(self, name: str, array: np.ndarray) -> Any:
        """q, k, v or x with its axes in the layout of the card."""
        return self.tensor(name, array.swapaxes(1, 2) if self.card.layout == "blhd" else array)

    def _torch(self) -> bool:
        return self.arrays == "torch"

    def _float(self, array: np.ndarray) -> Any:
        tensor = torch.from_numpy(np.ascontiguousarray(array)).to(torch_dtype(self.inputs.plan.dtype)).to(self.device)
        return tensor if self._torch() else as_array(tensor)

    def _whole(self, array: np.ndarray) -> Any:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device) if self._torch() else array

    def _scale(self) -> float | None:
        # None means the default to those who have one; who requires a scale gets a number.
        optional = "scale" in {self.card.rename.get(name, name) for name in self.card.binds}
        return self.inputs.scale if optional else scale_of(self.inputs)

    def _dtype(self) -> Any:
        if self._torch():
            return torch_dtype(self.inputs.plan.dtype)
        return bfloat16() if self.inputs.plan.dtype == "bfloat16" else np.dtype(self.inputs.plan.dtype)

    def _own_positions(self) -> Positions:
        return self.inputs.key_positions if self.role == "key" else self.inputs.query_positions

    def _positions(self, positions: Positions) -> Any:
        return self._whole(positions.array())

    def _heads(self) -> tuple[int, ...]:
        """Global indices of the heads that are asked about: all, or a shard."""
        return self.inputs.plan.extra.get("head_indices") or tuple(range(self.inputs.q.shape[1]))

    def _sequence_length(self) -> Any:
        """A number, or one per sample where positions differ per sample; on several axes nothing has a length."""
        if self.inputs.query_positions.axes > 1:
            return None
        pair, B = (self.inputs.query_positions, self.inputs.key_positions), self.inputs.plan.batch
        lengths = [in_one_context(*pair, B)[0].row(b).context() for b in range(B)]
        return lengths[0] if all(p.array().ndim == 1 for p in pair) else self._whole(np.array(lengths))

    def _grid(self) -> tuple[int, ...]:
        positions = self._own_positions()
        if not isinstance(positions, Grid):
            raise AdapterError("`grid` is the shape of a whole grid, and is asked for without positions.")
        return positions.shape

    def _x(self) -> Any:
        if self.inputs.settings.form == "embedding":
            return self.tensor("x", self.inputs.q[:, 0])
        source = self.inputs.k if self.role == "key" else self.inputs.q
        return self.laid_out(f"x of the {self.role}", source)

    def _mask(self) -> Any:
        B, _, Lq, Lk = *self.inputs.q.shape[:3], self.inputs.k.shape[2]
        keep = np.ones((B, 1, Lq, Lk), dtype=bool) if self.inputs.mask is None else self.inputs.mask
        return self._sense(keep)

    def _padding_mask(self) -> Any:
        B, Lk = self.inputs.k.shape[0], self.inputs.k.shape[2]
        mask = self.inputs.mask
        keep = np.ones((B, Lk), dtype=bool) if mask is None else np.asarray(mask[:, 0].all(axis=1))
        return self._sense(keep)

    def _sense(self, keep: np.ndarray) -> Any:
        if self.card.mask == "additive":
            return self._float(np.where(keep, 0.0, -np.inf))
        return self._whole(keep if self.card.mask == "true_keeps" else np.array(np.logical_not(keep)))
