"""Formulas of docstrings as matplotlib's mathtext, so that what is typeset is what is defined.

Words are upright, single letters italic; `x_i`, `a^K`, `b^(…)` and `√D` become indices, exponents and roots.
"""

import re

SYMBOLS = {
    "·": r"\cdot ", "−": "-", "Σ": r"\sum ", "≥": r"\geq ", "≤": r"\leq ", "≠": r"\neq ", "×": r"\times ", "∈": r"\in ",
    "⌊": r"\lfloor ", "⌋": r"\rfloor ", "⌈": r"\lceil ", "⌉": r"\rceil ", "∞": r"\infty ", "±": r"\pm ", "→": r"\rightarrow ",
    "…": r"\ldots ", "∑": r"\sum ", "{": r"\{", "}": r"\}", "%": r"\%", "#": r"\#", "&": r"\&", "$": r"\$", "_": r"\_",
    "`": "", "′": r"^{\prime}", "'": r"^{\prime}",
    "ᵀ": r"^{T}", "²": r"^{2}", "½": r"\frac{1}{2}", "*": r"\ast ", "~": r"\sim ", "\\": r"\backslash ",
}  # fmt: skip
TOKEN = re.compile(
    r"(?P<gap> {2,})|(?P<space> )"
    r"|(?P<word>[A-Za-z]{2,}(?:_\w+|(?:-[a-z]{2,})+)?)"
    r"|(?P<letter>(?:[A-Za-zͰ-ϿΣ∑√])['′]?)|(?P<other>.)"
)


def mathtext(line: str) -> str:
    """One line of a formula as mathtext, dollars included."""
    return f"${_converted(line.strip())}$" if line.strip() else ""


def _converted(text: str) -> str:
    out, position, after_word = [], 0, False
    while position < len(text):
        found = TOKEN.match(text, position)
        assert found is not None  # the last alternative takes any character
        position = found.end()
        is_word = found.lastgroup == "word"
        if found.lastgroup == "gap":
            out.append(r"\quad " if len(found[0]) < 5 or text[position:].startswith("=") else r"\quad\quad\quad ")
        elif found.lastgroup == "space":
            next_word = re.match(r"[A-Za-z]{2,}", text[position:]) is not None
            out.append(r"\ " if after_word or next_word else r"\,")
        else:
            piece, position = _piece(found[0], is_word, text, position)
            out.append(piece)
        after_word = is_word
    return "".join(out)


def _piece(token: str, is_word: bool, text: str, position: int) -> tuple[str, int]:
    """A word, letter or sign, with the index, exponent or root that follows it; and where it ends."""
    if token == "√":
        inside, position = _group(text, position)
        return rf"\sqrt{{{_converted(inside)}}}", position
    if is_word:
        piece = rf"\text{{{token}}}" if "-" in token else rf"\mathrm{{{token.replace('_', chr(92) + '_')}}}"
    else:
        piece = "".join(SYMBOLS.get(c, c) for c in token)
    for mark in "_^":
        if position + 1 < len(text) and text[position] == mark and not text[position + 1].isspace():
            inside, position = _group(text, position + 1)
            piece = f"{piece.rstrip()}{mark}{{{_converted(inside)}}}"
    return piece, position


def _group(text: str, position: int) -> tuple[str, int]:
    """What an index or root takes: a word, number or letter, or a bracket without its parentheses; and where it ends."""
    if text[position : position + 1] == "(":
        depth = 0
        for end in range(position, len(text)):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            if depth == 0:
                return text[position + 1 : end], end + 1
    found = re.compile(r"[A-Za-z0-9Ͱ-Ͽ]+|.|$").match(text, position)
    assert found is not None
    return found[0], found.end()
