"""Custom `autograd.Function`s on batched tensors: by their own `vmap`, or by mapping forward and backward."""

from __future__ import annotations

from typing import Any, NamedTuple

from flambeau.autograd.function import Function
from flambeau.core.objects import TensorBase, shape_of

from . import _pytree
from ._levels import Batched, VmapLevel, batch_at, enter, inner_at, innermost, is_batched_at, leave, unbatch_at, wrap
from ._randomness import above


class VmapInfo(NamedTuple):
    """What a Function's `vmap` is told: samples in the batch, and the `randomness` of vmap."""

    batch_size: int
    randomness: str


def apply(cls: Any, args: tuple) -> Any:
    """cls.apply(*args), some of which are batched."""
    level = innermost(args)
    assert level is not None
    name = cls.__name__
    if cls.setup_context is Function.setup_context:
        raise RuntimeError(
            f"An autograd.Function under vmap, grad, jvp, ... must override the setup_context staticmethod. "
            f"{name} does not: write forward(*inputs) without ctx, and "
            "setup_context(ctx, inputs, output) that saves what backward needs.")
    own = cls.vmap is not Function.vmap
    if own and cls.generate_vmap_rule:
        raise RuntimeError(f"You tried to vmap over {name}, but it has both generate_vmap_rule=True and an overriden vmap "
                           "staticmethod. Leave one of them out.")
    if own:
        return _by_its_own(cls, args, level)
    if not cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {name}, but it does not have vmap support. Give it a vmap staticmethod, or set "
            "generate_vmap_rule = True.")
    return _generated(cls, args, level)


def _by_its_own(cls: Any, args: tuple, level: VmapLevel) -> Any:
    dims = tuple([0 if is_batched_at(a, level) else None for a in args])
    inner = [inner_at(a, level) for a in args]
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
        self.saved_tensors: tuple = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.__dict__["_kept"] = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        self.__dict__["_kept_for_forward"] = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self.__dict__["_constant"] = tensors

    def set_materialize_grads(self, value: bool) -> None:
        self.__dict__["_materialize"] = value

    def mark_dirty(self, *tensors: Any) -> None:
        raise RuntimeError("mark_dirty in a Function under vmap is not supported: forward must not write to its inputs")


class _Plan:
    """How one call of a Function is mapped: its level, and which inputs, outputs and saved tensors are batched.

    It holds no tensor: the graph's node holds it.
    """

    def __init__(self, cls: Any, level: VmapLevel, inputs: list[bool]) -> None:
        self.cls, self.level, self.inputs = cls, level, inputs
        self.shapes: list[Any] = []
        self.outputs: list[bool] = []
        self.spec: Any = None
        self.saved: list[bool] = []
        self.saved_forward: list[bool] | None = None
        self.context: Any = None


def _given(values: Any, flags: list[bool], level: VmapLevel) -> list:
    return [wrap(v, level) if f and v is not None else v for v, f in zip(values, flags, strict=True)]


class Mapped(Function):
    """A Function of the tensors inside, whose forward and backward map those of another: apply(plan, *inputs)."""

    generate_vmap_rule = True

    @staticmethod
    def forward(plan: _Plan, *inner: Any) -> Any:
        leaves, plan.spec = _pytree.flatten(plan.cls.forward(*_given(inner, plan.inputs, plan.level)))
        plan.outputs = [is_batched_at(t, plan.level) for t in leaves]
        found = tuple([inner_at(t, plan.level) for t in leaves])
        return found if len(found) != 1 else found[0]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
        plan, level = inputs[0], inputs[0].level
        context = plan.context = _Context(ctx.needs_input_grad[1:])
        outs = output if isinstance(output, tuple) else (output,)
        mapped = _pytree.unflatten(_given(outs, plan.outputs, level), plan.spec)
        plan.cls.setup_context(context, tuple(_given(inputs[1:], plan.inputs, level)), mapped)
        kept = context.__dict__.pop("_kept", ())
        plan.saved = [is_batched_at(t, level) for t in kept]
        ctx.save_for_backward(*[inner_at(t, level) for t in kept])
        for_forward = context.__dict__.pop("_kept_for_forward", None)
        if for_forward is not None:
            plan.saved_forward = [is_batched_at(t, level) for t in for_forward]
            ctx.save_for_forward(*[inner_at(t, level) for t in for_forward])
        ctx.set_materialize_grads(context.__dict__.pop("_materialize", True))
        constant = context.__dict__.pop("_constant", ())
        if constant:
            ctx.mark_non_differentiable(*[inner_at(t, level) for t in constant])
        ctx.plan = plan

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        plan = ctx.plan
        at = enter(plan.level.size, plan.level.randomness)
        try:
            plan.context.saved_tensors = tuple(_given(ctx.saved_tensors, plan.saved, at))
            found = plan.cls.backward(plan.context, *_given(grads, plan.outputs, at))
            found = found if isinstance(found, tuple) else (found,)
            return (None, *[_returned(g, f, shape, at)
                            for g, f, shape in zip(found, plan.inputs, plan.shapes, strict=True)])
        finally:
            plan.context.saved_tensors = ()
            leave(at)


class MappedForward(Mapped):
    """The same for a Function that has a `jvp`, which is mapped too."""

    @staticmethod
    def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
        """The outputs' tangents, with the batch in front where the outputs have it."""
        plan = ctx.plan
        at = enter(plan.level.size, plan.level.randomness)
        try:
            flags = plan.saved if plan.saved_forward is None else plan.saved_forward
            plan.context.saved_tensors = tuple(_given(ctx.saved_tensors, flags, at))
            found = plan.cls.jvp(plan.context, *_given(tangents, plan.inputs, at))
            found = found if isinstance(found, tuple) else (found,)
            made = tuple([t if t is None or not batched else unbatch_at(t, at)
                          for t, batched in zip(found, plan.outputs, strict=True)])
            return made if len(made) != 1 else made[0]
        finally:
            plan.context.saved_tensors = ()
            leave(at)


def _generated(cls: Any, args: tuple, level: VmapLevel) -> Any:
    plan = _Plan(cls, level, [is_batched_at(a, level) for a in args])
    plan.shapes = [tuple(shape_of(a)) if isinstance(a, TensorBase) else None for a in args]
    kind = Mapped if cls.jvp is Function.jvp else MappedForward
    out = kind.apply(plan, *[inner_at(a, level) for a in args])
    return _pytree.unflatten(_given(out if isinstance(out, tuple) else (out,), plan.outputs, level), plan.spec)


def _returned(g: Any, batched: bool, shape: Any, level: VmapLevel) -> Any:
    """The gradient of an inner input: one that all samples share gets the sum of theirs."""
    if g is None:
        return None
    if batched:
        return unbatch_at(g, level)
    if not is_batched_at(g, level):
        return g
    whole = g._lazy.inner.sum(0)
    return whole.sum_to_size(shape) if tuple(shape_of(whole)) != shape else whole


Batched.custom = staticmethod(apply)
