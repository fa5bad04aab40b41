"""What one step of a decoder is given, of what the whole sequence would be."""

from typing import Any


def of_step(ours: str, whole: Any, start: int, size: int, layout: str) -> Any:
    """The value of one of our names for the tokens start … start+size−1; keys that came before are the decoder's own."""
    new, there = slice(start, start + size), start + size
    if ours in ("q", "k", "v"):
        return whole[:, new] if layout == "blhd" else whole[:, :, new]
    if ours in ("padding_mask", "positions", "query_positions", "key_positions"):
        return whole[..., new]
    if ours == "mask":  # of the new queries, and of all keys there are by then
        return whole[..., new, :there]
    if ours == "offset":
        return whole + start
    return {"query_length": size, "key_length": there}.get(ours, whole)
