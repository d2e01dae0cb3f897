"""Run every benchmark of this folder, one after the other."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks


def main(argv: list[str]) -> int:
    names = argv or sorted(m.name for m in pkgutil.iter_modules(benchmarks.__path__) if not m.name.startswith("_"))
    for name in names:
        print(f"\n== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main([])
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
