"""What the tests of the command line type, and how wide its answers may be."""

FILE = "user_kernels.py"
SMOKE = ("--profile", "smoke")
ALIBI = ("--scheme", "alibi")


def check(name, *more):
    return ("check", f"{FILE}:{name}", *ALIBI, *more)


def fits(text):
    wide = [line for line in text.splitlines() if len(line) > 80 and not line.startswith("Again:")]
    assert not wide, wide[0]
