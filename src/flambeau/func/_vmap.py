"""`vmap`: a function of one sample, called on a whole batch at once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau.core.objects import TensorBase, shape_of
from flambeau.core.state import state
from flambeau.ops._generator import default_generator

from . import _custom, _dispatch, _indexing, _pytree, _whole  # noqa: F401  each answers for something in vmap
from ._levels import VmapLevel, batch_at, enter, is_batched, leave, unbatch_at


def vmap(func: Callable, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *,
         chunk_size: int | None = None) -> Callable:
    """The function that maps `func` over a dimension of its inputs, with one call of batched operators.

    Inside, tensors have the shape of one sample. Autograd works through vmap and in it: `vmap(grad(loss))` gives
    gradients for each sample. Operators without a batching rule are called sample by sample.

    Args:
        func: takes tensors or nested containers of them, and returns such.
        in_dims: for each argument the dimension to map over, or None to give every sample the whole; a number for all
            arguments, or a tuple with the structure of the arguments, of which a leaf may stand for a container.
        out_dims: where the batch stands in each output; None where the output is the same for all samples.
        randomness: "error" refuses random operators, "different" draws for each sample, "same" once for all.
        chunk_size: samples to compute at once, None for all; smaller chunks use less memory.

    Returns:
        A function of the same arguments, each mapped tensor with one dimension more. Keyword arguments are not mapped.

    Raises:
        ValueError: in_dims or out_dims do not fit, or the mapped dimensions differ in size.
        RuntimeError: data-dependent control flow, `.item()`, results of a data-dependent shape, or a write of batched
            values into a tensor that is not batched.

    Source: Frostig, Johnson and Leary, 2018, "Compiling machine learning programs via high-level tracing".

    >>> dot = lambda a, b: (a * b).sum()
    >>> a = flambeau.tensor([[1., 2.], [3., 4.]])
    >>> vmap(dot)(a, a).tolist()
    [5.0, 25.0]
    >>> vmap(dot, in_dims=(0, None))(a, a[0]).tolist()
    [5.0, 11.0]
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"randomness is 'error', 'different' or 'same'. Got {randomness}")
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        size, dims, leaves, spec = _inputs(in_dims, args, func)
        if chunk_size is not None and size > chunk_size:
            return _in_chunks(func, size, chunk_size, dims, leaves, spec, out_dims, randomness, kwargs)
        return _run(func, size, dims, leaves, spec, out_dims, randomness, kwargs)

    return mapped


def name_of(func: Any) -> str:
    """How a function is called in messages."""
    if isinstance(func, functools.partial):
        return f"functools.partial({name_of(func.func)}, ...)"
    return getattr(func, "__name__", None) or repr(func)


def _inputs(in_dims: Any, args: tuple, func: Callable) -> tuple[int, list, list, Any]:
    """(size of the batch, dimension or None of each leaf, leaves, their structure)"""
    name = name_of(func)
    if not isinstance(in_dims, (int, tuple)) or isinstance(in_dims, bool):
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): `in_dims` is an int, or a tuple (nested, if need be) "
            f"with the structure of the inputs, not {type(in_dims)}.")
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs: there is nothing to map over. Keyword arguments are not mapped: every "
            "sample gets the whole.")
    leaves, spec = _pytree.flatten(args)
    dims = _pytree.broadcast_to(in_dims, spec)
    if dims is None:
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible with the structure of inputs: there "
            f"are {len(args)} inputs with {len(leaves)} leaves. Give one number, or a tuple with an entry for each input.")
    sizes: set[int] = set()
    for i, (leaf, d) in enumerate(zip(leaves, dims, strict=True)):
        if d is None:
            continue
        if not isinstance(d, int) or isinstance(d, bool):
            raise ValueError(
                f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={d} for an input: an in_dim is an integer "
                "dimension or None.")
        if not isinstance(leaf, TensorBase):
            raise ValueError(
                f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={d} for an input but the input is of type "
                f"{type(leaf)}. We cannot vmap over non-Tensor arguments, please use None as the respective in_dim.")
        n = len(shape_of(leaf))
        if not -n <= d < n:
            raise ValueError(
                f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={d} for a Tensor of dimensionality {n}: "
                f"expected in_dim to satisfy -{n} <= in_dim < {n}.")
        dims[i] = d % n
        sizes.add(shape_of(leaf)[dims[i]])
    if not sizes:
        raise ValueError(f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): nothing is mapped over: at least one input must "
                         "be a Tensor with an in_dim that is not None.")
    if len(sizes) > 1:
        raise ValueError(
            f"vmap: Expected the same size in the mapped dimension of all tensors, these have "
            f"{[shape_of(t)[d] for t, d in zip(leaves, dims, strict=True) if d is not None]} for the mapped dimension")
    return sizes.pop(), dims, leaves, spec


