"""The cost of one call: small operators, chains and training steps, against PyTorch.

    python -m benchmarks.overhead

8x8 float32 unless said; one thread for both; source lines and the garbage collector on. The budgets (docs/speed.md)
are ratios in one process: at least 2.5 for `a * b`, `a * 2.0`, `tanh` and both chains, 2 for an MLP step and for the
geometric mean over the small operators, and nothing common under 1.3.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import torch

import flambeau

from ._compare import Row, Statement, compare, show

SMALL = {
    "a + b": "a + b",
    "a - b": "a - b",
    "a * b": "a * b",
    "a / b": "a / b",
    "a * 2.0": "a * 2.0",
    "a ** 2": "a ** 2",
    "-a": "-a",
    "a + row": "a + v",
    "a.exp()": "a.exp()",
    "a.tanh()": "a.tanh()",
    "a.sigmoid()": "a.sigmoid()",
    "a.relu()": "a.relu()",
    "a.abs()": "a.abs()",
    "a > b": "a > b",
    "a.sum()": "a.sum()",
    "a.mean()": "a.mean()",
    "a.sum(1)": "a.sum(1)",
    "a @ b": "a @ b",
    "a[1]": "a[1]",
    "a[1:3]": "a[1:3]",
    "a.t()": "a.t()",
    "a.view(-1)": "a.view(-1)",
    "a.detach()": "a.detach()",
}
MORE = {
    "a.reshape(4, 16)": "a.reshape(4, 16)",
    "a.transpose(0, 1)": "a.transpose(0, 1)",
    "a.unsqueeze(0)": "a.unsqueeze(0)",
    "cat([a, b])": "t.cat([a, b])",
    "stack([a, b])": "t.stack([a, b])",
    "a.clamp(min=0)": "a.clamp(min=0)",
    "where(a > 0, a, b)": "t.where(a > 0, a, b)",
    "a.max()": "a.max()",
    "softmax(a, 1)": "t.softmax(a, 1)",
    "F.linear(a, b, row)": "F.linear(a, b, v)",
    "F.mse_loss(a, b)": "F.mse_loss(a, b)",
    "a.clone()": "a.clone()",
    "a.sqrt()": "(a * a).sqrt()",
    "a.item() of 0-d": "v[0].item()",
}


def operands(library: ModuleType) -> tuple[Any, Any, Any]:
    rs = np.random.RandomState(0)
    arrays = rs.randn(8, 8).astype("f4"), rs.randn(8, 8).astype("f4"), rs.randn(8).astype("f4")
    return tuple(library.tensor(x).requires_grad_() for x in arrays)


def both(make: Callable[[ModuleType], Callable[[], Any]]) -> tuple[Callable[[], Any], Callable[[], Any]]:
    return make(flambeau), make(torch)


def small(statement: str) -> Callable[[ModuleType], Statement]:
    """A statement on 8x8 operands that require grad, timed by itself."""

    def make(library: ModuleType) -> Statement:
        a, b, v = operands(library)
        return Statement(statement, {"t": library, "F": library.nn.functional, "a": a, "b": b, "v": v})

    return make


def chain(library: ModuleType) -> Callable[[], None]:
    """100 operators, forward and backward."""
    a, b, _ = operands(library)

    def run() -> None:
        x = a
        for _ in range(50):
            x = (x * b) + b
        x.sum().backward()
        a.grad = b.grad = None

    return run


def inplace_chain(library: ModuleType) -> Callable[[], None]:
    a, b, _ = operands(library)

    def run() -> None:
        x = a * 1.0
        for _ in range(100):
            x.add_(b)
        x.sum().backward()
        a.grad = b.grad = None

    return run


def mlp_step(optimizer: str) -> Callable[[ModuleType], Callable[[], None]]:
    """32-64-64-1, batch 32, tanh: forward, backward, optimizer."""

    def make(library: ModuleType) -> Callable[[], None]:
        library.manual_seed(0)
        nn = library.nn
        model = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        opt = getattr(library.optim, optimizer)(model.parameters(), lr=1e-3)
        x, y = library.randn(32, 32), library.randn(32, 1)

        def run() -> None:
            opt.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            opt.step()

        return run

    return make


def lstm_cell_step(library: ModuleType) -> Callable[[], None]:
    """An LSTM cell written out, 16 inputs, 32 hidden, batch 8: forward and backward."""
    rs = np.random.RandomState(0)
    wi, wh = (library.tensor(rs.randn(128, n).astype("f4") * 0.1).requires_grad_() for n in (16, 32))
    bias = library.zeros(128, requires_grad=True)
    x, h, c = (library.tensor(rs.randn(8, n).astype("f4")) for n in (16, 32, 32))

    def run() -> None:
        gates = x @ wi.t() + h @ wh.t() + bias
        i, f, g, o = gates.chunk(4, 1)
        new = f.sigmoid() * c + i.sigmoid() * g.tanh()
        (o.sigmoid() * new.tanh()).sum().backward()
        wi.grad = wh.grad = bias.grad = None

    return run


def geometric_mean(rows: list[Row]) -> float:
    return math.exp(sum(math.log(r.ratio) for r in rows) / len(rows))


def main(argv: list[str]) -> int:
    torch.set_num_threads(1)
    rows = [compare(name, *both(small(text))) for name, text in SMALL.items()]
    show(rows, "Small operators")
    print(f"  geometric mean over {len(rows)}: {geometric_mean(rows):.2f}x, least {min(r.ratio for r in rows):.2f}x")
    more = [compare(name, *both(small(text))) for name, text in MORE.items()]
    show(more, "More operators")
    print(f"  geometric mean over {len(more)}: {geometric_mean(more):.2f}x, least {min(r.ratio for r in more):.2f}x")
    steps = [
        compare("chain of 100, fwd+bwd, per op", *both(chain), units=101),
        compare("in-place chain, per op", *both(inplace_chain), units=102),
        compare("MLP step, SGD", *both(mlp_step("SGD"))),
        compare("MLP step, Adam", *both(mlp_step("Adam"))),
        compare("LSTM cell step", *both(lstm_cell_step)),
    ]
    show(steps, "Chains and steps")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
