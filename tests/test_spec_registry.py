"""Schemes are found by listing a folder, and asked for by name."""

import pytest

from relpos.spec.contract import scheme_name
from relpos.spec.registry import UnknownScheme, schemes, settings_class


@pytest.mark.parametrize(
    ("given", "hint"), [("alibbi", "Did you mean alibi? "), ("Shaw", "Did you mean shaw? "), ("qqqq", "")], ids=str
)
def test_an_unknown_scheme_is_answered_with_the_nearest_names(given, hint):
    with pytest.raises(UnknownScheme) as caught:
        settings_class(given)
    message = str(caught.value)
    assert message.startswith(f"no scheme is called {given!r}. {hint.rstrip('? ')}")
    assert bool(hint) == ("Did you mean" in message)
    assert message.endswith(f"There are: {', '.join(schemes())}.")


@pytest.mark.parametrize("scheme", schemes())
def test_a_scheme_is_named_after_its_file(scheme):
    assert scheme_name(settings_class(scheme)) == scheme
    assert settings_class(scheme).form in ("none", "embedding", "rotation", "bias", "logits")


def test_the_machinery_is_not_a_scheme():
    assert not {"contract", "attention", "positions", "registry", "rope_scaling"} & set(schemes())
