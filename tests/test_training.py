"""The training example of README.md as it stands there: learned with a scheme that tells positions apart, guessed without."""

import ast
import math

import pytest
import torch

from documents import blocks

(EXAMPLE,) = [code for code in blocks("README.md", "python") if "MultiHeadAttention" in code]
SEEDS = (0, 1, 2)
CHANCE, TARGETS = 1 / 11, 64 * 9  # every other token of a permutation is as likely; what one batch asks for


@pytest.fixture(autouse=True)
def one_thread():
    """Tensors this small are not worth two: where cores are shared, threads that wait for each other take ten times as long."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def measured(seed: int) -> list[float]:
    """The accuracies that the example's last line reads off."""
    *lines, last = ast.parse(EXAMPLE).body
    assert isinstance(last, ast.Expr)
    torch.manual_seed(seed)
    names: dict = {}
    exec(compile(ast.Module(lines, []), "README.md", "exec"), names)
    return [float(value) for value in eval(compile(ast.Expression(last.value), "README.md", "eval"), names)]


@pytest.mark.parametrize("seed", SEEDS)
def test_position_is_learned_with_t5_and_guessed_without(seed):
    learned, guessed = measured(seed)
    assert learned >= 0.95
    assert abs(guessed - CHANCE) < 5 * math.sqrt(CHANCE * (1 - CHANCE) / TARGETS)


def test_the_example_has_ten_lines():
    (function,) = [node for node in ast.parse(EXAMPLE).body if isinstance(node, ast.FunctionDef)]
    assert function.end_lineno is not None and function.end_lineno - function.lineno < 10
