"""L-BFGS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau.autograd import enable_grad, no_grad

from ._elementwise import check_lr, number
from ._line_search import strong_wolfe
from .optimizer import Optimizer

_LEAST_CURVATURE = 1e-10        # of a step that is remembered: keeps the approximation positive definite


def _steepest(g: Any) -> Any:
    return abs(g).max()


class LBFGS(Optimizer):
    """Quasi-Newton steps: the inverse of the Hessian is approximated from the last steps and gradients.

    One call of `step(closure)` makes up to max_iter iterations. For smooth functions and full batches; it keeps
    2 * history_size vectors of the parameters' total size.

    Args:
        params: tensors, or one group.
        lr: length of a step, relative to the Newton step; with a line search, of the first one tried.
        max_iter: iterations of one call of step.
        max_eval: evaluations of the closure in one call, by default 1.25 * max_iter.
        tolerance_grad: stop when no element of the gradient is larger.
        tolerance_change: stop when no parameter, or the loss, changes by more.
        history_size: how many steps are remembered.
        line_search_fn: None, or "strong_wolfe": the length of each step is searched for.

    Raises:
        ValueError: several groups.
        RuntimeError: another line_search_fn.

    Source: Nocedal and Wright, Numerical Optimization, 2006, algorithm 7.4.
    """

    def __init__(self, params: Any, lr: Any = 1, max_iter: int = 20, max_eval: int | None = None,
                 tolerance_grad: float = 1e-7, tolerance_change: float = 1e-9, history_size: int = 100,
                 line_search_fn: str | None = None) -> None:
        check_lr(lr)
        super().__init__(params, dict(lr=lr, max_iter=max_iter,
                                      max_eval=max_iter * 5 // 4 if max_eval is None else max_eval,
                                      tolerance_grad=tolerance_grad, tolerance_change=tolerance_change,
                                      history_size=history_size, line_search_fn=line_search_fn))
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups): the parameters are "
                             "one vector to it. Give them in one list.")

    # ------------------------------------------------------------------ the parameters as one vector

    @property
    def _params(self) -> list:
        return self.param_groups[0]["params"]

    def _gradient(self) -> Any:
        parts = []
        for p in self._params:
            g = p.detach().new_zeros(p.shape) if p.grad is None else p.grad
            if g.is_sparse:
                g = g.to_dense()
            parts.append((flambeau.view_as_real(g) if g.is_complex() else g).reshape(-1))
        return flambeau.cat(parts, 0)

    def _move(self, length: Any, direction: Any) -> None:
        """Add length * direction to the parameters."""
        start = 0
        for p in self._params:
            real = flambeau.view_as_real(p) if p.is_complex() else p
            end = start + real.numel()
            real.add_(direction[start:end].view(real.shape), alpha=number(length))
            start = end

    def _evaluate(self, closure: Callable) -> tuple[float, Any]:
        with enable_grad():
            loss = number(closure())
        return loss, self._gradient()

    def _trial(self, closure: Callable, before: list, direction: Any, length: Any) -> tuple[float, Any]:
        """Loss and gradient at another place; the parameters are as they were afterwards."""
        self._move(length, direction)
        found = self._evaluate(closure)
        for p, old in zip(self._params, before, strict=True):
            p.copy_(old)
        return found

    # ------------------------------------------------------------------ a step

    @no_grad()
    def step(self, closure: Callable) -> Any:  # type: ignore[override]
        """Up to max_iter iterations. closure: clears the gradients, computes the loss, calls backward, returns the
        loss; it is called several times. Returns the first loss."""
        group = self.param_groups[0]
        lr, tolerance = group["lr"], group["tolerance_change"]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        with enable_grad():
            first_loss = closure()
        loss, g = number(first_loss), self._gradient()
        n_evaluations = 1
        state["func_evals"] += 1
        if _steepest(g) <= group["tolerance_grad"]:
            return first_loss
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = self._direction(state, group, g)
            before = state.get("prev_flat_grad")
            state["prev_flat_grad"] = g.clone() if before is None else before.copy_(g)
            state["prev_loss"] = loss
            length = min(1.0, 1.0 / abs(g).sum()) * lr if state["n_iter"] == 1 else lr
            state["d"], state["t"] = direction, length
            slope = g.dot(direction)
            if slope > -tolerance:
                break
            n_more = 0
            last = iteration == group["max_iter"]
            if group["line_search_fn"] is not None:
                if group["line_search_fn"] != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported as line_search_fn, not "
                                       f"{group['line_search_fn']!r}")
                old = [p.clone() for p in self._params]
                loss, g, length, n_more = strong_wolfe(
                    lambda t, old=old, d=direction: self._trial(closure, old, d, t),
                    length, direction, loss, g, slope, group["max_eval"] - n_evaluations)
                state["t"] = length
                self._move(length, direction)
            else:
                self._move(length, direction)
                if not last:
                    loss, g = self._evaluate(closure)
                    n_more = 1
            n_evaluations += n_more
            state["func_evals"] += n_more
            if last or n_evaluations >= group["max_eval"] or _steepest(g) <= group["tolerance_grad"]:
                break
            if _steepest(direction * length) <= tolerance or abs(loss - state["prev_loss"]) < tolerance:
                break
        return first_loss

    @staticmethod
    def _direction(state: dict, group: dict, g: Any) -> Any:
        """Minus the approximate inverse Hessian times g (two-loop recursion)."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return -g
        changes, moves, inverses = state["old_dirs"], state["old_stps"], state["ro"]
        change, move = g - state["prev_flat_grad"], state["d"] * state["t"]
        curvature = change.dot(move)
        if curvature > _LEAST_CURVATURE:
            if len(changes) == group["history_size"]:
                for history in (changes, moves, inverses):
                    history.pop(0)
            changes.append(change)
            moves.append(move)
            inverses.append(1.0 / curvature)
            state["H_diag"] = curvature / change.dot(change)
        shares = state.setdefault("al", [None] * group["history_size"])
        q = -g
        for i in reversed(range(len(changes))):
            shares[i] = moves[i].dot(q) * inverses[i]
            q.add_(changes[i], alpha=-shares[i].item())
        direction = q * state["H_diag"]
        for i in range(len(changes)):
            direction.add_(moves[i], alpha=(shares[i] - changes[i].dot(direction) * inverses[i]).item())
        return direction
