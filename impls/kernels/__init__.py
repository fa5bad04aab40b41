"""Triton kernels: fused attention with a position hook in the tile; they need `triton`, and a GPU or its interpreter."""
