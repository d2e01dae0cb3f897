"""Functions that PyTorch has in `torch` beside the form under nn.functional or the method."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply1
from flambeau.core.objects import array_of, dtype_of, make, shape_of
from flambeau.core.state import state

from . import dropout as d
from . import embedding as e
from ._args import dim as one_dim
from ._args import integer, tensor
from ._generator import default_generator
from ._lazy import placed
from ._record import REGISTRY, call, ops, public
from .grids import affine_grid
from .layout import cloned
from .shuffle import channel_shuffle


@public(method=False, out=False, samples=lambda t: [
    call(t(2, 2, 3), (2, 1, 3, 4), False), call(t(1, 3, 4), (1, 1, 2, 3, 2), True)])
def affine_grid_generator(theta: Any, size: Any, align_corners: bool) -> Any:
    """`nn.functional.affine_grid` with no default.

    >>> identity = flambeau.tensor([[[1., 0., 0.], [0., 1., 0.]]])
    >>> flambeau.affine_grid_generator(identity, (1, 1, 1, 2), True)[0, 0].tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    return affine_grid(theta, size, align_corners)


@public(namespaces=("torch", "nn.functional"), method=False, out=False, samples=lambda t: [call(t(1, 8, 1), 2)],
        errors=lambda t: [(call(t(1, 8, 1), 3), RuntimeError, "divisible by groups")])
def native_channel_shuffle(input: Any, groups: int) -> Any:
    """`channel_shuffle`.

    >>> flambeau.native_channel_shuffle(flambeau.arange(4).reshape(1, 4, 1), 2).flatten().tolist()
    [0, 2, 1, 3]
    """
    return channel_shuffle(input, groups)


@public(method=False, out=False, random=True, samples=lambda t: [call(t(3, 4), 0.5, True), call(t(3, 4), 0.5, False)],
        errors=lambda t: [(call(t(3), 1.5, True), RuntimeError, "in \\[0, 1\\]")])
def native_dropout(input: Any, p: float, train: bool | None) -> tuple:
    """(output, mask): dropout, and which elements it keeps; train=None counts as True.

    >>> flambeau.native_dropout(flambeau.ones(2), 0.0, True)[1].tolist()
    [True, True]
    """
    a: Any = tensor(input, "native_dropout")
    if not shape_of(a) or 0 not in shape_of(a):
        if not 0 <= p <= 1:
            raise RuntimeError(f"native_dropout expects p to be in [0, 1], but got p={p}")
    if train is not None and not train:
        return ops.clone(a), placed(a, shape_of(a), np.dtype("?"), lambda: np.ones(shape_of(a), np.bool_))
    if p == 1:
        zeros = placed(a, shape_of(a), np.dtype("?"), lambda: np.zeros(shape_of(a), np.bool_))
        return a * zeros, zeros
    noise = apply1(d.NOISE, a, (1.0 - p, False, 0, default_generator))
    return a * noise * (1 / (1 - p)), noise != 0


@public(method=False, samples=lambda t: [call(t(3, 4), 1, 0, 3, 2), call(t(5), 0, -3), call(t(5, 2))],
        errors=lambda t: [(call(t(3), 2), IndexError, "out of range"), (call(t(3), 0, 0, 2, 0), RuntimeError, "positive")])
