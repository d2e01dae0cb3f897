"""Records: the one place of an operator.

A *primitive* has a kernel and derivative formulas; it becomes a core `Op`. A *public function* is what users
call: it checks and normalises arguments, then calls primitives or other functions. Both are registered here,
and the Tensor method, the function, the in-place and `out=` forms, stubs, documentation and tests follow.

    sin = pointwise("sin", np.sin, expr="sin(self)", self=lambda xp, g, self: g * xp.conj(xp.cos(self)), ...)

How to add an operator is written in docs/adding-an-operator.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from flambeau.core.apply import apply1, apply2, apply_n, apply_split
from flambeau.core.op import Op, slot
from flambeau.core.state import state
from flambeau.kernels.services import xp as kernels

from ._decode import decode
from ._lazy import with_rule
from ._mapped import seen_mapped
from ._whole import seen_whole

ops = SimpleNamespace()      # names of formulas, on Tensors: the counterpart of `kernels`
ops.is_kernels = False
state.ops = ops

KERNEL = "runs as a kernel"  # `expr` of an operator that the compiler does not fuse


class RecordError(TypeError):
    """A record lacks something that every operator must have."""


@dataclass
class Sample:
    """One call of an operator: arguments made by a maker, so that the same sample runs on any library."""

    args: tuple
    kwargs: dict[str, Any] = field(default_factory=dict)


def call(*args: Any, **kwargs: Any) -> Sample:
    """A sample call; tensors come from the maker that the sample function is given."""
    return Sample(args, kwargs)


@dataclass
class Record:
    """All that is known of one public operator."""

    name: str
    fn: Callable
    raw_doc: str
    namespaces: tuple[str, ...]
    op: Op | None = None
    method: bool = True
    inplace: bool = False
    out: bool = True
    aliases: tuple[str, ...] = ()
    samples: Callable[[Any], Iterable[Sample]] | None = None
    errors: Callable[[Any], Iterable[tuple[Sample, type, str]]] | None = None
    differentiable: bool = True
    random: bool = False

    @property
    def doc(self) -> str:
        """The docstring without its indentation."""
        return inspect.cleandoc(self.raw_doc)


REGISTRY: dict[str, Record] = {}       # "sum", "nn.functional.relu", ...
PRIMITIVES: dict[str, Op] = {}
BATCH: dict[Op, str] = {}              # what vmap is told of an operator


def _node_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_")) + "Backward0"


def primitive(
    name: str,
    kernel: Callable,
    *,
    inputs: Sequence[str] = ("self",),
    params: Sequence[str] = (),
    scalars: Sequence[str] = (),
    node: str | None = None,
    view: bool = False,
    outputs: Sequence[bool] | None = None,
    variadic: bool = False,
    joint: Callable | None = None,
    inplace: Callable | None = None,
    pointwise: bool = False,
    same_dtype: bool = False,
    float_result: bool = False,
    bool_out: bool = False,
    promotes: bool = True,
    is_copy: bool = False,
    check_float: bool = False,
    random: bool = False,
    may_raise: bool = False,
    dynamic_shape: bool = False,
    differentiable: bool | None = None,
    jvp: Callable | None = None,
    meta: Callable | None = None,
    batch: str | None = None,
    expr: str,
    **formulas: Callable | None,
) -> Op:
    """Register an operator with a kernel.

    Args:
        name: of the operator, unique; also its name in `xp`, with signature (inputs..., params...).
        kernel: function (input arrays..., params...) -> array, or a sequence of arrays when there are several
            outputs; with `variadic`, (list of arrays, params...).
        inputs: PyTorch's names of the tensor arguments, in the kernel's order. An input may be None in a call.
        params: the other arguments, in the kernel's order; static unless named in `scalars`.
        scalars: parameters that are numbers and may change from call to call without changing the code.
        node: name of the graph node when it is not the operator's name in CamelCase with "Backward0".
        view: the result shares memory with the input.
        outputs: for several outputs, which of them are differentiable (with `view`: one node, many views, and
            `outputs=()`).
        joint: one formula (xp, g, needs, names...) that gives the gradients of all inputs, instead of one
            formula per input. With several differentiable outputs g is a list with None for undefined ones.
        inplace: kernel(..., out) that writes the result of a pointwise operator.
        pointwise: shape is the broadcast of the inputs'. same_dtype: floating inputs of one dtype give it.
        float_result: integers are computed in the default float dtype. bool_out: a comparison.
        promotes: operands of different dtypes are brought to one before the kernel.
        check_float: the output's dtype may be an integer one; then nothing is recorded.
        random, may_raise, dynamic_shape: effects, for the compiler.
        meta: shape rule: (Metas of the inputs..., params...) -> Meta of the result, or several (see `_shapes`). Pointwise
            operators and views need none.
        differentiable: False for operators without a derivative; needed when there are no formulas.
        batch: how vmap runs it on a whole batch, where the rest of the record does not say so (a pointwise operator
            broadcasts; parameters named dim or shape are moved behind the batch; others go sample by sample): "pointwise"
            (the inputs broadcast), "leading" (any number of dimensions may stand in front), "matrices" (the same, and the
            inputs' leading dimensions broadcast), "items" (those of the first dimension are treated apart), "loss" (it has
            a reduction), "each" (sample by sample).
        expr: the scalar expression for the compiler, or KERNEL.
        **formulas: one per differentiable input, (xp, g, names...): the names say what the graph saves.
    """
    if differentiable is None and joint is None and not formulas:
        raise RecordError(f"{name}: give a formula for each differentiable input, joint=, or differentiable=False")
    if not expr:
        raise RecordError(f"{name}: give expr, the scalar expression to fuse, or KERNEL")
    unknown = [k for k in formulas if k not in inputs]
    if unknown:
        raise RecordError(f"{name}: formulas for {unknown}, but the inputs are {list(inputs)}")
    op = slot(name)
    if op.kernel is not None:
        raise RecordError(f"{name} is registered already")
    op.kernel, op.inplace = kernel, inplace
    op.n_in = -1 if variadic else len(inputs)
    op.n_out = 1 if outputs is None else max(2, len(outputs))
    op.outputs = list(outputs or ())
    op.input_names, op.param_names = list(inputs), list(params)
    op.static = [p not in scalars for p in params]
    op.node_name = node or _node_name(name)
    op.view, op.pointwise, op.same_dtype, op.float_result, op.bool_out = (
        view, pointwise, same_dtype, float_result, bool_out)
    op.promotes, op.is_copy, op.check_float = promotes, is_copy, check_float
    op.random, op.may_raise, op.dynamic_shape = random, may_raise, dynamic_shape
    op.expr, op.jvp, op.meta = expr, jvp, meta
    fs = [formulas.get(i) for i in inputs]
    op.formulas = [None if f is None else decode(f, inputs, params, name) for f in fs]
    op.joint = None if joint is None else decode(joint, inputs, params, name, joint=True)
    op.differentiable = joint is not None or any(f is not None for f in fs)
    if differentiable is False and op.differentiable:
        raise RecordError(f"{name}: differentiable=False, but there are formulas")
    op.f0 = op.formulas[0] if op.formulas else None
    op.f1 = op.formulas[1] if len(op.formulas) > 1 else None
    joint_mask = op.joint.mask if op.joint else 0
    op.mask0 = op.f0.mask if op.f0 else joint_mask
    op.mask1 = op.f1.mask if op.f1 else joint_mask
    PRIMITIVES[name] = op
    if batch is not None:
        BATCH[op] = batch
    setattr(kernels, name, kernel)
    setattr(ops, name, _on_tensors(op))
    return op


def _on_tensors(op: Op) -> Callable:
    """The operator under `xp` for Tensors, with the kernel's signature."""
    n = int(op.n_in)
    if op.view and op.n_out != 1:
        return lambda self, *params: apply_split(op, self, params)
    if n < 0:
        return lambda tensors, *params: apply_n(op, list(tensors), params or None)
    if n == 1 and op.n_out == 1 and op.joint is None:
        return lambda self, *params: apply1(op, self, params or None)
    if n == 2 and op.pointwise and not op.param_names:
        return lambda self, other: apply2(op, self, other)

    def on_tensors(*args: Any) -> Any:
        return apply_n(op, list(args[:n]), tuple(args[n:]) or None)

    return on_tensors


