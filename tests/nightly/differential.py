"""Many random programs against PyTorch: `python -m tests.nightly.differential [count] [first seed] [wide | broad]`.

Prints every disagreement and a count; the exit code is 1 when there is one that `docs/differences.md` does not list.
"""

from __future__ import annotations

import sys

import torch
from rich.progress import track

import flambeau
from tests.differential.broad import BroadRun, random_broad_program
from tests.differential.programs import KNOWN, Run, compare, random_program, text
from tests.differential.wide import WideRun, random_wide_program


def main(argv: list[str]) -> int:
    count, first = int(argv[0]) if argv else 20_000, int(argv[1]) if len(argv) > 1 else 0
    kinds = {"wide": (random_wide_program, WideRun), "broad": (random_broad_program, BroadRun)}
    make, kind = kinds.get(argv[2], (random_program, Run)) if argv[2:] else (random_program, Run)
    torch.set_num_threads(1)
    bad = 0
    for seed in track(range(first, first + count), description="programs", disable=not sys.stderr.isatty()):
        try:
            difference = compare(make(seed), flambeau, torch, kind)
        except Exception as error:  # a crash is a disagreement too
            difference = f"{type(error).__name__}: {error}"
        if difference is not None:
            bad += 1
            if bad <= 20:
                print(f"{text(make(seed))}\n  {difference}\n", flush=True)
    print(f"{count} programs, {bad} disagree; PyTorch known to be defective: {dict(KNOWN)}")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
