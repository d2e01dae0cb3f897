"""gradcheck and gradgradcheck: compare derivatives with finite differences.

A failure says which output and input, which element, both numbers, and, when every element is off by the same
factor, that factor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.core.objects import TensorBase, array_of, dtype_of, make, requires, shape_of
from flambeau.core.origin import warn_user
from flambeau.core.state import state

from . import _jacobians as jac
from ._backward import grad, mapped

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """A derivative differs from finite differences; the message says where and by how much."""


class _Check:
    """One call of gradcheck."""

    def __init__(self, func: Callable, inputs: tuple, eps: float, atol: float, rtol: float, nondet_tol: float) -> None:
        self.func, self.inputs = func, inputs
        self.eps, self.atol, self.rtol, self.nondet_tol = eps, atol, rtol, nondet_tol
        self.positions = [i for i, t in enumerate(inputs) if jac.is_checked(t) and requires(t)]
        self.wanted = [inputs[i] for i in self.positions]
        self.outputs = jac.outputs_of(func, inputs)
        self.which = [i for i, o in enumerate(self.outputs) if jac.is_checked(o) and requires(o)]

    def fresh(self) -> list:
        """The differentiable outputs, computed anew."""
        outs = jac.outputs_of(self.func, self.inputs)
        return [outs[i] for i in self.which]

    # ------------------------------------------------------------------------------- slow mode

    def no_outputs(self) -> None:
        """Nothing requires grad: then differences must be zero."""
        which = [i for i, o in enumerate(self.outputs) if jac.is_checked(o)]
        for position in self.positions:
            found = jac.numerical(self.func, self.inputs, self.inputs[position], which, self.eps)
            for i, n in zip(which, found, strict=True):
                if np.any(np.abs(n) > self.eps):
                    raise GradcheckError(
                        f"Numerical gradient for function expected to be zero: output {i} does not require grad, but "
                        "it changes "
                        f"with input {position}. The graph was cut in the function (detach, no_grad, .data, numpy?).")

    def slow_backward(self) -> None:
        numerical = [jac.numerical(self.func, self.inputs, t, self.which, self.eps) for t in self.wanted]
        outs = self.fresh()
        for k, (i, out) in enumerate(zip(self.which, outs, strict=True)):
            found = jac.analytical(out, self.wanted)
            again = jac.analytical(out, self.wanted)
            for j, (position, a, b) in enumerate(zip(self.positions, found, again, strict=True)):
                self.compare(numerical[j][k], a, i, position, out, self.inputs[position], "")
                if a.size and np.max(np.abs(a - b)) > self.nondet_tol:
                    self.not_reentrant(i, position, float(np.max(np.abs(a - b))))

    def not_reentrant(self, i: int, position: int, by: float) -> None:
        raise GradcheckError(
            "Backward is not reentrant: two runs with the same input and grad_output gave different gradients "
            f"(output {i} with respect to input {position} differs by {by:.3g}; nondet_tol is {self.nondet_tol}). "
            "Remove the randomness, or raise nondet_tol.")

    def slow_forward(self, who: str = "Jacobian computed with forward mode mismatch") -> None:
        for position in self.positions:
            t = self.inputs[position]
            numerical = jac.numerical(self.func, self.inputs, t, self.which, self.eps)
            found = jac.forward(self.func, self.inputs, position, self.which)
            for i, n, a in zip(self.which, numerical, found, strict=True):
                self.compare(n, a, i, position, self.outputs[i], t, who)

    def compare(self, n: np.ndarray, a: np.ndarray, i: int, position: int, out: TensorBase, t: TensorBase, who: str) -> None:
        """Raise when an analytical Jacobian differs from the numerical one."""
        if a.size == 0 and n.size == 0:
            return
        close = np.isclose(a, n, rtol=self.rtol, atol=self.atol, equal_nan=True)
        if close.all():
            return
        raise GradcheckError(_mismatch(n, a, close, i, position, out, t, who or "Jacobian mismatch"))

    # ------------------------------------------------------------------------------- fast mode

    def fast(self, backward: bool, forward: bool) -> None:
        """Compare v^T J u for random u and v: one backward and two evaluations for each pair."""
        rng = np.random.default_rng(0)
        outs = self.fresh()
        vs = [rng.random(jac.n_real(o)) for o in outs]
        for position, t in zip(self.positions, self.wanted, strict=True):
            u = rng.random(jac.n_real(t))
            u /= np.linalg.norm(u) or 1.0
            numerical = jac.difference(self.func, self.inputs, t, self.which, self.eps, u)
            tangents = jac.tangent(self.func, self.inputs, position, jac.as_tensor(u, t), self.which) if forward else None
            for k, (i, out, v) in enumerate(zip(self.which, outs, vs, strict=True)):
                n = float(numerical[k] @ v)
                atol = self.atol * max(1.0, abs(u.sum() * v.sum()))
                if backward:
                    g, = jac.backward_row(out, [t], jac.as_tensor(v, out))
                    again, = jac.backward_row(out, [t], jac.as_tensor(v, out))
                    first, second = jac.gradient_vector(g, t), jac.gradient_vector(again, t)
                    if first.size and np.max(np.abs(first - second)) > self.nondet_tol:
                        self.not_reentrant(i, position, float(np.max(np.abs(first - second))))
                    self.compare_fast(n, float(first @ u), atol, i, position, "Jacobian mismatch", self.slow_backward)
                if tangents is not None:
                    self.compare_fast(n, float(tangents[k] @ v), atol, i, position,
                                      "Jacobian computed with forward mode mismatch", self.slow_forward)

    def compare_fast(self, n: float, a: float, atol: float, i: int, position: int, who: str, slow: Callable) -> None:
        if np.isclose(a, n, rtol=self.rtol, atol=atol, equal_nan=True):
            return
        details = "the full Jacobians agree within the tolerances: loosen atol or use slow mode"
        try:
            slow()
        except GradcheckError as error:
            details = str(error)
        raise GradcheckError(
            f"{who} for output {i} with respect to input {position},\nnumerical:{n!r}\nanalytical:{a!r}\n\nThe above "
            "quantities "
            "relating the numerical and analytical jacobians are computed in fast mode: random combinations v^T J u. Below, "
            f"they are computed again in slow mode:\n\n{details}")

    # ------------------------------------------------------------------------------- other properties of a backward

    def gradients_look_right(self, check_dtypes: bool) -> None:
        """A zero gradient gives zero; gradients have their inputs' shape."""
        outs = self.fresh()
        zeros = [make(np.zeros(tuple(shape_of(o)), dtype_of(o))) for o in outs]
        found = grad(outs, self.wanted, zeros, allow_unused=True)
        for position, t, g in zip(self.positions, self.wanted, found, strict=True):
            if g is None:
                continue
            if array_of(g).size and not np.all(array_of(g) == 0):
                raise GradcheckError(
                    "backward not multiplied by grad_output: a zero gradient of the outputs gave "
                    f"{array_of(g).reshape(-1)[:3]} for "
                    f"input {position}. A backward must be linear in its gradient: multiply by it.")
            if tuple(shape_of(g)) != tuple(shape_of(t)):
                raise GradcheckError(f"grad is incorrect size: {tuple(shape_of(g))} for input {position} of "
                                     f"{tuple(shape_of(t))}")
            if check_dtypes and dtype_of(g) != dtype_of(t):
                raise GradcheckError(f"grad is incorrect type: {g.dtype} for input {position} of {t.dtype}")

    def batches_agree(self) -> None:
        """Two vectors as a batch give what they give one by one."""
        outs = self.fresh()
        draw = np.random.RandomState(0)
        for i, o in enumerate(outs):
            if not requires(o):
                continue
            vectors = [_drawn(draw, o) for _ in range(2)]
            one_by_one = [grad(o, self.wanted, v, retain_graph=True, allow_unused=True) for v in vectors]
            try:
                together = grad(o, self.wanted, state.ops.stack_tensors(vectors, 0), retain_graph=True, allow_unused=True,
                                is_grads_batched=True)
            except RuntimeError as error:
                raise GradcheckError(
                    f"While checking batched gradients of output {i}: the backward failed under vmap: {error}. Its formula "
                    "must work on tensors without looking at values, or pass check_batched_grad=False.") from error
            for position, g, first, second in zip(self.positions, together, *one_by_one, strict=True):
                if g is not None and not self._stacks(g, first, second):
                    raise GradcheckError(
                        f"Batched gradients of output {i} with respect to input {position} differ from those of the vectors "
                        "one by one: the backward mixes samples of a batch. Pass check_batched_grad=False if it must.")

    def _stacks(self, batch: TensorBase, first: TensorBase, second: TensorBase) -> bool:
        both = np.stack([array_of(first), array_of(second)])
        return np.allclose(array_of(batch), both, self.rtol, self.atol, equal_nan=True)

    def tangents_agree(self) -> None:
        """Two tangents as a batch give what they give one by one."""
        draw = np.random.RandomState(0)
        for position in self.positions:
            t = self.inputs[position]
            directions = [_drawn(draw, t) for _ in range(2)]

            def push(direction: TensorBase, position: int = position) -> tuple:
                found = jac.pushed(self.func, self.inputs, position, direction, self.which)
                return tuple(value for _, value in found if value is not None)

            one_by_one = [push(d) for d in directions]
            try:
                together = mapped(push)(state.ops.stack_tensors(directions, 0))
            except RuntimeError as error:
                raise GradcheckError(
                    f"While checking batched gradients in forward mode of input {position}: the function failed under vmap: "
                    f"{error}. Pass check_batched_forward_grad=False if it must look at values.") from error
            for out, first, second in zip(together, *one_by_one, strict=True):
                if not self._stacks(out, first, second):
                    raise GradcheckError(
                        f"Batched tangents of input {position} give other results than one by one: a forward derivative "
                        "mixes samples of a batch. Pass check_batched_forward_grad=False if it must.")


