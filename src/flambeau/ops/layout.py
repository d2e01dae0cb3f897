"""clone and contiguous: in which order the elements lie in memory."""

from __future__ import annotations

from typing import Any

from flambeau.core.apply import apply1
from flambeau.core.dtype import MemoryFormat
from flambeau.core.objects import TensorBase, array_of, shape_of
from flambeau.kernels import strides

from ._args import tensor
from ._record import call, kernels, ops, public
from .engine_ops import clone as CLONE
from .shape import strides_of

_FORMATS = {
    "contiguous_format": "contiguous",
    "preserve_format": "preserve",
    "channels_last": "channels_last",
    "channels_last_3d": "channels_last_3d",
}


def format_name(memory_format: MemoryFormat | None, default: str) -> str:
    """The kernels' name of a memory format."""
    return default if memory_format is None else _FORMATS[memory_format.name]


def cloned(t: TensorBase, memory_format: str = "preserve") -> Any:
    return apply1(CLONE, t, (memory_format,))


def made_contiguous(t: TensorBase, memory_format: str = "contiguous") -> Any:
    """t itself when it is dense in that order, else a copy that is."""
    a = t._array
    if a is None:  # a tensor without values
        if memory_format == "contiguous" and strides_of(t) == strides.contiguous_strides(tuple(shape_of(t))):
            return t
    elif strides.is_contiguous(a, memory_format):
        return t
    return apply1(CLONE, t, (memory_format,))


kernels.contiguous = strides.contiguous
ops.contiguous = made_contiguous
ops.clone = cloned


@public(name="clone", out=False, samples=lambda t: [call(t(2, 3)), call(t(3, 2, transposed=True)), call(t()), call(t(0, 2))])
def clone_tensor(input: Any, *, memory_format: MemoryFormat | None = None) -> Any:
    """A copy of input; gradients flow through it.

    Args:
        memory_format: order of the copy's elements; default torch.preserve_format: input's own when it is dense.

    Returns:
        Tensor of input's shape and dtype, with memory of its own.

    >>> x = flambeau.tensor([1., 2.])
    >>> flambeau.clone(x).add_(1), x
    (tensor([2., 3.]), tensor([1., 2.]))
    """
    return apply1(CLONE, tensor(input, "clone"), (format_name(memory_format, "preserve"),))


@public(namespaces=(), out=False, samples=lambda t: [call(t(2, 3)), call(t(3, 2, transposed=True)), call(t())])
def contiguous(input: Any, memory_format: MemoryFormat | None = None) -> Any:
    """input itself when its elements lie densely in row-major order (or the order asked for), else a copy that does.

    >>> x = flambeau.tensor([[1, 2], [3, 4]])
    >>> x.contiguous() is x, x.t().contiguous().tolist()
    (True, [[1, 3], [2, 4]])
    """
    name = format_name(memory_format, "contiguous")
    if name == "preserve":
        strides.contiguous(array_of(input), name)  # raises unless there is nothing to do
        return input
    return made_contiguous(input, name)
