"""XLNet of transformers: `rel_attn_core` with R of all distances made and projected at every call; eager is all it has."""

from importlib.metadata import version
from typing import Any

import torch
from transformers import XLNetConfig, XLNetModel  # type: ignore[import-not-found]

from relpos.perf.point import Variant


class Core:
    """The relative attention of a model of one layer, built once for a width, without the projections of hidden states."""

    def __init__(self, clamp_len):
        self.clamp_len = -1 if clamp_len is None else clamp_len
        self.models: dict[Any, Any] = {}

    def __call__(self, q, k, v, pos_bias_u, pos_bias_v, w_pos, causal):
        """q, k, v [B, H, L, D], u and v [H, D], W [H·D, H·D]; the output [B, H, L, D]."""
        B, H, L, D = q.shape
        made = H, D, causal
        if made not in self.models:
            with torch.inference_mode(False):  # what is kept outlives a call under it
                self.models[made] = one_layer(H, D, self.clamp_len, "uni" if causal else "bi")
        model = self.models[made]
        layer = model.layer[0].rel_attn
        layer.r_w_bias, layer.r_r_bias = pos_bias_u, pos_bias_v
        waves = model.relative_positional_encoding(L, L, bsz=B, device=q.device).to(q.dtype)
        keys_of_distance = torch.einsum("ibh,ndh->ibnd", waves, w_pos.view(H, D, H * D))
        hidden = model.create_mask(L, 0)[:, :, None, None].to(q.dtype) if causal else None
        out = layer.rel_attn_core(*(x.permute(2, 0, 1, 3) for x in (q, k, v)), keys_of_distance, attn_mask=hidden)
        return out.permute(1, 2, 0, 3)


def one_layer(H, D, clamp_len, attn_type) -> Any:
    """A model whose relative attention takes u and v as plain tensors."""
    options: dict[str, Any] = {
        "vocab_size": 1, "d_model": H * D, "n_head": H, "n_layer": 1, "d_inner": 1, "attn_type": attn_type,
        "clamp_len": clamp_len, "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0,
    }  # fmt: skip
    model: Any = XLNetModel(XLNetConfig(**options)).eval()
    layer = model.layer[0].rel_attn
    del layer.r_w_bias, layer.r_r_bias
    return model


PEERS = (
    Variant(
        label="transformer_xl/transformers-xlnet",
        spec=f"{__name__}:Core",
        scheme="transformer_xl",
        settings=(("variant", "xlnet"), ("d_model", None)),
        claims=(("level", "attention"), ("positions", "contiguous"), ("dtypes", ("float32", "bfloat16"))),
        origin=f"transformers {version('transformers')}",
    ),
)
