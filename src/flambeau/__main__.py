"""`python -m flambeau` is the command `flambeau`."""

from __future__ import annotations

import sys

from flambeau.cli import main

if __name__ == "__main__":
    sys.exit(main())
