"""`torch.library`: operators of users, written in Python, under a name of their own.

`custom_op` makes one; it then lies at `torch.ops.<namespace>.<name>`. Programs use it to hide a computation from
PyTorch's compiler; here it is a function that autograd takes as one operation.

Source: PyTorch's `torch.library` reference.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

from . import ops
from ._unavailable import missing, refusal
from .autograd.function import Function
from .autograd.grad_mode import no_grad
from .autograd.graph import increment_version
from .core.objects import TensorBase
from .ops._schema_of import infer_schema

_OWN = ("write an operator with custom_op, an autograd.Function with forward and backward, or an operator record "
        "(docs/adding-an-operator.md).")
_REFUSED = missing(__name__, "triton_op wrap_triton opcheck define impl impl_abstract register_vmap register_autocast "
                             "register_torch_dispatch get_ctx fallthrough_kernel Library", _OWN)
globals().update(_REFUSED)
_unknown = refusal(__name__, _OWN)
_defined: dict[str, CustomOpDef] = {}


def __getattr__(name: str) -> Any:
    return _unknown(name)


class _Namespace:
    """`torch.ops.<namespace>`: its operators are attributes."""

    def __init__(self, name: str) -> None:
        self.name = name


class CustomOpDef:
    """An operator that `custom_op` made: call it like the function."""

    def __init__(self, namespace: str, name: str, schema: str, fn: Callable, mutates: Any) -> None:
        self._namespace, self._name, self._qualname = namespace, name, f"{namespace}::{name}"
        self._schema = f"{self._qualname}{schema}"
        self._init_fn = fn
        self._signature = inspect.signature(fn)
        names = list(self._signature.parameters)
        self._tensor_names = [n for n in names if re.search(rf"\bTensor(\(\w+!\))? {n}\b", schema)]
        self._mutates = names if mutates == "unknown" else [n for n in names if n in mutates]
        self._kernels: dict[str | None, Callable] = {}
        self._fake: Callable | None = None
        self._backward: Callable | None = None
        self._setup: Callable | None = None
        self._function = _function_of(self)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    @property
    def default(self) -> CustomOpDef:
        """The operator itself: it has one overload."""
        return self

    def register_kernel(self, device_types: Any, fn: Callable | None = None, /) -> Callable:
        """Use another function for tensors of these devices (a name, several, or None for all); also a decorator."""
        def register(fn: Callable) -> Callable:
            for device in [device_types] if device_types is None or isinstance(device_types, str) else device_types:
                self._kernels[device] = fn
            return fn

        return register if fn is None else register(fn)

    def register_fake(self, fn: Callable, /) -> Callable:
        """Tell how results look without values: what meta tensors are given to."""
        self._fake = fn
        return fn

    def register_autograd(self, backward: Callable, /, *, setup_context: Callable | None = None) -> None:
        """Give the derivative: backward(ctx, *grads) -> a gradient, or None, for each positional argument.

        Args:
            backward: called in the backward pass.
            setup_context: setup_context(ctx, inputs, output), called after the operator to keep what backward needs;
                of an operator with keyword-only arguments setup_context(ctx, inputs, keyword_only_inputs, output).

        Raises:
            RuntimeError: the operator writes to an argument.
        """
        if self._mutates:
            raise RuntimeError(f"Cannot register autograd formula for non-functional operator {self}, which writes to "
                               f"{', '.join(self._mutates)}. Let it return new tensors.")
        self._backward, self._setup = backward, setup_context

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        positional, named = self._bound(args, kwargs)
        tensors = list(_tensors([*positional, *named.values()]))
        if any(t.requires_grad for t in tensors) and not self._mutates:
            if any(t.requires_grad for a in positional if not isinstance(a, TensorBase) for t in _tensors([a])):
                raise NotImplementedError(f"{self._qualname}: a list of tensors that require gradients is not supported "
                                          "by flambeau's custom_op. Pass the tensors one by one.")
            return self._function.apply(named, *positional)
        return self._run(positional, named)

    def _bound(self, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        """Arguments by position, defaults filled in, and those that are keyword-only."""
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise RuntimeError(f"{self._qualname}(): {error}. Declaration: {self._schema}") from None
        bound.apply_defaults()
        for name in self._tensor_names:
            if not isinstance(bound.arguments[name], TensorBase):
                raise RuntimeError(f"{self._qualname}() Expected a value of type 'Tensor' for argument '{name}' but instead "
                                   f"found type '{type(bound.arguments[name]).__name__}'. Declaration: {self._schema}")
        return bound.args, bound.kwargs

    def _run(self, positional: tuple, named: dict) -> Any:
        tensors = list(_tensors([*positional, *named.values()]))
        device = next((t.device.type for t in tensors), "cpu")
        with no_grad():
            if device == "meta" and device not in self._kernels:
                if self._fake is None:
                    raise RuntimeError(f"There was no fake impl registered for {self}, and its arguments are meta tensors: "
                                       "say what its results look like with register_fake.")
                return self._fake(*positional, **named)
            fn = self._kernels.get(device) or self._kernels.get(None)
            if fn is None:
                raise NotImplementedError(f"{self._qualname} has no function for the device {device!r}: register_kernel "
                                          "gives it one.")
            versions = [t._version for t in tensors]
            out = fn(*positional, **named)
        bound = self._signature.bind(*positional, **named).arguments
        written = {id(t) for n in self._mutates for t in _tensors([bound[n]])}
        for t, before in zip(tensors, versions, strict=True):
            if id(t) in written and t._version == before:       # written to through NumPy, say
                increment_version(t)
        storages = {t.untyped_storage().data_ptr() for t in tensors if t.numel()}
        for t in _tensors([out]):
            if t.numel() and t.untyped_storage().data_ptr() in storages:
                raise RuntimeError(f"{self._qualname}: the output of this custom operator must not be, or share memory "
                                   "with, one of its inputs: return a clone.")
        return out


def _tensors(values: Iterable[Any]) -> Iterable[TensorBase]:
    for v in values:
        if isinstance(v, TensorBase):
            yield v
        elif isinstance(v, (list, tuple)):
            yield from _tensors(v)


def _function_of(op: CustomOpDef) -> Any:
    """The autograd function behind an operator; its first argument holds the keyword-only ones."""

    def forward(named: dict, *positional: Any) -> Any:
        return op._run(positional, named)

    def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
        named, *positional = inputs
        ctx.set_materialize_grads(True)
        if op._setup is None:
            return
        if named:
            op._setup(ctx, inputs=tuple(positional), keyword_only_inputs=named, output=output)
        else:
            op._setup(ctx, inputs=tuple(positional), output=output)

    def backward(ctx: Any, *grads: Any) -> Any:
        if op._backward is None:
            raise RuntimeError(f"Trying to backward through {op._qualname} but no autograd formula was registered. Give it "
                               "one with register_autograd.")
        found = op._backward(ctx, *grads)
        found = tuple(found) if isinstance(found, (tuple, list)) else (found,)
        return None, *found, *[None] * (len(ctx.needs_input_grad) - 1 - len(found))

    name = f"GeneratedBackwardFor_{op._namespace}_{op._name}_default"
    return type(name, (Function,), dict(forward=staticmethod(forward), setup_context=staticmethod(setup_context),
                                        backward=staticmethod(backward)))


def custom_op(name: str, fn: Callable | None = None, /, *, mutates_args: Any, device_types: Any = None,
              schema: str | None = None, tags: Any = None) -> Any:
    """Make an operator of a function; also a decorator.

    Args:
        name: "namespace::name".
        fn: takes and returns tensors and plain values, all annotated unless `schema` is given. Autograd does not look
            into it; results share no memory with arguments.
        mutates_args: names of the arguments that it writes to, or "unknown".
        device_types: devices whose tensors it takes; None for all.
        schema: its arguments and results in PyTorch's notation; by default made of the annotations.
        tags: accepted; they speak to PyTorch's compiler.

    Returns:
        A CustomOpDef, which is called like `fn`.

    Raises:
        ValueError: a bad name, a missing annotation, or an unknown name in `mutates_args`.

    >>> @flambeau.library.custom_op("doc::twice", mutates_args=())
    ... def twice(x: flambeau.Tensor) -> flambeau.Tensor:
    ...     return x * 2
    >>> twice.register_autograd(lambda ctx, grad: grad * 2)
    >>> x = flambeau.ones(2, requires_grad=True)
    >>> flambeau.ops.doc.twice(x).sum().backward()
    >>> x.grad
    tensor([2., 2.])
    """
    def make(fn: Callable) -> CustomOpDef:
        text = infer_schema(fn, mutates_args=mutates_args) if schema is None else schema
        namespace, sep, last = name.partition("::")
        if not (sep and namespace.isidentifier() and last.isidentifier()):
            raise ValueError(f"custom_op: the name must be of the form 'namespace::name', and is {name!r}.")
        found = getattr(ops, namespace, None)
        if found is not None and not isinstance(found, _Namespace):
            raise ValueError(f"custom_op: flambeau itself uses the namespace {namespace!r}. Choose another.")
        if found is None:
            found = _Namespace(namespace)
            setattr(ops, namespace, found)
        op = _defined[name] = CustomOpDef(namespace, last, text, fn, mutates_args)
        op.register_kernel(device_types, fn)
        setattr(found, last, op)
        return op

    return make if fn is None else make(fn)


def _find(op: Any) -> CustomOpDef:
    if isinstance(op, CustomOpDef):
        return op
    if op not in _defined:
        raise RuntimeError(f"operator {op} does not exist: custom_op makes one.")
    return _defined[op]


def register_kernel(op: Any, device_types: Any, func: Callable | None = None, /, *, lib: Any = None) -> Callable:
    """`CustomOpDef.register_kernel` of an operator given by its name."""
    return _find(op).register_kernel(device_types, func)


def register_fake(op: Any, func: Callable | None = None, /, *, lib: Any = None, _stacklevel: int = 1,
                  allow_override: bool = False) -> Callable:
    """`CustomOpDef.register_fake` of an operator given by its name; also a decorator."""
    found = _find(op)
    return found.register_fake if func is None else found.register_fake(func)


def register_autograd(op: Any, backward: Callable, /, *, setup_context: Callable | None = None, lib: Any = None) -> None:
    """`CustomOpDef.register_autograd` of an operator given by its name."""
    _find(op).register_autograd(backward, setup_context=setup_context)
