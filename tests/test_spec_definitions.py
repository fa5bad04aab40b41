"""The definitions themselves: their worked tables, their shape as code, and 50 digits of every fixed number."""

import ast
import doctest
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import mpmath
import numpy as np
import pytest

import relpos.spec
from relpos.spec import contract
from relpos.spec.alibi import ALiBi
from relpos.spec.learned import Learned
from relpos.spec.positions import Explicit, Range
from relpos.spec.registry import schemes, settings_class
from relpos.spec.rope import RoPE
from relpos.spec.sinusoidal import Sinusoidal
from spec_examples import EXAMPLES, label

FOLDER = Path(relpos.spec.__file__).parent
FILES = sorted(FOLDER.glob("*.py"))
MOST_LINES, MOST_FUNCTION_LINES = 250, 30

EPS = 2.0**-52
# A power with exponent x, itself rounded, is off by |x|·ln(base) half-spacings: 13.1 for base 500000, 11.1 for slopes of
# bias_max 16; one more each for quotient and power, and 16 half-spacings in all
POWER = 8 * EPS
POSITIONS = (0, 1, -5, 37, 1000, 2**17 - 1)


def stem(path: Path) -> str:
    return path.stem


# ---- code


@pytest.mark.parametrize("module", [path.stem for path in FILES if path.stem != "__init__"])
def test_worked_tables_are_true(module):
    result = doctest.testmod(import_module(f"relpos.spec.{module}"))
    assert result.failed == 0
    assert result.attempted > 0 or module not in schemes(), f"{module} has no worked table"


@pytest.mark.parametrize("path", FILES, ids=stem)
def test_definitions_know_neither_torch_nor_implementations(path):
    imported = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            imported.add(node.module)
    outside = {name for name in imported if name.split(".")[0] not in sys.stdlib_module_names}
    assert all(name == "numpy" or name.startswith("relpos.spec.") for name in outside), sorted(outside)


