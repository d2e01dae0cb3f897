"""`jacrev`, `jacfwd`, `hessian`: whole Jacobians, by one batched pass over the unit vectors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.core.objects import TensorBase, dtype_of, make, shape_of
from flambeau.core.state import state

from . import _arguments, _pytree
from ._grad import Pullback
from ._jvp import Pushforward
from ._vmap import vmap


def _basis(tensors: list) -> list:
    """For each tensor the unit vectors of all together: (total elements, *shape)."""
    sizes = [t.numel() for t in tensors]
    total = sum(sizes)
    found, start = [], 0
    for t, n in zip(tensors, sizes, strict=True):
        block = np.zeros((total, n), dtype_of(t))
        block[start:start + n] = np.eye(n, dtype=dtype_of(t))
        unit = make(block.reshape(total, *shape_of(t)))
        found.append(unit if t.device.type == "cpu" else unit.to(t.device))
        start += n
    return found


def _split(rows: Any, tensors: list) -> list:
    """Rows for the elements of several tensors, (total, ...), as (*shape, ...) for each."""
    found, start = [], 0
    for t in tensors:
        n = t.numel()
        part = rows.narrow(0, start, n)
        found.append(part.reshape(*shape_of(t), *shape_of(rows)[1:]))
        start += n
    return found


def _real(tensors: list, what: str, name: str) -> None:
    """A Jacobian of complex numbers has no one convention."""
    for i, t in enumerate(tensors):
        if isinstance(t, TensorBase) and dtype_of(t).kind == "c":
            raise RuntimeError(
                f"{name}: Expected all {what} to be real, but leaf {i} of the flattened ones is complex. Take the "
                "real and the imaginary part apart, by torch.view_as_real.")


def jacrev(func: Callable, argnums: Any = 0, *, has_aux: bool = False, chunk_size: int | None = None,
           _preallocate_and_copy: bool = False) -> Callable:
    """The Jacobian of a function, by reverse mode: one backward for all outputs' elements as a batch.

    Prefer it when there are fewer outputs than inputs; `jacfwd` otherwise.

    Args:
        func: returns tensors, or containers of them; with has_aux a tuple (those, anything made of tensors).
        argnums: the position, or positions, of the arguments to differentiate.
        chunk_size: rows to compute at once, None for all.

    Returns:
        A function of the same arguments. For outputs of shape (*m) and an argument of shape (*n) a tensor (*m, *n), in the
        structure of the outputs, and within it of the arguments; with has_aux a tuple (that, aux).

    Raises:
        RuntimeError: func returns integers, or something else than tensors; complex inputs or outputs.

    >>> jacrev(lambda x: x * x)(flambeau.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        chosen = _arguments.chosen(argnums, args)
        _real(_pytree.flatten(chosen)[0], "inputs", "jacrev")

        def of_chosen(values: Any) -> Any:
            return func(*_arguments.replaced(argnums, args, values), **kwargs)

        back = Pullback(of_chosen, (chosen,), has_aux)
        _real(back.outputs, "outputs", "jacrev")
        for t in back.outputs:
            if not state.is_float(dtype_of(t)):
                raise RuntimeError("vjp(f, ...): f must return floating-point or complex Tensors, this one has "
                                   f"dtype {t.dtype}")
        columns = vmap(lambda *c: tuple(back.pull(list(c))), chunk_size=chunk_size)(*_basis(back.outputs))
        split = [_split(c, back.outputs) for c in columns]              # for each input, for each output
        tables = [_pytree.unflatten([column[j] for column in split], back.in_spec)[0] for j in range(len(back.outputs))]
        result = _pytree.unflatten(tables, back.out_spec)
        return (result, back.aux) if has_aux else result

    return wrapper


def jacfwd(func: Callable, argnums: Any = 0, has_aux: bool = False, *, randomness: str = "error") -> Callable:
    """The Jacobian of a function, by its linear map on the unit vectors of the inputs as a batch.

    Prefer it when there are fewer inputs than outputs; `jacrev` otherwise. The shapes are jacrev's.

    Args:
        func: returns tensors, or containers of them; with has_aux a tuple (those, anything made of tensors).
        argnums: the position, or positions, of the arguments to differentiate.
        randomness: accepted; func is called once, whose draws all columns share.

    Raises:
        RuntimeError: func returns something else than tensors; complex inputs or outputs.

    >>> jacfwd(lambda x: x * x)(flambeau.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        chosen = _arguments.chosen(argnums, args)

        def of_chosen(values: Any) -> Any:
            return func(*_arguments.replaced(argnums, args, values), **kwargs)

        inputs, _ = _pytree.flatten(chosen)
        _real(inputs, "inputs", "jacfwd")
        forward = Pushforward(of_chosen, (chosen,), has_aux, "jvp(f, primals, tangents)")
        _real(forward.back.outputs, "outputs", "jacfwd")
        rows = vmap(lambda *t: tuple(forward.push(list(t))))(*_basis(inputs))
        tables = []
        for out in rows:
            last = len(shape_of(out)) - 1
            parts = []
            for part, t in zip(_split(out, inputs), inputs, strict=True):
                n = len(shape_of(t))
                parts.append(part.permute((*range(n, n + last), *range(n))))
            tables.append(_pytree.unflatten(parts, forward.back.in_spec)[0])
        result = _pytree.unflatten(tables, forward.back.out_spec)
        return (result, forward.back.aux) if has_aux else result

    return wrapper


def hessian(func: Callable, argnums: Any = 0) -> Callable:
    """The second derivatives of a function: `jacfwd(jacrev(func))`.

    Returns:
        A function of the same arguments: for outputs of shape (*m) and arguments (*n), (*k) a tensor (*m, *n, *k).

    >>> hessian(lambda x: (x ** 3).sum())(flambeau.tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    return jacfwd(jacrev(func, argnums), argnums)