def _drawn(draw: np.random.RandomState, like: TensorBase) -> TensorBase:
    """A random tensor of another's shape and dtype."""
    return make(np.asarray(draw.uniform(-1, 1, tuple(shape_of(like)))).astype(dtype_of(like)))


def _element(k: int, t: TensorBase) -> str:
    """Real component k of t as the user counts: [0, 2], or the imaginary part of it."""
    part = ""
    if dtype_of(t).kind == "c":
        part = (" (real part)", " (imaginary part)")[k % 2]
        k //= 2
    return str([int(i) for i in np.unravel_index(k, tuple(shape_of(t)))]) + part if shape_of(t) else "[]" + part


def _mismatch(n: np.ndarray, a: np.ndarray, close: np.ndarray, i: int, position: int, out: TensorBase, t: TensorBase,
              who: str) -> str:
    """What differs, where, and whether it is one factor."""
    wrong = np.argwhere(~close)
    gap = np.where(close, -1.0, np.where(np.isnan(a - n), np.inf, np.abs(a - n)))
    row, column = np.unravel_index(int(np.argmax(gap)), gap.shape)
    text = ""
    if dtype_of(out).kind == "c" or dtype_of(t).kind == "c":
        text = "While considering the real and imaginary parts of complex numbers apart, "
    text += f"{who} for output {i} with respect to input {position},\n"
    text += f"numerical:{_show(n.T)}\nanalytical:{_show(a.T)}\n"
    text += (f"{len(wrong)} of {close.size} elements differ. Largest difference: d output {i} "
             f"{_element(int(row), out)} / d input "
             f"{position} {_element(int(column), t)} is {n[row, column]:.6g} by differences and {a[row, column]:.6g} by the "
             "formula.")
    ratio = _factor(n, a)
    if ratio is not None:
        text += (f"\nThe formula's derivative is {ratio:.6g} times the true one everywhere: a factor of "
                 f"{1 / ratio:.6g} is missing "
                 "in backward." if ratio not in (0.0, -1.0) else
                 "\nThe sign is wrong everywhere." if ratio == -1.0 else
                 "\nThe formula gives zero everywhere: the gradient is lost in backward.")
    return text


