"""Run the command line as ``python -m sfra``."""

import sys

from sfra.cli import main

if __name__ == "__main__":
    sys.exit(main())
