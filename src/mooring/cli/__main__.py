"""Run the command line: `python -m mooring.cli`."""

import sys

from mooring.cli import main

if __name__ == "__main__":
    sys.exit(main())
