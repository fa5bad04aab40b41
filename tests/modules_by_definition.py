"""What a MultiHeadAttention must answer, by the definitions: projected by its own weights, attended to as `spec/` says."""

from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from relpos.conformance.settings import smallest
from relpos.impls.modules import MultiHeadAttention
from relpos.spec import attention as spec
from relpos.spec.alibi import ALiBi
from relpos.spec.clipped import Clipped
from relpos.spec.deberta import DeBERTa
from relpos.spec.learned import Learned
from relpos.spec.music_transformer import MusicTransformer
from relpos.spec.none import NoPE
from relpos.spec.positions import Explicit
from relpos.spec.registry import schemes, settings_class
from relpos.spec.rope import RoPE
from relpos.spec.shaw import Shaw
from relpos.spec.sinusoidal import Sinusoidal
from relpos.spec.t5 import T5
from relpos.spec.transformer_xl import TransformerXL
from relpos.spec.xpos import XPos

B, H, HKV, D, LQ, LK = 2, 6, 3, 4, 5, 7
E = H * D
SIZES = {"num_heads": H, "head_dim": D, "embed_dim": E}


def default(scheme: str) -> Any:
    """A scheme's settings at the sizes of these tests."""
    cls = settings_class(scheme)
    return cls(**smallest(cls, **{field.name: SIZES[field.name] for field in fields(cls) if field.name in SIZES}))


EVERY = [(default(scheme),) for scheme in schemes() if not hasattr(settings_class(scheme), "axes")]  # those: test_vision.py
VARIANTS = [
    (ALiBi(H, distance="key_only"),),
    (ALiBi(H, distance="half_half"),),
    (ALiBi(H, scale_bias=True),),
    (T5(H, cross_attention=True),),
    (T5(H, bidirectional=False, score_scale="inverse_sqrt"),),
    (Clipped(H, 2, heads="shared", beyond="zero"),),
    (RoPE(D, rotary_dim=2, layout="half"),),
    (RoPE(D, rotary_dim=2, layout="half", partial="proportional"),),
    (RoPE(D, scaling="yarn", factor=4.0, original_max_position=512),),
    (XPos(D, scale_base=8.0, centre="floor"),),
    (Shaw(D, 2, tables="tied"),),
    (Shaw(D, 40, tables="relative_key_query"),),
    (MusicTransformer(H, D, 3, variant="unmasked", value_term="every", per_head=False),),
    (MusicTransformer(H, D, 8, variant="local", value_term="not_first_block"),),
    (TransformerXL(H, D, variant="learned", max_distance=3),),
    (TransformerXL(H, D, variant="bidirectional", d_model=6),),
    (TransformerXL(H, D, memory_length=2, same_length=True),),
    (TransformerXL(H, D, variant="xlnet", clamp_len=2, memory_length=1, segment_length=2),),
    (Learned(E, 48, first_row=2),),
    (DeBERTa(H, D, 2, terms="c2p"),),
    (DeBERTa(H, D, 8, version="v2", indices="paper"),),
]
TOGETHER = [
    (ALiBi(H), RoPE(D)),
    (Sinusoidal(E), Shaw(D, 2)),
    (RoPE(D), T5(H)),
    (T5(H), Shaw(D, 2)),
    (TransformerXL(H, D), MusicTransformer(H, D, 3, variant="local", value_term="every")),
    (Learned(E, 64), T5(H)),
    (Learned(E, 64), ALiBi(H), DeBERTa(H, D, 2)),
    (Sinusoidal(E), ALiBi(H)),
    (Shaw(D, 2), RoPE(D), Clipped(H, 2), ALiBi(H, scale_bias=True), Sinusoidal(E), NoPE()),
]


def name(schemes: tuple[Any, ...]) -> str:
    """Test id."""
    return " + ".join(str(settings) for settings in schemes)