@pytest.mark.parametrize("path", FILES, ids=stem)
def test_a_definition_fits_on_a_page(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MOST_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno + 1 <= MOST_FUNCTION_LINES, f"{node.name} is too long"


def test_pytest_does_not_collect_the_definitions():
    settings = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["tool"]["pytest"]["ini_options"]["testpaths"] == ["tests"]
    assert not [path for path in FILES if path.name.startswith("test_") or path.stem.endswith("_test")]


@pytest.mark.parametrize("scheme", schemes())
def test_every_public_definition_has_a_docstring(scheme):
    cls = settings_class(scheme)
    public = [value for name, value in vars(cls).items() if not name.startswith("_") and callable(value)]
    assert import_module(cls.__module__).__doc__ and cls.__doc__
    assert all(value.__doc__ for value in public if not isinstance(value, type))


@pytest.mark.parametrize("settings", EXAMPLES, ids=label)
def test_claims_are_words_of_the_contract(settings):
    claims = getattr(settings, "claims", frozenset())
    assert isinstance(claims, frozenset)
    assert all(f'"{word}"' in contract.__doc__ for word in claims)


def test_schemes_that_are_relative_say_so():
    def not_relative(settings):
        blocks = getattr(settings, "variant", "") == "local" or getattr(settings, "segment_length", None) is not None
        return blocks or isinstance(settings, Learned)

    silent = [settings for settings in EXAMPLES if not getattr(settings, "claims", frozenset())]
    assert [label(settings) for settings in silent if not not_relative(settings)] == []


# ---- 50 digits


def close(got: float, exact: mpmath.mpf, bound: float) -> None:
    error = abs(mpmath.mpf(float(got)) - exact)
    assert error <= bound, f"got {got!r}, exactly {mpmath.nstr(exact, 20)}, {mpmath.nstr(error, 3)} apart, allowed {bound:.3g}"


def published_slopes(H: int, bias_max: int) -> list[mpmath.mpf]:
    """The authors' recursion: a power of two is a geometric series; between two of them, every other slope of the next."""
    power = 1 << (H.bit_length() - 1)
    if power == H:
        return [mpmath.mpf(2) ** (-mpmath.mpf(bias_max) * h / H) for h in range(1, H + 1)]
    return published_slopes(power, bias_max) + published_slopes(2 * power, bias_max)[0::2][: H - power]


@pytest.mark.parametrize("bias_max", [8, 4, 16])
@pytest.mark.parametrize("rule", ["press", "geometric"])
def test_slopes_of_every_head_count(rule, bias_max):
    with mpmath.workdps(50):
        for H in range(1, 129):
            if rule == "press":
                exact = published_slopes(H, bias_max)
            else:
                exact = [mpmath.mpf(2) ** (-mpmath.mpf(bias_max) * h / H) for h in range(1, H + 1)]
            got = ALiBi(H, slope_rule=rule, bias_max=bias_max).slopes()
            assert got.shape == (H,)
            for slope, number in zip(got, exact, strict=True):
                close(slope, number, POWER * slope)


def test_slope_rules_agree_at_powers_of_two_alone():
    for H in range(1, 129):
        same = np.array_equal(ALiBi(H).slopes(), ALiBi(H, slope_rule="geometric").slopes())
        assert same == (H & (H - 1) == 0)


def frequency(base: float, numerator: int, denominator: int) -> mpmath.mpf:
    return mpmath.mpf(base) ** (-mpmath.mpf(numerator) / denominator)


@pytest.mark.parametrize("base", [10000.0, 500000.0, 100.0])
@pytest.mark.parametrize(("head_dim", "rotary_dim"), [(2, None), (8, None), (128, None), (5, 4), (80, 20)])
def test_rotary_frequencies(head_dim, rotary_dim, base):
    settings = RoPE(head_dim, rotary_dim, base)
    r = rotary_dim or head_dim
    with mpmath.workdps(50):
        assert settings.frequencies().shape == (r // 2,)
        for m, θ in enumerate(settings.frequencies()):
            close(θ, frequency(base, 2 * m, r), POWER * θ)


def exact_sinusoid(settings: Sinusoidal) -> list[tuple[str, mpmath.mpf]]:
    """Function and frequency of every column, written column by column."""
    D, base, n = settings.embed_dim, settings.base, settings.embed_dim // 2
    if settings.layout == "interleaved":
        return [("sin" if c % 2 == 0 else "cos", frequency(base, c - c % 2, D)) for c in range(D)]
    if settings.layout == "halves":
        sines = [("sin", frequency(base, 2 * c, D)) for c in range(D - n)]
        return sines + [("cos", frequency(base, 2 * c, D)) for c in range(n)]
    columns = [(f, frequency(base, m, max(n - 1, 1))) for f in ("sin", "cos") for m in range(n)]
    return columns + [("zero", mpmath.mpf(0))] * (D - 2 * n)


@pytest.mark.parametrize("base", [10000.0, 100.0])
@pytest.mark.parametrize("layout", ["interleaved", "halves", "t2t"])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 7, 16])
def test_sinusoid_entries(width, layout, base):
    settings = Sinusoidal(width, layout, base)
    encoded = settings.encode(Explicit(POSITIONS))
    functions = {"sin": mpmath.sin, "cos": mpmath.cos, "zero": lambda angle: angle * 0}
    with mpmath.workdps(50):
        columns = exact_sinusoid(settings)
        assert encoded.shape == (len(POSITIONS), width)
        for (a, c), entry in np.ndenumerate(encoded):
            name, θ = columns[c]
            # the angle carries the error of the frequency and one product
            close(entry, functions[name](POSITIONS[a] * θ), (POWER + EPS) * abs(POSITIONS[a]) * float(θ) + EPS)


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize(("head_dim", "rotary_dim", "base"), [(8, None, 10000.0), (6, 4, 500000.0), (5, 2, 10000.0)])
def test_rotation_entries(head_dim, rotary_dim, base, layout):
    settings = RoPE(head_dim, rotary_dim, base, layout)
    r = rotary_dim or head_dim
    x = np.random.default_rng(3).standard_normal((len(POSITIONS), head_dim))
    turned = settings.rotate(x, Explicit(POSITIONS), "query")
    assert np.array_equal(turned[:, r:], x[:, r:])
    with mpmath.workdps(50):
        for a, p in enumerate(POSITIONS):
            for m in range(r // 2):
                one, two = (2 * m, 2 * m + 1) if layout == "interleaved" else (m, m + r // 2)
                θ = frequency(base, 2 * m, r)
                exact = mpmath.mpc(x[a, one], x[a, two]) * mpmath.expj(p * θ)
                # angle as above; sine, product and sum are rounded once each
                bound = (abs(x[a, one]) + abs(x[a, two])) * ((POWER + EPS) * abs(p) * float(θ) + 3 * EPS)
                close(turned[a, one], exact.real, bound)
                close(turned[a, two], exact.imag, bound)


def test_a_rotation_leaves_its_input_alone():
    x = np.ones((2, 3, 4))
    RoPE(4).rotate(x, Range(1, 3), "query")
    assert np.array_equal(x, np.ones((2, 3, 4)))