def composite(name: str) -> Callable[[Callable], Callable]:
    """Register a function (xp, ...) built of other names in `xp`; it runs on arrays and on Tensors."""

    def add(fn: Callable) -> Callable:
        setattr(kernels, name, lambda *args: fn(kernels, *args))
        setattr(ops, name, lambda *args: fn(ops, *args))
        return fn

    return add


def public(
    *,
    op: Op | None = None,
    name: str | None = None,
    namespaces: Sequence[str] = ("torch",),
    method: bool = True,
    inplace: bool = False,
    out: bool = True,
    aliases: Sequence[str] = (),
    samples: Callable[[Any], Iterable[Sample]] | None = None,
    errors: Callable[[Any], Iterable[tuple[Sample, type, str]]] | None = None,
    differentiable: bool = True,
    random: bool = False,
    meta: Callable | None = None,
) -> Callable[[Callable], Callable]:
    """Register a function as users see it.

    Args:
        op: the primitive behind it, when there is one.
        namespaces: where it is found: "torch", "nn.functional", "special", "linalg", "fft"; () for methods only.
        method: it is a Tensor method too (its first parameter is then the tensor).
        inplace: `name_` exists, made from the function (see `_inplace`).
        out: the function in namespaces takes `out=`.
        samples: makes sample calls (see `Sample`); parity, gradcheck, documentation and benchmarks use them.
        errors: makes calls that must fail: (sample, exception type, words of the message).
        meta: shape rule of the whole function, where it looks at values on its way; called as the function is, with a
            Meta for each tensor, it returns a Meta, or a tuple of them.
    """

    def add(fn: Callable) -> Callable:
        public_name = name or fn.__name__
        if not (fn.__doc__ or "").strip():
            raise RecordError(f"{public_name}: a public function needs a docstring")
        if samples is None:
            raise RecordError(f"{public_name}: give samples")
        key = public_name if "torch" in namespaces or not namespaces else f"{namespaces[0]}.{public_name}"
        if key in REGISTRY:
            raise RecordError(f"{key} is registered already")
        fn = seen_mapped(key, seen_whole(key, fn if meta is None else with_rule(fn, meta)))
        record = Record(public_name, fn, fn.__doc__ or "", tuple(namespaces), op, method, inplace, out,
                        tuple(aliases), samples, errors, differentiable, random)
        REGISTRY[key] = record
        if op is not None and op.record is None:
            op.record = record
        return fn

    return add
