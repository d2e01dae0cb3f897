"""Derivatives of functions: jacobian, hessian and the products of either with a vector.

`create_graph=True` makes the result differentiable; `strict=True` raises where an output does not depend on an
input instead of giving zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.core.objects import TensorBase, array_of, dtype_of, make, requires, shape_of
from flambeau.core.state import grad_enabled, state

from . import forward_ad
from ._backward import grad
from ._modes import enable_grad, set_grad_enabled

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def _as_tuple(value: Any, what: str, function: str) -> tuple[bool, tuple]:
    """(whether a tuple was given, the tensors)."""
    is_tuple = isinstance(value, tuple)
    values = value if is_tuple else (value,)
    for i, t in enumerate(values):
        if not isinstance(t, TensorBase):
            if is_tuple:
                raise TypeError(f"The {what} given to {function} must be a Tensor or a tuple of Tensors, "
                                f"element {i} has type {type(t)}.")
            raise TypeError(f"The {what} given to {function} must be a Tensor or a tuple of Tensors, "
                            f"not {type(t)}.")
    return is_tuple, values


def _prepared(inputs: tuple, create: bool) -> tuple:
    """Inputs to differentiate: connected to the user's tensors only when the result is to be differentiable."""
    if create:
        return tuple(t.view_as(t) if requires(t) else t.detach().requires_grad_() for t in inputs)
    return tuple(t.detach().requires_grad_() for t in inputs)


def _released(values: Any, create: bool) -> Any:
    """Results without a graph unless create."""
    if isinstance(values, (tuple, list)):
        return tuple(_released(v, create) for v in values)
    return values if create else values.detach()


def _zeros(t: TensorBase) -> TensorBase:
    return make(state.xp.zeros_like(array_of(t)))


def _check_outputs(outputs: tuple, strict: bool, create: bool, function: str) -> None:
    for i, o in enumerate(outputs):
        if strict and not requires(o):
            raise RuntimeError(
                f"Output {i} of the user-provided function does not require gradients. The outputs must be computed in a "
                f"differentiable manner from the input when running in strict mode ({function}).")


def _filled(grads: tuple, inputs: tuple, strict: bool, stage: str, create: bool = False) -> tuple:
    """Zeros where no gradient came, or an error in strict mode."""
    out = []
    for i, (g, t) in enumerate(zip(grads, inputs, strict=True)):
        if g is None:
            if strict:
                if stage == "back":
                    raise RuntimeError(
                        f"The output of the function is independent of input {i}, which strict mode "
                        "forbids.")
                raise RuntimeError(
                    f"The gradient of the user-provided function is independent of input {i}, so its second "
                    "derivative is zero. "
                    "This is not allowed in strict mode.")
            g = _zeros(t)
        elif strict and create and not requires(g):
            raise RuntimeError(
                f"The jacobian of the user-provided function with respect to input {i} does not depend on the input: its "
                "derivative is zero. This is not allowed in strict mode when create_graph=True.")
        out.append(g)
    return tuple(out)


def _grad(outputs: tuple, inputs: tuple, vectors: Any, create: bool, keep: bool | None = None) -> tuple:
    pairs = [(o, v) for o, v in zip(outputs, vectors or [None] * len(outputs), strict=True) if requires(o)]
    if not pairs:
        return (None,) * len(inputs)
    return grad([o for o, _ in pairs], inputs, [v for _, v in pairs], retain_graph=keep, create_graph=create,
                allow_unused=True)


