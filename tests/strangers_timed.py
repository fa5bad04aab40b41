"""Implementations of `none` that would be given a false figure, or spoil that of others, if nobody looked."""

import time

import torch
from torch.nn.functional import scaled_dot_product_attention as attend

from relpos.impls.card import implements

DTYPES = ("float32", "bfloat16")
KEPT, CALLS = {}, {}


def counted(name):
    CALLS[name] = CALLS.get(name, 0) + 1
    return CALLS[name]


@implements("none", dtypes=DTYPES)
def plain(q, k, v):
    return attend(q, k, v)


@implements("none")
def writes_into_q(q, k, v):
    found = attend(q, k, v)
    q.data.mul_(0.5)
    return found


@implements("none")
def turns_k_and_v_round(q, k, v):
    found = attend(q, k, v)
    for x in (k, v):
        x.data.copy_(x.data.flip(2))
    return found


@implements("none")
def writes_into_q_at_its_fourth_call(q, k, v):
    return writes_into_q(q, k, v) if counted("fourth") == 4 else plain(q, k, v)


@implements("none")
def writes_into_q_at_its_ninth_call(q, k, v):
    return writes_into_q(q, k, v) if counted("ninth") == 9 else plain(q, k, v)


@implements("none")
def keeps_by_address(q, k, v):
    if q.data_ptr() not in KEPT:
        KEPT[q.data_ptr()] = attend(q, k, v)
    return KEPT[q.data_ptr()]


@implements("none")
def keeps_by_shape(q, k, v):
    if q.shape not in KEPT:
        KEPT[q.shape] = attend(q, k, v)
    return KEPT[q.shape]


@implements("none")
def keeps_by_identity(q, k, v):
    if id(q) not in KEPT:
        KEPT[id(q)] = attend(q, k, v)
    return KEPT[id(q)]


@implements("none", dtypes=DTYPES)
def keeps_weights_by_address(q, k, v):
    if (name := ("weights", q.data_ptr())) not in KEPT:
        KEPT[name] = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1)
    return KEPT[name] @ v


@implements("none")
def reuses_its_output(q, k, v):
    found = KEPT.setdefault(("output", q.shape), torch.empty_like(q))
    return found.copy_(attend(q, k, v))


@implements("none")
def gives_nan(q, k, v):
    found = attend(q, k, v).clone()
    found[0, 0, 0, :3] = torch.nan
    return found


@implements("none")
def gives_nothing(q, k, v):
    attend(q, k, v)


@implements("none")
def gives_two(q, k, v):
    return attend(q, k, v), None


@implements("none")
def gives_a_part(q, k, v):
    return attend(q, k, v)[:, :, :5]


@implements("none")
def interrupts(q, k, v):
    raise KeyboardInterrupt


@implements("none")
def interrupts_at_its_fourth_call(q, k, v):
    if counted("interrupts") == 4:
        raise KeyboardInterrupt
    return attend(q, k, v)


@implements("none")
def leaks(q, k, v):
    KEPT.setdefault("leaked", []).append(torch.zeros(1000))
    return attend(q, k, v)


@implements("none")
def hangs(q, k, v):
    time.sleep(300)
