"""Every law on the implementation given by --impl; run with `-p relpos.conformance.plugin`."""

from collections.abc import Callable


def test_law(relpos_law: Callable[[], None]) -> None:
    """The law holds."""
    relpos_law()
