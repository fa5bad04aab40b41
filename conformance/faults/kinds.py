"""The kinds of fault that public reports are of, in the order of their numbers, and the laws that are made for each."""

from relpos.conformance.faults.cases import case

KINDS = {
    "cached or chunked decoding, offset lost or doubled": ("L3",),
    "length scaling of rotations": ("L17",),
    "parameter or flag not used": ("L16",),
    "dependence on more than the distance": ("L2", "L6"),
    "sign or direction of the distance": ("L11",),
    "pair layout and partial rotation": ("L14",),
    "frequencies and table formulas": ("L15",),
    "gradients": ("L20",),
    "low precision": ("L18",),
    "padding, packing, batch mates": ("L5",),
    "tiles, strides, other paths": ("L25", "L28"),
    "mixed-up axes": ("L21",),
    "scale applied zero times or twice": ("L29",),
    "index on several axes, resizing": ("L13", "L31"),
    "values per head: shards, groups": ("L9",),
    "stale caches, history": ("L4",),
    "corner of the causal mask": ("L7",),
    "empty rows, masked NaN": ("L8",),
    "bucket edges": ("L12",),
    "slope rule": ("L10",),
    "tracing and compiling": ("L24",),
    "degenerate sizes": ("L26",),
    "state: load, cast, meta device": ("L23",),
    "integer overflow of positions": ("L19",),
    "a position term where there should be none": ("L27",),
    "shards of a context": ("L30",),
    "memory": ("L22",),
    "another formula": ("L1",),
}


def kind_of(law: str, cases: tuple[str, ...] = ()) -> str:
    """The kind of a fault, numbered as "7 frequencies and table formulas": that of its first report, else of its law."""
    if cases:
        return _numbered()[case(cases[0]).kind - 1]
    return next((name for name, (_, names) in zip(_numbered(), KINDS.items(), strict=True) if law in names), "other")


def _numbered() -> list[str]:
    return [f"{n} {kind}" for n, kind in enumerate(KINDS, 1)]
