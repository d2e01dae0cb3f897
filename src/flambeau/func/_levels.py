"""The levels of vmap that are entered in this thread, and the tensors that carry a batch dimension at one.

A batched tensor is a Tensor without an array: it shows the shape of one sample, and its `_lazy` holds a tensor with one
more dimension, the first. That inner tensor is an ordinary one, or is batched itself at a level entered earlier. Autograd
knows inner tensors only, so that it works through vmap and in it without a rule of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from flambeau.core.dtype import CPU
from flambeau.core.interception import register, unregister
from flambeau.core.objects import TensorBase, dtype_of, make_lazy, requires, shape_of
from flambeau.core.state import local

VMAP = 35       # order of interception: above the profiler, which sees the operators on inner tensors
interceptor: list[Callable] = []        # what sees operators while a vmap runs: `_dispatch` puts it here


class VmapLevel:
    """One vmap that is running.

    Attributes:
        depth: 1 for the outermost.
        size: samples in the batch.
        randomness: "error", "different" or "same".
        alive: False once the function that was mapped has returned.
    """

    __slots__ = ("alive", "depth", "randomness", "size")

    def __init__(self, depth: int, size: int, randomness: str) -> None:
        self.depth, self.size, self.randomness, self.alive = depth, size, randomness, True


def levels() -> list[VmapLevel]:
    """The levels of this thread, the outermost first."""
    found = getattr(local, "vmap_levels", None)
    if found is None:
        found = local.vmap_levels = []
    return found


class Batched:
    """What a batched tensor has in its `_lazy`: the inner tensor, whose first dimension is the batch."""

    __slots__ = ("dtype", "inner", "level", "shape")
    device = CPU
    stands_in = True
    operate: ClassVar[Callable]     # (op, inputs, params, kind) -> result, by `_dispatch`
    custom: ClassVar[Callable]      # (Function, args) -> result, by `_custom`

    def __init__(self, inner: Any, level: VmapLevel) -> None:
        self.inner: Any = inner
        self.level = level
        self.shape, self.dtype = tuple(shape_of(inner)[1:]), dtype_of(inner)

    @property
    def strides(self) -> tuple[int, ...]:
        """In elements, of one sample."""
        return tuple(self.inner.stride()[1:])

    def is_contiguous(self, memory_format: str) -> bool:
        """Whether one sample's elements lie densely in an order of memory."""
        return bool(self.inner.select(0, 0).is_contiguous()) if memory_format == "contiguous" and self.level.size else False

    @property
    def offset(self) -> int:
        return int(self.inner.storage_offset())

    def materialise(self, tensor: Any) -> Any:
        raise RuntimeError(
            "vmap: this needs the values of a tensor that stands for a whole batch of samples, here of shape "
            f"{list(self.shape)} in a batch of {self.level.size}: .item(), bool(), .numpy(), printing its elements, "
            "data-dependent control flow and results whose shape depends on values cannot be mapped. Write `if` as "
            "torch.where, or loop over the samples.")

    def beside(self, t: TensorBase) -> Any:
        """t, where it is not batched at this level, as a copy for each sample: to be written into."""
        if depth_of(t) >= self.level.depth:
            return t
        return wrap(unbatch_at(t, self.level).clone(), self.level)

    def become(self, t: TensorBase, other: Any) -> Any:
        """Make t what other is, its view: transpose_() and the like."""
        t._lazy, t._shape, t._rg = other._lazy, other._lazy.shape, other._rg
        return t

    def describe(self) -> str:
        """How the tensor is printed."""
        inner = "\n".join("    " + line for line in repr(self.inner).splitlines())
        return f"BatchedTensor(lvl={self.level.depth}, bdim=0, value=\n{inner}\n)"

    def dual(self, primal: Any, tangent: Any, make_dual: Any) -> Any:
        """A forward-mode dual tensor, one of whose halves is batched: the inner tensors are made one."""
        level = innermost((primal, tangent))
        assert level is not None
        return wrap(make_dual(unbatch_at(primal, level), unbatch_at(tangent, level)), level)

    def undual(self, unpack_dual: Any) -> tuple:
        """(primal, tangent or None) of the inner dual tensor."""
        primal, tangent = unpack_dual(self.inner)
        return wrap(primal, self.level), None if tangent is None else wrap(tangent, self.level)

    def hooked(self, hook: Callable) -> Callable:
        """A hook of the inner tensor that shows `hook` the gradient of a sample."""
        level = self.level

        def of_batch(g: Any) -> Any:
            with again(level) as at:
                found = hook(batch_at(g, at, 0))
                return unbatch_at(found, at) if isinstance(found, TensorBase) else found

        return of_batch

    def detached(self, tensor: Any) -> Any:
        return wrap(self.inner.detach(), self.level)


