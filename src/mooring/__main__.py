"""The command `mooring`, also as `python -m mooring`."""

import sys

INTERRUPTED = 130


def main() -> int:
    """Run one command; return its exit code."""
    try:
        from mooring.cli import main as command  # takes a while, too

        return command()
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
