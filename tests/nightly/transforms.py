"""Every operator under vmap and in Jacobians: `python -m tests.nightly.transforms [regular expression of names]`."""

from __future__ import annotations

import re
import sys

from flambeau.ops import REGISTRY
from tests.func import operators


def main(argv: list[str]) -> int:
    pattern = re.compile(argv[0]) if argv else None
    bad, count = 0, 0
    for key in operators.keys():
        if pattern is not None and not pattern.fullmatch(key):
            continue
        for check in (operators.check_values, operators.check_jacobians):
            if check is operators.check_jacobians and not REGISTRY[key].differentiable:
                continue
            try:
                count += operators.quietly(check, key)
            except Exception as error:
                bad += 1
                print(f"{check.__name__} {key}: {type(error).__name__}: {error}", flush=True)
    print(f"{count} comparisons, {bad} operators disagree")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
