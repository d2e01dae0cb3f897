"""Let the kernel tests import their shared helper, `kernel_parity`, whatever pytest's import mode."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
