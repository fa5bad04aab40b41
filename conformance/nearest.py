"""What somebody meant by a name that there is not: other words for the same thing first, then similar spelling."""

from collections.abc import Iterable
from difflib import get_close_matches

# The field's other words for names of the contract.
ALSO_CALLED = {
    "num_heads": ("n_heads", "nheads", "n_head", "heads", "h", "num_attention_heads", "nh"),
    "head_dim": ("d_head", "dim_head", "head_size", "head_width", "d_k", "dk", "depth", "dim", "d"),
    "embed_dim": ("d_model", "hidden_size", "model_dim", "dim", "d", "n_embd", "width"),
    "mask": ("attention_mask", "attn_mask", "keep_mask"),
    "padding_mask": ("key_padding_mask", "pad_mask"),
    "causal": ("is_causal",),
    "scale": ("scaling", "softmax_scale", "sm_scale"),
    "q": ("query", "queries", "Q"),
    "k": ("key", "keys", "K"),
    "v": ("value", "values", "V"),
    "x": ("hidden_states", "inputs", "input", "tokens"),
    "positions": ("position_ids", "pos", "input_pos", "position"),
    "query_positions": ("q_pos", "query_pos", "q_positions", "q_idx"),
    "key_positions": ("k_pos", "key_pos", "k_positions", "kv_idx", "memory_position"),
    "query_length": ("q_len", "qlen", "seq_len", "seqlen", "length", "L", "T", "n", "i", "seq_length", "max_seq_len"),
    "key_length": ("k_len", "klen", "kv_len", "j", "S"),
    "offset": ("start_pos", "past_length", "past_key_values_length", "cache_position", "start"),
    "max_distance": ("k_clip", "clip", "max_relative_position", "max_rel_pos", "max_pos", "max_len", "window"),
    "num_buckets": ("n_buckets", "relative_attention_num_buckets"),
    "base": ("theta", "rope_theta", "rotary_base"),
    "rotary_dim": ("rot_dim", "rotary_ndims"),
    "table": ("weight", "relative_attention_bias", "bias_table", "relative_position_bias_table", "embedding"),
}


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Known names that may be meant, the likeliest first, at most three."""
    there = sorted(known)
    same = [ours for ours in there if name in ALSO_CALLED.get(ours, ()) or name.lower() in ALSO_CALLED.get(ours, ())]
    return [*same, *(n for n in get_close_matches(name, there, n=3, cutoff=0.5) if n not in same)][:3]
