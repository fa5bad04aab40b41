"""relpos: the executable specification of position encodings for attention."""

from pathlib import Path

# Started in a clone's own folder, Python finds this folder before the installed package: the parts lie beside it.
if (_clone := Path(__file__).resolve().parents[1]).joinpath("pyproject.toml").exists():
    __path__.append(str(_clone))

__version__ = "0.1.0"
