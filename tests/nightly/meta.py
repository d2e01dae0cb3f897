"""Every sample of PyTorch's databases on the meta device: `python -m tests.nightly.meta [regular expression] [dtype]`.

Operators (results, and gradients to order two) and modules (states, results, gradients). Prints every disagreement and
counts; the exit code is 1 when there is one.
"""

from __future__ import annotations

import re
import sys
import warnings

import torch
from rich.progress import track

import flambeau
from tests.meta import database, modules


def second_order(op: object, sample: object) -> str | None:
    """What is wrong with a gradient of a gradient, or None."""
    try:
        got, given = database.call(op, flambeau, sample, grad=True)
        outs = [t for t in database.tensors(got) if t.requires_grad]
        leaves = [t for t in given if t.requires_grad]
        first = flambeau.autograd.grad(outs, leaves, [flambeau.ones_like(t) for t in outs], create_graph=True,
                                       allow_unused=True)
    except Exception:
        return None             # judged by the checks of order one
    again = [g for g in first if g is not None and g.requires_grad]
    if not again:
        return None
    try:
        second = flambeau.autograd.grad(again, leaves, [flambeau.ones_like(g) for g in again], allow_unused=True)
    except Exception as error:
        if "not implemented" in str(error) or "not differentiable" in str(error):
            return None
        return f"second gradient: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    for g, leaf in zip(second, leaves, strict=True):
        if g is not None and database.facts(g)[:2] != database.facts(leaf)[:2]:
            return f"second gradient {database.facts(g)}, of a tensor {database.facts(leaf)}"
    return None


def main(argv: list[str]) -> int:
    pattern = re.compile(argv[0] if argv else ".*")
    dtypes = [getattr(torch, argv[1])] if len(argv) > 1 else [torch.float32, torch.complex64, torch.int64, torch.bool]
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    count = bad = 0

    def report(name: str, i: int, difference: str | None) -> None:
        nonlocal count, bad
        count += 1
        if difference and not difference.startswith("missing"):
            bad += 1
            print(f"{name} sample {i}: {difference}", flush=True)

    quiet = not sys.stderr.isatty()
    chosen = {name: op for name, op in database.operators().items() if pattern.fullmatch(name)}
    for name, op in track(chosen.items(), description="operators", disable=quiet):
        for dtype in dtypes:
            if dtype not in op.supported_dtypes("cpu"):
                continue
            for i, sample in enumerate(database.samples(op, name, 0, dtype)):
                report(f"{name} {dtype}", i, database.disagreement(op, sample) or database.gradient_disagreement(op, sample)
                       or second_order(op, sample))
    infos = {name: info for name, info in modules.infos().items() if pattern.fullmatch(name)}
    for name, info in track(infos.items(), description="modules", disable=quiet):
        for training in (True, False):
            for i, item in enumerate(modules.items(info, training)):
                if (name, i) not in modules.UNLIKE_THE_CPU:
                    report(name, i, modules.disagreement(info, item))
    print(f"{count} samples, {bad} disagree")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