def slice_copy(input: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    """input[start:end:step] along dim, with memory of its own.

    >>> flambeau.slice_copy(flambeau.arange(5), 0, 1, 4, 2).tolist()
    [1, 3]
    """
    t: Any = tensor(input, "slice_copy")
    at = one_dim(dim, len(shape_of(t)))
    if step < 1:
        raise RuntimeError(f"slice_copy: slice step must be positive, got {step}")
    return cloned(t[(slice(None),) * at + (slice(start, end, step),)], "contiguous")


@public(method=False, samples=REGISTRY["positive"].samples, differentiable=False)
def detach_copy(input: Any) -> Any:
    """input's values with memory of their own and no history.

    >>> flambeau.detach_copy(flambeau.ones(1, requires_grad=True)).requires_grad
    False
    """
    return ops.clone(tensor(input, "detach_copy").detach())


@public(method=False, out=False, samples=lambda t: [call(t(2))], differentiable=False)
def get_device(input: Any) -> int:
    """The number of the accelerator that holds input: -1, the CPU.

    >>> flambeau.get_device(flambeau.ones(1))
    -1
    """
    tensor(input, "get_device")
    return -1


@public(method=False, out=False, samples=lambda t: [call(t(2))])
def dequantize(input: Any) -> Any:
    """input in float32: what a quantised tensor stands for, and tensors are not quantised here.

    >>> flambeau.dequantize(flambeau.ones(1)).tolist()
    [1.0]
    """
    return tensor(input, "dequantize").dequantize()


@public(out=False, samples=lambda t: [call(t(2))], differentiable=False)
def is_distributed(input: Any) -> bool:
    """False: no tensor is spread over machines.

    >>> flambeau.is_distributed(flambeau.ones(1))
    False
    """
    tensor(input, "is_distributed")
    return False


@public(method=False, out=False, samples=lambda t: [call(t(4, grad=False), t(2, 2))], differentiable=False)
def resize_as_(input: Any, the_template: Any, *, memory_format: Any = None) -> Any:
    """`Tensor.resize_as_`: give the tensor itself the shape of another.

    >>> flambeau.resize_as_(flambeau.arange(4), flambeau.ones(2, 2)).tolist()
    [[0, 1], [2, 3]]
    """
    tensor(the_template, "resize_as_", "the_template", 2)
    return tensor(input, "resize_as_").resize_as_(the_template, memory_format=memory_format)


# --------------------------------------------------------------------------------- embeddings


@public(method=False, out=False, samples=lambda t: [
    call(t(5, 3, grad=False, low=1.0, high=2.0), t(values=[0, 1, 1], dtype="int64", grad=False), 1.0, 2.0)],
    differentiable=False)
def embedding_renorm_(input: Any, indices: Any, max_norm: float, norm_type: float) -> Any:
    """Scale, in place, the rows of a table at indices whose norm_type-norm exceeds max_norm.

    >>> flambeau.embedding_renorm_(flambeau.tensor([[3., 4.]]), flambeau.tensor([0]), 5.0, 2.0).tolist()
    [[3.0, 4.0]]
    """
    rows = tensor(indices, "embedding_renorm_", "indices", 2)
    e._renormalise(tensor(input, "embedding_renorm_"), rows, max_norm, norm_type)
    return input


def _indices(t: Any) -> Any:
    return t(values=[0, 1, 2, 3], dtype="int64", grad=False)


def _offsets(t: Any, *values: int) -> Any:
    return t(values=list(values), dtype="int64", grad=False)


@public(method=False, out=False, samples=lambda t: [
    call(t(5, 3), _indices(t), _offsets(t, 0, 2)), call(t(5, 3), _indices(t), _offsets(t, 0, 2), False, 1),
    call(t(5, 3), _indices(t), _offsets(t, 0, 2, 2), False, 2),
    call(t(5, 3), _indices(t), _offsets(t, 0, 2, 4), False, 0, False, None, True)],
    errors=lambda t: [(call(t(5, 3), _indices(t), _offsets(t, 0, 2), False, 3), RuntimeError, "sum, mean")])
def embedding_bag(weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool = False, mode: int = 0,
                  sparse: bool = False, per_sample_weights: Any = None, include_last_offset: bool = False,
                  padding_idx: int | None = None) -> tuple:
    """`nn.functional.embedding_bag` with mode 0 (sum), 1 (mean) or 2 (max), and what its backward reads.

    Returns:
        (bags (B, D), bag of each index or empty, sizes of the bags, rows of the maxima or the sizes again).

    >>> table = flambeau.tensor([[1.], [3.]])
    >>> flambeau.embedding_bag(table, flambeau.tensor([0, 1]), flambeau.tensor([0]))[0].tolist()
    [[4.0]]
    """
    if integer(mode, "embedding_bag", "mode") not in (0, 1, 2):
        raise RuntimeError(f"embedding_bag: `mode` must be sum, mean, or max: 0, 1 or 2, not {mode}")
    ids = tensor(indices, "embedding_bag", "indices", 2)
    if len(shape_of(ids)) > 1:
        ids = ids.reshape(-1)
        per_sample_weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    out = e.embedding_bag(ids, weight, offsets, None, 2.0, scale_grad_by_freq, ("sum", "mean", "max")[mode], sparse,
                          per_sample_weights, include_last_offset, padding_idx)
    values, bag, n_bags = e._bags(ids, offsets, include_last_offset)
    kept = np.ones(len(values), np.bool_) if padding_idx is None else values != padding_idx % shape_of(weight)[0]
    sizes = np.bincount(bag[kept], minlength=n_bags)
    if mode == 0:
        fast = padding_idx is None and dtype_of(weight) is not state.f64
        none = np.zeros(shape_of(offsets) if fast else (n_bags,), np.int64)
        return out, make(np.zeros(0, np.int64) if fast else bag), make(none), make(none.copy())
    if mode == 1:
        return out, make(bag), make(sizes), make(sizes.copy())
    places, empty = e._best_rows(array_of(weight)[values[kept]], bag[kept], n_bags)
    rows = np.where(empty[:, None], 0, values[kept][places]) if kept.any() else np.zeros(places.shape, np.int64)
    return out, make(bag), make(sizes), make(rows)
