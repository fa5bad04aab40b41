"""Modules to train with: a bias that owns its table, and multi-head attention that takes any scheme or several together."""

from relpos.impls.modules.multi_head_attention import MultiHeadAttention as MultiHeadAttention
from relpos.impls.modules.relative_position_bias import RelativePositionBias as RelativePositionBias

__all__ = ["MultiHeadAttention", "RelativePositionBias"]