def _run(func: Callable, size: int, dims: list, leaves: list, spec: Any, out_dims: Any, randomness: str,
         kwargs: dict) -> Any:
    level = enter(size, randomness)
    try:
        given = [t if d is None else batch_at(t, level, d) for t, d in zip(leaves, dims, strict=True)]
        out = func(*_pytree.unflatten(given, spec), **kwargs)
        return _outputs(func, out, out_dims, level)
    finally:
        leave(level)


def _out_dims(func: Callable, out_dims: Any, spec: Any, n: int) -> list:
    """The dimension, or None, of each output leaf."""
    name = name_of(func)
    leaves, _ = _pytree.flatten(out_dims)
    for d in leaves:
        if d is not None and (not isinstance(d, int) or isinstance(d, bool)):
            raise ValueError(
                f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection of ints "
                f"representing where in the outputs the vmapped dimension should appear, and holds {d!r}.")
    if spec is _pytree.LEAF and isinstance(out_dims, tuple) and len(out_dims) == 1:
        out_dims = out_dims[0]
    found = _pytree.broadcast_to(out_dims, spec)
    if found is None:
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of outputs, "
            f"which has {n} leaves.")
    return found


def _outputs(func: Callable, out: Any, out_dims: Any, level: VmapLevel) -> Any:
    leaves, spec = _pytree.flatten(out)
    dims = _out_dims(func, out_dims, spec, len(leaves))
    found = []
    for t, d in zip(leaves, dims, strict=True):
        if d is None and not isinstance(t, TensorBase):
            found.append(t)
            continue
        if not isinstance(t, TensorBase):
            raise ValueError(
                f"vmap({name_of(func)}, ...): `{name_of(func)}` must only return Tensors, got type {type(t)}. Did you mean "
                "to set out_dims= to None for output? Numbers become tensors by torch.tensor(...).")
        found.append(_placed(func, t, d, level))
    return _pytree.unflatten(found, spec)


def _placed(func: Callable, t: TensorBase, d: int | None, level: VmapLevel) -> Any:
    if d is None:
        if _differs(t, level):
            raise ValueError(
                f"vmap({name_of(func)}, ...): `{name_of(func)}` can not return a BatchedTensor when out_dim is None: the "
                "output differs from sample to sample. Give it an out_dim.")
        return t
    n = len(shape_of(t)) + 1
    if not -n <= d < n:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {d}) in the out_dims of vmap")
    whole = unbatch_at(t, level)
    d %= n
    return whole if d == 0 else whole.movedim(0, d)


def _differs(t: Any, level: VmapLevel) -> bool:
    """Whether t has a batch of the level, at whatever depth."""
    while is_batched(t):
        if t._lazy.level is level:
            return True
        t = t._lazy.inner
    return False


def _in_chunks(func: Callable, size: int, chunk: int, dims: list, leaves: list, spec: Any, out_dims: Any,
               randomness: str, kwargs: dict) -> Any:
    """The batch a chunk at a time, joined."""
    parts: list[list] = []
    structure: Any = None
    where: list = []
    begin = default_generator.get_state() if randomness == "same" else None
    for start in range(0, size, chunk):
        if begin is not None and start:
            default_generator.set_state(begin)          # every chunk sees the draws of the first
        n = min(chunk, size - start)
        given = [t if d is None else t.narrow(d, start, n) for t, d in zip(leaves, dims, strict=True)]
        out = _run(func, n, dims, given, spec, out_dims, randomness, kwargs)
        flat, structure = _pytree.flatten(out)
        where = _out_dims(func, out_dims, structure, len(flat))
        parts.append(flat)
    joined = []
    for d, column in zip(where, zip(*parts, strict=True), strict=True):
        joined.append(column[0] if d is None else state.public("cat")(list(column), d))
    return _pytree.unflatten(joined, structure)
