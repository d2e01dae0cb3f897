"""SparseAdam: Adam for gradients in sparse layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.core.op import Op
from flambeau.core.state import quiet
from flambeau.core.state import state as core

from ._elementwise import check, count_writes, number, zeros_like
from ._sparse import adam, gradient
from .optimizer import Optimizer, run_closure

_STEP = Op("SparseAdam.step()")


class SparseAdam(Optimizer):
    """Adam whose averages and parameters change only in the rows that a sparse gradient names.

    Args:
        params: dense tensors, named tensors or groups; their gradients must be sparse (`nn.Embedding(sparse=True)`).
        lr: learning rate, above 0.
        betas: how much of the averages of the gradient and of its square is kept, where a row is named.
        eps: added to the root.
        maximize: climb instead of descending.

    Raises:
        ValueError: an option out of range, or a sparse parameter. RuntimeError (from step): a dense gradient.

    Source: Kingma and Ba, 2015, Adam; the lazy variant of common practice: rows that are not named are not decayed.
    """

    def __init__(self, params: Any, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 maximize: bool = False) -> None:
        check(number(lr) > 0.0, "learning rate", number(lr))
        check(eps > 0.0, "epsilon value", eps)
        for i, beta in enumerate(betas):
            check(0.0 <= beta < 1.0, f"beta parameter at index {i}", beta)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, maximize=maximize))
        wrong = [[i, j] for i, group in enumerate(self.param_groups) for j, p in enumerate(group["params"])
                 if p._array is None and type(p._lazy) is core.sparse]
        if wrong:
            raise ValueError(f"Sparse params at indices {wrong}: SparseAdam requires dense parameter tensors. It is the "
                             "gradient that is sparse.")

    def step(self, closure: Callable | None = None) -> Any:
        """Update the rows of every parameter that its gradient names."""
        loss = run_closure(closure)
        todo = []
        for group in self.param_groups:
            for p in group["params"]:
                if p._grad is None:
                    continue
                g = gradient(p)
                if g is None:
                    raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead; or give "
                                       f"the layer sparse=True. The parameter has shape {list(p.shape)}.")
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["exp_avg"], state["exp_avg_sq"] = zeros_like(p), zeros_like(p)
                todo.append((p, g, group, state))
        for p, g, group, state in todo:
            state["step"] += 1
            quiet(adam, (p, g, group, state, number(group["lr"])))
        count_writes(_STEP, [p for p, *_ in todo])
        return loss
