"""`python -m relpos`: the command line."""

import sys


def main() -> int:
    """Entry point of `python -m relpos` and of the `relpos` script."""
    from relpos.conformance.commands import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
