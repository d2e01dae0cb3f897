"""Custom `autograd.Function`s on batched tensors: by their own `vmap`, or by mapping forward and backward."""

from __future__ import annotations

from typing import Any, NamedTuple

from flambeau.autograd.function import Function
from flambeau.core.objects import TensorBase, shape_of

from . import _pytree
from ._levels import Batched, VmapLevel, batch_at, enter, innermost, is_batched, leave, unbatch_at, wrap
from ._randomness import above


class VmapInfo(NamedTuple):
    """What a Function's `vmap` is told: samples in the batch, and the `randomness` of vmap."""

    batch_size: int
    randomness: str


def _holds(t: Any, level: VmapLevel) -> bool:
    return is_batched(t) and t._lazy.level is level


def apply(cls: Any, args: tuple) -> Any:
    """cls.apply(*args), some of which are batched."""
    level = innermost(args)
    assert level is not None
    name = cls.__name__
    if cls.setup_context is Function.setup_context:
        raise RuntimeError(
            f"In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must "
            f"override the setup_context staticmethod. {name} does not: write forward(*inputs) without ctx, and "
            "setup_context(ctx, inputs, output) that saves what backward needs.")
    own = cls.vmap is not Function.vmap
    if own and cls.generate_vmap_rule:
        raise RuntimeError(f"You tried to vmap over {name}, but it has both generate_vmap_rule=True and an overriden vmap "
                           "staticmethod. Leave one of them out.")
    if own:
        return _by_its_own(cls, args, level)
    if not cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {name}, but it does not have vmap support. Please override and implement the vmap "
            "staticmethod or set generate_vmap_rule=True.")
    return _generated(cls, args, level)


def _by_its_own(cls: Any, args: tuple, level: VmapLevel) -> Any:
    dims = tuple([0 if _holds(a, level) else None for a in args])
    inner = [a._lazy.inner if _holds(a, level) else a for a in args]
    with above(level):
        result = cls.vmap(VmapInfo(level.size, level.randomness), dims, *inner)
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(f"Expected the vmap staticmethod of {cls.__name__} to return two things, (output, out_dims), and "
                           f"it returned {type(result).__name__}")
    output, out_dims = result
    leaves, spec = _pytree.flatten(output)
    placed = _pytree.broadcast_to(out_dims, spec)
    if placed is None:
        raise ValueError(f"{cls.__name__}.vmap: out_dims {out_dims} do not have the structure of the outputs")
    return _pytree.unflatten([t if d is None or not isinstance(t, TensorBase) else batch_at(t, level, d)
                              for t, d in zip(leaves, placed, strict=True)], spec)


class _Context:
    """The ctx that a mapped setup_context and backward see: tensors that they save are those of samples."""

    def __init__(self, needs: tuple) -> None:
        self.needs_input_grad = needs
        self.kept: tuple = ()
        self.saved_tensors: tuple = ()
        self.materialize = True
        self.constant: tuple = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.kept = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Forward mode is by reverse mode twice under transforms."""

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self.constant = tensors

    def set_materialize_grads(self, value: bool) -> None:
        self.materialize = value

    def mark_dirty(self, *tensors: Any) -> None:
        raise RuntimeError("mark_dirty in a Function under vmap is not supported: forward must not write to its inputs")


def _generated(cls: Any, args: tuple, level: VmapLevel) -> Any:
    """A Function of the inner tensors whose forward and backward map those of cls."""
    size, randomness = level.size, level.randomness
    batched = [_holds(a, level) for a in args]
    context = _Context(())
    shape: dict[str, Any] = {}

    def given(values: Any, flags: list, at: VmapLevel) -> list:
        return [wrap(v, at) if f and v is not None else v for v, f in zip(values, flags, strict=True)]

    class Mapped(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(*inner: Any) -> Any:
            out = cls.forward(*given(inner, batched, level))
            leaves, shape["spec"] = _pytree.flatten(out)
            shape["batched"] = [_holds(t, level) for t in leaves]
            shape["out"] = out
            found = tuple([t._lazy.inner if _holds(t, level) else t for t in leaves])
            return found if len(found) != 1 else found[0]

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
            context.needs_input_grad = ctx.needs_input_grad
            outs = output if isinstance(output, tuple) else (output,)
            mapped = _pytree.unflatten(given(outs, shape["batched"], level), shape["spec"])
            cls.setup_context(context, tuple(given(inputs, batched, level)), mapped)
            shape["saved"] = [_holds(t, level) for t in context.kept]
            ctx.save_for_backward(*[t._lazy.inner if _holds(t, level) else t for t in context.kept])
            ctx.set_materialize_grads(context.materialize)
            if context.constant:
                ctx.mark_non_differentiable(*[t._lazy.inner if _holds(t, level) else t for t in context.constant])

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            at = enter(size, randomness)
            try:
                context.saved_tensors = tuple(given(ctx.saved_tensors, shape["saved"], at))
                found = cls.backward(context, *given(grads, shape["batched"], at))
                found = found if isinstance(found, tuple) else (found,)
                return tuple([_returned(g, f, a, at) for g, f, a in zip(found, batched, args, strict=True)])
            finally:
                leave(at)

    Mapped.__name__ = cls.__name__
    Mapped._op.node_name = cls._op.node_name
    out = Mapped.apply(*[a._lazy.inner if f else a for a, f in zip(args, batched, strict=True)])
    outs = out if isinstance(out, tuple) else (out,)
    return _pytree.unflatten(given(outs, shape["batched"], level), shape["spec"])


def _returned(g: Any, batched: bool, like: Any, level: VmapLevel) -> Any:
    """The gradient of an inner input: one that all samples share gets the sum of theirs."""
    if g is None:
        return None
    if batched:
        return unbatch_at(g, level)
    if not _holds(g, level):
        return g
    whole = g._lazy.inner.sum(0)
    return whole.sum_to_size(shape_of(like)) if shape_of(whole) != shape_of(like) else whole


Batched.custom = staticmethod(apply)
