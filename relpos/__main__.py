"""`python -m relpos`: the command line."""

import sys


def main() -> int:
    """Entry point of `python -m relpos` and of the `relpos` script."""
    try:
        from relpos.conformance.commands import main as run  # seconds, in which somebody may think better of it

        return run()
    except KeyboardInterrupt:
        sys.stderr.write("incomplete: interrupted before anything was judged (exit 4).\n")
        return 4
    except SystemExit as ended:
        if ended.code == 1:  # rich ends so where the reader has closed the pipe; 1 would say that something does not conform
            return 4
        raise


if __name__ == "__main__":
    sys.exit(main())
