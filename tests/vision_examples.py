"""Settings of the schemes of windows, and parameters for them, shared by their tests."""

import numpy as np
import pytest
import torch

from relpos.spec.beit import BEiT
from relpos.spec.swin import Swin
from relpos.spec.swin_v2 import SwinV2

EXAMPLES = (
    Swin(2, (2, 3)),
    Swin(2, (2, 1, 2), sign="key_minus_query"),
    BEiT(2, (2, 3)),
    SwinV2(2, (2, 3), hidden=5),
    SwinV2(2, (2, 2), (4, 6), hidden=3, coordinates="paper"),
)
every_example = pytest.mark.parametrize("settings", EXAMPLES, ids=repr)


def drawn(settings, seed=0):
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(shape) for name, shape in settings.parameters().items()}


def tensors(params):
    return {name: torch.from_numpy(value) for name, value in params.items()}
