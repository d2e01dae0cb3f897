"""From records to what users call: functions with `out=`, in-place methods, NumPy's argument names."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from flambeau.core.apply import constant
from flambeau.core.errors import not_a_tensor
from flambeau.core.inplace import apply_inplace1, apply_inplace2, check_writable
from flambeau.core.objects import (
    TensorBase,
    array_of,
    cell_of,
    dtype_of,
    is_mapped,
    make,
    make_lazy,
    memory_of,
    requires,
    set_memory,
    shape_of,
)
from flambeau.core.op import slot
from flambeau.core.origin import warn_user
from flambeau.core.state import grad_enabled, state
from flambeau.core.views import grad_fn, renew
from flambeau.kernels.layout import empty_like, surely_overlap
from flambeau.kernels.services import refuse_cast

from ._decode import parameter_names
from ._lazy import is_meta
from ._meta import Meta
from ._record import REGISTRY, Record
from ._whole import alone

# What a function may call an argument that programs give by another name: NumPy's, or that of a sibling function
_OTHER_NAMES = {"axis": ("dim",), "keepdims": ("keepdim",), "x": ("input", "A"), "a": ("input",), "x1": ("input",),
                "x2": ("other",), "input": ("A", "L", "x"), "input2": ("L",), "b": ("B",), "element": ("elements",),
                "test_element": ("test_elements",), "sections": ("indices_or_sections",),
                "indices": ("indices_or_sections",), "tensor_indices_or_sections": ("indices_or_sections",)}
_COPY = slot("copy")
_COPY_OVERLAPPING = slot("copy_overlapping")


def write_out(name: str, out: Any, result: Any) -> Any:
    """Put a result into `out=` tensors: resized when empty, cast within its category, never differentiated."""
    if isinstance(result, (tuple, list)):
        if not isinstance(out, (tuple, list)) or len(out) != len(result):
            raise TypeError(f"{name}(): argument 'out' must be tuple of {len(result)} Tensors")
        for o, r in zip(out, result, strict=True):
            write_out(name, o, r)
        return type(result)(out) if not hasattr(result, "_fields") else type(result)(*out)
    if not isinstance(out, TensorBase):
        raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(out).__name__}")
    if grad_enabled() and (requires(out) or requires(result)):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, and an argument "
            "here requires grad. Call it without out=, or under torch.no_grad().")
    a, r = memory_of(out), memory_of(result)
    if type(a) is not type(r):
        raise RuntimeError(f"{name}(): out= is on {out.device} and the result on {result.device}: expected both on the same "
                           "device. Make out= with device=.")
    refuse_cast(r.dtype, a.dtype)
    if a.shape != r.shape:
        if a.size:
            warn_user(
                f"An output with one or more elements was resized: out= has shape {list(a.shape)}, and the result "
                f"has shape {list(r.shape)}. Give an empty tensor, or one of the right shape, as out=.")
        set_memory(out, Meta(r.shape, a.dtype) if isinstance(a, Meta) else empty_like(r, dtype=a.dtype))
    apply_inplace2(_COPY, out, result)
    return out


def with_out(name: str, fn: Callable, takes_out: bool = True) -> Callable:
    """fn with `out=` and NumPy's argument names (axis, keepdims)."""
    names = set(parameter_names(fn))

    @functools.wraps(fn)
    def function(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if kwargs:
            kwargs = renamed(kwargs, names)
        if out is None:
            try:
                return fn(*args, **kwargs)
            except (TypeError, AttributeError):
                answer = on_refusal[0](function, args, kwargs)
                if answer is NotImplemented:
                    raise
                return answer
        if not takes_out:
            raise TypeError(f"{name}() got an unexpected keyword argument 'out'")
        return write_out(name, out, alone(fn)(*args, **kwargs))

    return function


# Asked when a function refuses its arguments: one of them may be no tensor, but have a `__torch_function__`
on_refusal: list[Callable] = [lambda function, args, kwargs: NotImplemented]


def renamed(kwargs: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """Arguments by the names that the function has: NumPy's `axis` is its `dim`."""
    if all(k in names for k in kwargs):
        return kwargs
    return {k if k in names else next((n for n in _OTHER_NAMES.get(k, ()) if n in names), k): v for k, v in kwargs.items()}


def as_method(record: Record) -> Callable:
    """The function as a Tensor method."""
    fn = getattr(record.fn, "as_method", record.fn)
    names = set(parameter_names(fn))
    if not names & {"dim", "keepdim"}:
        return fn

    @functools.wraps(fn)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            kwargs = renamed(kwargs, names)
        return fn(self, *args, **kwargs)

    return method


def inplace_method(name: str, fn: Callable) -> Callable:
    """`name_`: compute, write the result into the tensor, and make it the tensor's history."""
    op = slot(name.rstrip("_"))
    fn = alone(fn)

    @functools.wraps(fn)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return write_inplace(op, self, lambda t: fn(t, *args, **kwargs), (args, kwargs))

    method.__name__ = method.__qualname__ = name
    return method


def _asks_grad(values: Any) -> bool:
    if isinstance(values, TensorBase):
        return requires(values)
    if isinstance(values, (tuple, list)):
        return any(_asks_grad(v) for v in values)
    if isinstance(values, dict):
        return any(_asks_grad(v) for v in values.values())
    return False


def _tensors_in(values: Any) -> list[TensorBase]:
    if isinstance(values, TensorBase):
        return [values]
    if isinstance(values, dict):
        values = tuple(values.values())
    return [t for v in values for t in _tensors_in(v)] if isinstance(values, (tuple, list)) else []


def shares_memory(a: TensorBase, b: TensorBase) -> bool:
    """Whether a and b have elements in common, as far as that can be told quickly."""
    return a is b or a._array is not None and b._array is not None and surely_overlap(a._array, b._array)


def check_overlap(op: Any, self: TensorBase, others: Any) -> None:
    """Refuse a write that reads other elements of the memory it changes: pointwise operators may read the same ones."""
    if self._array is None:
        return
    for t in _tensors_in(others):
        if t._array is not None and (shares_memory(self, t) if op.no_overlap else
                                     op.pointwise and state.xp.partial(self._array, t._array)):
            raise RuntimeError(
                "unsupported operation: some elements of the input tensor and of the one written to share a single "
                "memory location, so that the result would depend on the order of the writes. Pass a clone() of "
                "one of them.")


def _written_inside(op: Any, self: TensorBase, compute: Callable[[Any], Any]) -> TensorBase:
    result = compute(state.ops.clone(self) if requires(self) else self)
    _fits(op, self, result)
    apply_inplace2(_COPY, self, result)
    return self


def _fits(op: Any, self: TensorBase, result: Any) -> None:
    """The result of an in-place operator has the tensor's shape, and a dtype of its category."""
    if shape_of(result) != shape_of(self):
        raise RuntimeError(
            f"output with shape {list(shape_of(self))} doesn't match the broadcast shape {list(shape_of(result))}: "
            f"{op.name}_ cannot change the tensor's shape. Use the out-of-place form.")
    refuse_cast(dtype_of(result), dtype_of(self))


def write_inplace(op: Any, self: TensorBase, compute: Callable[[Any], Any], others: Any = ()) -> TensorBase:
    """self.op_(): the result of `compute`, a function of self's old value, is written into self.

    The checks come first, so that nothing is written when autograd cannot follow. When a gradient may be asked,
    `compute` gets a copy of the old value with self's history, since the memory is about to change.
    """
    if is_mapped(self):         # autograd checks the tensor inside
        return _written_inside(op, self, compute)
    recording = grad_enabled() and (requires(self) or _asks_grad(others)) and state.is_float(dtype_of(self))
    check_writable(op, self, requires(self), recording)
    check_overlap(op, self, others)
    before = self
    if recording:
        before = make_lazy(self._lazy) if is_meta(self) else make(state.xp.clone(array_of(self)))
        before._tangent = self._tangent
        if requires(self):
            node = grad_fn(self)
            view = self._view
            if view is not None and node is not None and node.extra is not None and node.extra.tensor:
                node = renew(view, view.base)       # hooks on the view see the gradient of its new value alone
            before._node, before._nr, before._rg = node, self._nr, node is not None
    result = compute(before)
    _fits(op, self, result)
    copy = _COPY
    if op.overlap_allowed and self._array is not None and state.xp.overlaps(self._array):
        warn_user(f"Use of {op.name}_ on expanded tensors is deprecated. Please clone() the tensor before performing "
                  "this operation: several of its elements are one place in memory.")
        copy = _COPY_OVERLAPPING
    apply_inplace2(copy, self, result)
    cell = cell_of(self)
    cell.op = op
    if recording and self._view is None and result._node is not None and dtype_of(result) == dtype_of(self):
        # the result's own history, instead of a copy node on top of it
        retained = self._retains
        self._node, self._nr = result._node, result._nr
        if retained:
            self.retain_grad()
    return self


def _names(record: Record, namespace: str) -> list[str]:
    """A record's names in a namespace: an alias such as "special.expit" belongs to that namespace alone."""
    names = [record.name, *[a for a in record.aliases if "." not in a]] if namespace in record.namespaces else []
    return names + [a.rpartition(".")[2] for a in record.aliases if a.rpartition(".")[0] == namespace]


def _inplace_pointwise(record: Record, name: str) -> Callable | None:
    """`name_` of a pointwise record without parameters: one kernel call that writes into the tensor."""
    op = record.op
    if op is None or not op.pointwise or op.param_names or op.name != record.name or op.name in _FRONTED:
        return None
    if op.n_in == 1:
        def one(input: Any) -> Any:
            return apply_inplace1(op, _tensor(name, input))

        return one

    def two(input: Any, other: Any) -> Any:
        r = apply_inplace2(op, _tensor(name, input), other)
        if r is NotImplemented:
            raise not_a_tensor(name, "other", 2, other)
        return r

    return two


_FRONTED = {"add", "sub", "div", "rsub", "pow", "remainder", "fmod", "copysign", "round", "heaviside", "floor_divide"}


def _tensor(name: str, value: Any) -> TensorBase:
    if not isinstance(value, TensorBase):
        raise not_a_tensor(name, "input", 1, value)
    return value


def functions(namespace: str) -> dict[str, Callable]:
    """The public functions of a namespace ("torch", "nn.functional", ...), aliases and in-place forms included."""
    found: dict[str, Callable] = {}
    for record in REGISTRY.values():
        names = _names(record, namespace)
        if not names:
            continue
        needs_wrapper = record.out or {"dim", "keepdim", "input", "A"} & set(parameter_names(record.fn))
        fn = with_out(record.name, record.fn, record.out) if needs_wrapper and namespace != "nn.functional" else record.fn
        for name in names:
            found[name] = fn
        if record.inplace and namespace == "torch":
            method = _inplace_pointwise(record, record.name + "_") or inplace_method(record.name + "_", record.fn)
            for name in names:
                found[name + "_"] = method
    for name, fn in found.items():
        if fn.__module__.startswith("flambeau.ops"):
            place(fn, "flambeau" if namespace == "torch" else f"flambeau.{namespace}", name)
    return found


def place(fn: Callable, module: str, name: str) -> None:
    """Let pickle find a function by its public name, where it is a wrapper or made in a loop."""
    home = sys.modules.get(fn.__module__)
    if home is None or vars(home).get(fn.__qualname__) is not fn:
        fn.__module__, fn.__qualname__ = module, name


def methods() -> dict[str, Callable]:
    """The Tensor methods of all records."""
    found: dict[str, Callable] = {}
    for record in REGISTRY.values():
        if not record.method:
            continue
        method = as_method(record)
        for name in (record.name, *record.aliases):
            if "." in name:
                continue
            found[name] = method
            if record.inplace:
                found[name + "_"] = inplace_method(name + "_", record.fn)
    return found


@functools.cache
def _methods_by_name() -> dict[str, Callable]:
    return methods()


def method_named(name: str) -> Callable:
    """The interpreted function of a method that has a compiled front too."""
    return _methods_by_name()[name]


def front(name: str, args: tuple, out: Any) -> Any:
    """Called by compiled functions when `out=` is given or an argument is no tensor, and by operators ("operator.pow")."""
    if name.startswith("operator."):
        if not all(isinstance(v, TensorBase) or constant(v, state.bool_dtype) is not None for v in args):
            return NotImplemented
        return _by_function_name()[name[9:]].fn(*args)
    record = _by_function_name()[name]
    for value in args:
        if not isinstance(value, TensorBase):
            for_type = getattr(type(value), "__torch_function__", None)
            if for_type is not None:
                return for_type(state.public(name), (type(value),), args, {})
    if not any(isinstance(v, TensorBase) for v in args):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(args[0]).__name__}")
    return write_out(name, out, record.fn(*args)) if out is not None else record.fn(*args)


@functools.cache
def _by_function_name() -> dict[str, Record]:
    return {n: r for r in REGISTRY.values() if "torch" in r.namespaces for n in (r.name, *r.aliases) if "." not in n}


@functools.cache
def function_named(name: str) -> Callable:
    """The interpreted function of a name that has a compiled front too: "cat", "nn.functional.linear"."""
    namespace, _, last = name.rpartition(".")
    return _functions_of(namespace or "torch")[last]


_functions_of = functools.cache(functions)


state.front = front
state.method = method_named
state.function = function_named
