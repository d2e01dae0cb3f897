"""Run the benchmarks that are named, or every one of this folder that takes under a few minutes."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks

LONG = {"operators": "minutes", "long_run": "a quarter of an hour"}       # run when named


def main(argv: list[str]) -> int:
    names = argv or sorted(m.name for m in pkgutil.iter_modules(benchmarks.__path__)
                           if not m.name.startswith("_") and m.name not in LONG)
    status = 0
    for name in names:
        print(f"\n== {name}", flush=True)
        status |= importlib.import_module(f"benchmarks.{name}").main([]) or 0
    for name, time in ({} if argv else LONG).items():
        print(f"not run, as it takes {time}: {name}")
    return status


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
