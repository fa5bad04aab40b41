"""Which of PyTorch's backends can run here: its own compiler writes C++ and needs somebody to compile that."""

import os
import shutil
import warnings
from functools import cache

NAMES = ("g++", "c++", "clang++", "cl")


@cache
def cpp_compiler() -> str | None:
    """The C++ compiler that torch.compile would call, or None."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch's own modules, deprecated among themselves
            from torch._inductor.cpp_builder import get_cpp_compiler

            found = shutil.which(get_cpp_compiler())
    except ImportError:  # PyTorch's internals have moved
        found = next(filter(None, map(shutil.which, filter(None, (os.environ.get("CXX"), *NAMES)))), None)
    except Exception:  # noqa: BLE001 - PyTorch's own ways of saying that there is none differ by release
        found = None
    return found


def backend() -> str:
    """PyTorch's compiler where it can be run, else the same trace by its own kernels."""
    return "inductor" if cpp_compiler() else "aot_eager"