def is_batched(t: Any) -> bool:
    return isinstance(t, TensorBase) and t._array is None and type(t._lazy) is Batched


def is_batched_at(t: Any, level: VmapLevel) -> bool:
    """Whether this level's is the batch of t that operators take off first."""
    return isinstance(t, TensorBase) and t._array is None and type(t._lazy) is Batched and t._lazy.level is level


def inner_at(t: Any, level: VmapLevel) -> Any:
    """t with its batch of the level in front; anything that has none as it is."""
    return t._lazy.inner if is_batched_at(t, level) else t


def wrap(inner: Any, level: VmapLevel) -> Any:
    """The tensor that stands for each of inner[0], inner[1], ... at a level."""
    t = make_lazy(Batched(inner, level))
    t._rg = requires(inner)         # what the program sees: the graph is that of inner
    return t


def depth_of(t: Any) -> int:
    """The depth of the innermost level at which t is batched, 0 for an ordinary tensor."""
    return t._lazy.level.depth if is_batched(t) else 0


def batch_at(t: Any, level: VmapLevel, dim: int) -> Any:
    """t with its dimension `dim` hidden, as the batch of a level: below deeper levels at which it is batched."""
    if depth_of(t) > level.depth:
        lazy = t._lazy
        return wrap(batch_at(lazy.inner, level, dim + 1), lazy.level)
    return wrap(t if dim == 0 else t.movedim(dim, 0), level)


def unbatch_at(t: Any, level: VmapLevel) -> Any:
    """t with the batch of a level as its first dimension; expanded where it has none."""
    if is_batched(t):
        lazy = t._lazy
        if lazy.level is level:
            inner: TensorBase = lazy.inner
            return inner
        if lazy.level.depth > level.depth:
            return wrap(unbatch_at(lazy.inner, level).movedim(0, 1), lazy.level)
    return t.unsqueeze(0).expand(level.size, *shape_of(t))


def full(t: Any, upto: list[VmapLevel]) -> Any:
    """The ordinary tensor with the batches of these levels in front, the outermost first."""
    for level in reversed(upto):
        t = unbatch_at(t, level)
    return t


def from_full(t: Any, upto: list[VmapLevel]) -> Any:
    """The inverse of `full`."""
    for level in upto:
        t = batch_at(t, level, 0)
    return t


def enter(size: int, randomness: str) -> VmapLevel:
    stack = levels()
    level = VmapLevel(stack[-1].depth + 1 if stack else 1, size, randomness)
    stack.append(level)
    register(VMAP, interceptor[0])
    return level


@contextmanager
def without(hidden: list[VmapLevel]) -> Iterator[None]:
    """The levels entered since are the only ones: code that runs on the whole batch of the others does not see them."""
    stack = levels()
    if not hidden or not stack:
        yield
        return
    before = list(stack)
    stack[:] = [x for x in before if x not in hidden]
    try:
        yield
    finally:
        stack[:] = before


@contextmanager
def again(level: VmapLevel) -> Iterator[VmapLevel]:
    """The level, for code of its samples that a backward calls: while the backward hides it, or after its end."""
    if not level.alive:
        new = enter(level.size, level.randomness)
        try:
            yield new
        finally:
            leave(new)
        return
    stack = levels()
    if level in stack:
        yield level
        return
    stack.insert(sum(x.depth < level.depth for x in stack), level)
    try:
        yield level
    finally:
        stack.remove(level)


def leave(level: VmapLevel) -> None:
    level.alive = False
    levels().pop()
    unregister(VMAP, interceptor[0])


def debug_unwrap(tensor: Any, *, recurse: bool = True) -> Any:
    """The tensor inside a batched one, with the batches as first dimensions: to look at values while debugging.

    A result computed from it is no part of the transform. Other tensors come back as they are.

    Args:
        recurse: take off all levels of vmap, not only the innermost.

    >>> from flambeau.func import vmap
    >>> _ = vmap(lambda x: print(debug_unwrap(x)) or x)(flambeau.tensor([1., 2.]))
    tensor([1., 2.])
    """
    while is_batched(tensor):
        tensor = tensor._lazy.inner
        if not recurse:
            break
    return tensor


def innermost(values: Any) -> VmapLevel | None:
    """The deepest level at which one of the values is batched."""
    found: VmapLevel | None = None
    for t in values:
        if isinstance(t, TensorBase) and t._array is None:      # `is_batched`, without a call for each argument
            lazy = t._lazy
            if type(lazy) is Batched and (found is None or lazy.level.depth > found.depth):
                found = lazy.level
    return found