def _factor(n: np.ndarray, a: np.ndarray) -> float | None:
    """analytical / numerical when it is one constant other than 1."""
    big = np.abs(n) > 1e-3 * max(float(np.max(np.abs(n), initial=0.0)), 1e-12)
    if not big.any() or not np.isfinite(a).all() or not np.isfinite(n).all():
        return None
    if not np.any(a):
        return 0.0
    ratios = a[big] / n[big]
    middle = float(np.median(ratios))
    constant = middle != 0 and np.max(np.abs(ratios - middle)) <= 1e-3 * abs(middle)
    if not constant or not np.allclose(a, n * middle, rtol=1e-3, atol=1e-5):
        return None
    nearest = round(middle * 12) / 12
    return nearest if nearest != 0 and abs(nearest - middle) < 1e-4 * abs(middle) else middle


def _show(m: np.ndarray) -> str:
    with np.printoptions(precision=4, suppress=True, threshold=60, linewidth=110):
        return "tensor(" + np.array2string(m, separator=", ", prefix="tensor(") + ")"


def _check_inputs(inputs: tuple) -> None:
    any_grad = False
    for i, t in enumerate(inputs):
        if not isinstance(t, TensorBase) or not requires(t):
            continue
        any_grad = True
        if dtype_of(t).name not in ("float64", "complex128"):
            warn_user(
                f"Input #{i} requires gradient and is not a double precision floating point or complex ({t.dtype}). "
                "This check will "
                "likely fail if all the inputs are not of double precision floating point or complex: convert it "
                "with .double().")
        array = array_of(t)
        if array.size and any(s == 0 and n > 1 for s, n in zip(array.strides, array.shape, strict=True)):
            raise RuntimeError(
                f"The {i}th input has a dimension with stride 0: changing one element changes others, so no "
                "numerical gradient can be taken. Pass its .contiguous().")
    if not any_grad:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of the them have "
                         "requires_grad=True.")


