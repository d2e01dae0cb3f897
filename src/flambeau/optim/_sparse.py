"""Updates by sparse gradients: only the rows that a gradient names are read and written.

The formulas follow PyTorch's in the order of their operations, so that the same numbers come out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.objects import array_of
from flambeau.core.state import state as core
from flambeau.kernels.sparse import Sparse, add, add_into


def gradient(p: Any) -> Sparse | None:
    """The sparse gradient of p, or None when it is dense."""
    g = p._grad
    if g._array is None and type(g._lazy) is core.sparse:
        found: Sparse = g._lazy
        return found
    return None


def refuse(name: str, instead: str = "") -> None:
    """Raise for an optimizer whose formula reads and writes every element."""
    raise RuntimeError(f"{name} does not support sparse gradients{instead}. SGD, Adagrad and SparseAdam take them; or make "
                       "the gradient dense, with sparse=False of the embedding.")


def scaled(s: Sparse, factor: float) -> Sparse:
    """s * factor in the dtype of s."""
    return Sparse(s.pattern, np.multiply(s.values, np.array(factor, s.dtype)))


def sgd(p: Any, g: Sparse, group: dict, state: dict, lr: float, decay: float) -> None:
    """One step of SGD; with momentum the buffer is sparse too."""
    from flambeau.ops._sparse import tensor_of

    if decay != 0:
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead: weight_decay reaches every "
                           "element, so SGD takes no sparse gradients with it. Set weight_decay=0 for this parameter.")
    if group["maximize"]:
        g = Sparse(g.pattern, np.negative(g.values))
    momentum = group["momentum"]
    if momentum != 0:
        kept = state.get("momentum_buffer")
        if kept is None:
            kept = state["momentum_buffer"] = tensor_of(g.clone())
        else:
            new = 1 - group["dampening"]
            total = add(scaled(kept._lazy, momentum), g if new == 1 else scaled(g, new))
            kept._lazy.pattern, kept._lazy.values = total.pattern, total.values
        g = add(g, scaled(kept._lazy, momentum)) if group["nesterov"] else kept._lazy
    step = scaled(g, -lr)
    if p._array is None:                # a sparse parameter
        total = add(p._lazy, step)
        p._lazy.pattern, p._lazy.values = total.pattern, total.values
    else:
        add_into(array_of(p), step)


def adagrad(p: Any, g: Sparse, group: dict, state: dict, rate: float) -> None:
    """One step of Adagrad on the rows of g; rate is lr / (1 + (step - 1) * lr_decay)."""
    if group["weight_decay"] != 0:
        raise RuntimeError("weight_decay option is not compatible with sparse gradients: it reaches every element. Set it "
                           "to 0 for this parameter.")
    if group["maximize"]:
        g = Sparse(g.pattern, np.negative(g.values))
    g = g.coalesce()
    total = array_of(state["sum"])
    add_into(total, Sparse(g.pattern, g.values * g.values))
    root = np.sqrt(g.pattern.take(total))
    root += np.array(group["eps"], root.dtype)
    add_into(array_of(p), scaled(Sparse(g.pattern, g.values / root), -rate))


def adam(p: Any, g: Sparse, group: dict, state: dict, lr: float) -> None:
    """One step of SparseAdam: averages and parameters of the rows of g."""
    if group["maximize"]:
        g = Sparse(g.pattern, np.negative(g.values))
    g = g.coalesce()
    values, pattern = g.values, g.pattern
    if not values.size:
        return
    beta1, beta2 = group["betas"]
    mean, square = array_of(state["exp_avg"]), array_of(state["exp_avg_sq"])
    old = pattern.take(mean)
    change = values - old
    change *= np.array(1 - beta1, change.dtype)
    add_into(mean, Sparse(pattern, change))
    old_square = pattern.take(square)
    change_square = values * values
    change_square -= old_square
    change_square *= np.array(1 - beta2, change.dtype)
    add_into(square, Sparse(pattern, change_square))
    change += old
    change_square += old_square
    np.sqrt(change_square, change_square)
    change_square += np.array(group["eps"], change.dtype)
    step = state["step"]
    size = lr * (1 - beta2 ** step) ** 0.5 / (1 - beta1 ** step)
    change /= change_square
    add_into(array_of(p), scaled(Sparse(pattern, change), -size))