def module(schemes: Any, **options: Any) -> MultiHeadAttention:
    """A module in float64 whose biases and tables are far from 0, so that none goes unnoticed."""
    torch.manual_seed(0)
    it = MultiHeadAttention(E, schemes, **{"num_heads": H, "init_std": 1.0, **options}).double()
    with torch.no_grad():
        for linear in (it.query, it.key, it.value, it.output):
            if linear.bias is not None:
                linear.bias.normal_()
    return it


def tokens(length: int = LQ, seed: int = 1) -> Tensor:
    """Random inputs [B, L, E] in float64."""
    return torch.randn(B, length, E, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def expected(
    it: MultiHeadAttention,
    x: Tensor,
    context: Tensor | None = None,
    positions: Tensor | None = None,
    context_positions: Tensor | None = None,
    keeps: Tensor | None = None,
    added: Tensor | None = None,
) -> Tensor:
    """The output by the definitions; `keeps` boolean and `added` finite, both [B, H, Lq, Lk]."""
    context = x if context is None else context
    context_positions = positions if context is x else context_positions
    at = [_positions(y, p) for y, p in ((x, positions), (context, context_positions))]
    q, k, v = _projected(it, *(_placed(it, y, p) for y, p in zip((x, context), at, strict=True)))
    core = _alone if len(it.schemes) < 2 and added is None else _together
    out = core(it, q, k, v, *at, None if keeps is None else keeps.numpy(), 0.0 if added is None else added.numpy())
    return it.output(torch.from_numpy(out).transpose(1, 2).flatten(2))


def _positions(x: Tensor, positions: Tensor | None) -> Explicit:
    return Explicit(np.arange(x.shape[1]) if positions is None else positions.numpy())


def _settings(it: MultiHeadAttention, *forms: str) -> list[Any]:
    return [scheme.settings for scheme in it.schemes.values() if scheme.settings.form in forms]


def _params(it: MultiHeadAttention, settings: Any) -> dict[str, np.ndarray]:
    (scheme,) = [scheme for scheme in it.schemes.values() if scheme.settings is settings]
    return {name: parameter.detach().numpy() for name, parameter in scheme.named_parameters()}


def _placed(it: MultiHeadAttention, x: Tensor, at: Explicit) -> Tensor:
    for settings in _settings(it, "embedding"):
        x = x + torch.from_numpy(np.stack([spec.encoded(settings, _params(it, settings), at.row(b)) for b in range(len(x))]))
    return x


def _projected(it: MultiHeadAttention, x: Tensor, context: Tensor) -> list[np.ndarray]:
    projected = (it.query(x), it.key(context), it.value(context))
    return [y.detach().unflatten(-1, (-1, D)).transpose(1, 2).numpy() for y in projected]


def _alone(it, q, k, v, q_at, k_at, keeps, added) -> np.ndarray:
    """At most one scheme: the definition's own attention; an embedding is in the input already."""
    del added
    (settings,) = _settings(it, "none", "rotation", "bias", "logits") or [NoPE()]
    return spec.attention(
        settings, _params(it, settings) if settings.parameters() else {}, q, k, v, q_at, k_at, mask=keeps, causal=it.causal
    )


def _together(it, q, k, v, q_at, k_at, keeps, added) -> np.ndarray:
    """Several: turned q·k, plus the position term of each, of q and k that are not turned."""
    terms = _settings(it, "bias", "logits")
    (rotation,) = _settings(it, "rotation") or [NoPE()]
    (scale,) = [spec.default_scale(s, D) for s in terms if hasattr(s, "scale")] or [D**-0.5]
    score = spec.logits(rotation, {}, q, k, q_at, k_at, scale=scale) + added
    for s in terms:
        score = score + spec.position_term(s, _params(it, s), q, spec.repeated(k, H), q_at, k_at, scale)
    weights = spec.softmax(score, spec.allowed(score.shape, q_at, k_at, mask=keeps, causal=it.causal))
    out = weights @ spec.repeated(v, H)
    for s in (s for s in terms if hasattr(s, "values")):
        out += np.stack([s.values(_params(it, s), weights[b], q_at.row(b), k_at.row(b)) for b in range(B)])
    return out