def _vector(v: Any, like: tuple, is_tuple: bool, what: str, function: str) -> tuple:
    """The vector of a product: given, or 1 for a single element."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"{function}: the vector v can only be None if the {what} is a single Tensor with one "
                               "element: give "
                               f"v with the shape of the {what}")
        if like[0].is_complex():
            raise RuntimeError(f"{function}: grad can be implicitly created only for real scalar outputs but got "
                               f"{like[0].dtype}: give v")
        return (make(state.xp.ones_like(array_of(like[0]))),)
    vs = v if isinstance(v, (tuple, list)) else (v,)
    if len(vs) != len(like):
        raise RuntimeError(f"{function}: v has invalid length: should be {len(like)} but got {len(vs)}")
    for i, (a, b) in enumerate(zip(vs, like, strict=True)):
        if tuple(shape_of(a)) != tuple(shape_of(b)):
            raise RuntimeError(f"{function}: Entry {i} in v has invalid size: should be {list(shape_of(b))} but got "
                               f"{list(shape_of(a))}")
    return tuple(vs)


def vjp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple:
    """(func(inputs), v^T J): the vector-Jacobian product.

    Args:
        func: function of one or several tensors that returns a tensor or a tuple.
        inputs: a tensor or a tuple of tensors.
        v: of the shapes of the outputs; not needed for a single element.

    >>> flambeau.autograd.functional.vjp(lambda x: x * x, flambeau.tensor([3.0]))[1].item()
    6.0
    """
    with enable_grad():
        is_in, given = _as_tuple(inputs, "inputs", "vjp")
        prepared = _prepared(given, create_graph)
        is_out, outputs = _as_tuple(func(*prepared), "outputs of the user-provided function", "vjp")
        _check_outputs(outputs, strict, create_graph, "vjp")
        vs = _vector(v, outputs, is_out, "output of the function", "vjp")
    with set_grad_enabled(True if create_graph else grad_enabled()):
        grads = _grad(outputs, prepared, vs, create_graph)
        result = _filled(grads, prepared, strict, "back")
    return _shape(_released(outputs, create_graph), is_out), _shape(_released(result, create_graph), is_in)


def _shape(values: tuple, as_tuple: bool) -> Any:
    return values if as_tuple else values[0]


def jvp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple:
    """(func(inputs), J v): the Jacobian-vector product, by reverse mode twice.

    Args:
        v: of the shapes of the inputs; not needed for a single element.
    """
    with enable_grad():
        is_in, given = _as_tuple(inputs, "inputs", "jvp")
        prepared = _prepared(given, create_graph)
        vs = _vector(v, prepared, is_in, "input of the function", "jvp")
        is_out, outputs = _as_tuple(func(*prepared), "outputs of the user-provided function", "jvp")
        _check_outputs(outputs, strict, create_graph, "jvp")
        us = tuple(_zeros(o).requires_grad_() for o in outputs)
        grads = _filled(_grad(outputs, prepared, us, True), prepared, strict, "back")
    if create_graph:
        with enable_grad():
            found = _grad(grads, us, vs, True)
            result = _filled(found, outputs, strict, "back_trick")
    else:
        found = _grad(grads, us, vs, False)
        result = _filled(found, outputs, strict, "back_trick")
    return _shape(_released(outputs, create_graph), is_out), _shape(_released(result, create_graph), is_out)


def jacobian(func: Callable, inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
             strategy: str = "reverse-mode") -> Any:
    """The Jacobian: for outputs of shape (*m) and an input of shape (*n) a tensor of shape (*m, *n).

    Args:
        func: function of one or several tensors that returns a tensor or a tuple.
        vectorize: compute all rows by one batched backward, which is faster and takes more memory.
        strategy: "reverse-mode" (a backward for each output element) or "forward-mode" (a forward for each input
            element; needs vectorize=True, as in PyTorch).

    Returns:
        A tensor; a tuple over outputs, over inputs, or of both, when func returns or takes tuples.

    >>> flambeau.autograd.functional.jacobian(lambda x: x * x, flambeau.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('strategy must be "forward-mode" or "reverse-mode". Hint: If your function has '
                             'more '
                             'outputs than inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use '
                             '"reverse-mode".')
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError("torch.autograd.functional.jacobian: create_graph=True and "
                                      "strategy=\"forward-mode\" are not "
                                      "supported together (yet). Use strategy=\"reverse-mode\".")
        if strict:
            raise RuntimeError('torch.autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` are not '
                               'supported '
                               'together (yet). Please either set `strict=False` or `strategy="reverse-mode"`.')
        return _forward_jacobian(func, inputs)
    if strict and vectorize:
        raise RuntimeError("torch.autograd.functional.jacobian: strict=True looks at each output by itself, "
                           "vectorize=True at all of them together: set one of them to False.")
    with enable_grad():
        is_in, given = _as_tuple(inputs, "inputs", "jacobian")
        prepared = _prepared(given, create_graph)
        is_out, outputs = _as_tuple(func(*prepared), "outputs of the user-provided function", "jacobian")
        _check_outputs(outputs, strict, create_graph, "jacobian")
        rows_of = _all_rows if vectorize else _jacobian_of
        table = [rows_of(o, prepared, create_graph, strict) for o in outputs]
    return _table(_released(table, create_graph), is_in, is_out)


def _jacobian_of(out: TensorBase, inputs: tuple, create: bool, strict: bool) -> tuple:
    n = out.numel()
    rows: list[list] = [[] for _ in inputs]
    flat = out.reshape(-1)
    for k in range(n):
        grads = (None,) * len(inputs)
        if requires(flat):
            grads = grad(flat[k], inputs, retain_graph=True, create_graph=create, allow_unused=True)
        for column, g in zip(rows, _filled(grads, inputs, strict, "back", create), strict=True):
            column.append(g)
    shape = tuple(shape_of(out))
    return tuple(_stacked(column, shape + tuple(shape_of(t)), out, t) for column, t in zip(rows, inputs, strict=True))


def _all_rows(out: TensorBase, inputs: tuple, create: bool, strict: bool) -> tuple:
    """The rows as one batch of vectors."""
    n, shape = out.numel(), tuple(shape_of(out))
    if n == 0 or not requires(out):
        return _jacobian_of(out, inputs, create, strict)
    unit = make(np.eye(n, dtype=dtype_of(out)).reshape(n, *shape))
    grads = grad(out, inputs, unit, retain_graph=True, create_graph=create, allow_unused=True, is_grads_batched=True)
    return tuple(t.new_zeros(shape + tuple(shape_of(t))) if g is None else g.reshape(shape + tuple(shape_of(t)))
                 for g, t in zip(grads, inputs, strict=True))


def _stacked(parts: list, shape: tuple, out: TensorBase, like: TensorBase) -> TensorBase:
    if not parts:
        return like.new_zeros(shape)
    return state.ops.stack_tensors(parts, 0).reshape(shape)


def _table(table: tuple, is_in: bool, is_out: bool) -> Any:
    rows = tuple(row if is_in else row[0] for row in table)
    return rows if is_out else rows[0]


def _forward_jacobian(func: Callable, inputs: Any) -> Any:
    is_in, given = _as_tuple(inputs, "inputs", "jacobian")
    primals = tuple(t.detach() for t in given)
    columns: list[list] = []
    outputs: tuple = ()
    is_out = False
    for i, t in enumerate(primals):
        found: list = []
        for k in range(max(1, t.numel())):
            direction = _zeros(t)
            if t.numel():
                array_of(direction).reshape(-1)[k] = 1
            with forward_ad.dual_level():
                duals = [forward_ad.make_dual(p, direction if j == i else _zeros(p)) for j, p in enumerate(primals)]
                is_out, outs = _as_tuple(func(*duals), "outputs of the user-provided function", "jacobian")
                pairs = [forward_ad.unpack_dual(o) for o in outs]
            outputs = tuple(p.primal for p in pairs)
            found.append([_zeros(p.primal) if p.tangent is None else p.tangent for p in pairs])
        columns.append(found if t.numel() else [])
    table = []
    for j, o in enumerate(outputs):
        row = []
        for i, t in enumerate(primals):
            shape = tuple(shape_of(o)) + tuple(shape_of(t))
            if not columns[i]:
                row.append(o.new_zeros(shape))
            else:
                parts = [c[j].detach().reshape(-1) for c in columns[i]]
                row.append(state.ops.stack_tensors(parts, 1).reshape(shape))
        table.append(tuple(row))
    return _table(tuple(table), is_in, is_out)


def _scalar(func: Callable, function: str) -> Callable:
    """func, checked to return one element."""

    def checked(*inputs: Any) -> Any:
        out = func(*inputs)
        is_out, outs = _as_tuple(out, "outputs of the user-provided function", function)
        if is_out or len(outs) != 1:
            raise RuntimeError(f"The function given to {function} should return a single Tensor")
        if outs[0].numel() != 1:
            raise RuntimeError(f"The Tensor returned by the function given to {function} should contain a single element")
        return outs[0].reshape(())

    return checked


def hessian(func: Callable, inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
            outer_jacobian_strategy: str = "reverse-mode") -> Any:
    """The Hessian of a function with one output element: for inputs of shapes (*m) and (*n) blocks (*m, *n).

    >>> flambeau.autograd.functional.hessian(lambda x: (x * x * x).sum(), flambeau.tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    is_in, given = _as_tuple(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('strategy must be "forward-mode" or "reverse-mode".')
    checked = _scalar(func, "hessian")

    def gradient(*xs: Any) -> Any:
        if outer_jacobian_strategy == "forward-mode":
            xs = tuple(x if requires(x) else x.requires_grad_() for x in xs)
        with enable_grad():
            out = checked(*xs)
            _check_outputs((out,), strict, True, "hessian")
            return _filled(_grad((out,), xs, None, True), xs, strict, "back", strict)

    if outer_jacobian_strategy == "forward-mode":
        table = _forward_jacobian(_on_leaves(gradient), given)
    else:
        table = jacobian(gradient, given, create_graph=create_graph, strict=strict, vectorize=vectorize)
    return table if is_in else table[0][0]


def _on_leaves(gradient: Callable) -> Callable:
    """A gradient of dual tensors: they must require grad without losing their tangents."""

    def run(*duals: Any) -> Any:
        pairs = [forward_ad.unpack_dual(d) for d in duals]
        xs = [forward_ad.make_dual(p.primal.detach().requires_grad_(), p.tangent) for p in pairs]
        return gradient(*xs)

    return run


def vhp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple:
    """(func(inputs), v^T H) of a function with one output element: one backward through the gradient.

    Args:
        v: of the shapes of the inputs; not needed for a single element.
    """
    with enable_grad():
        is_in, given = _as_tuple(inputs, "inputs", "vhp")
        prepared = _prepared(given, create_graph)
        vs = _vector(v, prepared, is_in, "input of the function", "vhp")
        out = _scalar(func, "vhp")(*prepared)
        _check_outputs((out,), strict, create_graph, "vhp")
        first = _filled(_grad((out,), prepared, None, True), prepared, strict, "back", strict)
    with set_grad_enabled(True if create_graph else grad_enabled()):
        second = _filled(_grad(first, prepared, vs, create_graph), prepared, strict, "double_back")
    return _released(out, create_graph), _shape(_released(second, create_graph), is_in)


def hvp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple:
    """(func(inputs), H v) of a function with one output element.

    >>> f = lambda x: x * x + x * x * x
    >>> flambeau.autograd.functional.hvp(f, flambeau.tensor(2.0), flambeau.tensor(1.0))[1].item()
    14.0
    """
    with enable_grad():
        is_in, given = _as_tuple(inputs, "inputs", "hvp")
        prepared = _prepared(given, create_graph)
        vs = _vector(v, prepared, is_in, "input of the function", "hvp")
        out = _scalar(func, "hvp")(*prepared)
        _check_outputs((out,), strict, create_graph, "hvp")
        first = _filled(_grad((out,), prepared, None, True), prepared, strict, "back", strict)
        us = tuple(_zeros(t).requires_grad_() for t in prepared)
        second = _filled(_grad(first, prepared, us, True), prepared, strict, "double_back")
    with set_grad_enabled(True if create_graph else grad_enabled()):
        third = _filled(_grad(second, us, vs, create_graph), prepared, False, "double_back_trick")
    return _released(out, create_graph), _shape(_released(third, create_graph), is_in)


