"""`backward` and `grad`: arguments checked and normalised, then one call of the engine."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flambeau.core.engine import run_backward
from flambeau.core.errors import AutogradError, unused_error
from flambeau.core.objects import Node, TensorBase, array_of, dtype_of, is_mapped, make, make_lazy, memory_of, shape_of
from flambeau.core.state import state
from flambeau.core.views import grad_fn

from . import _tangents


def _as_list(x: Any) -> list:
    return [x] if isinstance(x, TensorBase) or hasattr(x, "node") and hasattr(x, "output_nr") else list(x)


def _seeds(roots: list, gradients: Sequence | None, create: bool, what: str) -> list:
    """The incoming gradients as the engine carries them: arrays, or Tensors when recorded."""
    if gradients is None:
        gradients = [None] * len(roots)
    if len(gradients) != len(roots):
        raise RuntimeError(f"got {len(roots)} tensors and {len(gradients)} gradients: give one gradient for each tensor")
    seeds = []
    for i, (root, g) in enumerate(zip(roots, gradients, strict=True)):
        if not isinstance(root, TensorBase):
            if g is None:
                raise RuntimeError(f"{what}: a GradientEdge needs an explicit gradient")
            seeds.append(_carried(g, create))
            continue
        if g is None:
            if not root.requires_grad:
                seeds.append(None)      # the engine says why it cannot start there
                continue
            if root.numel() != 1:
                raise AutogradError(
                    f"grad can be implicitly created only for scalar outputs, but the tensor has shape "
                    f"{list(shape_of(root))}. Reduce it first (sum() or mean()), or pass gradient= with that shape: the "
                    "weights of a weighted sum of its elements.")
            if not state.is_float(dtype_of(root)) or dtype_of(root).kind == "c":
                raise AutogradError("grad can be implicitly created only for real scalar outputs, and this one is "
                                    f"{root.dtype}. Pass its gradient, or call backward on a real part.")
            if root._array is None and root.is_meta:
                seeds.append(make_lazy(memory_of(root)))
                continue
            seed = state.xp.ones_like(array_of(root))
            seeds.append(make(seed) if create else seed)
            continue
        if not isinstance(g, TensorBase):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
        if tuple(shape_of(g)) != tuple(shape_of(root)):
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{i}] has a shape of {list(shape_of(g))} and output[{i}] has a shape of "
                f"{list(shape_of(root))}. A gradient has the shape of the tensor that it belongs to.")
        if (dtype_of(g).kind == "c") != (dtype_of(root).kind == "c"):
            raise RuntimeError(
                f"grad_output[{i}] is {g.dtype} and output[{i}] is {root.dtype}: for complex Tensors the two need "
                "the same dtype (Mismatch in dtype). Convert it with .to().")
        if root.device != g.device:
            raise RuntimeError(f"grad_output[{i}] is on {g.device} and output[{i}] on {root.device}: expected both on one "
                               "device.")
        seeds.append(_carried(g, create))
    return seeds


def _carried(g: Any, create: bool) -> Any:
    """A gradient as the engine takes it: an array, or a tensor where there is none or the backward is recorded."""
    return g if create or g._array is None else memory_of(g)


def _refuse_mapped(roots: list, what: str) -> None:
    """A tensor of vmap stands for samples, and has no graph of its own."""
    for t in roots:
        if isinstance(t, TensorBase) and is_mapped(t):
            raise AutogradError(
                f"{what} is called on a tensor inside of vmap, which stands for a whole batch: backward() called inside a "
                "functorch transform is not supported. Use torch.func.grad or torch.func.vjp in the mapped function, or "
                "differentiate its result outside.")


def why_no_grad(t: TensorBase) -> str:
    """What may have cut the graph, for the error of a backward that cannot start."""
    if not state.is_float(dtype_of(t)):
        return (f". Its dtype is {t.dtype}, and only floating point tensors are differentiated: an operator such as "
                "argmax(), "
                "a comparison or a cast to integers cut the graph.")
    return (". Nothing that it was computed from requires grad, or the graph was cut on the way: by detach(), .data, "
            ".item(), numpy(), torch.no_grad(), or by making a new tensor with torch.tensor(...). Set requires_grad=True on "
            "the inputs or parameters whose gradient is wanted.")


state.why_no_grad = why_no_grad


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Add to the `.grad` of leaves the gradients of the sum of `tensors`.

    Args:
        tensors: a tensor or several.
        grad_tensors: for each tensor that is not a scalar the incoming gradient, of its shape.
        retain_graph: keep saved values for another backward; default: create_graph.
        create_graph: record the backward itself, for higher derivatives.
        inputs: only these receive `.grad`; default: all leaves.

    Raises:
        RuntimeError: a tensor does not require grad, is not a scalar and has no gradient, or the graph was freed
            by an earlier backward.

    >>> x = flambeau.tensor(3.0, requires_grad=True)
    >>> flambeau.autograd.backward(x * x)
    >>> x.grad
    tensor(6.)
    """
    if grad_variables is not None:
        if grad_tensors is not None:
            raise RuntimeError("grad_tensors and grad_variables (its old name) are both given: use grad_tensors only")
        grad_tensors = grad_variables
    roots = _as_list(tensors)
    if state.special != 0:
        _refuse_mapped(roots, "backward()")
    if grad_tensors is not None:
        grad_tensors = [grad_tensors] if isinstance(grad_tensors, TensorBase) else list(grad_tensors)
    wanted = None
    if inputs is not None:
        wanted = _as_list(inputs)
        if not wanted:
            raise RuntimeError("'inputs' argument to backward() cannot be empty: leave it out to reach all leaves")
        for i, t in enumerate(wanted):
            if isinstance(t, TensorBase):
                if not t.requires_grad:
                    raise AutogradError(f"One of the differentiated Tensors does not require grad: input {i} of "
                                        "backward(inputs=)")
                if grad_fn(t) is not None:
                    t.retain_grad()
    create = bool(create_graph)
    keep = create if retain_graph is None else bool(retain_graph)
    run_backward(roots, _seeds(roots, grad_tensors, create, "backward()"), keep, create, wanted, True)


