"""Every operator against PyTorch at two sizes: what one call costs, and what a large call costs.

    python -m benchmarks.operators [--only REGEX] [--backward] [--below 0.5] [--json FILE]

The calls are the operators' own samples (`flambeau.ops.REGISTRY`): as they stand for the small size, and with every
size of theirs multiplied, up to about a million elements or 10 ms of PyTorch's time, for the large one. Operators
whose sample cannot be stretched (a shape among its arguments) have calls of their own in `LARGE`, or no large figure.
One thread for both libraries, one process, interleaved, medians. Printed at the end: those under 0.5 of PyTorch's
speed, slowest first.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import time
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import track

import flambeau
from flambeau.ops import REGISTRY
from flambeau.ops._record import Sample, call
from flambeau.testing import samples as S

from ._compare import Row, compare

ELEMENTS = 1 << 20
CHANGES_SHAPE = {"unsqueeze_"}      # each call gives its tensor another dimension: nothing to repeat
SECONDS = 0.01
# operators whose samples do not stretch
LARGE: dict[str, Callable[[Any], Sample]] = {
    "reshape": lambda t: call(t(1024, 1024, transposed=True), (1 << 20,)),
    "eye": lambda t: call(1024),
    "arange": lambda t: call(1 << 20),
    "linspace": lambda t: call(0.0, 1.0, 1 << 20),
    "zeros": lambda t: call(1024, 1024),
    "ones": lambda t: call(1024, 1024),
    "full": lambda t: call((1024, 1024), 1.5),
    "tril_indices": lambda t: call(1024, 1024),
    "triu_indices": lambda t: call(1024, 1024),
    "nn.functional.one_hot": lambda t: call(t(1 << 14, dtype="int64", low=0, high=63), 64),
    "nn.functional.interpolate": lambda t: call(t(2, 16, 64, 64), scale_factor=2, mode="bilinear"),
    "nn.functional.adaptive_avg_pool2d": lambda t: call(t(8, 32, 64, 64), (7, 7)),
    "broadcast_to": lambda t: call(t(1024, 1), (1024, 1024)),
    "repeat_interleave": lambda t: call(t(1024, 256), 4, 1),
    "multinomial": lambda t: call(t(64, 1024, low=0.0, high=1.0), 32, True),
    "bincount": lambda t: call(t(1 << 20, dtype="int64", low=0, high=999)),
    "histc": lambda t: call(t(1 << 20), 100, -2, 2),
    "gather": lambda t: call(t(1024, 512), 1, t(1024, 512, dtype="int64", low=0, high=511)),
    "take": lambda t: call(t(1024, 1024), t(1 << 18, dtype="int64", low=0, high=(1 << 20) - 1)),
    "index_select": lambda t: call(t(4096, 256), 0, t(4096, dtype="int64", low=0, high=4095)),
    "scatter_add": lambda t: call(t(1024, 512), 1, t(1024, 512, dtype="int64", low=0, high=511), t(1024, 512)),
    "nn.functional.embedding": lambda t: call(t(4096, dtype="int64", low=0, high=999), t(1000, 128)),
    "nn.functional.cross_entropy": lambda t: call(t(1024, 256), t(1024, dtype="int64", low=0, high=255)),
    "nn.functional.layer_norm": lambda t: call(t(1024, 512), (512,)),
}


class Stretched(S.Maker):
    """Makes a sample's tensors with every size above one multiplied; given values are repeated to fill them."""

    def __init__(self, library: ModuleType, seed: int, factor: float = 1.0) -> None:
        super().__init__(library, seed, None, False)
        self.factor = factor
        self.shapes: list[tuple[int, ...]] = []

    def __call__(self, *shape: int, values: Any = None, **options: Any) -> Any:
        if values is not None:
            array = np.asarray(values)
            values = np.resize(array, self.stretch(array.shape)) if array.ndim else array
        result = super().__call__(*self.stretch(shape), values=values, **options)
        self.shapes.append(tuple(result.shape))
        return result

    def stretch(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        wide = tuple(round(n * self.factor) if n > 1 else n for n in shape)
        # a factor that suits one sample is too much for a sibling of more dimensions, which is made but not run
        return wide if math.prod(wide) <= 4 * ELEMENTS else shape


def elements(value: Any) -> int:
    """Elements of the largest tensor in a sample."""
    return max((t.numel() for t in S.tensors(value)), default=0)


def small_call(key: str) -> int | None:
    """The number of the first sample whose tensors have more than one element; else of the first."""
    found = list(REGISTRY[key].samples(S.Maker(torch, S.seed_of(key, 0))))
    for i, sample in enumerate(found):
        if elements((sample.args, list(sample.kwargs.values()))) > 1:
            return i
    return 0 if found else None


def bind(library: ModuleType, key: str, sample: Sample, backward: bool) -> Callable[[], Any]:
    """A call without arguments that runs the sample, and its backward pass when asked."""
    fn = S.public_callable(library, key, REGISTRY[key])
    args, kwargs = sample.args, sample.kwargs
    if not backward:
        return lambda: fn(*args, **kwargs)
    leaves = [t for t in S.tensors((args, list(kwargs.values()))) if t.is_floating_point()]
    for t in leaves:
        t.requires_grad_(True)

    def step() -> None:
        outs = [t for t in S.tensors(fn(*args, **kwargs)) if t.requires_grad]
        library.autograd.grad(outs, leaves, [library.ones_like(t) for t in outs], allow_unused=True)

    return step


def large_sample(key: str, i: int, library: ModuleType, factor: float) -> Sample | None:
    maker = Stretched(library, S.seed_of(key, 0), factor)
    if key in LARGE:
        return LARGE[key](S.Maker(library, S.seed_of(key, 0)))
    if factor <= 1.5:
        return None
    try:
        return list(REGISTRY[key].samples(maker))[i]
    except Exception:           # the sample itself rearranges its tensors to given sizes
        return None


def stretch_of(key: str, i: int, backward: bool) -> float | None:
    """The factor for the large size: about a million elements, at most 10 ms in PyTorch; None where it cannot be had."""
    small = list(REGISTRY[key].samples(S.Maker(torch, S.seed_of(key, 0))))[i]
    found = S.tensors((small.args, list(small.kwargs.values())))
    if not found or max(t.numel() for t in found) < 2:
        return None
    biggest = max(found, key=lambda t: t.numel())
    dims = sum(n > 1 for n in biggest.shape)
    factor = (ELEMENTS / biggest.numel()) ** (1 / dims)
    while factor > 1.5:
        sample = large_sample(key, i, torch, factor)
        if sample is None:
            return None
        run = bind(torch, key, sample, backward)
        try:
            start = time.perf_counter()
            run()
        except Exception:       # an argument of the sample holds for its own sizes only
            return None
        if time.perf_counter() - start < SECONDS:
            return factor
        factor /= 2
    return None


def measure(key: str, backward: bool) -> dict[str, Row]:
    """The rows of one operator: "small", and "large" where there is one."""
    i = small_call(key)
    rows: dict[str, Row] = {}
    if i is None:
        return rows
    timed = []
    for library in (flambeau, torch):
        sample = list(REGISTRY[key].samples(S.Maker(library, S.seed_of(key, 0))))[i]
        timed.append(bind(library, key, sample, backward))
    rows["small"] = timing(key, timed)
    factor = 0.0 if key in LARGE else stretch_of(key, i, backward)
    if factor is not None:
        timed = [bind(library, key, large_sample(key, i, library, factor), backward) for library in (flambeau, torch)]
        rows["large"] = timing(key, timed)
    return rows


def timing(key: str, timed: list[Callable[[], Any]]) -> Row:
    """Few repeats, fewer where one of ours takes long."""
    timed[0]()
    start = time.perf_counter()
    timed[0]()
    slow = time.perf_counter() - start > 10 * SECONDS
    return compare(key, timed[0], timed[1], repeats=3 if slow else 5, target_s=0.0 if slow else 0.005)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operators", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=".*", help="operators whose name matches this regular expression whole")
    parser.add_argument("--backward", action="store_true", help="time forward and backward together")
    parser.add_argument("--below", type=float, default=0.5, help="list ratios under this at the end")
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    flambeau.set_num_threads(1)
    keys = [k for k in sorted(REGISTRY) if re.fullmatch(options.only, k) and k not in CHANGES_SHAPE]
    if options.backward:
        keys = [k for k in keys if REGISTRY[k].differentiable and not REGISTRY[k].random]
    results: dict[str, dict[str, Row]] = {}
    failed: dict[str, str] = {}
    columns = f"{'PyTorch':>9s} {'ratio':>6s}"
    print(f"{'operator':44s} {'small: us':>10s} {columns}   {'large: us':>10s} {columns}")
    for key in track(keys, "operators", console=Console(stderr=True)):
        try:
            results[key] = measure(key, options.backward)
            print(line(key, results[key]), flush=True)
        except Exception as error:
            failed[key] = f"{type(error).__name__}: {error}".splitlines()[0][:100]
    report(results, failed, options.below)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({k: {s: [r.ours, r.theirs] for s, r in rows.items()} for k, rows in results.items()}, file, indent=1)
    return 0


def line(key: str, rows: dict[str, Row]) -> str:
    cells = [f"{r.ours:10.1f} {r.theirs:9.1f} {r.ratio:5.2f}x" if r else f"{'-':>27s}"
             for r in (rows.get("small"), rows.get("large"))]
    return f"{key:44s} {cells[0]}   {cells[1]}"


def report(results: dict[str, dict[str, Row]], failed: dict[str, str], below: float) -> None:
    for size in ("small", "large"):
        rows = [r[size] for r in results.values() if size in r]
        if not rows:
            continue
        mean = float(np.exp(np.mean([np.log(r.ratio) for r in rows])))
        slow = sorted((r for r in rows if r.ratio < below), key=lambda r: r.ratio)
        print(f"\n{size}: {len(rows)} operators, geometric mean {mean:.2f}x, {len(slow)} under {below}x")
        for r in slow:
            print(f"  {r.name:44s} {r.ours:10.1f} us against {r.theirs:10.1f}   {r.ratio:.2f}x")
    missing = [k for k, rows in results.items() if "large" not in rows]
    print(f"\nno large size ({len(missing)}): {', '.join(missing)}")
    for key, error in failed.items():
        print(f"not measured: {key}: {error}")


if __name__ == "__main__":
    sys.exit(main())
