"""What one row measures: a variant of a scheme at one shape, dtype and mode; and the limit it is held against."""

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

Mode = Literal["forward", "forward_backward", "decode", "rotation"]
ATTENTION: tuple[Mode, ...] = ("forward", "forward_backward", "decode")
MODES: tuple[Mode, ...] = (
    *ATTENTION,
    "rotation",
)  # the last: queries and keys are turned, or for the limit copied, and that is all
LIMIT = "limit"  # attention without any position, by PyTorch's fused kernel, on the same q, k, v
CONTROL = "control"  # the limit once more: what differs between the two is noise


@dataclass(frozen=True, kw_only=True)
class Shape:
    """All that variants which are timed together share.

    query_length   1 in a decode step, else the key length
    """

    mode: Mode = "forward"
    causal: bool = False
    dtype: str = "float32"
    device: str = "cpu"
    batch: int = 1
    heads: int = 8
    head_dim: int = 64
    key_length: int = 512

    @property
    def query_length(self) -> int:
        """Queries of one call."""
        return 1 if self.mode == "decode" else self.key_length

    def but(self, **changes: Any) -> "Shape":
        """This shape with some fields replaced."""
        return replace(self, **changes)

    def describe(self) -> str:
        """In words, for progress and messages."""
        causal = "causal" if self.causal else "bidirectional"
        mode = self.mode.replace("_", " + ")
        return f"{mode}, {causal}, {self.dtype}, L = {self.key_length}"


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One implementation as it is measured.

    label      "alibi/toeplitz": scheme and name, as certificates have it
    spec       what `--impl` takes
    settings   fixed settings of its scheme
    claims     claims stated besides its card
    origin     "relpos", "yours", "torch", or package and version
    source     hash of its source: what has changed is measured again
    """

    label: str
    spec: str
    scheme: str
    settings: tuple[tuple[str, Any], ...] = ()
    claims: tuple[tuple[str, Any], ...] = ()
    origin: str = "relpos"
    source: str = ""


THE_LIMIT = Variant(label=LIMIT, spec="", scheme="none", origin="torch")
THE_CONTROL = Variant(label=CONTROL, spec="", scheme="none", origin="torch")


def shape_fields(shape: Shape) -> dict[str, Any]:
    """The shape as columns of a row."""
    return asdict(shape) | {"query_length": shape.query_length}


def shape_of(row: dict[str, Any]) -> Shape:
    """The shape of a row."""
    return Shape(**{f.name: row[f.name] for f in fields(Shape)})