def gradcheck(
    func: Callable,
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the derivatives of func agree with central differences.

    Args:
        func: function of tensors that returns a tensor or several.
        inputs: a tensor or a tuple; those that require grad are checked. Use float64 or complex128.
        eps: step of the differences.
        atol, rtol: tolerances.
        raise_exception: raise instead of returning False.
        nondet_tol: how much two runs of the same backward may differ.
        check_undefined_grad: accepted: each output is differentiated while the others have no gradient, in any case.
        check_forward_ad, check_backward_ad: which modes.
        check_batched_grad: also whether a batch of vectors gives what they give one by one (`is_grads_batched`).
        check_batched_forward_grad: the same of tangents in forward mode (with check_forward_ad).
        fast_mode: compare random projections instead of whole Jacobians.
        masked: accepted: it concerns sparse tensors.

    Raises:
        GradcheckError: they disagree (unless raise_exception is False).
        ValueError: no input requires grad.

    >>> x = flambeau.tensor([1.0, 2.0], dtype=flambeau.float64, requires_grad=True)
    >>> flambeau.autograd.gradcheck(lambda x: x * x, x)
    True
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad and check_backward_ad to be True")
    given = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    try:
        _check_inputs(given)
        check = _Check(func, given, eps, atol, rtol, nondet_tol)
        for i in check.positions:
            if given[i]._node is not None:
                given[i].retain_grad()
        if not check.which:
            check.no_outputs()
            return True
        if fast_mode:
            check.fast(check_backward_ad, check_forward_ad)
        else:
            if check_backward_ad:
                check.slow_backward()
            if check_forward_ad:
                check.slow_forward()
        if check_backward_ad:
            check.gradients_look_right(check_grad_dtypes)
            if check_batched_grad:
                check.batches_agree()
        if check_forward_ad and check_batched_forward_grad:
            check.tangents_agree()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable,
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Whether second derivatives agree with differences of the first: gradcheck of func's backward.

    Args:
        grad_outputs: incoming gradients; random ones by default (from a generator of their own).
        gen_non_contig_grad_outputs: make them non-contiguous.
        check_fwd_over_rev, check_rev_over_rev: forward or reverse mode over the backward.
        func, inputs and the others: as in gradcheck.
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError("Expected at least one of check_fwd_over_rev and check_rev_over_rev to be True")
    given = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    outs = [o for o in jac.outputs_of(func, given) if jac.is_checked(o) and requires(o)]
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        seeds = tuple(_random_like(o, rng, gen_non_contig_grad_outputs) for o in outs)
    else:
        seeds = tuple(grad_outputs) if isinstance(grad_outputs, (tuple, list)) else (grad_outputs,)
    n = len(seeds)
    wanted = [i for i, t in enumerate(given) if jac.is_checked(t) and requires(t)]

    def backward_of(*args: Any) -> tuple:
        xs, gs = args[: len(args) - n], args[len(args) - n:]
        xs = tuple(_requiring(x) if i in wanted else x for i, x in enumerate(xs))
        ys = [o for o in jac.outputs_of(func, xs) if jac.is_checked(o) and requires(o)]
        found = grad(ys, [xs[i] for i in wanted], gs, create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        backward_of, given + seeds, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception, nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        fast_mode=fast_mode, check_forward_ad=check_fwd_over_rev, check_backward_ad=check_rev_over_rev, masked=masked)


def _requiring(x: TensorBase) -> TensorBase:
    return x if requires(x) else x.requires_grad_()


def _random_like(o: TensorBase, rng: Any, strided: bool) -> TensorBase:
    shape, d = tuple(shape_of(o)), dtype_of(o)
    a = rng.random(shape) * 2 - 1
    if d.kind == "c":
        a = a + 1j * (rng.random(shape) * 2 - 1)
    a = np.asarray(a).astype(d)
    if strided and a.ndim:
        a = np.repeat(a[..., None], 2, axis=-1)[..., 0]
    t = make(a)
    t._rg = True
    return t