state.backward = backward


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple:
    """The gradients of the sum of `outputs` with respect to `inputs`; no `.grad` changes.

    Args:
        outputs: a tensor or several.
        inputs: tensors (or GradientEdges) of the graph.
        grad_outputs: the incoming gradients; None for scalars.
        retain_graph: keep saved values; default: create_graph.
        create_graph: record the computation, for higher derivatives.
        allow_unused: give None for inputs that took no part instead of raising; default: materialize_grads.
        is_grads_batched: grad_outputs have one more leading dimension, a batch of vectors.
        materialize_grads: zeros instead of None.

    >>> x = flambeau.tensor(2.0, requires_grad=True)
    >>> g, = flambeau.autograd.grad(x ** 3, x, create_graph=True)
    >>> flambeau.autograd.grad(g, x)[0]
    tensor(12.)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError("materialize_grads=True gives zeros for unused inputs and so implies allow_unused; it was "
                         "given with allow_unused=False. Leave that out.")
    allow = materialize_grads if allow_unused is None else bool(allow_unused)
    roots, wanted = _as_list(outputs), _as_list(inputs)
    if grad_outputs is not None:
        grad_outputs = [grad_outputs] if isinstance(grad_outputs, TensorBase) else list(grad_outputs)
    create = bool(create_graph)
    keep = create if retain_graph is None else bool(retain_graph)
    if state.special != 0:
        _refuse_mapped([*roots, *wanted], "grad()")
    for i, t in enumerate(wanted):
        if isinstance(t, TensorBase) and not t.requires_grad:
            raise AutogradError(
                f"One of the differentiated Tensors does not require grad: inputs[{i}] has requires_grad=False. Set "
                "requires_grad_() on it before the outputs are computed.")
    if is_grads_batched:
        return _batched(roots, wanted, grad_outputs, keep, create, allow, materialize_grads)
    if _tangents.active() and not create:
        return tuple(None if g is None else _tangents.cut(g) for g in grad(
            outputs, inputs, grad_outputs, keep, True, only_inputs, allow_unused, False, materialize_grads))
    results = run_backward(roots, _seeds(roots, grad_outputs, create, "grad()"), keep, create, wanted, False)
    return _finish(results, wanted, allow, materialize_grads)


def _finish(results: list, wanted: list, allow: bool, materialize: bool) -> tuple:
    for i, g in enumerate(results):
        if g is None:
            if not allow:
                raise unused_error(i)
            if materialize:
                results[i] = _zeros_at(wanted[i])
    return tuple(results)


def _zeros_at(target: Any) -> TensorBase:
    """Zeros like a tensor, or like the output that a GradientEdge names."""
    if isinstance(target, TensorBase):
        return state.ops.zeros_like(target.detach())
    if not isinstance(target.node, Node):
        return make(state.xp.zeros_like(array_of(target.node.variable)))
    x = target.node.extra
    several = x is not None and x.metas is not None
    shape, dtype = x.metas[target.output_nr] if several else (target.node.shape, target.node.dtype)
    return make(np.zeros(tuple(shape), dtype))


def mapped(fn: Callable) -> Callable:
    """vmap(fn): imported when it is asked for, since torch.func is built on this module."""
    return importlib.import_module("flambeau.func").vmap(fn)


def _batched(roots: list, wanted: list, grads: Any, keep: bool, create: bool, allow: bool, materialize: bool) -> tuple:
    """One backward for the whole batch: vmap over the vectors."""
    if grads is None or any(g is None for g in grads):
        raise RuntimeError("is_grads_batched=True needs grad_outputs with a leading batch dimension for each output")
    given: list[bool] = []

    def backward_of(*vectors: Any) -> tuple:
        seeds = _seeds(roots, list(vectors), create, "grad()")
        results = run_backward(roots, seeds, keep, create, wanted, False)
        given[:] = [g is not None for g in results]
        return tuple(g for g in results if g is not None)

    rows = iter(mapped(backward_of)(*grads))
    results = [next(rows) if there else None for there in given]
    for i, g in enumerate(results):
        if g is None and not allow:
            raise unused_error(i)
        if g is None and materialize:
            zeros = _zeros_at(wanted[i])
            results[i] = state.ops.expand(zeros, (shape_of(grads[0])[0], *shape_of(zeros)))
    return tuple(results)
