"""What every scheme's settings owe: fields that validate themselves, and a form that says where position enters.

A scheme is one file with one frozen dataclass, its settings, that carries

    form          "none" | "embedding" | "rotation" | "bias" | "logits": where position enters attention
    claims        words that laws look for ("relative", "row_relative", "relative_dot", "symmetric")
    bundles       groups of settings that have a meaning only together; may be left out, as may the next two
    length_dependent  whether a result depends on the length of the context (`spec.positions`)
    farthest()    a position up to which every number format holds the results
    draws         values of scheme-specific sizes worth trying, simplest first (read by the judge's generators)
    published     settings in use or at an edge, always tried where a table is read row by row; may be left out
    parameters()  learned tensors by name, with shapes derived from the settings

and one definition, by form:

    embedding     encode(positions), where it learns encode(params, positions)    -> [L, D], added to queries, keys and values
    rotation      rotate(x, positions, role)                               -> like x
    bias          bias(params, query_positions, key_positions)             -> [H, Lq, Lk]
    logits        logits(params, q, k, query_positions, key_positions, *, scale) -> [H, Lq, Lk], position terms only
                  values(params, weights, query_positions, key_positions)  -> [H, Lq, D], added to the output

Content-dependent schemes may also say which rows their tables are read at, `lookups()` -> {table: (whose content a row meets,
"query" or "key", row(i, j))}, so that rows are judged one by one, and which parameters are the attention's own projections,
`projections()` -> {parameter: ("query" or "key", "weight" or "bias")}. A scheme may own its content term,
`content(params, q, k) -> [H, Lq, Lk]` in place of scale · q·k, with a `content_magnitude`.

An embedding with a table of positions says how many there are, `capacity()`, and which row each reads, `row_of(p)`.

A bias may also say how large the terms are that a computer rounds on the way, `magnitude(...)` like `bias(...)`; without
it that is |bias|. Embeddings say it with `frequencies()` and `columns()`, rotations with `frequencies(context_length)`,
`pairs()` and `gains(positions, role)`, what the length of every pair is multiplied by. Logits say it with
`magnitude(...)` like `logits(...)`; without it that is the term of the magnitudes of q, k and parameters. With angles in
them, `angle_error(...)` like `logits(...)` says what multiplies an error of the angle. Logits that are −∞ for some keys by
the scheme's own rule say so with `hides`.

The docstring of the file has a line each for `sign`, `scale`, `beyond` and, of learned tables, `rows`: `python -m relpos show`
and the tables of README.md are made of it.

Definitions see one sample: the batch is a loop in `spec.attention`.
"""

from dataclasses import fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

Form = Literal["none", "embedding", "rotation", "bias", "logits"]


class SettingsError(ValueError):
    """A setting has a value for which the scheme has no meaning."""


class PositionError(ValueError):
    """A position lies where the scheme is not defined."""


def scheme_name(settings: Any) -> str:
    """The name of a scheme is the name of the file that defines it."""
    cls = settings if isinstance(settings, type) else type(settings)
    return cls.__module__.rsplit(".", 1)[-1]


def require(settings: Any, argument: str, ok: bool, required: str, hint: str = "") -> None:
    """Raise SettingsError unless `ok`: scheme, argument, what was required, what came, what to do."""
    if ok:
        return
    got = getattr(settings, argument)
    tail = f" {hint}" if hint else ""
    raise SettingsError(f"{scheme_name(settings)}: `{argument}` must be {required}, got {got!r}.{tail}")


def check_fields(settings: Any) -> None:
    """Check every field against its annotation: int, float, bool, Literal, tuple of int, or one of these or None."""
    hints = get_type_hints(type(settings))
    for field in fields(settings):
        _check_type(settings, field.name, hints[field.name])


def _check_type(settings: Any, name: str, hint: Any) -> None:
    value = getattr(settings, name)
    if type(None) in get_args(hint):
        if value is None:
            return
        hint = next(a for a in get_args(hint) if a is not type(None))
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        named = isinstance(value, str) and value in choices
        require(settings, name, named, "one of " + ", ".join(map(repr, choices)), "The module's docstring explains each.")
    elif hint is bool:
        require(settings, name, isinstance(value, bool), "True or False")
    elif hint is int:
        whole = isinstance(value, int) and not isinstance(value, bool)
        require(settings, name, whole, "a whole number", "Convert it with int() where you build the settings.")
    elif hint is float:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        finite = number and value == value and abs(value) != float("inf")
        require(settings, name, finite, "a finite number")
    elif get_origin(hint) is tuple:
        sizes = isinstance(value, tuple) and all(isinstance(n, int) and not isinstance(n, bool) for n in value)
        require(settings, name, sizes, "a tuple of whole numbers", "(height, width), the first axis first.")


def require_params(settings: Any, params: dict[str, Any]) -> None:
    """Refuse parameters that are missing, unknown or of another shape than `settings.parameters()` says."""
    wanted = settings.parameters()
    name = scheme_name(settings)
    for key, shape in wanted.items():
        if key not in params:
            raise SettingsError(f"{name}: parameter `{key}` of shape {list(shape)} is missing; got {sorted(params) or 'none'}.")
        if tuple(params[key].shape) != tuple(shape):
            raise SettingsError(
                f"{name}: parameter `{key}` must have shape {list(shape)}, got {list(params[key].shape)}. "
                "The shape follows from the settings."
            )
    if unknown := sorted(set(params) - set(wanted)):
        raise SettingsError(
            f"{name}: parameter `{unknown[0]}` is not one of its parameters: {sorted(wanted) or 'it has none'}."
        )
